"""What is put together quickly for long lists is, letter for letter, what Django puts together."""

import uuid

import pytest
from django.template import Context, Template
from django.template.defaultfilters import truncatechars
from django.test.utils import override_script_prefix
from django.urls import NoReverseMatch, get_resolver, reverse
from django.utils import translation
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from console import markup

ID, OTHER = uuid.UUID("0b51a1de-9d7c-4d6a-8f60-5f2a8c1d2e3f"), uuid.uuid4()
TEXTS = (
    "",
    "plain",
    "<b>&amp;\"'</b>",
    "你好",
    "{0} {}",
    SafeString("<i>made safe</i>"),
    gettext_lazy("Audit"),
    7,
    None,
)


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_a_part_is_escaped_as_django_escapes_it(text):
    assert markup.filled('<p title="{}">{}</p>', text, "x") == format_html('<p title="{}">{}</p>', text, "x")


def test_rows_are_joined_as_django_joins_them():
    rows = [("<", 1), (SafeString("<br>"), 2)]

    assert markup.filled_each("<li>{} {}</li>", rows) == format_html_join("", "<li>{} {}</li>", rows)


def test_what_was_filled_is_not_escaped_again():
    assert markup.filled("<b>{}</b>", markup.filled("<i>{}</i>", "<")) == "<b><i>&lt;</i></b>"


@pytest.mark.parametrize("text", ["", "a" * 10, "a" * 11, "你" * 11, "e\N{COMBINING ACUTE ACCENT}" * 11])
def test_a_text_is_cut_where_django_cuts_it(text):
    assert markup.cut(text, 10) == truncatechars(text, 10)


def _routes():
    """Every route of the console by name, with its parts in order."""
    for name, found in get_resolver("console.urls").reverse_dict.lists():
        for ways, _pattern, _defaults, converters in found:
            if isinstance(name, str):
                yield name, [converters[part] for part in ways[0][1]]


def test_an_address_is_the_route_for_every_route_of_the_console():
    made = {"uuid": ID, "int": 12, "slug": "shop", "str": "ann lee", "path": "a/b c"}
    kinds = {"UUIDConverter": "uuid", "IntConverter": "int", "SlugConverter": "slug", "PathConverter": "path"}
    seen = 0
    for name, converters in _routes():
        parts = [made[kinds.get(type(one).__name__, "str")] for one in converters]
        seen += ID in parts
        assert markup.address(name, *parts) == reverse(name, args=parts)
        assert markup.address(name, *map(str, parts)) == reverse(name, args=[str(part) for part in parts])
    assert seen > 10


def test_an_address_follows_the_prefix_under_which_the_site_is_mounted():
    plain = markup.address("operation", ID)

    with override_script_prefix("/calls/{0}/"):
        assert markup.address("operation", OTHER) == reverse("operation", args=[OTHER])
        assert markup.address("operation", OTHER).startswith("/calls/")
    assert markup.address("operation", ID) == plain


@pytest.mark.parametrize("part", ["", "nobody", str(ID).upper(), str(ID) + "\n", ID.hex, 7, None])
def test_what_is_no_id_is_for_the_route_to_judge(part):
    with pytest.raises(NoReverseMatch):
        markup.address("operation", part)


class TestAConstantThatIsTranslated:
    """`{% translate %}` keeps what it said, for each language by itself."""

    def said(self, source, **names):
        return Template("{% load i18n longcall %}" + source).render(Context(names))

    def test_in_the_language_of_each_request(self):
        page = Template('{% load i18n longcall %}{% translate "Audit" %}')

        said = []
        for language in ("en", "zh-hans", "en", "zh-hans"):
            with translation.override(language):
                said.append(page.render(Context()))

        assert said == [translation_of("Audit", language) for language in ("en", "zh-hans")] * 2

    def test_with_a_context_and_a_percent_sign(self):
        with translation.override("en"):
            assert (
                self.said('{% translate "Open" context "a button" %}, {% translate "5 % of it" %}') == "Open, 5 % of it"
            )

    def test_into_a_variable_of_each_page(self):
        page = Template('{% load i18n longcall %}{% translate "Audit" as word %}[{{ word }}]')

        with translation.override("en"):
            assert [page.render(Context()), page.render(Context())] == ["[Audit]", "[Audit]"]

    def test_what_differs_is_asked_each_time(self):
        page = Template("{% load i18n longcall %}{% translate word %}")

        with translation.override("en"):
            assert [page.render(Context({"word": word})) for word in ("Audit", "<b>")] == ["Audit", "&lt;b&gt;"]


def translation_of(text, language):
    with translation.override(language):
        return str(gettext_lazy(text))
