"""The help page: its pictures are there, in the language of the page, by day and by night, and small."""

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.urls import reverse
from django.utils import translation

from tests.console import factories as make

pytestmark = pytest.mark.django_db
MOST_BYTES = 120_000


@pytest.mark.parametrize("language, ending", [("en", ""), ("zh-hans", r"\.zh-hans")])
@pytest.mark.parametrize("hour, ground", [("day", ""), ("night", r"\.dark")])
def test_its_pictures_speak_the_language_of_the_page_and_are_small(language, ending, hour, ground):
    vera = make.signed_in("vera", "viewer")
    vera.cookies["django_language"] = language

    page = vera.get(reverse("help")).content.decode()

    named = re.findall(rf'<a class="by-{hour}"[^>]*><img src="[^"]*?/(pictures/[^"]+)"', page)
    assert len(named) == 3
    for file in named:
        assert re.fullmatch(rf"pictures/[a-z]+{ground}{ending}\.png", file)
        assert Path(finders.find(file)).stat().st_size < MOST_BYTES


def test_each_picture_says_what_it_shows():
    with translation.override("en"):
        page = make.signed_in("vera", "viewer").get(reverse("help")).content.decode()

    assert re.findall(r'<img [^>]*alt=""', page) == []
    assert page.count("<figcaption>") == 3
