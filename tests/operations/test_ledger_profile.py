"""What is registered, and what a change of it leaves alone (N1, R3, O3, O5)."""

import pytest

from adapters.contract import Capabilities, Negotiation
from operations import ledger
from operations.machine import State
from operations.models import Server, Tool
from tests.operations.room import VERSION


def test_registering_again_changes_the_profile_and_leaves_switches_and_tools(room):
    ledger.set_submits("server", room.server, is_open=False, reason="off")

    ledger.register_server(
        ledger.NewServer(slug=room.server, title="New", url="http://other.test/", protocol=VERSION, max_qps=2)
    )

    server = Server.objects.get(slug=room.server)
    assert (server.title, server.max_qps, server.submits_open) == ("New", 2, False)
    assert Tool.objects.filter(server=server).count() == 1


def test_r3_a_new_description_leaves_the_calls_under_way_with_theirs(room):
    operation = room.at(State.WORKING)
    version = room.row(operation).tool_version

    room.describe(output_schema={"type": "object"})

    assert room.row(operation).tool_version == version
    assert room.row(room.submit()).tool_version != version


def test_a_description_that_comes_back_is_the_version_it_was(room):
    first = room.row(room.submit()).tool_version
    room.describe(output_schema={"type": "object"})

    room.describe()

    assert room.row(room.submit()).tool_version == first


def test_n1_negotiation_with_an_unknown_server_is_refused(room):
    nobody = Capabilities(
        server_name="", server_version="", creates_tasks=False, cancels_tasks=False, lists_tasks=False
    )

    with pytest.raises(ledger.NoSuchServer):
        ledger.save_negotiation("nobody", Negotiation(capabilities=nobody, tools=()), now=room.now)


def test_a_policy_of_a_tool_that_was_never_described_is_not_set(room):
    assert not ledger.set_policy(room.server, "nothing", ledger.ToolPolicy())
    assert ledger.set_policy(room.server, "tool", ledger.ToolPolicy(effect="NONE"))


@pytest.mark.parametrize("scope, name", [("protocol", "none"), ("server", "none"), ("tool", "none/tool")])
def test_o5_a_switch_of_something_unknown_is_not_thrown(room, scope, name):
    assert not ledger.set_submits(scope, name, is_open=False, reason="x")


@pytest.mark.parametrize("state", [State.WORKING, State.INPUT_REQUIRED, State.FETCHING_RESULT])
def test_o5_a_shut_switch_stops_no_look_no_answer_and_no_acceptance(room, state):
    operation = room.at(state)
    ledger.set_submits("server", room.server, is_open=False, reason="off")

    if state is State.INPUT_REQUIRED:
        room.answer(operation)
        return
    room.saw(operation, room.ended(operation))
    assert room.row(operation).terminal_status == "completed"


def test_a_server_with_operations_under_way_is_not_pointed_elsewhere_by_the_way(room):
    """A task lives at one place: another address strands it, unless the same server has moved."""
    elsewhere = ledger.NewServer(slug=room.server, title="t", url="http://elsewhere.test/mcp", protocol=VERSION)
    room.at(State.WORKING)

    with pytest.raises(ledger.ServerInUse):
        ledger.register_server(elsewhere)

    assert Server.objects.get(slug=room.server).url == "http://room.test/mcp"
    ledger.register_server(elsewhere, moves=True)
    assert Server.objects.get(slug=room.server).url == elsewhere.url
