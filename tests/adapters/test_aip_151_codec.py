"""Each answer of an AIP-151 server by its bytes, and what it proves."""

import contextlib
import json
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import aip_151_codec as codec
from adapters.aip_151_codec import Code
from adapters.contract import (
    Absent,
    AdapterError,
    BrokenPeer,
    CancelAnswer,
    CancelRefused,
    Ended,
    Exchange,
    NotReady,
    ProtocolStatus,
    RefusalKind,
    Refused,
    TaskSupport,
    Throttled,
    WireResponse,
    Working,
    WrongProtocol,
)

NAME = "projects/p/locations/l/operations/op-1"
RESPONSE = {"@type": "type.example/R", "answer": 42}


def met(body=b"", status=200, media_type="application/json", **headers):
    """An answer as the wire gives it; anything but bytes is sent as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    exchange = Exchange(label="GET", request=b"", http_status=status, media_type=media_type, body=raw)
    return WireResponse(status=status, headers=named, media_type=media_type, body=raw, exchange=exchange)


def operation(**members):
    return {"name": NAME} | members


def look(body, **answer):
    return codec.decode_look(met(body, **answer), name=NAME)


def failure(code, word, *, status=None, details=(), message="no"):
    """An AIP-193 body under its own status."""
    error = {"code": code, "status": word, "message": message, "details": list(details)}
    return met({"error": error}, status=status or code)


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}


class TestLook:
    @pytest.mark.parametrize("members", [{}, {"done": None}, {"done": False}], ids=["absent", "null", "false"])
    def test_b128_not_done_is_working(self, members):
        nulls = {"error": None, "response": None, "metadata": None}

        for body in (operation(**members), operation(**members, **nulls)):
            seen = look(body)

            assert isinstance(seen, Working)
            assert (seen.task.task_id, seen.task.status, seen.task.anomalies) == (NAME, ProtocolStatus.WORKING, ())

    @pytest.mark.parametrize("done", ["true", 1, 1.0, "", [], {}])
    def test_b128_what_is_no_boolean_is_never_terminal(self, done):
        with pytest.raises(BrokenPeer):
            look(operation(done=done, response=RESPONSE))

    @pytest.mark.parametrize("early", [{"response": RESPONSE}, {"error": {"code": 14, "message": "x"}}])
    def test_b129_a_result_before_done_does_not_count(self, early):
        seen = look(operation(done=False, **early))

        assert isinstance(seen, Working)
        assert len(seen.task.anomalies) == 1

    def test_a_response_is_completed_and_its_bytes_are_the_servers_own(self):
        raw = b'{"name":"%s", "done" : true,"response": {"@type":"t/R",  "n": 90071992547409930}}' % NAME.encode()

        seen = look(raw)

        assert isinstance(seen, Ended)
        assert seen.status is ProtocolStatus.COMPLETED
        assert seen.result.raw == b'{"@type":"t/R",  "n": 90071992547409930}'
        assert seen.result.value["n"] == 90071992547409930
        assert not seen.result.is_error

    @pytest.mark.parametrize("value", [{}, {"value": {}}], ids=["python", "go"])
    def test_an_empty_message_comes_in_two_spellings(self, value):
        seen = look(operation(done=True, response={"@type": "type.googleapis.com/google.protobuf.Empty"} | value))

        assert seen.status is ProtocolStatus.COMPLETED
        assert seen.task.anomalies == ()

    def test_b136_unknown_types_and_members_are_tolerated(self):
        metadata = {"@type": "type.example/New", "state": 3}

        working = look(operation(metadata=metadata, selfLink="x", etag="y"))
        ended = look(operation(metadata=metadata, done=True, response={"@type": "type.example/Other", "x": 1}))

        assert isinstance(working, Working)
        assert ended.result.value["@type"] == "type.example/Other"

    def test_a_response_without_a_type_is_kept_for_a_person(self):
        seen = look(operation(done=True, response={"answer": 1}))

        assert seen.status is ProtocolStatus.COMPLETED
        assert seen.task.anomalies == ("the response does not name its type",)

    @pytest.mark.parametrize("code", [1, 1.0, "1"])
    def test_b140_code_1_is_cancelled_in_every_spelling_of_an_integer(self, code):
        """C5."""
        seen = look(operation(done=True, error={"code": code, "message": "by caller"}))

        assert seen.status is ProtocolStatus.CANCELLED
        assert seen.result is None
        assert seen.task.message == "CANCELLED: by caller"

    @pytest.mark.parametrize("code", [code for code in Code if code is not Code.CANCELLED])
    def test_every_other_code_is_failed_with_the_error_as_its_result(self, code):
        """R2: also after a cancel was asked."""
        seen = look(operation(done=True, error={"code": code, "message": "quota"}))

        assert seen.status is ProtocolStatus.FAILED
        assert json.loads(seen.result.raw) == {"code": code, "message": "quota"}
        assert seen.result.is_error
        assert seen.task.message == f"{code.name}: quota"
        assert seen.task.anomalies == ()

    @pytest.mark.parametrize("code", [499, 404, 17])
    def test_a_number_of_another_space_is_a_failure_and_never_a_cancel(self, code):
        """499 is CANCELLED as an HTTP status. Inside an operation it is nothing we know."""
        seen = look(operation(done=True, error={"code": code, "message": "?"}))

        assert seen.status is ProtocolStatus.FAILED
        assert len(seen.task.anomalies) == 1

    @pytest.mark.parametrize("error", [{"code": 0}, {}, {"code": "CANCELLED"}, {"code": True}, {"code": -1}, "no", 13])
    def test_an_error_without_a_code_proves_nothing(self, error):
        with pytest.raises(BrokenPeer):
            look(operation(done=True, error=error))

    def test_b125_done_without_a_result_proves_nothing(self):
        with pytest.raises(BrokenPeer, match="neither"):
            look(operation(done=True))

    def test_b127_both_results_prove_nothing(self):
        with pytest.raises(BrokenPeer, match="both"):
            look(operation(done=True, response=RESPONSE, error={"code": 13, "message": "internal"}))

    @pytest.mark.parametrize("response", ["text", 4, [RESPONSE], True])
    def test_a_response_that_is_no_message_proves_nothing(self, response):
        with pytest.raises(BrokenPeer):
            look(operation(done=True, response=response))

    @pytest.mark.parametrize("name", ["projects/p/locations/l/operations/other", "", None, 7, "op-1"])
    def test_an_answer_about_another_operation_is_no_answer(self, name):
        with pytest.raises(WrongProtocol):
            look({"name": name, "done": True, "response": RESPONSE})

    @pytest.mark.parametrize(
        "body, headers",
        [
            ({"id": "/x", "name": NAME, "status": "InProgress", "percentComplete": 3}, {}),
            ({"id": "/x", "name": "abc", "status": "Succeeded", "properties": {}}, {}),
            (b"", {"status": 202, "azure_asyncoperation": "https://x/y"}),
            (b"", {"status": 202, "location": "/x", "retry_after": "5"}),
            ({"name": NAME}, {"status": 201, "operation_location": "https://x/y"}),
            ({"kind": "compute#operation", "name": NAME, "status": "DONE"}, {}),
            ({"kind": "sql#operation", "name": NAME}, {}),
            ({"name": NAME, "done": True, "status": {"state": "TASK_STATE_COMPLETED"}}, {}),
            ({"jsonrpc": "2.0", "id": 1, "result": {}}, {}),
            ({"error": {"code": 1, "message": "cancelled"}}, {}),
            ([operation(done=True, response=RESPONSE)], {}),
            ("done", {}),
        ],
    )
    def test_n3_what_looks_alike_is_another_protocol(self, body, headers):
        with pytest.raises(WrongProtocol):
            look(body, **headers)

    @pytest.mark.parametrize(
        "body, answer",
        [
            (b"<html>please log in</html>", {"media_type": "text/html"}),
            (operation(done=True, response=RESPONSE), {"media_type": "text/plain"}),
            (b"", {"status": 202}),
            (b"", {}),
            (b'{"name":', {}),
            (b'{"name":"a","name":"b"}', {}),
            (b'\xff{"name":1}', {}),
        ],
    )
    def test_what_cannot_be_read_is_a_broken_peer(self, body, answer):
        with pytest.raises(BrokenPeer):
            look(body, **answer)


class TestProgress:
    @pytest.mark.parametrize(
        "metadata, words",
        [
            ({"statusMessage": "Copying", "progressPercent": 41.7}, "Copying, 41 %"),
            ({"progressPercentage": 100}, "100 %"),
            ({"progress": {"progressPercent": 7}}, "7 %"),
            ({"stage": "BUILD", "requestedCancellation": True}, "BUILD, cancellation requested"),
            ({"@type": "t/google.protobuf.Struct", "value": {"statusMessage": "in a Struct"}}, "in a Struct"),
            (
                {"@type": "t/Own", "value": {"statusMessage": "inner"}, "statusMessage": "a field of its own"},
                "a field of its own",
            ),
            ({"progressPercent": 101, "state": 3}, ""),
            ({"progressPercent": True, "statusMessage": ["x"]}, ""),
            ("metadata", ""),
            ({"statusMessage": "\ud800x"}, "\ufffdx"),
        ],
    )
    def test_metadata_is_shown_in_words(self, metadata, words):
        assert look(operation(metadata=metadata)).task.message == words

    def test_the_time_of_creation_is_taken_where_it_is_one(self):
        assert (
            look(operation(metadata={"createTime": "2026-11-29T14:38:08Z"})).task.created_at == "2026-11-29T14:38:08Z"
        )
        assert look(operation(metadata={"createTime": "soon"})).task.created_at == ""


class TestHttpErrors:
    @pytest.mark.parametrize(
        "body",
        [
            {"error": {"code": 404, "status": "NOT_FOUND", "message": "gone"}},
            [{"error": {"code": 404, "status": "NOT_FOUND", "message": "gone"}}],
            {"code": 5, "message": "gone", "details": []},
            {"error": {"code": 5, "message": "gone"}},
            {"error": {"code": 404, "message": "gone"}},
        ],
        ids=["aip-193", "in a list", "grpc-gateway", "emulator", "without a word"],
    )
    def test_b132_a_404_is_absent_in_every_form(self, body):
        """X1: never success, never failed."""
        assert look(body, status=404) == Absent(code=Code.NOT_FOUND, message="gone")

    @pytest.mark.parametrize(
        "body, media_type",
        [
            (b"<html>nf</html>", "text/html"),
            (b'{"error":{"code":404,"status":"NOT_FOUND","message":""}}', "text/plain"),
            (b"", ""),
            (b"{}", "application/json"),
            (b'{"error":"x"}', "application/json"),
        ],
    )
    def test_a_404_of_something_in_front_is_not_the_servers_word(self, body, media_type):
        with pytest.raises(Refused) as refused:
            look(body, status=404, media_type=media_type)

        assert refused.value.kind is RefusalKind.ADMIN

    @pytest.mark.parametrize("status, error", [(403, Refused), (500, BrokenPeer), (429, Throttled)])
    def test_not_found_under_another_status_is_not_absent(self, status, error):
        """X1: the body never contradicts its status."""
        with pytest.raises(error):
            codec.decode_look(failure(404, "NOT_FOUND", status=status), name=NAME)

    def test_b134_an_error_body_is_not_the_operations_error(self):
        with pytest.raises(BrokenPeer):
            codec.decode_look(failure(503, "UNAVAILABLE"), name=NAME)

        with pytest.raises(BrokenPeer):
            look(operation(done=True, error={"code": 1}), status=500)

    @pytest.mark.parametrize(
        "answer, error, kind",
        [
            (failure(400, "INVALID_ARGUMENT"), Refused, RefusalKind.REQUEST),
            (failure(400, "FAILED_PRECONDITION"), Refused, RefusalKind.REQUEST),
            (failure(401, "UNAUTHENTICATED"), Refused, RefusalKind.ADMIN),
            (failure(403, "PERMISSION_DENIED"), Refused, RefusalKind.ADMIN),
            (failure(404, "NOT_FOUND"), Refused, RefusalKind.ADMIN),
            (failure(501, "UNIMPLEMENTED"), Refused, RefusalKind.ADMIN),
            (met(status=302, location="/x"), Refused, RefusalKind.ADMIN),
            (failure(429, "RESOURCE_EXHAUSTED"), Throttled, None),
            (failure(409, "ALREADY_EXISTS"), BrokenPeer, None),
            (failure(409, "ABORTED"), BrokenPeer, None),
            (failure(499, "CANCELLED"), BrokenPeer, None),
            (met(b"x", status=499, media_type="text/plain"), BrokenPeer, None),
            (failure(500, "INTERNAL"), BrokenPeer, None),
            (failure(504, "DEADLINE_EXCEEDED"), BrokenPeer, None),
            (failure(503, "INVALID_ARGUMENT"), BrokenPeer, None),
            (met(b"<html>", status=501, media_type="text/html"), BrokenPeer, None),
        ],
    )
    def test_only_a_definite_no_proves_that_nothing_was_created(self, answer, error, kind):
        """L4: the body refines what its status says, and never contradicts it."""
        with pytest.raises(error) as caught:
            codec.decode_created(answer)

        assert getattr(caught.value, "kind", None) is kind

    @pytest.mark.parametrize(
        "status, word, error", [(429, "RESOURCE_EXHAUSTED", Throttled), (503, "UNAVAILABLE", BrokenPeer)]
    )
    def test_p1_the_larger_of_two_floors_holds(self, status, word, error):
        for header, floor in (({}, 2.5), ({"retry_after": "9"}, 9.0), ({"retry_after": "1"}, 2.5)):
            body = json.loads(failure(status, word, details=[RETRY_INFO]).body)
            with pytest.raises(error) as caught:
                look(body, status=status, **header)

            assert caught.value.retry_after_s == floor

    @pytest.mark.parametrize("delay", ["soon", "-1s", 5, None, "1e9s", "\u0661s"])
    def test_a_delay_that_cannot_be_read_is_none(self, delay):
        with pytest.raises(Throttled) as caught:
            codec.decode_created(failure(429, "RESOURCE_EXHAUSTED", details=["x", RETRY_INFO | {"retryDelay": delay}]))

        assert caught.value.retry_after_s is None

    @pytest.mark.parametrize("http_status, code", codec._BY_HTTP.items())
    def test_both_spaces_of_numbers_lead_to_one_code(self, http_status, code):
        """AIP-193 writes the HTTP status where grpc-gateway writes the gRPC number."""
        for number in (http_status, int(code)):
            found = codec.decode_error(met({"error": {"code": number, "message": ""}}, status=http_status))

            assert found is not None
            assert found.code is code


class TestCreated:
    def test_an_operation_may_be_working_or_done(self):
        assert isinstance(codec.decode_created(met(operation(metadata={}))), Working)
        assert codec.decode_created(met(operation(done=True, response=RESPONSE))).task.task_id == NAME

    @pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}])
    def test_b131_done_at_once_needs_no_name(self, name):
        seen = codec.decode_created(met({**name, "done": True, "response": RESPONSE}))

        assert isinstance(seen, Ended)
        assert seen.task is None
        assert seen.result.value == RESPONSE

    @pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}])
    def test_b131_not_done_without_a_name_is_no_operation(self, name):
        with pytest.raises(WrongProtocol):
            codec.decode_created(met(name))

    @pytest.mark.parametrize(
        "name, path",
        [
            ("projects/p/locations/l/operations/123", "projects/p/locations/l/operations/123"),
            ("operations/a b", "operations/a%20b"),
            ("operations/é", "operations/%C3%A9"),
            ("operations/x?y#z", "operations/x%3Fy%23z"),
            ("operations/rollouts.api.goog:8f1c", "operations/rollouts.api.goog%3A8f1c"),
            ("operations/build/p/b64=", "operations/build/p/b64%3D"),
            ("operations/100%", "operations/100%25"),
        ],
    )
    def test_b138_an_odd_name_is_escaped(self, name, path):
        seen = codec.decode_created(met({"name": name}))

        assert codec.path_of(seen.task.task_id) == path

    @pytest.mark.parametrize(
        "name",
        [
            "../../admin",
            "../operations/1",
            "https://evil.example/operations/1",
            "https:operations/1/operations/2",
            "//evil.example/operations/1",
            "/operations/1",
            "operations/..%2f..%2fadmin",
            "operations/%2e%2e",
            "operations/%2E/x",
            "operations/a%5cb",
            "operations/a\\b",
            "operations/a//b",
            "operations/1/",
            "operations/",
            "operations",
            "operations/a\nb",
            "operations/\x00",
            "operations/\ud800",
            "admin/1",
            "operations/" + "x" * 1000,
        ],
    )
    def test_b138_a_name_that_would_move_is_refused(self, name):
        with pytest.raises(WrongProtocol):
            codec.decode_created(met({"name": name}))


class TestCancel:
    @pytest.mark.parametrize("answer", [met({}), met(b"", media_type=""), met(b"", status=204), met(b"", status=202)])
    def test_an_acceptance_is_no_evidence(self, answer):
        """C5, P3."""
        assert codec.decode_cancel(answer) == CancelAnswer(task=None)

    def test_even_a_cancelled_operation_in_the_answer_is_no_evidence(self):
        assert codec.decode_cancel(met(operation(done=True, error={"code": 1}))).task is None

    def test_a_login_page_is_no_acceptance(self):
        with pytest.raises(BrokenPeer):
            codec.decode_cancel(met(b"<html>", media_type="text/html"))

    @pytest.mark.parametrize(
        "answer",
        [
            failure(501, "UNIMPLEMENTED"),
            failure(400, "UNIMPLEMENTED", status=400),
            failure(400, "FAILED_PRECONDITION"),
            failure(404, "NOT_FOUND"),
            met(b"Cannot POST", status=404, media_type="text/html"),
            met(status=405),
            met(status=501),
        ],
    )
    def test_b139_a_server_that_will_not_cancel_says_so(self, answer):
        assert isinstance(codec.decode_cancel(answer), CancelRefused)

    @pytest.mark.parametrize(
        "answer, error",
        [
            (met(status=500), BrokenPeer),
            (failure(503, "UNAVAILABLE"), BrokenPeer),
            (failure(429, "RESOURCE_EXHAUSTED"), Throttled),
            (failure(403, "PERMISSION_DENIED"), Refused),
            (failure(403, "NOT_FOUND", status=403), Refused),
        ],
    )
    def test_what_says_nothing_about_the_cancel_is_an_error(self, answer, error):
        with pytest.raises(error):
            codec.decode_cancel(answer)


class TestResult:
    def test_the_result_of_the_status_that_was_seen(self):
        seen = look(operation(done=True, response=RESPONSE))

        assert codec.decode_result(seen, status=ProtocolStatus.COMPLETED) is seen.result

    @pytest.mark.parametrize(
        "seen",
        [
            look(operation()),
            look(operation(done=True, error={"code": 8, "message": ""})),
            look(operation(done=True, error={"code": 1, "message": ""})),
            Absent(code=5, message="gone"),
        ],
    )
    def test_anything_else_is_not_ready(self, seen):
        """R10: the next look decides."""
        assert isinstance(codec.decode_result(seen, status=ProtocolStatus.COMPLETED), NotReady)


class TestList:
    def test_a_page_gives_names_and_the_request_ids_they_echo(self):
        page = codec.decode_page(
            met(
                {
                    "operations": [
                        operation(metadata={"requestId": "A-1"}),
                        {"name": "operations/2", "metadata": {"@type": "t/Struct", "value": {"requestId": "b"}}},
                        {"name": "operations/3"},
                    ],
                    "nextPageToken": "t",
                }
            )
        )

        assert [entry.request_id for entry in page.operations] == ["a-1", "b", None]
        assert page.next_token == "t"

    @pytest.mark.parametrize(
        "body", [{}, {"operations": []}, {"operations": None, "nextPageToken": "", "unreachable": []}]
    )
    def test_an_empty_list(self, body):
        assert codec.decode_page(met(body)) == codec.Page(operations=(), next_token=None)

    def test_a_list_that_is_not_whole_proves_nothing(self):
        with pytest.raises(BrokenPeer):
            codec.decode_page(met({"operations": [], "unreachable": ["projects/p/locations/down"]}))

    @pytest.mark.parametrize(
        "body", [{"items": []}, {"operations": {}}, {"operations": [{}]}, {"operations": ["x"]}, {"tasks": []}]
    )
    def test_n3_a_list_of_something_else(self, body):
        with pytest.raises(WrongProtocol):
            codec.decode_page(met(body))

    @pytest.mark.parametrize(
        "tool, path",
        [
            ("projects/p/locations/l/jobs:run", "projects/p/locations/l/operations"),
            ("projects/p/locations/l/jobs/locations/m/x:run", "projects/p/locations/l/jobs/locations/m/operations"),
            ("projects/p/locations/l:run", "projects/p/locations/l/operations"),
            ("projects/p/allocations/l/jobs:run", "operations"),
            ("jobs:run", "operations"),
        ],
    )
    def test_operations_are_listed_where_their_method_lives(self, tool, path):
        assert codec.list_path(tool) == path


class TestDeclaration:
    def test_tools_are_read_with_their_digest(self):
        tool = {"name": "projects/p/locations/l/jobs:run", "title": "Run", "inputSchema": {"type": "object"}}

        found = codec.decode_declaration(met({"name": "jobs", "version": "7", "cancel": True, "tools": [tool]}))
        again = codec.decode_declaration(met({"tools": [dict(reversed(tool.items()))]}))

        told = found.capabilities
        assert (told.server_name, told.server_version) == ("jobs", "7")
        assert (told.creates_tasks, told.cancels_tasks, told.lists_tasks) == (True, True, False)
        assert found.tools[0].task_support is TaskSupport.REQUIRED
        assert found.tools[0].output_schema is None
        assert found.tools[0].digest == again.tools[0].digest

    @pytest.mark.parametrize(
        "body", [{}, {"tools": {}}, {"tools": [{}]}, {"tools": ["x"]}, {"tools": [{"name": "../x"}]}]
    )
    def test_a_document_without_usable_tools(self, body):
        with pytest.raises(WrongProtocol):
            codec.decode_declaration(met(body))

    def test_n2_no_document_is_something_for_an_admin(self):
        with pytest.raises(Refused) as refused:
            codec.decode_declaration(met(status=404))

        assert refused.value.kind is RefusalKind.ADMIN

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "/x",
            "a//b",
            "a/..",
            "./a",
            "a b",
            "a?b",
            "a%2fb",
            "a:b:c",
            "{p}/x",
            "é",
            "operations/x:wait",
            "operations",
        ],
    )
    def test_a_path_that_is_no_method_is_no_tool(self, name):
        assert not codec.is_tool(name)


class TestToolsDocument:
    """What an admin gives in place of a tools document at the server: strictly read."""

    def test_it_says_what_the_same_document_at_the_server_says(self):
        tool = {"name": "jobs:run", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
        told = {"name": "jobs", "version": "7", "cancel": True, "tools": [tool]}

        given = codec.decode_tools_document(json.dumps(told).encode())

        assert given.tools == codec.decode_declaration(met(told)).tools
        assert (given.capabilities.cancels_tasks, given.capabilities.lists_tasks) == (True, False)

    @pytest.mark.parametrize(
        "document, words",
        [
            (b"", "it is no JSON document"),
            (b'{"tools": [], "tools": []}', "it is no JSON document"),
            (b"[" * 100, "it is no JSON document"),
            (b'{"x": "' + b"y" * 1_000_001 + b'"}', "it is no JSON document"),
            (b"[]", "the document is not an object"),
            (b"{}", "the document: tools is missing"),
            (b'{"tools": {}}', "the document: tools is not a list"),
            (b'{"tools": []}', "tools: it describes none"),
            (b'{"tools": [{"name": "a:b"}], "cancels": true}', "the document: 'cancels' is not known here"),
            (b'{"tools": [{"name": "a:b"}], "cancel": "yes"}', "the document: cancel is not true or false"),
            (b'{"tools": [7]}', "tool 1 is not an object"),
            (b'{"tools": [{}]}', "tool 1: name is missing"),
            (b'{"tools": [{"name": "../x"}]}', "tool 1: its name is no path of a method"),
            (b'{"tools": [{"name": "a:b"}, {"name": "a:b"}]}', "tool 2: a:b is described twice"),
            (b'{"tools": [{"name": "a:b", "outputSchmea": {}}]}', "tool 1: 'outputSchmea' is not known here"),
            (b'{"tools": [{"name": "a:b", "inputSchema": []}]}', "tool 1: inputSchema is not an object"),
        ],
    )
    def test_the_first_thing_that_is_wrong_is_named(self, document, words):
        with pytest.raises(WrongProtocol) as caught:
            codec.decode_tools_document(document)

        assert caught.value.reason.startswith(words)

    @given(
        st.binary(max_size=200)
        | st.recursive(st.none() | st.text(max_size=9), st.lists).map(json.dumps).map(str.encode)
    )
    def test_no_document_brings_an_error_from_outside_the_tree(self, document):
        with contextlib.suppress(WrongProtocol):
            codec.decode_tools_document(document)


class TestRequestId:
    @given(st.text())
    def test_x2_a_key_has_one_request_id_and_it_is_a_uuid_that_servers_take(self, key):
        made = codec.request_id(key)

        assert codec.request_id(key) == made
        assert uuid.UUID(made).version == 4
        assert uuid.UUID(made).int

    def test_a_uuid_is_sent_as_it_is(self):
        key = str(uuid.uuid4())

        assert codec.request_id(key) == key

    @pytest.mark.parametrize(
        "key", [str(uuid.UUID(int=0)), f"{{{uuid.UUID(int=5)}}}", "urn:uuid:" + str(uuid.UUID(int=5))]
    )
    def test_other_spellings_and_the_zero_are_not_sent(self, key):
        assert codec.request_id(key) != key


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=12,
)
WORDS = ["name", "done", "error", "response", "metadata", "code", "message", "status", "details", "@type", "value"]
WORDS += ["operations", "nextPageToken", "unreachable", "tools", "requestId", "progressPercent", "kind", "retryDelay"]
LEAVES = JSON | st.sampled_from([NAME, True, RESPONSE, {"code": 1}, RETRY_INFO, [{"name": NAME}]])
SHAPES = JSON | st.dictionaries(st.sampled_from(WORDS), LEAVES, max_size=8)
BODIES = st.binary(max_size=40) | SHAPES.map(lambda value: json.dumps(value).encode())
STATUSES = st.sampled_from([200, 201, 202, 204, 302, 400, 401, 404, 409, 418, 429, 499, 500, 501, 503])


class TestAnyAnswer:
    @given(body=BODIES, status=STATUSES, media_type=st.sampled_from(["application/json", "text/html", ""]))
    def test_no_answer_brings_an_error_from_outside_the_tree(self, body, status, media_type):
        answer = met(body, status=status, media_type=media_type)
        decoders: list[Callable[[], object]] = [
            lambda: codec.decode_created(answer),
            lambda: codec.decode_look(answer, name=NAME),
            lambda: codec.decode_cancel(answer),
            lambda: codec.decode_page(answer),
            lambda: codec.decode_declaration(answer),
            lambda: codec.decode_error(answer),
        ]
        for decode in decoders:
            with contextlib.suppress(AdapterError):  # any other error fails this test
                decode()

    @given(members=st.dictionaries(st.sampled_from(WORDS), LEAVES, max_size=6), status=STATUSES)
    def test_nothing_ends_without_done_and_exactly_one_result(self, members, status):
        body = operation(**members) | {"name": NAME}
        with contextlib.suppress(AdapterError):
            seen = look(body, status=status)

            if isinstance(seen, Ended):
                assert status < 300
                assert body["done"] is True
                assert (body.get("error") is None) != (body.get("response") is None)
                assert (seen.status is ProtocolStatus.COMPLETED) == (body.get("response") is not None)

    @given(
        name=st.text(max_size=40)
        | st.lists(st.sampled_from(["operations", "..", "a", "%2e", "", ":", "é"])).map("/".join)
    )
    def test_b138_every_accepted_name_stays_where_it_belongs(self, name):
        if codec.is_name(name):
            path = codec.path_of(name)

            assert path.count("/") == name.count("/")
            assert not {"", ".", ".."} & set(path.split("/"))
