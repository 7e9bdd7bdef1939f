"""Every post of the pages, sent twice as by a double click, a reload or a second tab: one effect, and a clear answer.

What counts as an effect is all that the database holds, but for what tells of the attempts themselves: the audit, the
journal, the times, and how often somebody looked.
"""

import dataclasses
import re
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import URLPattern, reverse
from django.utils import timezone

from adapters.contract import Negotiation
from console import tokens, urls
from console.models import Scope
from operations import ledger
from operations.approval import Policy
from operations.ledger import NewRoute, Note
from operations.machine import Event, Reason
from operations.models import Divergence, NoticeRoute
from operations.notice import Way
from operations.queries import incidents
from operations.verdicts import Verdict
from tests.console import factories as make
from tests.console.test_round import hidden
from tests.console.test_servers import POLICY, PROFILE
from tests.console.test_shadows import compared

pytestmark = pytest.mark.django_db
V, WHY, CHOSEN = make.VERSION, "the reason of this test", "four-long-words-here"
TELL_OF_ATTEMPTS = {"audit_event", "journal", "evidence", "evidence_payload", "attempts", "due", "django_session"}
COUNTERS = {"version", "evidence_count", "look", "slots_given", "second_slots", "peak_slots"}
CLEAR = {200, 302, 400, 403, 404, 409, 422, 502}
"""200 and 502: a test of a connection shows on its own page what the server said, or that it said nothing."""


def note():
    return Note(by="person:tests", reason=WHY, now=timezone.now())


def one(operation):
    return {"number": operation}


def lost(_client):
    return one(make.lost())


def proposed(_client):
    """A verdict of somebody else that waits for its second person."""
    operation = make.unknown()
    version = ledger.read([operation])[operation].version
    judged = ledger.judge(
        operation,
        Verdict.ESTABLISHED_OUTSIDE,
        seen_version=version,
        by="person:otto",
        reason=WHY,
        content={"outcome": "done by hand"},
        now=timezone.now(),
    )
    return one(operation), {"proposal": judged.proposal, "do": "confirm"}


def judged(_client):
    operation = make.unknown()
    version = ledger.read([operation])[operation].version
    given = {"verdict": "GAVE_UP", "reason": WHY, "typed": "close as unknown", "seen_version": version}
    return one(operation), given


def effect(_client):
    make.cancel(operation := make.working())
    return one(operation), {"status": "NONE", "note": WHY}


def outage(_client):
    for _ in range(3):
        make.unknown(event=Event.NOT_FOUND, reason=Reason.NOT_FOUND)
    ledger.gather_incidents(now=timezone.now())
    return one(incidents.find_open()[0].id), {"do": "look", "id": uuid.uuid4()}


def batch(client, *, started=False):
    make.working()
    key = uuid.uuid4()
    client.post(reverse("operation_cancel_many"), {"id": key, "query": ""})
    if started:
        client.post(reverse("batch_start", args=[key]), {"kind": "need", "reason": WHY})
    return {"number": key}


def batch_of_proposals(_client):
    """A verdict on many that somebody else has proposed, done by the worker."""
    operation, key, now = make.unknown(), uuid.uuid4(), timezone.now()
    wish = ledger.Wish(id=key, kind=ledger.BatchKind.VERDICT, by="person:otto", content={"verdict": "GAVE_UP"})
    ledger.keep_batch(wish, ledger.foresee_verdicts([operation], Verdict.GAVE_UP), now=now)
    ledger.start_batch(key, by="person:otto", reason=WHY, now=now)
    ledger.run_batches(seconds=60, may=lambda *_: True, clock=timezone.now)
    return {"number": key}, {"do": "confirm", "id": uuid.uuid4()}


def kept_list(client):
    key = uuid.uuid4()
    client.post(reverse("list_keep"), {"id": key, "name": "mine", "query": "view=all"})
    return {"number": key}, {"do": "drop"}


def route(_client):
    way = NewRoute(team="everybody", way=Way.EMAIL, address="a@example.org", kinds=("ROUND_OPENED",))
    ledger.save_route(way, note=note())
    return {"slug": "everybody", "number": NoticeRoute.objects.get().pk}


def way():
    held = {"way": "EMAIL", "address": "ada@example.org", "kinds": ["ROUND_OPENED"], "zone": "UTC", "enabled": "on"}
    return held | {"language": "en", "reason": WHY, "id": str(uuid.uuid4())}


def asking(client):
    operation = make.asking()
    return {"operation": operation, "number": 1}, {**hidden(client, operation), "action": "accept", "q0f0": "true"}


def voted(client):
    ledger.set_approval(Policy(needed=2), server="shop", tool="change_prices", note=note())
    kwargs, given = asking(client)
    client.post(reverse("round", kwargs=kwargs), given)
    return kwargs


def open_round(_client):
    return {"operation": make.asking(), "number": 1}


def extending(client):
    kwargs = open_round(client)
    page = client.get(reverse("round", kwargs=kwargs)).content.decode()
    return kwargs, {"minutes": "15", "seen": re.search(r'name="seen" value="([^"]+)"', page)[1]}


def chosen(operation, **pressed):
    return {"id": uuid.uuid4(), "one": [operation], **pressed}


def token(_client):
    issued = tokens.issue_token("billing", scopes={Scope.READ}, by="person:tests", now=timezone.now())
    return {"prefix": issued.prefix}


def on_trial(_client):
    ledger.set_policy("shop", "change_prices", ledger.ToolPolicy(effect="NONE"))
    ledger.put_on_trial(V, "r2", note=note())
    shadow = compared()
    number = Divergence.objects.filter(shadow=shadow).first().pk
    return {"version": V, "number": shadow, "divergence": number}


def changed(_client):
    """A server that has come to declare something else."""
    other = dataclasses.replace(make.CAPABILITIES, server_name="other", cancels_tasks=False)
    ledger.save_negotiation("shop", Negotiation(capabilities=other, tools=()), now=timezone.now())
    return {"slug": "shop"}


def version(_client):
    return {"version": V}


def shop(_client):
    return {"slug": "shop"}


def tool(_client):
    return {"slug": "shop", "name": "change_prices"}


def nobody(_client):
    return {}


def ann(_client):
    make.person("ann", "viewer")
    return {"username": "ann"}


PERSON = {"full_name": "Ann Lee", "email": "", "roles": ["viewer"], "reason": WHY}
TEAM = {"title": "Night", "servers": ["shop"], "members": [], "reason": WHY}
APPROVAL = {"needed": "2", "remind_min": "10", "reason": WHY}
REASON = {"reason": WHY}
POSTS = {
    "preferences": ("viewer", nobody, {"theme": "dark"}),
    "operation_cancel_many": (
        "operator",
        nobody,
        lambda: chosen(make.working(), only="chosen"),
    ),
    "list_keep": ("viewer", nobody, lambda: {"id": uuid.uuid4(), "name": "mine", "query": "view=all"}),
    "list_change": ("viewer", kept_list, {}),
    "batch_start": ("operator", batch, {"kind": "need", "reason": WHY}),
    "batch_stop": ("operator", lambda client: batch(client, started=True), {}),
    "batch_second": ("operator", batch_of_proposals, {}),
    "look_now": ("operator", lost, {}),
    "cancel": ("operator", lambda _c: one(make.working()), {"kind": "need", "reason": WHY, "seen_generation": 0}),
    "reconcile_many": ("operator", nobody, lambda: chosen(make.unknown(), many="claim")),
    "reconcile_incident_act": ("operator", outage, {}),
    "claim": ("operator", lost, {}),
    "judge": ("operator", judged, {}),
    "second": ("operator", proposed, {}),
    "settle_effect": ("operator", effect, {}),
    "team_new": ("admin", nobody, TEAM | {"slug": "night"}),
    "team_edit": ("admin", lambda _c: {"slug": "everybody"}, TEAM),
    "team_route_new": ("admin", lambda _c: {"slug": "everybody"}, way),
    "team_route": ("admin", route, way),
    "team_route_test": ("admin", route, {}),
    "team_route_drop": ("admin", route, REASON),
    "person_new": ("admin", nobody, PERSON | {"username": "zoe"}),
    "person": ("admin", ann, PERSON | {"is_open": "on"}),
    "password": (
        "viewer",
        nobody,
        {
            "old_password": make.PASSWORD,
            "new_password1": CHOSEN,
            "new_password2": CHOSEN,
        },
    ),
    "token_new": (
        "admin",
        nobody,
        lambda: {"id": str(uuid.uuid4()), "client": "flows", "scopes": ["read"], "days": "9", "reason": WHY},
    ),
    "token_revoke": ("admin", token, REASON),
    "adapter_share": ("admin", version, {"release": "r1", "share": "5", "reason": WHY}),
    "adapter_switch": ("admin", version, {"target": f"protocol:{V}", "do": "shut", "reason": WHY}),
    "adapter_retire": ("admin", version, REASON),
    "adapter_rollback": ("admin", version, {"typed": V, "reason": WHY, "seen_epoch": 1}),
    "adapter_drill": ("operator", version, REASON),
    "adapter_trial": ("admin", version, {"release": "r2", "reason": WHY}),
    "divergence_close": ("admin", on_trial, REASON),
    "server_new": ("admin", nobody, PROFILE),
    "server_edit": ("admin", shop, PROFILE | {"title": "The shop"}),
    "server_test": ("admin", shop, {}),
    "server_negotiate": ("admin", shop, REASON),
    "server_seen": ("admin", changed, REASON),
    "server_switch": ("admin", shop, {"do": "shut", "reason": WHY}),
    "tool_policy": ("admin", tool, POLICY),
    "approval_class": ("admin", lambda _c: {"effect": "EXTERNAL"}, APPROVAL),
    "approval_tool": ("admin", tool, APPROVAL),
    "round": ("approver", asking, {}),
    "round_claim": ("approver", open_round, {"do": "claim"}),
    "round_extend": ("operator", extending, {}),
    "round_withdraw": ("approver", voted, {}),
    "try_it": ("operator", nobody, lambda: {"id": str(uuid.uuid4()), "server": "shop", "tool": "change_prices"}),
}
"""Who posts, what is there before (the address, and fields that only it knows), and what is posted."""

OTHERS = {
    "login": "who is signed in is led on; a wrong password counts and changes nothing (test_attempts)",
    "logout": "a second one finds nobody signed in",
    "person_password": "each press makes a new one; the last one shown is the one that holds (test_people)",
}


def routes():
    return [route for route in urls.urlpatterns if isinstance(route, URLPattern) and route.name]


def takes_posts(route):
    """Ask the view itself; a stranger's post is led to the login, or told that there is no such method."""
    given = {"int": 1, "uuid": uuid.UUID(int=0), "slug": "x", "str": "x", "path": "x"}
    parts = {
        name: given[type(converter).__name__.removesuffix("Converter").lower().replace("string", "str")]
        for name, converter in route.pattern.converters.items()
    }
    return Client().post(reverse(route.name, kwargs=parts)).status_code not in {404, 405}


def test_every_post_of_the_pages_is_in_this_table():
    found = {route.name for route in routes() if takes_posts(route)}

    assert found - {"metrics"} == set(POSTS) | set(OTHERS)


def held():
    """What all tables hold, by table: a digest of all columns but times, counters, and numbers that count rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT c.relname, array_agg(format('%%I', a.attname) ORDER BY a.attnum)
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname <> ALL(%s)
                AND a.atttypid <> 'timestamptz'::regtype AND a.attidentity = '' AND a.attname <> ALL(%s)
            GROUP BY c.relname""",
            [list(TELL_OF_ATTEMPTS), list(COUNTERS)],
        )
        found = {}
        for table, columns in cursor.fetchall():
            row = f"md5(ROW({', '.join(columns)})::text)"
            cursor.execute(f"SELECT count(*), string_agg({row}, '' ORDER BY {row}) FROM \"{table}\"")
            found[table] = cursor.fetchone()
        return found


@pytest.mark.parametrize("name", sorted(POSTS))
def test_sent_twice_it_has_one_effect_and_a_clear_answer(name):
    role, prepare, given = POSTS[name]
    make.server()
    client = make.signed_in("somebody", role)
    prepared = prepare(client)
    kwargs, more = prepared if isinstance(prepared, tuple) else (prepared, {})
    asked: Any = given() if callable(given) else given  # Any: each row of the table has a form of its own
    form = {**asked, **more}
    address = reverse(name, kwargs=kwargs)

    first = client.post(address, form)
    once = held()
    second = client.post(address, form)

    assert {first.status_code, second.status_code} <= CLEAR, (first.status_code, second.status_code)
    assert first.status_code != 403
    assert held() == once
