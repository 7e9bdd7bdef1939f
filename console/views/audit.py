"""The audit: every action and every refused attempt, newest first; narrowed, paged and exported."""

from __future__ import annotations

import csv
import io
from datetime import datetime, time, timedelta

from django import forms
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET

from console.access import Deed, PersonRequest, allow
from operations.queries import audit
from operations.queries.audit import Entry, Narrow

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class NarrowForm(forms.Form):
    """What the list is narrowed to; whatever cannot be read is left out, for this is an address and no entry form."""

    who = forms.CharField(required=False, max_length=200)
    target = forms.CharField(required=False, max_length=300)
    what = forms.CharField(required=False, max_length=100)
    outcome = forms.ChoiceField(
        required=False, choices=[("", lazy("Done or refused")), ("DONE", lazy("Done")), ("REFUSED", lazy("Refused"))]
    )
    since = forms.DateField(required=False)
    until = forms.DateField(required=False)

    def narrow(self) -> Narrow:
        """Return what could be read. Both days count whole, in the person's own time zone."""
        self.is_valid()
        held = self.cleaned_data
        until = held.get("until")
        return Narrow(
            by=_person(held.get("who", "")),
            target=held.get("target", ""),
            what=held.get("what", ""),
            outcome=held.get("outcome", ""),
            since=_midnight(held.get("since")),
            until=_midnight(until + timedelta(days=1) if until else None),
        )


def _person(text: str) -> str:
    return text if not text or ":" in text else f"person:{text}"


def _midnight(day: datetime | None) -> datetime | None:
    return timezone.make_aware(datetime.combine(day, time())) if day else None


@require_GET
@allow(Deed.READ_AUDIT)
def page(request: PersonRequest) -> HttpResponse:
    """Show fifty entries."""
    form = NarrowForm(request.GET)
    narrow = form.narrow()
    context = {
        "now": timezone.now(),
        "form": form,
        "narrow": narrow,
        "page": audit.find(narrow, after=request.GET.get("after", "")),
        "verbs": audit.verbs(),
        "exported": audit.EXPORTED,
    }
    return render(request, "audit.html", context)


@require_GET
@allow(Deed.READ_AUDIT)
def export(request: PersonRequest) -> HttpResponse:
    """Hand out the newest entries of a filter as a table; that it was done stands in the audit too."""
    entries = audit.export(NarrowForm(request.GET).narrow())
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(["id", "at", "who", "what", "target", "outcome", "reason", "ip", "session"])
    for entry in entries:
        writer.writerow(_cells(entry))
    return HttpResponse(
        sheet.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="audit.csv"', "Cache-Control": "no-store"},
    )


def _cells(entry: Entry) -> list[str]:
    outcome = "refused" if entry.refused else "done"
    told = [entry.by, entry.what, entry.target, outcome, entry.reason, entry.ip, entry.session]
    return [str(entry.id), entry.at.isoformat(), *(_inert(text) for text in told)]


def _inert(text: str) -> str:
    """A cell that a spreadsheet would run as a formula is text with a mark before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
