"""The pages in Chinese: every text is translated, and what is translated is what people read."""

import ast
import inspect

import polib
import pytest
from django.template import Context, Template
from django.test import Client
from django.urls import URLPattern, reverse
from django.utils import translation
from django.utils.translation import trans_real

from adapters import http
from console import catalogue, sentences, urls, witness, words
from console.access import Role
from console.catalogue import Message
from console.ground.home import PROJECT, Home
from operations import verdicts
from tests.console import factories as make

CHINESE = "zh-hans"


@pytest.fixture(scope="module")
def compiled():
    """Compile the catalogues into the run folder, as `prepare` does, and let Django read them anew."""
    from django.conf import settings

    catalogue.compile_into(settings.HOME)
    trans_real._translations.pop(CHINESE, None)


@pytest.mark.parametrize("language", catalogue.LANGUAGES)
def test_every_text_of_the_sources_is_translated_and_nothing_else(language):
    """Where this fails: `python3 manage.py messages`, then translate what stands empty."""
    assert catalogue.problems(language) == []


class TestFinding:
    def test_a_call_is_found_under_whatever_name_its_function_has_here(self):
        source = (
            "from django.utils.translation import gettext_lazy as lazy, ngettext, pgettext as p\n"
            "lazy('One '\n 'text')\nngettext('%d day', '%d days', n)\np('month', 'May')\nother('no')"
        )

        assert list(catalogue.messages_of_python(source)) == [
            Message(text="One text"),
            Message(text="%d day", plural="%d days"),
            Message(text="May", context="month"),
        ]

    @pytest.mark.parametrize("argument", ["f'{n} days'", "'a' + b", "word"])
    def test_a_text_that_is_put_together_is_refused(self, argument):
        source = f"from django.utils.translation import gettext as _\n_({argument})"

        with pytest.raises(ValueError, match="line 2"):
            list(catalogue.messages_of_python(source))

    def test_what_is_found_in_a_template_is_what_django_looks_up(self):
        source = (
            '{% load i18n %}{% translate "It is (not) over: 5 %" %}{% translate "May" context "month" %}'
            "{% blocktranslate count n=n %}{{ n }} day{% plural %}{{ n }} days{% endblocktranslate %}"
            '{{ word|default:_("none") }}{# translate "never" #}'
        )

        assert list(catalogue.messages_of_template(source)) == [
            Message(text="It is (not) over: 5 %%"),
            Message(text="May", context="month"),
            Message(text="%(n)s day", plural="%(n)s days"),
            Message(text="none"),
        ]


class TestProblems:
    @pytest.fixture
    def kept(self, monkeypatch, tmp_path):
        """Let the sources hold one text, and a catalogue the entry that a test gives; return its problems."""

        def problems(*entries):
            monkeypatch.setattr(catalogue, "CATALOGUES", tmp_path)
            monkeypatch.setattr(catalogue, "found", lambda: {Message(text="Wait <b>%(s)s</b>"): ["a.py"]})
            held = polib.POFile()
            held.extend(entries)
            (tmp_path / "zh_Hans" / "LC_MESSAGES").mkdir(parents=True)
            held.save(str(tmp_path / "zh_Hans" / "LC_MESSAGES" / "django.po"))
            return catalogue.problems("zh_Hans")

        return problems

    def test_a_good_one_has_none(self, kept):
        assert kept(polib.POEntry(msgid="Wait <b>%(s)s</b>", msgstr="<b>%(s)s</b>!")) == []

    def test_a_missing_one(self, kept):
        assert kept() == ["missing: 'Wait <b>%(s)s</b>' (a.py)"]

    @pytest.mark.parametrize(
        ("told", "entry"),
        [
            ("untranslated", {"msgstr": ""}),
            ("fuzzy", {"msgstr": "<b>%(s)s</b>!", "flags": ["fuzzy"]}),
            ("other placeholders", {"msgstr": "<b>%(x)s</b>!"}),
            ("other markup", {"msgstr": "<i>%(s)s</i>!"}),
            ("other space at an end", {"msgstr": "<b>%(s)s</b> "}),
        ],
    )
    def test_a_flaw(self, kept, told, entry):
        assert kept(polib.POEntry(msgid="Wait <b>%(s)s</b>", **entry)) == [f"{told}: 'Wait <b>%(s)s</b>'"]

    def test_one_that_no_source_holds_any_more(self, kept):
        good = polib.POEntry(msgid="Wait <b>%(s)s</b>", msgstr="<b>%(s)s</b>!")

        assert kept(good, polib.POEntry(msgid="Old", msgstr="!")) == ["stale: 'Old'"]
        assert catalogue.refresh("zh_Hans").find("Old") is None
        assert catalogue.problems("zh_Hans") == []


class TestReading:
    pytestmark = pytest.mark.usefixtures("compiled")

    def test_a_refresh_that_finds_nothing_new_changes_nothing(self, monkeypatch, tmp_path):
        for language in catalogue.LANGUAGES:
            held = catalogue._path(language).read_text()
            with monkeypatch.context() as patch:
                patch.setattr(catalogue, "CATALOGUES", tmp_path)
                (tmp_path / language / "LC_MESSAGES").mkdir(parents=True)
                catalogue._path(language).write_text(held)
                catalogue.refresh(language)
                once = catalogue._path(language).read_text()
                catalogue.refresh(language)
                assert catalogue._path(language).read_text() == once

    def test_what_was_compiled_before_is_replaced_whole(self, tmp_path):
        home = Home(tmp_path)

        catalogue.compile_into(home)
        catalogue.compile_into(home)

        [folder] = [path for path in home.locale.rglob("*") if path.name == "LC_MESSAGES"]
        assert [path.name for path in folder.iterdir()] == ["django.mo"]

    def test_spans_are_said_in_chinese_units(self):
        with translation.override(CHINESE):
            assert words.duration(80).replace(words.NBSP, " ") == "1 分钟 20 秒"

    @pytest.mark.django_db
    def test_a_person_chooses_the_language_in_the_menu_and_keeps_it(self):
        client = Client()
        client.force_login(make.person("ada", "approver"))

        client.post(reverse("preferences"), {"language": CHINESE, "next": reverse("approvals")})
        page = client.get(reverse("approvals")).content.decode()

        assert '<html lang="zh-hans"' in page
        assert "<h1>审批</h1>" in page
        client.post(reverse("preferences"), {"language": "en", "next": reverse("approvals")})
        assert "<h1>Approvals</h1>" in client.get(reverse("approvals")).content.decode()

    @pytest.mark.django_db
    def test_who_has_chosen_nothing_reads_what_the_browser_asks_for(self):
        page = Client().get(reverse("login"), headers={"Accept-Language": "zh-CN,zh;q=0.9"}).content.decode()

        assert '<html lang="zh-hans"' in page
        assert "密码" in page

    @pytest.mark.django_db
    def test_a_language_that_we_do_not_have_is_not_kept(self):
        client = Client()

        client.post(reverse("preferences"), {"language": "xx"})

        assert "django_language" not in client.cookies


class TestSentences:
    """What the floors below say stands in the list, or people would read it in English."""

    def test_what_stands_against_a_verdict(self):
        said = [
            word.value
            for node in ast.walk(ast.parse(inspect.getsource(verdicts)))
            if isinstance(node, ast.Return) and node.value is not None
            for word in ast.walk(node.value)
            if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value
        ]

        assert len(said) > 8
        assert [sentence for sentence in said if sentence not in sentences.SAID] == []

    def test_why_there_was_no_answer(self):
        assert [reason for _kind, reason in http.FAULTS.values() if reason not in sentences.SAID] == []

    def test_what_the_audit_calls_a_deed(self):
        """Every verb that the ledger's notes name outright."""
        verbs = {
            word.value
            for path in sorted((PROJECT / "operations" / "ledger").glob("*.py"))
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"audit", "record", "_enter"}
            for word in node.args
            if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value.isupper()
        }

        assert len(verbs) > 12
        assert [verb for verb in sorted(verbs) if verb.replace("_", " ").lower() not in sentences.SAID] == []

    def test_what_the_audit_calls_what_was_tried(self):
        """The name of every address that takes a form, and of those whose reading is noted."""
        takers = {
            (f"console.views.{path.stem}", node.name)
            for path in (PROJECT / "console" / "views").glob("*.py")
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and any("POST" in ast.unparse(one) for one in node.decorator_list)
        }
        named = {
            str(one.name)
            for one in urls.urlpatterns
            if isinstance(one, URLPattern) and (one.callback.__module__, one.callback.__name__) in takers
        }

        assert len(named) > 40
        tried = (named | witness.NOTED_READS) - witness.OWN_AFFAIRS
        assert [name for name in sorted(tried) if name.replace("_", " ") not in sentences.SAID] == []

    def test_why_a_person_was_turned_away(self):
        said = {
            str(node.value.value)
            for path in (PROJECT / "console").rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "request.refusal"
            if isinstance(node.value, ast.Constant)
        }

        assert len(said) > 8
        assert [one for one in sorted(said | set(witness.WORDS.values())) if one not in sentences.SAID] == []

    def test_every_role(self):
        assert [role for role in Role if role not in sentences.SAID] == []

    @pytest.mark.usefixtures("compiled")
    def test_what_is_listed_is_translated_and_what_a_server_says_is_not(self):
        with translation.override(CHINESE):
            assert sentences.in_words("no answer in time") == "没有按时应答"
            assert sentences.in_words("Approvals") == "Approvals"

    @pytest.mark.usefixtures("compiled")
    def test_what_differs_stands_in_a_sentence_of_ours(self):
        """Words of ours are translated around what differs, and in it; a server's own stay, whatever they hold."""
        with translation.override(CHINESE):
            assert "没有媒体类型" in sentences.in_words("HTTP 503, no media type, 0 bytes")
            assert sentences.in_words("the webhook answered with 500") == "Webhook 应答了 500"
            assert sentences.in_words("the environment holds no signing secret '{x}'") == "环境中没有签名密钥 '{x}'"
            assert sentences.in_words("HTTP {0}") == "HTTP {0}"


class TestMarks:
    SOURCE = '{% for n in all %}{{ n }}{% if not forloop.last %}{% punct "and" %}{% endif %}{% endfor %}{% punct "." %}'

    @pytest.mark.usefixtures("compiled")
    @pytest.mark.parametrize("language, said", [("en", "a, b."), (CHINESE, "a、b。")])
    def test_a_list_and_its_end_are_marked_as_the_language_does(self, language, said):
        with translation.override(language):
            assert Template(self.SOURCE).render(Context({"all": ["a", "b"]})) == said

    @pytest.mark.parametrize("language, said", [("en", "a. b"), (CHINESE, "a.b")])
    def test_a_chinese_full_stop_brings_its_own_room(self, language, said):
        with translation.override(language):
            assert Template("a.{% gap %}b").render(Context()) == said
