"""/api/v1/shadows: say which call an existing path made, so that a release on trial may watch it (O1)."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse, JsonResponse

from console.api import shapes
from console.api.door import Ask, Method, endpoint
from console.api.problem import Problem
from console.models import Scope
from operations import intake, ledger
from operations.queries import shadows as watched
from operations.queries.shadows import ShadowView

_PATH_STANDS = "Your existing path is not touched: go on with it."


def _register(ask: Ask) -> HttpResponse:
    new = intake.read_shadow(ask.body(), client=ask.caller.client)
    try:
        registered = ledger.register_shadow(new, now=ask.now)
    except ledger.NoSuchTool as error:
        raise Problem("no-such-tool", str(error), not_done="Nothing was stored.") from error
    except ledger.HasEffects as error:
        raise Problem("tool-has-effects", f"{error}.", not_done=_PATH_STANDS) from error
    except ledger.NothingOnTrial as error:
        raise Problem("nothing-on-trial", f"{error}.", not_done=_PATH_STANDS) from error
    except ledger.ShadowClash as error:
        raise Problem("shadow-clash", f"{error}.", not_done=_PATH_STANDS) from error
    return _shown(ask, _found(ask, UUID(registered.shadow)), status=201 if registered.created else 200)


def _report(ask: Ask, shadow: UUID) -> HttpResponse:
    told = intake.read_told(ask.body())
    try:
        ledger.report_outcome(ask.caller.client, str(shadow), told, now=ask.now)
    except ledger.NoSuchShadow as error:
        raise _not_found() from error
    except ledger.ShadowClash as error:
        raise Problem("shadow-clash", f"{error}.", done="The first report stands.") from error
    return _shown(ask, _found(ask, shadow))


def _show(ask: Ask, shadow: UUID) -> HttpResponse:
    return _shown(ask, _found(ask, shadow))


def _found(ask: Ask, shadow: UUID) -> ShadowView:
    found = watched.shadow_of(ask.caller.client, shadow)
    if found is None:
        raise _not_found()
    return found


def _not_found() -> Problem:
    return Problem("not-found", "There is no such shadow of yours.")


def _shown(ask: Ask, found: ShadowView, *, status: int = 200) -> HttpResponse:
    location = ask.link("shadow", shadow=found.id)
    headers = {"Location": location, "Cache-Control": "no-store"}
    return JsonResponse(shapes.shadow(found, link=location), status=status, headers=headers)


shadows = endpoint(POST=Method(Scope.SUBMIT, _register))
shadow = endpoint(GET=Method(Scope.READ, _show))
outcome = endpoint(POST=Method(Scope.SUBMIT, _report))
