"""One bounded way to one endpoint."""

from __future__ import annotations

from adapters.contract import AdapterError, WireResponse


def is_door_status(status: int) -> bool:
    """Whether the status itself decides, whatever the body says: 401, 403, 429, a redirect."""
    return status in {401, 403, 429} or status in {301, 302, 303, 307, 308}


def status_error(response: WireResponse, *, said: str = "") -> AdapterError:
    """Sort an answer without a usable protocol body. `said` is added to the reason.

    401, 403, redirects and most of 4xx: Refused(ADMIN). 413, 422: Refused(REQUEST). 425, 429:
    Throttled. 408, 409 and every 5xx: BrokenPeer with retry_after_s, since a gateway may have
    passed the request on (for a submit: it may have been created). 2xx: BrokenPeer; in
    particular 202 means received, never done (P3).
    """
    raise NotImplementedError


def retry_after_s(response: WireResponse) -> float | None:
    """The server's floor in seconds, clamped; None when it named none that can be read (P1)."""
    raise NotImplementedError
