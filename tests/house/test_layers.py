"""The floors of the house (pyproject.toml, import-linter) and what they cannot say."""

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db.models import Model

PROJECT = Path(__file__).resolve().parents[2]
SIGNAL_WORDS = ("django.db.models.signals", "django.dispatch", "@receiver")


def test_the_import_contracts_hold():
    command = "from importlinter.cli import lint_imports_command as check; check()"
    answer = subprocess.run(
        [sys.executable, "-c", command, "--no-logo"], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_no_signals_and_no_admin():
    found = [
        f"{path.relative_to(PROJECT)}: {word}"
        for folder in ("console", "operations")
        for path in (PROJECT / folder).rglob("*.py")
        for word in (*SIGNAL_WORDS, "admin.site.register")
        if word in path.read_text()
    ]

    assert found == []


def test_no_model_changes_what_saving_or_deleting_means():
    ours = [model for model in apps.get_models() if model.__module__.startswith(("console", "operations"))]

    assert ours
    assert [model for model in ours if model.save is not Model.save or model.delete is not Model.delete] == []


def test_pages_ask_the_queries_never_the_tables():
    pages = [*(PROJECT / "console" / "views").rglob("*.py"), *(PROJECT / "console" / "api").rglob("*.py")]

    found = [str(path.relative_to(PROJECT)) for path in pages if ".objects." in path.read_text()]

    assert pages
    assert found == []


def test_every_migration_says_whether_it_runs_before_or_after_the_code():
    names = [path.name for path in (PROJECT / "operations" / "migrations").glob("0*.py")]

    assert names
    assert [name for name in names if not {"pre", "post"} & set(name.removesuffix(".py").split("_"))] == []


@pytest.mark.django_db
def test_the_models_and_the_migrations_agree():
    call_command("makemigrations", check=True, dry_run=True, stdout=StringIO())


def test_the_deployment_check_is_clean(settings):
    settings.DEBUG = False
    settings.SECRET_KEY = "x1" * 40 + "abcdefgh"

    call_command("check", deploy=True, fail_level="WARNING", stdout=StringIO(), stderr=StringIO())
