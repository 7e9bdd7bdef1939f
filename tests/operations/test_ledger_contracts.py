"""A server that declares or describes something else than before is shown to an admin; nothing is decided (N1, O5)."""

import pytest

from adapters import strictjson
from adapters.contract import Capabilities, Negotiation, Opened, TaskSupport, ToolDescriptor
from operations import ledger
from operations.machine import State
from operations.models import AuditEvent, Server


def declares(**changes):
    told = {"server_name": "s", "server_version": "1", "creates_tasks": True, "cancels_tasks": True}
    return Capabilities(**(told | {"lists_tasks": True} | changes))


def tool(name, raw=b"{}"):
    return ToolDescriptor(
        name=name,
        title="",
        description="",
        task_support=TaskSupport.OPTIONAL,
        input_schema={},
        output_schema=None,
        raw=raw,
        digest=strictjson.digest(raw),
    )


def negotiate(room, *tools, by_hand=False, **changes):
    found = Negotiation(capabilities=declares(**changes), tools=tools)
    ledger.save_negotiation(room.server, found, now=room.now, by_hand=by_hand)


def changes(room):
    return Server.objects.get(slug=room.server).contract_changes


def note(room):
    return ledger.Note(by="person:adam", reason="announced in their notes", now=room.now)


def test_the_first_negotiation_changes_nothing(room):
    assert (changes(room), Server.objects.get(slug=room.server).contract_changed_at) == ([], None)


def test_the_same_again_changes_nothing(room):
    room.describe()

    assert Server.objects.get(slug=room.server).contract_changed_at is None


def test_a_capability_that_is_withdrawn_stands_there_with_both_values(room):
    negotiate(room, cancels_tasks=False)

    assert changes(room) == [{"what": "CAPABILITY", "name": "cancels_tasks", "before": "True", "after": "False"}]
    assert Server.objects.get(slug=room.server).contract_changed_at == room.now


def test_tools_that_came_went_and_changed_are_told_apart(room):
    negotiate(room, tool("tool"), tool("stays"))
    ledger.contract_seen(room.server, note=note(room))

    negotiate(room, tool("tool", b"[1]"), tool("new"))

    assert [(one["what"], one["name"]) for one in changes(room)] == [
        ("TOOL_NEW", "new"),
        ("TOOL_GONE", "stays"),
        ("TOOL_CHANGED", "tool"),
    ]


def test_what_an_admin_describes_by_hand_is_no_change_to_look_at(room):
    negotiate(room, tool("tool", b"[1]"), by_hand=True)

    assert changes(room) == []


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_heard_in_a_session_is_held_against_what_was_negotiated_and_said_once(room, times):
    """No admin asks again: a call that opens its session is enough."""
    for _ in range(times):
        opened = Opened(session="other", capabilities=declares(lists_tasks=False))
        room.step(ledger.session_opened, room.submit(), opened=opened)

    assert changes(room) == [{"what": "CAPABILITY", "name": "lists_tasks", "before": "true", "after": "false"}]


def test_a_session_like_all_others_touches_no_row_of_its_server(room):
    operation = room.submit()

    room.step(ledger.session_opened, operation, opened=Opened(session="s", capabilities=declares()))

    assert changes(room) == []


def test_calls_go_on_until_somebody_stops_them(room):
    negotiate(room, creates_tasks=False)

    assert room.row(room.submit()).state is State.SUBMITTING


def test_o5_an_admin_who_has_looked_takes_it_off_with_a_reason_that_stays(room):
    negotiate(room, cancels_tasks=False)

    assert ledger.contract_seen(room.server, note=note(room))

    assert changes(room) == []
    event = AuditEvent.objects.get(what="CONTRACT_SEEN", target=f"server:{room.server}")
    assert (event.reason, event.before["changes"][0]["name"]) == ("announced in their notes", "cancels_tasks")
    assert not ledger.contract_seen(room.server, note=note(room))
