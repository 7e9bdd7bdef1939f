"""/api/v1/operations: submit a call, see it, wait for it, read its receipt and result, ask for its cancel."""

from __future__ import annotations

import base64
import functools
import hashlib
from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.utils.http import parse_etags

from console.api import shapes
from console.api.door import LONGEST_WAIT_S, Ask, Method, endpoint, in_thread
from console.api.problem import Problem
from console.api.waiting import wait_for
from console.models import Scope
from operations import intake, ledger
from operations.ledger import Press
from operations.queries import api as calls
from operations.queries.api import CallView

NOT_YOURS = "There is no such operation of yours."
_WHAT_A_PRESS_DID = {
    Press.REQUESTED: "The cancel is recorded and goes to the server. It has not won yet: the call may still finish.",
    Press.INTENT: "The cancel is recorded. No task is known yet; the first that turns up is to be cancelled.",
    Press.CLOSED_UNSENT: "Nothing of this call had been sent, so it is closed as cancelled.",
    Press.NO_CANCEL: "The wish is recorded, but this server cannot cancel. The call goes on and is looked after.",
    Press.ALREADY_REQUESTED: "A cancel was asked for before; nothing new happens.",
}
_TASK_IS_KNOWN = (
    "The cancel is recorded. The task is known, what became of it is not: it is looked at once, "
    "and if it has not ended, its cancel is asked for."
)


def _submit(ask: Ask) -> HttpResponse:
    call = intake.read_call(ask.body(), client=ask.caller.client)
    try:
        submitted = ledger.submit(call, now=ask.now)
    except ledger.KeyReused as error:
        raise _key_reused(ask, error) from error
    except ledger.NoSuchTool as error:
        raise Problem("no-such-tool", str(error), not_done="Nothing was stored and nothing was sent.") from error
    except ledger.SubmitsClosed as error:
        raise _submits_closed(error) from error
    except ledger.KeepExistingPath as error:
        raise _keep_existing_path() from error
    found = _found(ask, UUID(submitted.operation))
    return _shown(ask, found, status=201 if submitted.created else 200)


def _look_up(ask: Ask) -> HttpResponse:
    call_node, submission_key = ask.http.GET.get("call_node"), ask.http.GET.get("submission_key")
    if not call_node and not submission_key:
        raise Problem("bad-query", "Name a 'call_node' or a 'submission_key'.")
    found = calls.call_by(ask.caller.client, call_node=call_node or None, submission_key=submission_key or None)
    return JsonResponse(
        {"items": [shapes.operation(ask, found)] if found else []}, headers={"Cache-Control": "no-store"}
    )


async def _show(ask: Ask, operation: UUID) -> HttpResponse:
    wait_s = ask.whole("wait", default=0, least=0, most=LONGEST_WAIT_S)
    found = await in_thread(_found, ask, operation)
    held = parse_etags(ask.http.headers.get("If-None-Match", ""))
    if wait_s and not found.is_final and (not held or shapes.etag(found.version) in held):
        found = (
            await wait_for(
                functools.partial(_moved, ask, operation, found.version), operation=str(operation), wait_s=wait_s
            )
            or found
        )
    if shapes.etag(found.version) in held:
        return HttpResponse(status=304, headers={"ETag": shapes.etag(found.version), "Cache-Control": "no-store"})
    return _shown(ask, found)


def _show_receipt(ask: Ask, operation: UUID) -> HttpResponse:
    receipt = calls.receipt_of(ask.caller.client, operation)
    if receipt is None:
        raise _no_receipt_yet(_found(ask, operation))
    return JsonResponse(shapes.receipt(ask, receipt), headers={"Cache-Control": "no-store"})


def _show_result(ask: Ask, operation: UUID) -> HttpResponse:
    result = calls.result_of(ask.caller.client, operation)
    if result is None:
        raise _no_receipt_yet(_found(ask, operation))
    if result.raw is None:
        raise Problem("no-result", f"The outcome is {result.outcome}.", more={"outcome": result.outcome})
    return HttpResponse(
        result.raw,
        content_type="application/json",
        headers={
            "Content-Digest": _content_digest(result.raw),
            "Longcall-Outcome": result.outcome,
            "Longcall-Result-Digest": result.digest or "",
            "Cache-Control": "no-store",
        },
    )


def _cancel(ask: Ask, operation: UUID) -> HttpResponse:
    wish = intake.read_cancel(ask.body())
    # The ledger knows operations, not whose they are: a foreign one must not be found by cancelling it.
    found = _found(ask, operation)
    try:
        pressed = ledger.request_cancel(
            str(operation),
            seen_generation=wish.seen_generation,
            can_cancel=found.can_cancel,
            by=ask.caller.by,
            reason=wish.reason,
            now=ask.now,
        )
    except ledger.AlreadyFinished as error:
        raise _already_finished(error) from error
    body = {
        "press": pressed.press.value,
        "what_happened": _what_happened(pressed.press, found),
        "cancel_generation": pressed.generation,
        "operation": shapes.operation(ask, _found(ask, operation)),
    }
    # 202 is received, never done (P3): only a call of which nothing had left is over at once.
    status = 200 if pressed.press is Press.CLOSED_UNSENT else 202
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})


def _what_happened(press: Press, found: CallView) -> str:
    return _TASK_IS_KNOWN if press is Press.INTENT and found.task_id else _WHAT_A_PRESS_DID[press]


def _found(ask: Ask, operation: UUID) -> CallView:
    found = calls.call_of(ask.caller.client, operation)
    if found is None:
        raise Problem("not-found", NOT_YOURS)
    return found


def _moved(ask: Ask, operation: UUID, version: int) -> CallView | None:
    if calls.version_of(ask.caller.client, operation) == version:
        return None
    return _found(ask, operation)


def _shown(ask: Ask, found: CallView, *, status: int = 200) -> HttpResponse:
    headers = {
        "ETag": shapes.etag(found.version),
        "Location": ask.link("operation", operation=found.id),
        "Cache-Control": "no-store",
    }
    return JsonResponse(shapes.operation(ask, found), status=status, headers=headers)


def _key_reused(ask: Ask, error: ledger.KeyReused) -> Problem:
    clashes = {
        "submission_key": "This submission key stands for a call with another body.",
        "call_node": "This call node has made its call under another submission key; it makes one call, ever.",
    }
    existing = {"operation": error.operation, "operation_url": ask.link("operation", operation=error.operation)}
    return Problem(
        "key-reused",
        clashes[error.clash],
        done="The earlier operation stands as it was.",
        not_done="Nothing was stored and nothing was sent.",
        more={"clash": error.clash} | existing,
    )


def _submits_closed(error: ledger.SubmitsClosed) -> Problem:
    return Problem(
        "submits-closed",
        f"Submits are closed for this {error.scope}: {error.reason or 'no reason was given'}. "
        "Calling the tool yourself and timing out is forbidden: it makes calls that nobody can account for.",
        not_done="Nothing was stored and nothing was sent.",
        more={"scope": error.scope, "fall_back_allowed": False},
        headers={"Retry-After": "60"},
    )


def _keep_existing_path() -> Problem:
    return Problem(
        "keep-existing-path",
        "No release takes this call yet, and none has ever taken a call of this call node.",
        done="The decision is stored and holds for this call node for ever.",
        not_done="No operation was made and nothing was sent.",
        more={"fall_back_allowed": True},
    )


def _already_finished(error: ledger.AlreadyFinished) -> Problem:
    seen = f" The server said {error.terminal_status}." if error.terminal_status else ""
    return Problem(
        "already-finished",
        f"It finished at {error.at.isoformat()}.{seen}",
        done="The press stands in the journal.",
        not_done="No cancel was sent: there is nothing left to cancel.",
        more={
            "state": error.state.value,
            "at": error.at.isoformat(),
            "terminal_status": error.terminal_status,
        },
    )


def _no_receipt_yet(call: CallView) -> Problem:
    return Problem("no-receipt-yet", f"The operation is in {call.state.value}.", more={"state": call.state.value})


def _content_digest(raw: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(raw).digest()).decode()}:"


operations = endpoint(POST=Method(Scope.SUBMIT, _submit), GET=Method(Scope.READ, _look_up))
operation = endpoint(GET=Method(Scope.READ, _show))
receipt = endpoint(GET=Method(Scope.READ, _show_receipt))
result = endpoint(GET=Method(Scope.READ, _show_result))
cancel = endpoint(POST=Method(Scope.CANCEL, _cancel))
