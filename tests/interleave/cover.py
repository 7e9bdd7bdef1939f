"""What must have happened in ten thousand runs, and what never happens."""

from operations.machine import edges
from tests.interleave import workers
from tests.interleave.remote import SPOILT, Network

JUDGED_FROM = 10_000
EACH_EDGE = 20
EACH_FAULT = 50

_NO_BUDGET = "plan.next_deed: fetching is bounded by its tries; the wait budget rules the states before it"
_BOUND_AT_ONCE = "looks._at_work: a question that is gone leaves WORKING, and a press on a question binds by itself"
NEVER = {
    "INPUT_REQUIRED CANCEL_DUE CANCEL_REQUESTED": _BOUND_AT_ONCE,
    "TERMINAL_OBSERVED BUDGET_ENDED UNKNOWN": _NO_BUDGET,
    "FETCHING_RESULT BUDGET_ENDED UNKNOWN": _NO_BUDGET,
}
"""Legal steps that the product never takes, each with the place that sees to it."""


def edge_names():
    """Every legal step, as the tally names it."""
    return [f"{source} {event} {target}" for source, event, target in edges()]


def fault_names():
    """Every fault that the harness can inject."""
    spoilt = {name for faults in SPOILT.values() for name in faults}
    others = ("rollback", "clock jumps", "submits closed", "task id reused")
    return sorted({*spoilt, *Network.FATES, *workers.FATES, *others} - {""})


def missing(tally):
    """Return in words what happened too seldom. Empty: everything happened that must."""
    found = [
        f"{name}: {tally.edges[name]} times, {EACH_EDGE} wanted"
        for name in edge_names()
        if name not in NEVER and tally.edges[name] < EACH_EDGE
    ]
    found += [f"{name} happened, and was said to be out of reach" for name in NEVER if tally.edges[name]]
    found += [
        f"{name}: {tally.faults[name]} times, {EACH_FAULT} wanted"
        for name in fault_names()
        if tally.faults[name] < EACH_FAULT
    ]
    return found
