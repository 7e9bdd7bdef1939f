"""Servers and tools: register, change, try the connection, and the switches that stop new calls (N1, N2, O5)."""

from __future__ import annotations

import json
import os
from http import HTTPStatus

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import advice
from console.access import Deed, PersonRequest, allow
from console.adminforms import PolicyForm, ReasonForm, ServerForm
from operations import ledger, registration
from operations.ledger import NewServer, Note, ToolPolicy
from operations.queries import admin, policies, servers
from operations.queries.servers import ServerView, ToolView
from operations.registration import CannotNegotiate, CannotRegister, ServerOutlook


@require_GET
@allow(Deed.SEE)
def listing(request: PersonRequest) -> HttpResponse:
    """Show every server, with its switches and how much of its limit is used."""
    found = servers.servers()
    context = {
        "now": timezone.now(),
        "servers": [(server, _stability(server)) for server in found],
        "needs_role": advice.needs_role(request.actor, Deed.MANAGE_SERVERS),
    }
    return render(request, "servers.html", context)


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_SERVERS)
def register(request: PersonRequest) -> HttpResponse:
    """Take the profile of a new server."""
    form = ServerForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and _stored(request, form):
        messages.success(request, _("Registered. It offers no tools before you have negotiated with it."))
        return redirect("server", form.profile().slug)
    return _form_page(request, form)


@require_http_methods(["GET", "POST"])
@allow(Deed.MANAGE_SERVERS)
def edit(request: PersonRequest, slug: str) -> HttpResponse:
    """Change the profile of a server; its switches and its tools stay."""
    server = _server(slug)
    held = {name: getattr(server, name) for name in NewServer.__dataclass_fields__ if name not in {"slug", "protocol"}}
    form = ServerForm(request.POST or None, known=server, initial=held | {"protocol": server.protocol_version})
    if request.method == "POST" and form.is_valid() and _stored(request, form):
        messages.success(request, _("Changed. Requests that leave from now on follow it."))
        return redirect("server", slug)
    return _form_page(request, form)


def _stored(request: PersonRequest, form: ServerForm) -> bool:
    try:
        note, moves = _note(request, form.cleaned_data["reason"]), form.cleaned_data.get("moves", False)
        registration.register(form.profile(), note=note, moves=moves)
    except CannotRegister as refusal:
        form.add_error(None, str(refusal))
        return False
    return True


def _form_page(request: PersonRequest, form: ServerForm) -> HttpResponse:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    promised = [
        (version, registration.promises(version, release=registration.releases(version)[-1]))
        for version in registration.protocols()
    ]
    context = {"form": form, "server": form.known, "now": timezone.now(), "promised": promised}
    return render(request, "server_form.html", context, status=status)


@require_GET
@allow(Deed.SEE)
def page(request: PersonRequest, slug: str) -> HttpResponse:
    """Show one server: its profile, what it declared, its tools, its switch, its changes."""
    return _page(request, _server(slug))


@require_POST
@allow(Deed.MANAGE_SERVERS)
def test(request: PersonRequest, slug: str) -> HttpResponse:
    """Ask the server what it is, and show it; keep nothing."""
    server = _server(slug)
    try:
        outlook = registration.try_connection(slug, clock=timezone.now, environ=os.environ)
    except CannotNegotiate as silence:
        return _page(request, server, silence=silence, status=HTTPStatus.BAD_GATEWAY)
    return _page(request, server, outlook=outlook)


@require_POST
@allow(Deed.MANAGE_SERVERS)
def negotiate(request: PersonRequest, slug: str) -> HttpResponse:
    """Ask the server what it is and offers, and keep that (N1)."""
    server, form = _server(slug), ReasonForm(request.POST)
    if not form.is_valid():
        return _page(request, server, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    note = _note(request, form.cleaned_data["reason"])
    try:
        outlook = registration.negotiate(slug, clock=timezone.now, environ=os.environ, note=note)
    except CannotNegotiate as silence:
        return _page(request, server, silence=silence, status=HTTPStatus.BAD_GATEWAY)
    messages.success(request, _("Kept: %(n)d tools as described now.") % {"n": len(outlook.tools)})
    return redirect("server", slug)


@require_POST
@allow(Deed.MANAGE_SERVERS)
def seen(request: PersonRequest, slug: str) -> HttpResponse:
    """Take a changed contract off the page: an admin has looked at it and says why calls may go on (O5)."""
    server, form = _server(slug), ReasonForm(request.POST, auto_id="seen_%s")
    if not form.is_valid():
        return _page(request, server, seen_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    if ledger.contract_seen(slug, note=_note(request, form.cleaned_data["reason"])):
        messages.success(request, _("Kept, with what had changed and your reason."))
    else:
        request.refusal = "looked at before"
        messages.warning(request, _("Somebody has looked at it before you. Nothing was changed."))
    return redirect("server", slug)


@require_POST
@allow(Deed.SWITCH_SUBMITS)
def switch(request: PersonRequest, slug: str) -> HttpResponse:
    """Stop new calls to a server or to one of its tools, or let them in again (O5)."""
    server, form = _server(slug), ReasonForm(request.POST)
    name = request.POST.get("tool", "")
    tool = _tool(server, name) if name else None
    if not form.is_valid():
        if tool is not None:
            return _tool_page(request, server, tool, switch_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
        return _page(request, server, switch_form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    scope, target = ("tool", f"{slug}/{name}") if tool else ("server", slug)
    note, opens = _note(request, form.cleaned_data["reason"]), request.POST.get("do") == "open"
    ledger.set_submits(scope, target, is_open=opens, reason="" if opens else note.reason, note=note)
    said = _("New calls are let in again.") if opens else _("New calls are stopped. Everything in flight goes on.")
    messages.success(request, said)
    return redirect("tool", slug, name) if tool else redirect("server", slug)


@require_GET
@allow(Deed.SEE)
def tool(request: PersonRequest, slug: str, name: str) -> HttpResponse:
    """Show one tool: its descriptions with their digests, and what we decided about it."""
    server = _server(slug)
    return _tool_page(request, server, _tool(server, name))


@require_POST
@allow(Deed.MANAGE_SERVERS)
def policy(request: PersonRequest, slug: str, name: str) -> HttpResponse:
    """Take what an admin decides about a tool."""
    server = _server(slug)
    found, form = _tool(server, name), PolicyForm(request.POST)
    if not form.is_valid():
        return _tool_page(request, server, found, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    ledger.set_policy(slug, name, form.policy(), note=_note(request, form.cleaned_data["reason"]))
    messages.success(request, _("Decided. It holds for calls that come from now on."))
    return redirect("tool", slug, name)


def _server(slug: str) -> ServerView:
    found = servers.server(slug)
    if found is None:
        raise Http404(_("There is no such server."))
    return found


def _tool(server: ServerView, name: str) -> ToolView:
    found = next((tool for tool in server.tools if tool.name == name), None)
    if found is None:
        raise Http404(_("This server has described no such tool."))
    return found


def _note(request: PersonRequest, reason: str) -> Note:
    return Note(by=request.actor.by, reason=reason, now=timezone.now())


def _stability(server: ServerView) -> str:
    promises = registration.promises(server.protocol_version, release=server.release)
    return promises.stability.value if promises else ""


def _page(
    request: PersonRequest,
    server: ServerView,
    *,
    form: ReasonForm | None = None,
    switch_form: ReasonForm | None = None,
    seen_form: ReasonForm | None = None,
    outlook: ServerOutlook | None = None,
    silence: CannotNegotiate | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    targets = [f"server:{server.slug}", *(f"tool:{server.slug}/{tool.name}" for tool in server.tools)]
    context = {
        "now": timezone.now(),
        "server": server,
        "stability": _stability(server),
        "credential_is_set": bool(os.environ.get(server.credential_ref, "").strip()) if server.credential_ref else None,
        "outlook": outlook,
        "seen_form": (seen_form or ReasonForm(auto_id="seen_%s")) if request.actor.may(Deed.MANAGE_SERVERS) else None,
        "silence": silence,
        "form": form or ReasonForm(auto_id="keep_%s"),
        "switch_form": switch_form or ReasonForm(auto_id="switch_%s"),
        "changes": admin.changes_of(*targets),
        "needs_role": advice.needs_role(request.actor, Deed.MANAGE_SERVERS),
        "needs_switch": advice.needs_role(request.actor, Deed.SWITCH_SUBMITS),
    }
    return render(request, "server.html", context, status=status)


def _tool_page(
    request: PersonRequest,
    server: ServerView,
    found: ToolView,
    *,
    form: PolicyForm | None = None,
    switch_form: ReasonForm | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    decided = {name: getattr(found, name) for name in ToolPolicy.__dataclass_fields__}
    context = {
        "now": timezone.now(),
        "server": server,
        "tool": found,
        "form": form or PolicyForm(initial=decided),
        "switch_form": switch_form or ReasonForm(auto_id="switch_%s"),
        "approval": policies.tool_policy(server.slug, found.name),
        "descriptors": servers.descriptors_of(server.slug, found.name),
        "input_schema": json.dumps(found.input_schema, indent=2, ensure_ascii=False),
        "output_schema": json.dumps(found.output_schema, indent=2, ensure_ascii=False),
        "changes": admin.changes_of(f"tool:{server.slug}/{found.name}"),
        "needs_role": advice.needs_role(request.actor, Deed.MANAGE_SERVERS),
        "needs_switch": advice.needs_role(request.actor, Deed.SWITCH_SUBMITS),
    }
    return render(request, "server_tool.html", context, status=status)
