"""How the console says what a protocol version and its releases do, and what a rollback leaves possible."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from console.words import Look
from operations.comparison import Difference, ShadowState
from operations.machine import State
from operations.queries.adapters import Health, InFlight, VersionView
from operations.rollout import Mode

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

MODES: Mapping[Mode, Look] = MappingProxyType(
    {
        Mode.FULL: Look("ok", "ok", _("Full")),
        Mode.SHADOW: Look("unk", "eye", _("On trial")),
        Mode.SHARE: Look("work", "work", _("Share")),
        Mode.DRAINING: Look("wait", "drain", _("Draining")),
        Mode.RETIRED: Look("off", "off", _("Retired")),
    }
)
_DISABLED = Look("wait", "lock", _("Disabled"))
_NOTHING = Look("wait", "lock", _("Takes no new calls"))
DOUBTFUL_SHARE = 5.0
"""Per cent of the last hour's steps at which odd answers are more than noise (O5)."""
DOUBTFUL_LEAST = 3

STAYS: Mapping[State, _StrPromise] = MappingProxyType(
    {
        State.SUBMITTING: _("not sent yet: held back while new calls are stopped; cancel closes it"),
        State.SUBMISSION_UNKNOWN: _("look up, cancel intent, verdict on the desk"),
        State.NOT_FOUND_SAFE: _("proved that nothing was created; close it on the desk"),
        State.WORKING: _("look, cancel"),
        State.INPUT_REQUIRED: _("look, answer, cancel"),
        State.CANCEL_REQUESTED: _("look; the cancel goes on"),
        State.TERMINAL_OBSERVED: _("fetch the result, accept it"),
        State.FETCHING_RESULT: _("fetch again, read the raw bytes again, accept"),
        State.UNKNOWN: _("look, verdict on the desk"),
    }
)
_SENDING = _("leave to send was given: looked up, never sent twice; it may become Submission unknown")

SHADOWS: Mapping[ShadowState, Look] = MappingProxyType(
    {
        ShadowState.OBSERVING: Look("work", "eye", _("Watched")),
        ShadowState.COMPARED: Look("ok", "ok", _("Compared")),
        ShadowState.ABANDONED: Look("off", "off", _("Nothing to compare")),
    }
)
DIFFERENCES: Mapping[Difference, tuple[_StrPromise, _StrPromise]] = MappingProxyType(
    {
        Difference.OUTCOME: (
            _("Another outcome"),
            _(
                "The two read the end of one task differently. With this release the call node would have gone on "
                "from another outcome: look at the bytes it saw before it gets more calls."
            ),
        ),
        Difference.RESULT: (
            _("Another result"),
            _("Both say how it ended, and were given different results. Compare them before it gets more calls."),
        ),
        Difference.UNSEEN: (
            _("Never seen"),
            _(
                "The server told this release that there is no such task, while the existing path brought it to its "
                "end. A session that only the existing path may see is one cause."
            ),
        ),
        Difference.TIMING: (
            _("Another time"),
            _("This release saw the end much later or earlier than the existing path did. Late means a late receipt."),
        ),
        Difference.LOOKS: (
            _("Too many looks"),
            _("This release asked more than twice as often: at a full share the server would be asked that much more."),
        ),
    }
)
"""What a difference is called, and what it means for whoever decides about the share."""


def mode_of(version: VersionView) -> Look:
    """Return how a version stands as a whole."""
    if version.is_retired:
        return MODES[Mode.RETIRED]
    if not version.submits_open:
        return MODES[Mode.DRAINING] if version.total_in_flight else _DISABLED
    modes = {release.mode for release in version.releases}
    return next((MODES[mode] for mode in (Mode.FULL, Mode.SHARE) if mode in modes), _NOTHING)


def is_doubtful(health: Health) -> bool:
    """True: so many answers were odd that the contract may have changed (O5)."""
    return health.doubts >= DOUBTFUL_LEAST and 100 * health.doubts >= DOUBTFUL_SHARE * health.steps


def what_stays(row: InFlight) -> _StrPromise:
    """Say what can still be done for an operation after a rollback."""
    return _SENDING if row.is_sending else STAYS[row.state]
