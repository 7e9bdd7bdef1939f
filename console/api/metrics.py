"""/metrics in the text form that Prometheus reads, from the ledger itself: every process tells the same figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from operations.queries import adapters, desk, gates, shadows
from operations.queries.servers import oldest_overdue

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure with its labels."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


HELP = {
    "longcall_operations_open": ("gauge", "Operations that are not final, by protocol version and state."),
    "longcall_operations_handed_over": ("gauge", "Open operations begun before the last rollback of their version."),
    "longcall_epoch": ("counter", "Execution epoch of a protocol version."),
    "longcall_submits_open": ("gauge", "1: new calls of this protocol version are let in."),
    "longcall_divergences_open": ("gauge", "Differences between a release on trial and existing paths, unexplained."),
    "longcall_steps_hour": ("gauge", "Recorded steps of the last hour."),
    "longcall_steps_unusable_hour": ("gauge", "Recorded steps of the last hour that brought nothing usable."),
    "longcall_server_requests_total": ("counter", "Requests that had leave to go out to a server."),
    "longcall_server_qps_limit": ("gauge", "Requests a second that a server may be sent."),
    "longcall_waiting_rounds": ("gauge", "Questions that wait for a person; counting stops at 1000."),
    "longcall_waiting_desk": ("gauge", "Items on the reconciliation desk; counting stops at 1000."),
    "longcall_looks_overdue_seconds": ("gauge", "How long the most patient look is overdue."),
    "longcall_gate_holds": ("gauge", "1: this gate holds."),
    "longcall_gate_worst": ("gauge", "Worst figure of the day, in the gate's own unit."),
    "longcall_ledger_check_breaches": ("gauge", "What the newest ledger check found."),
    "longcall_ledger_check_age_seconds": ("gauge", "Age of the newest ledger check that came to its end."),
}


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    """Show every figure to whoever brings the token of LONGCALL_METRICS_TOKEN; otherwise there is no such page."""
    token = settings.METRICS_TOKEN
    if not token or not constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {token}"):
        raise Http404
    return HttpResponse(write(timezone.now()), content_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


def write(now: datetime) -> str:
    """Return all figures as text, each name with its help and its type once."""
    by_name: dict[str, list[Sample]] = {name: [] for name in HELP}
    for sample in (*_versions(now), *_people(now), *_gates(now)):
        by_name[sample.name].append(sample)
    lines: list[str] = []
    for name, samples in by_name.items():
        kind, says = HELP[name]
        lines += [f"# HELP {name} {says}", f"# TYPE {name} {kind}", *map(_line, samples)]
    return "\n".join(lines) + "\n"


def _versions(now: datetime) -> Iterator[Sample]:
    differences = shadows.count_open()
    for version in adapters.versions(now=now):
        label = (("protocol", version.version),)
        for state, count in version.in_flight.items():
            yield Sample("longcall_operations_open", count, (*label, ("state", state.value)))
        yield Sample("longcall_operations_handed_over", version.of_earlier_epochs, label)
        yield Sample("longcall_epoch", version.epoch, label)
        yield Sample("longcall_submits_open", version.submits_open, label)
        yield Sample("longcall_divergences_open", differences.get(version.version, 0), label)
        yield Sample("longcall_steps_hour", version.health.steps, label)
        yield Sample("longcall_steps_unusable_hour", version.health.trouble, label)
        for server in version.servers:
            yield Sample("longcall_server_requests_total", server.requests, (("server", server.slug),))
            yield Sample("longcall_server_qps_limit", server.allowed, (("server", server.slug),))


def _people(now: datetime) -> Iterator[Sample]:
    waiting, due_since = desk.count_waiting(), oldest_overdue(now=now)
    yield Sample("longcall_waiting_rounds", waiting.rounds)
    yield Sample("longcall_waiting_desk", waiting.desk)
    late = (now - due_since).total_seconds() if due_since else 0
    yield Sample("longcall_looks_overdue_seconds", max(0, late))


def _gates(now: datetime) -> Iterator[Sample]:
    for trend in gates.trends(now=now):
        label = (("gate", trend.gate.value),)
        yield Sample("longcall_gate_holds", trend.holds, label)
        yield Sample("longcall_gate_worst", trend.today.worst, label)
    if (check := gates.last_check()) is not None:
        yield Sample("longcall_ledger_check_breaches", check.breaches)
        yield Sample("longcall_ledger_check_age_seconds", max(0, (now - check.at).total_seconds()))


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels)
    return f"{sample.name}{{{labels}}} {_number(sample.value)}" if labels else f"{sample.name} {_number(sample.value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    # Not "%g" for whole numbers: a counter must not lose its last digits.
    return str(int(value)) if value == int(value) else repr(value)
