"""The simulated AIP-151 server keeps its truth and bends only its answers."""

import asyncio
import json
import random
import uuid

import pytest

from adapters.simulator import aip151, aip151_face
from adapters.simulator.aip151 import Request
from adapters.simulator.aip151_scenario import CancelStyle, Fault, FaultKind, Scenario
from adapters.simulator.scripts import Ask, Effect, Finish, Tool, Work

PLACE = "projects/p/locations/l"
KEY = str(uuid.UUID(int=7))


def _work(arguments):
    yield Work(seconds=10, message="working")
    yield Effect(name="paid")
    return Finish(text="done")


def _ask(arguments):
    yield Work(seconds=1)
    answer = yield Ask(message="Sure?")
    yield Work(seconds=1)
    return Finish(text=answer.action)


def tool(name, script):
    return Tool(name=name, title="", description="", script=script, input_schema={}, output_schema={"type": "object"})


TOOLS = (tool(f"{PLACE}/jobs:run", _work), tool("jobs:ask", _ask))


class Client:
    """Sends requests to one server, with a clock in its hand."""

    def __init__(self, *faults, seed=1, **character):
        self.now = 1_790_000_000.0
        scenario = Scenario(tools=TOOLS, faults=faults, **character)
        self.server = aip151.OperationsServer(scenario, clock=lambda: self.now, chance=random.Random(seed))
        self.truth = self.server.truth

    def send(self, method, path, body=b"", **query):
        return self.server.receive(Request(method=method, path=path, body=body, query=query))

    def get(self, path, **query):
        return json.loads(self.send("GET", path, **query).body)

    def post(self, path, body=b"{}", **query):
        return json.loads(self.send("POST", path, body, **query).body)

    def begin(self, key=KEY):
        return self.post(f"{PLACE}/jobs:run", requestId=key)["name"]


class TestOperation:
    def test_done_is_left_out_until_it_is_true(self):
        client = Client()
        name = client.begin()

        working = client.get(name)
        client.now += 10
        done = client.get(name)

        assert "done" not in working
        assert working["metadata"]["value"]["statusMessage"] == "working"
        assert done["done"] is True
        assert done["response"] == {"@type": aip151.STRUCT, "value": {"text": "done"}}
        assert "error" not in done

    def test_effects_happen_at_their_time_however_often_somebody_looks(self):
        seldom, often = Client(), Client()
        for client, step in ((seldom, 20), (often, 1)):
            name = client.begin()
            for _ in range(20 // step):
                client.now += step
                client.get(name)

        assert seldom.truth.effects == often.truth.effects
        assert seldom.truth.effects[0].at == 1_790_000_010.0

    def test_an_operation_is_named_where_its_method_lives(self):
        client = Client()

        assert client.begin().startswith(f"{PLACE}/operations/simulator-")
        assert client.post("jobs:ask")["name"].startswith("operations/simulator-")

    def test_a_question_is_answered_by_nobody(self):
        client = Client()
        name = client.post("jobs:ask")["name"]
        client.now += 5

        assert client.get(name)["response"]["value"] == {"text": "cancel"}

    def test_a_restarted_server_hands_out_new_names(self):
        assert Client(seed=1).begin() != Client(seed=2).begin()

    def test_an_operation_that_vanished_works_on(self):
        client = Client(keeps_s=5)
        name = client.begin()
        client.now += 6
        gone = client.send("GET", name)
        client.now += 6
        client.send("GET", name)

        assert gone.status == 404
        assert [effect.name for effect in client.truth.effects] == ["paid"]

    def test_delete_removes_the_record_and_nothing_else(self):
        client = Client()
        name = client.begin()

        assert client.send("DELETE", name).status == 200
        client.now += 60
        assert client.send("GET", name).status == 404
        assert [effect.name for effect in client.truth.effects] == ["paid"]


class TestRequestId:
    def test_the_same_request_twice_is_one_operation(self):
        client = Client()

        assert client.begin() == client.begin()
        assert len(client.truth.tasks_of(KEY)) == 1

    def test_another_payload_is_refused(self):
        client = Client()
        client.begin()

        reply = client.send("POST", f"{PLACE}/jobs:run", b'{"x":1}', requestId=KEY)

        assert reply.status == 400
        assert len(client.truth.created) == 1

    def test_the_key_is_forgotten_after_its_window(self):
        client = Client(key_window_s=60)
        first = client.begin()
        client.now += 60

        assert client.begin() != first

    @pytest.mark.parametrize("key", ["nonsense", str(uuid.UUID(int=0))])
    def test_what_is_no_uuid_starts_nothing(self, key):
        client = Client()

        assert client.send("POST", f"{PLACE}/jobs:run", b"{}", requestId=key).status == 400
        assert client.truth.created == []

    def test_without_a_key_every_request_is_a_new_one(self):
        client = Client()

        assert client.post(f"{PLACE}/jobs:run")["name"] != client.post(f"{PLACE}/jobs:run")["name"]

    @pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
    def test_a_body_that_is_no_message_starts_nothing(self, body):
        client = Client()

        assert client.send("POST", f"{PLACE}/jobs:run", body).status == 400
        assert client.truth.created == []


class TestCancel:
    def test_an_accepted_cancel_ends_the_operation_later_with_code_1(self):
        client = Client(cancel_after_s=2)
        name = client.begin()

        accepted = client.send("POST", f"{name}:cancel")
        during = client.get(name)
        client.now += 2
        after = client.get(name)

        assert (accepted.status, accepted.body) == (200, b"{}")
        assert during["metadata"]["value"]["requestedCancellation"] is True
        assert "done" not in during
        assert after["error"]["code"] == 1
        assert client.truth.effects == []

    def test_cancelled_work_may_go_on(self):
        client = Client(works_on_after_cancel=True)
        name = client.begin()
        client.post(f"{name}:cancel")
        client.now += 60

        assert client.get(name)["error"]["code"] == 1
        assert [effect.name for effect in client.truth.effects] == ["paid"]

    def test_two_cancels_are_one(self):
        client = Client(cancel_after_s=2)
        name = client.begin()
        client.post(f"{name}:cancel")
        client.now += 1
        client.post(f"{name}:cancel")
        client.now += 1

        assert client.get(name)["error"]["code"] == 1
        assert [cancel.won for cancel in client.truth.cancels] == [True]

    def test_a_cancel_after_the_end_changes_nothing(self):
        client = Client()
        name = client.begin()
        client.now += 60

        assert client.send("POST", f"{name}:cancel", b"{}").status == 200
        client.now += 60
        assert "response" in client.get(name)
        assert [cancel.won for cancel in client.truth.cancels] == [False]

    def test_a_server_may_refuse_every_cancel(self):
        client = Client(cancel=CancelStyle.REFUSES)
        name = client.begin()

        assert client.send("POST", f"{name}:cancel").status == 501
        assert client.get(aip151.TOOLS_DOCUMENT)["cancel"] is False


class TestErrors:
    def test_an_error_has_the_body_of_aip_193(self):
        error = json.loads(Client().send("GET", "operations/nope").body)["error"]

        assert (error["code"], error["status"]) == (404, "NOT_FOUND")
        assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert {"reason", "domain"} < set(error["details"][0])

    def test_a_gateways_error_is_a_bare_status_with_the_other_number(self):
        client = Client(writes_defaults=True)

        assert json.loads(client.send("GET", "operations/nope").body)["code"] == 5
        assert client.get(client.begin())["done"] is False

    @pytest.mark.parametrize("method, path", [("GET", "x"), ("POST", "x"), ("PUT", "jobs:ask"), ("DELETE", "x")])
    def test_what_is_not_there_is_not_found(self, method, path):
        assert Client().send(method, path).status == 404


class TestFaults:
    def test_a_fault_may_strike_every_other_request(self):
        client = Client(Fault(on="get", kind=FaultKind.ANSWER_LOST, skip=1, times=2, every=2))
        name = client.begin()

        assert [client.send("GET", name).drop for _ in range(6)] == [False, True, False, True, False, False]

    @pytest.mark.parametrize("kind", [FaultKind.ANSWER_LOST, FaultKind.ANSWER_TRUNCATED, FaultKind.REPLACED])
    def test_a_bent_answer_leaves_the_truth(self, kind):
        client = Client(Fault(on="submit", kind=kind))
        client.send("POST", f"{PLACE}/jobs:run", b"{}", requestId=KEY)

        assert len(client.truth.tasks_of(KEY)) == 1

    @pytest.mark.parametrize("kind", [FaultKind.REQUEST_LOST, FaultKind.API_ERROR, FaultKind.HTTP_STATUS])
    def test_a_refused_request_did_nothing(self, kind):
        client = Client(Fault(on="submit", kind=kind))
        client.send("POST", f"{PLACE}/jobs:run", b"{}", requestId=KEY)

        assert client.truth.created == []
        assert len(client.truth.arrivals) == 1

    def test_a_fault_strikes_as_often_as_it_says(self):
        client = Client(Fault(on="get", kind=FaultKind.API_ERROR, code=14, skip=1, times=2))
        name = client.begin()

        assert [client.send("GET", name).status for _ in range(4)] == [200, 503, 503, 200]

    def test_a_repeated_answer_is_an_old_one(self):
        client = Client(Fault(on="get", kind=FaultKind.ANSWER_REPEATED, skip=1))
        name = client.begin()
        old = client.get(name)
        client.now += 60

        assert client.get(name) == old
        assert client.get(name)["done"] is True


class TestList:
    def test_pages_cover_every_operation_of_the_place_once(self):
        client = Client(page_size=2)
        made = [client.begin(str(uuid.UUID(int=number))) for number in range(1, 6)]
        client.post("jobs:ask")

        listed: list[str] = []
        token = "0"
        while token:
            page = client.get(f"{PLACE}/operations", pageToken=token, pageSize="50", returnPartialSuccess="True")
            listed += [entry["name"] for entry in page["operations"]]
            token = page.get("nextPageToken")

        assert listed == made


class TestFace:
    async def call(self, app, path, method="GET", query=b""):
        sent = []
        scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": []}

        async def receive():
            return {"type": "http.request", "body": b"{}"}

        async def send(event):
            sent.append(event)

        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"] or b"null")

    def test_a_server_answers_below_its_prefix_and_tells_the_truth(self):
        client = Client()
        app = aip151_face.OperationsApp({"/jobs/v1": client.server})

        made = asyncio.run(self.call(app, f"/jobs/v1/{PLACE}/jobs:run", "POST", f"requestId={KEY}".encode()))
        told = asyncio.run(self.call(app, "/jobs/v1/truth"))

        assert made[0] == 200
        assert told[1]["created"][0]["submission_key"] == KEY
        assert asyncio.run(self.call(app, "/jobs/v2/truth"))[0] == 404

    def test_what_lies_below_no_prefix_goes_elsewhere(self):
        async def other(scope, receive, send):
            await send({"status": 418})
            await send({"body": b"{}"})

        app = aip151_face.OperationsApp({"/jobs/v1": Client().server}, otherwise=other)

        assert asyncio.run(self.call(app, "/mcp"))[0] == 418
