"""The seal of a form: bound to operation, round, digests and person, and to nothing else (I3)."""

import dataclasses
import datetime as dt
import uuid

import pytest
from django.core import signing

from console import roundtokens
from console.roundtokens import Fault, RoundToken, TokenRefused

OPERATION = str(uuid.uuid4())
TOKEN = RoundToken(
    operation=OPERATION,
    round=2,
    request_digest="a" * 64,
    schema_digest="b" * 64,
    as_shown_digest="c" * 64,
    person="ada",
)


def fault_of(text, **changes):
    with pytest.raises(TokenRefused) as refused:
        roundtokens.read(text, **{"operation": OPERATION, "number": 2, "person": "ada"} | changes)
    return refused.value.fault


def test_what_was_sealed_comes_back():
    text = roundtokens.sign(TOKEN)

    assert roundtokens.read(text, operation=OPERATION, number=2, person="ada") == TOKEN


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"person": "bob"}, Fault.OTHER_PERSON),
        ({"number": 1}, Fault.OTHER_ROUND),
        ({"operation": str(uuid.uuid4())}, Fault.OTHER_ROUND),
    ],
)
def test_it_fits_its_own_place_only(changes, fault):
    assert fault_of(roundtokens.sign(TOKEN), **changes) is fault


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_any_changed_character_breaks_it(place):
    text = roundtokens.sign(TOKEN)
    other = "A" if text[place] != "A" else "B"

    assert fault_of(text[:place] + other + text[place + 1 :]) is Fault.FORGED


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RoundToken)])
def test_no_part_can_be_taken_from_another_token(name):
    held = dataclasses.asdict(TOKEN) | {name: 9 if name == "round" else "d" * 64}
    payload = signing.dumps(held, key="another key", salt=roundtokens.SALT)

    assert fault_of(payload) is Fault.FORGED


@pytest.mark.parametrize("text", ["nonsense", "a:b:c", ":::", "é", "\x00"])
def test_what_is_no_token_is_refused(text):
    assert fault_of(text) is Fault.FORGED


def test_none_at_all_is_said_to_be_missing():
    assert fault_of("") is Fault.MISSING


def test_a_token_that_we_signed_for_something_else_is_refused():
    assert fault_of(signing.dumps(dataclasses.asdict(TOKEN), salt="other")) is Fault.FORGED


@pytest.mark.parametrize("held", [{}, [], "x", dataclasses.asdict(TOKEN) | {"more": 1}])
def test_our_own_signature_over_another_shape_is_refused(held):
    assert fault_of(signing.dumps(held, salt=roundtokens.SALT)) is Fault.FORGED


def test_it_ends_after_its_time(monkeypatch):
    text = roundtokens.sign(TOKEN)
    monkeypatch.setattr(roundtokens, "MAX_AGE", dt.timedelta(seconds=-1))

    assert fault_of(text) is Fault.TOO_OLD
