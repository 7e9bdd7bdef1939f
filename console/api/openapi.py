"""The OpenAPI 3.1 document of the API, written by hand; a test compares it with the routes and with real answers."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from console.api.door import LONGEST_WAIT_S
from console.api.problem import MEDIA_TYPE, PROBLEMS, TYPES
from operations.comparison import OUTCOMES, Difference, ShadowState
from operations.intake import LONGEST_BUDGET_S, LONGEST_NAME, LONGEST_REASON, MAX_BYTES, MOST_LOOKS, MOST_RECEIPTS
from operations.ledger import Press
from operations.machine import Outcome, State

Doc = dict[str, Any]

_MOMENT: Doc = {"type": "string", "format": "date-time"}
_MAYBE_MOMENT: Doc = {"type": ["string", "null"], "format": "date-time"}
_MAYBE_TEXT: Doc = {"type": ["string", "null"]}
_NAME: Doc = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_DIGEST: Doc = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256, lower-case hex."}
_MAYBE_DIGEST: Doc = {"anyOf": [_DIGEST, {"type": "null"}]}
_UUID: Doc = {"type": "string", "format": "uuid"}
_URI: Doc = {"type": "string", "format": "uri"}
_MAYBE_URI: Doc = {"type": ["string", "null"], "format": "uri"}


def _object(properties: Doc, *, required: tuple[str, ...] | None = None, description: str = "") -> Doc:
    found: Doc = {"type": "object", "properties": properties, "required": list(required or properties)}
    return found | {"description": description} if description else found


def _ref(name: str) -> Doc:
    return {"$ref": f"#/components/schemas/{name}"}


def _maybe(schema: Doc) -> Doc:
    return {"anyOf": [schema, {"type": "null"}]}


_CALL = _object(
    {
        "call_node": _NAME | {"description": "The step of your workflow. It makes one call, ever."},
        "submission_key": _NAME
        | {"description": "Your idempotency key. Make it before the first attempt, store it, never replace it."},
        "server": _NAME,
        "tool": _NAME,
        "arguments": {"type": "object", "description": "Kept and sent byte for byte."},
        "principal": _NAME | {"description": "On whose behalf the call is made."},
        "wait_budget_s": {
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": LONGEST_BUDGET_S,
            "description": "After that our waiting ends and a person takes over; the server's work goes on. "
            "Without it the tool's own budget holds.",
        },
    },
    required=("call_node", "submission_key", "server", "tool", "arguments", "principal"),
) | {"additionalProperties": False}

_OPERATION = _object(
    {
        "schema": {"const": "toolOperation.v1"},
        "id": _UUID,
        "version": {"type": "integer", "description": "Rises with every change; also the ETag."},
        "state": {"enum": [state.value for state in State], "description": "What we may conclude. Ours."},
        "final": {"type": "boolean", "description": "A receipt exists; nothing will change any more."},
        "reason": _MAYBE_TEXT | {"description": "Why it stands before a person."},
        "created_at": _MOMENT,
        "entered_at": _MOMENT | {"description": "When it came into its present state."},
        "call_node": _NAME,
        "submission_key": _NAME,
        "principal": _NAME,
        "request_digest": _DIGEST,
        "server": _NAME,
        "tool": _NAME,
        "tool_version": _DIGEST,
        "protocol_version": {"type": "string"},
        "adapter_release": {"type": "string"},
        "execution_epoch": {"type": "integer"},
        "task_id": _MAYBE_TEXT | {"description": "The server's own name for the work."},
        "protocol_status": _MAYBE_TEXT | {"description": "The server's word on its task, as it was. Not our state."},
        "protocol_message": _MAYBE_TEXT,
        "terminal_status": _MAYBE_TEXT,
        "input": _object({"round": {"type": "integer"}, "open": {"type": "boolean"}, "deadline_at": _MAYBE_MOMENT}),
        "can_cancel": {"type": "boolean", "description": "The server declared that it takes cancels."},
        "cancel": _maybe(
            _object(
                {
                    "generation": {"type": "integer"},
                    "requested_at": _MOMENT,
                    "requested_by": {"type": "string"},
                    "reason": {"type": "string"},
                    "stated_unconfirmed": {"type": "boolean"},
                }
            )
        ),
        "not_found": _MAYBE_TEXT,
        "budget_ends_at": _MOMENT,
        "task_expires_at": _MAYBE_MOMENT,
        "result_digest": _MAYBE_DIGEST,
        "receipt": _maybe(
            _object(
                {
                    "id": _UUID,
                    "outcome": _ref("Outcome"),
                    "verdict": _MAYBE_TEXT,
                    "at": _MOMENT,
                    "acknowledged_at": _MAYBE_MOMENT,
                    "url": _URI,
                }
            )
        ),
        "links": _object({"self": _URI, "page": _URI, "cancel": _URI}),
    }
)

_RECEIPT = _object(
    {
        "id": _UUID,
        "operation": _UUID,
        "at": _MOMENT,
        "outcome": _ref("Outcome"),
        "verdict": _MAYBE_TEXT,
        "summary": {"type": "string"},
        "call_node": _NAME,
        "request_digest": _DIGEST,
        "task_id": _MAYBE_TEXT,
        "tool_version": _DIGEST,
        "execution_epoch": {"type": "integer"},
        "cancel_generation": {"type": "integer"},
        "terminal_status": _MAYBE_TEXT,
        "result_digest": _MAYBE_DIGEST,
        "result_url": _MAYBE_URI,
        "decided_by": {"type": "string"},
        "acknowledged_at": _MAYBE_MOMENT,
    },
    description="The one terminal record of a call node.",
)

_DELIVERY = _object(
    {
        "receipt": _UUID | {"description": "The same in every delivery: how a repetition is told."},
        "operation": _UUID,
        "call_node": _NAME,
        "outcome": _ref("Outcome"),
        "verdict": _MAYBE_TEXT,
        "summary": {"type": "string"},
        "decided_at": _MOMENT,
        "result_digest": _MAYBE_DIGEST,
        "result_size": {"type": ["integer", "null"]},
        "result_url": _MAYBE_URI,
        "result": {"description": "The validated result when it is small, byte for byte; else null."},
        "seq": {"type": "integer"},
    }
)

_PAGE = _object(
    {
        "items": {"type": "array", "items": _ref("Delivery")},
        "next_after": {"type": "integer"},
        "more": {"type": "boolean", "description": "There may be another page of this pass."},
    }
)

_PROBLEM = _object(
    {
        "type": {"enum": [TYPES + name for name in PROBLEMS]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "done": {"type": "string", "description": "What was done; empty: nothing."},
        "not_done": {"type": "string"},
        "advice": {"type": "string", "description": "What to do now."},
    }
)

_LONG_NAME: Doc = _NAME | {"maxLength": LONGEST_REASON}

_NEW_SHADOW = _object(
    {
        "call_node": _NAME | {"description": "The step of your workflow whose existing path made the call."},
        "server": _NAME,
        "tool": _NAME | {"description": "Only a tool that is registered as free of side effects."},
        "task_id": _LONG_NAME | {"description": "What the server called the work."},
        "session": _LONG_NAME | {"description": "The session that it lives in, where the protocol has one."},
    },
    required=("call_node", "server", "tool", "task_id"),
) | {"additionalProperties": False}

_TOLD = _object(
    {
        "outcome": {"enum": [outcome.value for outcome in OUTCOMES]},
        "ended_at": _MOMENT | {"description": "When your path saw the end."},
        "looks": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": MOST_LOOKS,
            "description": "How often it asked; left out, the number of looks is not compared.",
        },
        "result": {"description": "The result value it was given; left out, results are not compared. Not stored."},
    },
    required=("outcome", "ended_at"),
) | {"additionalProperties": False}

_SHADOW = _object(
    {
        "id": _UUID,
        "state": {"enum": [state.value for state in ShadowState], "description": "No state of an operation."},
        "why": _MAYBE_TEXT | {"description": "Why there is nothing to compare."},
        "call_node": _NAME,
        "server": _NAME,
        "tool": _NAME,
        "task_id": _LONG_NAME,
        "adapter_release": {"type": "string", "description": "The release on trial that looks."},
        "registered_at": _MOMENT,
        "ends_at": _MOMENT | {"description": "A call that is not reported by then is not compared."},
        "reported_at": _MAYBE_MOMENT,
        "differences": {"type": "array", "items": {"enum": [kind.value for kind in Difference]}},
        "fall_back_allowed": {"const": True, "description": "Your existing path does the work and goes on."},
        "links": _object({"self": _URI, "outcome": _URI}),
    },
    description="A call that your existing path does, watched by a release on trial. It never acts.",
)

_SCHEMAS: Doc = {
    "Call": _CALL,
    "Operation": _OPERATION,
    "OperationList": _object({"items": {"type": "array", "items": _ref("Operation")}}),
    "Outcome": {"enum": [outcome.value for outcome in Outcome]},
    "Receipt": _RECEIPT,
    "CancelWish": _object(
        {
            "reason": {"type": "string", "minLength": 1, "maxLength": LONGEST_REASON},
            "seen_generation": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "Refused when another cancel came in between.",
            },
        },
        required=("reason",),
    )
    | {"additionalProperties": False},
    "Pressed": _object(
        {
            "press": {"enum": [press.value for press in Press]},
            "what_happened": {"type": "string"},
            "cancel_generation": {"type": "integer"},
            "operation": _ref("Operation"),
        }
    ),
    "Delivery": _DELIVERY,
    "OutboxPage": _PAGE,
    "ReceiptIds": _object({"receipts": {"type": "array", "items": _UUID, "minItems": 1, "maxItems": MOST_RECEIPTS}})
    | {"additionalProperties": False},
    "Acknowledged": _object(
        {"acknowledged": {"type": "array", "items": _UUID}, "unknown": {"type": "array", "items": _UUID}}
    ),
    "NewShadow": _NEW_SHADOW,
    "Told": _TOLD,
    "Shadow": _SHADOW,
    "Problem": _PROBLEM,
}


def _answers(description: str, schema: str) -> Doc:
    return {"description": description, "content": {"application/json": {"schema": _ref(schema)}}}


def _refusals(*names: str) -> Doc:
    """Write the named problems as responses; those that any request can meet come by themselves."""
    found: Doc = {}
    for name in ("no-token", "scope-missing", "too-many-refused", "unexpected", "ledger-away", *names):
        status = str(PROBLEMS[name].status)
        said = found.get(status, {}).get("description")
        title = f"{said}; or: {PROBLEMS[name].title}" if said else PROBLEMS[name].title
        found[status] = {"description": title, "content": {MEDIA_TYPE: {"schema": _ref("Problem")}}}
    return found


def _query(name: str, description: str, schema: Doc) -> Doc:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _takes(schema: str) -> Doc:
    return {"required": True, "content": {"application/json": {"schema": _ref(schema)}}}


_ID: Doc = {"name": "operation", "in": "path", "required": True, "schema": _UUID}
_WAIT = _query(
    "wait",
    "Hold the answer until something has changed, for up to that many seconds.",
    {"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_S, "default": 0},
)
_SHADOW_ID: Doc = {"name": "shadow", "in": "path", "required": True, "schema": _UUID}
_BODY_REFUSALS = ("not-json", "not-json-type", "too-big", "bad-body")

_PATHS: Doc = {
    "/api/v1/operations": {
        "post": {
            "operationId": "submit",
            "summary": "Submit a tool call. Sending it again is harmless: same key, same body, same operation.",
            "security": [{"token": ["submit"]}],
            "requestBody": _takes("Call"),
            "responses": {
                "201": _answers("Stored now. It is sent as soon as its server's rate allows.", "Operation"),
                "200": _answers("Stored before: the same operation.", "Operation"),
                **_refusals(*_BODY_REFUSALS, "key-reused", "keep-existing-path", "no-such-tool", "submits-closed"),
            },
        },
        "get": {
            "operationId": "lookUp",
            "summary": "Find an operation of yours by call node or by submission key.",
            "security": [{"token": ["read"]}],
            "parameters": [_query("call_node", "", _NAME), _query("submission_key", "", _NAME)],
            "responses": {"200": _answers("None or one.", "OperationList"), **_refusals("bad-query")},
        },
    },
    "/api/v1/operations/{operation}": {
        "get": {
            "operationId": "show",
            "summary": "See an operation, or wait until it has changed (with If-None-Match: since that version).",
            "security": [{"token": ["read"]}],
            "parameters": [_ID, _WAIT, {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}],
            "responses": {
                "200": _answers("The operation.", "Operation"),
                "304": {"description": "Unchanged since the version in If-None-Match."},
                **_refusals("not-found", "bad-query"),
            },
        }
    },
    "/api/v1/operations/{operation}/receipt": {
        "get": {
            "operationId": "receipt",
            "summary": "Read the terminal receipt.",
            "security": [{"token": ["read"]}],
            "parameters": [_ID],
            "responses": {
                "200": _answers("The receipt.", "Receipt"),
                **_refusals("not-found", "no-receipt-yet"),
            },
        }
    },
    "/api/v1/operations/{operation}/result": {
        "get": {
            "operationId": "result",
            "summary": "Read the validated result, byte for byte.",
            "security": [{"token": ["read"]}],
            "parameters": [_ID],
            "responses": {
                "200": {
                    "description": "The result value as the server sent it and as it was validated.",
                    "headers": {
                        "Content-Digest": {"description": "RFC 9530, sha-256.", "schema": {"type": "string"}},
                        "Longcall-Outcome": {"schema": _ref("Outcome")},
                        "Longcall-Result-Digest": {"schema": _DIGEST},
                    },
                    "content": {"application/json": {"schema": {}}},
                },
                **_refusals("not-found", "no-receipt-yet", "no-result"),
            },
        }
    },
    "/api/v1/operations/{operation}/cancel": {
        "post": {
            "operationId": "cancel",
            "summary": "Ask for a cancel. It is a request, not an undo: the call may still finish.",
            "security": [{"token": ["cancel"]}],
            "parameters": [_ID],
            "requestBody": _takes("CancelWish"),
            "responses": {
                "200": _answers("Closed as cancelled: nothing had been sent.", "Pressed"),
                "202": _answers("Recorded. Received is not done.", "Pressed"),
                **_refusals(*_BODY_REFUSALS, "not-found", "already-finished", "out-of-date"),
            },
        }
    },
    "/api/v1/outbox": {
        "get": {
            "operationId": "pull",
            "summary": "Take the receipts that are not acknowledged yet, oldest first.",
            "description": "Delivery is at least once; a receipt id never changes. `after` pages inside one pass; "
            "start every pass at 0, because a receipt with a smaller number may turn up later.",
            "security": [{"token": ["read"]}],
            "parameters": [
                _query("after", "The next_after of the page before.", {"type": "integer", "minimum": 0, "default": 0}),
                _query("limit", "", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
                _WAIT,
            ],
            "responses": {"200": _answers("A page, empty when nothing waits.", "OutboxPage"), **_refusals("bad-query")},
        }
    },
    "/api/v1/outbox/acknowledge": {
        "post": {
            "operationId": "acknowledge",
            "summary": "Say that you have taken these receipts over. Repeating it is harmless.",
            "security": [{"token": ["acknowledge"]}],
            "requestBody": _takes("ReceiptIds"),
            "responses": {
                "200": _answers("What is yours, and what is not known.", "Acknowledged"),
                **_refusals(*_BODY_REFUSALS),
            },
        }
    },
    "/api/v1/shadows": {
        "post": {
            "operationId": "registerShadow",
            "summary": "Let a release on trial watch a call that your existing path has made. Nothing is ever sent "
            "but looks; your path goes on as it is.",
            "security": [{"token": ["submit"]}],
            "requestBody": _takes("NewShadow"),
            "responses": {
                "201": _answers("Watched from now on.", "Shadow"),
                "200": _answers("Watched before: the same shadow.", "Shadow"),
                **_refusals(*_BODY_REFUSALS, "no-such-tool", "tool-has-effects", "nothing-on-trial", "shadow-clash"),
            },
        }
    },
    "/api/v1/shadows/{shadow}": {
        "get": {
            "operationId": "showShadow",
            "summary": "See how a shadow stands.",
            "security": [{"token": ["read"]}],
            "parameters": [_SHADOW_ID],
            "responses": {"200": _answers("The shadow.", "Shadow"), **_refusals("not-found")},
        }
    },
    "/api/v1/shadows/{shadow}/outcome": {
        "post": {
            "operationId": "reportOutcome",
            "summary": "Say how the call of your existing path ended. The same report again is harmless.",
            "security": [{"token": ["submit"]}],
            "parameters": [_SHADOW_ID],
            "requestBody": _takes("Told"),
            "responses": {
                "200": _answers("Kept; the two are compared soon.", "Shadow"),
                **_refusals(*_BODY_REFUSALS, "not-found", "shadow-clash"),
            },
        }
    },
}

DOCUMENT: Doc = {
    "openapi": "3.1.0",
    "info": {
        "title": "Longcall",
        "version": "1",
        "summary": "Submit long-running tool calls, and take over exactly one terminal receipt for each.",
        "description": f"Bodies are strict JSON of at most {MAX_BYTES} bytes. Refusals are problem+json and say what "
        "was done and what was not. Times are UTC.",
    },
    "paths": _PATHS,
    "components": {
        "schemas": _SCHEMAS,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "lc_…"}},
    },
}


def show(_request: HttpRequest) -> HttpResponse:
    """Give the document to anybody: it holds no data."""
    return JsonResponse(DOCUMENT)
