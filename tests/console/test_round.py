"""The page of one round: what it shows, which answers it takes, and what it says about those it does not."""

import datetime as dt
import json
import re
import uuid

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from operations import ledger
from operations.queries import rounds
from tests.console import factories as make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada():
    """An approver, signed in."""
    make.server()
    return signed_in("ada", "approver")


def signed_in(name, *roles):
    client = Client()
    client.force_login(make.person(name, *roles))
    return client


def address(operation, number=1):
    return reverse("round", args=[operation, number])


def hidden(client, operation, number=1):
    """The hidden fields of a freshly opened page."""
    page = client.get(address(operation, number)).content.decode()
    names = ("round_token", "form_id")
    return {name: re.search(rf'name="{name}" value="([^"]+)"', page)[1] for name in names}


def answer(client, operation, number=1, *, action="accept", sealed=None, **fields):
    sealed = sealed or hidden(client, operation, number)
    return client.post(address(operation, number), {**sealed, "action": action, **fields})


def held(operation, number=1):
    return rounds.round_page(operation, number=number).answer


def test_the_page_shows_question_arguments_form_and_deadline(ada):
    operation = make.asking(arguments=b'{"percent": 12.0, "list": [1, 2]}')

    page = ada.get(address(operation)).content.decode()

    assert "Deploy v42?" in page
    assert "&quot;percent&quot;: 12.0" in page
    assert "Deploy now" in page
    assert "Not answered" in page
