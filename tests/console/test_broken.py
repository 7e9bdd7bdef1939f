"""The page for what broke on our side: it needs nothing that may be broken too."""

from http import HTTPStatus

import pytest
from django.contrib.staticfiles import finders
from django.test import RequestFactory
from django.utils import translation
from django.views.defaults import server_error


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_it_is_made_without_a_database_and_says_in_which_language_it_is(language):
    """No `db` here: a query would fail this test. Its words are in the catalogue, as those of every page."""
    with translation.override(language):
        answer = server_error(RequestFactory().get("/"))

    page = answer.content.decode()
    assert answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert f'<html lang="{language}"' in page
    assert page.count("<h1>") == 1
    assert 'href="/static/longcall.css"' in page
    assert finders.find("longcall.css")
