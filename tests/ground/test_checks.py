"""`selftest`: what makes it fail, and what it hands to pytest."""

import json

import pytest
from django.core.management import load_command_class

from console.ground import checks

GOOD = ("good", ("-c", ""))
BAD = ("bad", ("-c", "raise SystemExit(3)"))


@pytest.fixture
def handed(monkeypatch, tmp_path):
    """Replace the tests by a program that ends with 5; return what it was handed (None: it did not run)."""
    written = tmp_path / "arguments"
    program = f"import json, sys; open({str(written)!r}, 'w').write(json.dumps(sys.argv[1:])); sys.exit(5)"
    monkeypatch.setattr(checks, "PYTEST", ("-c", program))
    monkeypatch.setattr(checks, "CHEAP", [GOOD])
    monkeypatch.setenv("CHROMIUM", "/bin/true")
    return lambda: json.loads(written.read_text()) if written.exists() else None


def test_the_exit_code_is_that_of_the_tests(handed):
    told = []

    code = checks.run(with_long=False, pytest_arguments=["-k", "ledger"], tell=told.append)

    assert code == 5
    assert handed() == ["-m", "not bench and not long", "-k", "ledger"]
    assert [line.split(",")[0] for line in told] == ["selftest: good ok"]


def test_every_cheap_check_is_run_and_one_that_fails_keeps_the_tests_from_running(handed, monkeypatch):
    monkeypatch.setattr(checks, "CHEAP", [BAD, GOOD])
    told = []

    code = checks.run(with_long=False, pytest_arguments=[], tell=told.append)

    assert code == 1
    assert handed() is None
    assert [line.split(",")[0] for line in told] == [
        "selftest: bad failed",
        "selftest: good ok",
        "selftest: bad failed; the tests were not run",
    ]


def test_all_brings_the_long_ones_and_the_rest_belongs_to_pytest(handed):
    command = load_command_class("console", "selftest")

    with pytest.raises(SystemExit) as end:
        command.run_from_argv(["manage.py", "selftest", "--all", "-x", "tests/ground", "--lf"])

    assert end.value.code == 5
    assert handed() == ["-m", "not bench", "-x", "tests/ground", "--lf"]


def test_a_missing_chromium_is_said_with_its_remedy_where_we_may_not_install(monkeypatch):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    told = []

    checks.provide_chromium(told.append)

    assert "apt-get install chromium" in told[0]
