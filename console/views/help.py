"""The help page: what each state and each reason means, and the keys."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.views.decorators.http import require_GET

from console import diagram, manual
from console.access import Deed, PersonRequest, allow


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest) -> HttpResponse:
    """Show the whole manual on one page: every link into it is an anchor."""
    context = {
        "pictures": [(*one.files(get_language() or ""), one.alt, one.says) for one in manual.PICTURES],
        "states": [(state, entry, diagram.nexts(state)) for state, entry in manual.STATES.items()],
        "reasons": manual.REASONS.items(),
        "not_found": manual.NOT_FOUND.items(),
        "diagram": diagram.svg(lit=None),
    }
    return render(request, "help.html", context)
