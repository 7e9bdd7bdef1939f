"""Who has to agree: the approval policies of side-effect classes and of tools. Everybody reads, admins decide."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.views.decorators.http import require_GET, require_http_methods

from console import advice
from console.access import Deed, PersonRequest, allow
from console.adminforms import ReasonForm
from operations import ledger
from operations.approval import Policy
from operations.ledger import Note
from operations.queries import policies, scope

MOST_REMINDERS = 5
LONGEST_MIN = 7 * 24 * 60


class ApprovalForm(ReasonForm):
    """One policy with the reason for it."""

    needed = forms.IntegerField(
        label=lazy("How many people have to give the very same answer"),
        min_value=1,
        max_value=9,
        widget=forms.NumberInput({"class": "inp short"}),
    )
    four_eyes = forms.BooleanField(
        label=lazy("Whoever the call is made for may not answer"), required=False, help_text=lazy("Four eyes.")
    )
    team = forms.ChoiceField(
        label=lazy("Only people of this team"), required=False, widget=forms.Select({"class": "inp mid"})
    )
    comment = forms.BooleanField(label=lazy("An answer needs a comment"), required=False)
    remind_min = forms.CharField(
        label=lazy("Reminders"),
        required=False,
        max_length=60,
        widget=forms.TextInput({"class": "inp mid"}),
        help_text=lazy("Minutes before the deadline, such as 60, 15. The last one goes to the escalation team too."),
    )
    escalate_to = forms.ChoiceField(
        label=lazy("Escalate to this team"),
        required=False,
        widget=forms.Select({"class": "inp mid"}),
        help_text=lazy("It is told of the last reminder and of a round that nobody answered."),
    )
    field_order = ("needed", "four_eyes", "team", "comment", "remind_min", "escalate_to", "reason")

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - Django's own
        """Take the teams from what there is."""
        super().__init__(*args, **named)
        found = [(team.slug, team.title) for team in scope.teams()]
        for name, word in (("team", _("Every approver who sees the server")), ("escalate_to", _("Nobody"))):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
            field.choices = [("", word), *found]

    def clean_remind_min(self) -> tuple[int, ...]:
        """Read the minutes."""
        parts = [part.strip() for part in self.cleaned_data["remind_min"].replace(";", ",").split(",") if part.strip()]
        if not all(part.isascii() and part.isdigit() and 1 <= int(part[:6]) <= LONGEST_MIN for part in parts):
            raise ValidationError(_("Whole minutes, up to a week, separated by commas."))
        if len(parts) > MOST_REMINDERS:
            raise ValidationError(_("At most five reminders."))
        return tuple(60 * int(part) for part in parts)

    def policy(self) -> Policy:
        """Return what was decided."""
        held = self.cleaned_data
        return Policy(
            needed=held["needed"],
            four_eyes=held["four_eyes"],
            team=held["team"],
            comment=held["comment"],
            remind_s=held["remind_min"],
            escalate_to=held["escalate_to"],
        )


def _initial(policy: Policy) -> dict[str, object]:
    return policy.facts() | {"remind_min": ", ".join(str(seconds // 60) for seconds in policy.remind_s)}


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show what stands for each side-effect class and for each tool."""
    context = {
        "now": timezone.now(),
        "classes": policies.class_policies(),
        "tools": policies.tool_policies(),
        "needs_role": advice.needs_role(request.actor, Deed.SET_APPROVALS),
    }
    return render(request, "approval_policies.html", context)


@require_http_methods(["GET", "POST"])
@allow(Deed.SET_APPROVALS)
def of_class(request: PersonRequest, effect: str) -> HttpResponse:
    """Decide for every tool of a side-effect class that has no policy of its own."""
    found = next((row for row in policies.class_policies() if row.effect == effect), None)
    if found is None:
        raise Http404
    return _decide(request, found, effect=effect)


@require_http_methods(["GET", "POST"])
@allow(Deed.SET_APPROVALS)
def of_tool(request: PersonRequest, slug: str, name: str) -> HttpResponse:
    """Decide for one tool."""
    found = next((row for row in policies.tool_policies() if (row.server, row.name) == (slug, name)), None)
    if found is None:
        raise Http404(_("This server has described no such tool."))
    return _decide(request, found, server=slug, tool=name)


def _decide(request: PersonRequest, found: policies.ClassPolicy | policies.ToolPolicyRow, **which: str) -> HttpResponse:
    form = ApprovalForm(request.POST or None, initial=_initial(found.policy))
    drops = request.POST.get("do") == "drop"
    if request.method == "GET" or not (_has_reason(form) if drops else form.is_valid()):
        status = HTTPStatus.OK if request.method == "GET" else HTTPStatus.UNPROCESSABLE_ENTITY
        context = {"now": timezone.now(), "form": form, "found": found, "of_tool": "tool" in which}
        return render(request, "approval_policy.html", context, status=status)
    note = Note(by=request.actor.by, reason=form.cleaned_data["reason"], now=timezone.now())
    ledger.set_approval(None if drops else form.policy(), note=note, **which)
    messages.success(request, _("Decided. It holds for rounds that open from now on; open ones keep theirs."))
    return redirect("approval_policies")


def _has_reason(form: ApprovalForm) -> bool:
    """Whoever takes a policy away needs a reason and nothing else of the form."""
    form.is_valid()
    return "reason" not in form.errors
