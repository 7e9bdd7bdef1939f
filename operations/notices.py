"""Sends notices: by mail, and as signed webhooks over the hardened wire. One pass a call.

A notice that cannot be sent waits and is tried again. Whatever goes wrong here stays here: no operation is read for a
decision, and none is written.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import smtplib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.mail import EmailMessage

from adapters.contract import AdapterError, Endpoint, Limits, WireRequest
from adapters.http import Connections
from operations import ledger
from operations.ledger import Parcel, Route
from operations.notice import Kind, Way, sign

SECONDS = 10.0
"""The whole time that one webhook has."""
_LIMITS = Limits(total_s=SECONDS, body_bytes=64_000)
GRAVE = frozenset({Kind.ROUND_EXPIRED, Kind.CLOCK_15, Kind.CANCEL_UNCONFIRMED, Kind.INCIDENT})
log = logging.getLogger(__name__)


class NotTold(Exception):
    """A message did not go out; the text says why and holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What people read: one line, a few lines, and where to go."""

    subject: str
    text: str
    link: str
    source: str
    """Which installation speaks."""


Words = Callable[[Parcel], Message]


def send_due(*, clock: Callable[[], datetime], words: Words, environ: Mapping[str, str]) -> int:
    """Write what time brings, spread what is new, send what is due; return how many messages went out."""
    now = clock()
    ledger.sweep_notices(now=now)
    ledger.spread_notices(now=now)
    ledger.drop_moot(now=now)
    sent = 0
    for parcel in ledger.claim_parcels(now=clock()):
        sent += _send_one(parcel, clock=clock, words=words, environ=environ)
    return sent


def _send_one(parcel: Parcel, *, clock: Callable[[], datetime], words: Words, environ: Mapping[str, str]) -> bool:
    quiet = parcel.route.quiet
    ends_at = quiet.ends_at(clock()) if quiet else None
    if ends_at is not None:
        ledger.parcel_held(parcel.deliveries, until=ends_at)
        return False
    try:
        send(parcel, words(parcel), clock=clock, environ=environ)
    except NotTold as error:
        log.warning("a notice was not sent", extra={"route": parcel.route.id, "kind": parcel.kind, "why": str(error)})
        ledger.parcel_failed(parcel.deliveries, why=str(error), now=clock())
        return False
    ledger.parcel_sent(parcel.deliveries, now=clock())
    return True


def send(parcel: Parcel, message: Message, *, clock: Callable[[], datetime], environ: Mapping[str, str]) -> None:
    """Send one message on its way. Raises NotTold."""
    if parcel.route.way is Way.EMAIL:
        _mail(parcel.route, message)
        return
    body = json.dumps(_body(parcel, message, clock()), ensure_ascii=False).encode()
    _post(parcel, body, clock=clock, environ=environ)


def _mail(route: Route, message: Message) -> None:
    to = [address.strip() for address in route.address.split(",") if address.strip()]
    letter = EmailMessage(subject=message.subject, body=f"{message.text}\n\n{message.link}\n", to=to)
    try:
        letter.send()
    except (smtplib.SMTPException, OSError, ValueError) as error:
        # What a mail server says may repeat our credentials; its kind and number do not.
        code = getattr(error, "smtp_code", "")
        raise NotTold(f"the mail server did not take it: {type(error).__name__} {code}".strip()) from None


def _body(parcel: Parcel, message: Message, now: datetime) -> dict[str, Any]:
    if parcel.route.way is Way.CHAT:
        return {"text": f"{message.subject}\n{message.text}\n{message.link}"}
    first = parcel.items[0]
    return {
        "event_action": "trigger",
        "dedup_key": first.key if len(parcel.items) == 1 else f"{parcel.kind.value}:{first.server}",
        "payload": {
            "summary": message.subject,
            "source": message.source,
            "severity": "critical" if parcel.kind in GRAVE else "warning",
            "timestamp": now.isoformat(),
            "component": first.server,
            "class": parcel.kind.value,
        },
        "links": [{"href": message.link, "text": message.subject}],
    }


def _post(parcel: Parcel, body: bytes, *, clock: Callable[[], datetime], environ: Mapping[str, str]) -> None:
    route = parcel.route
    secret = environ.get(route.secret_ref, "")
    if not secret:
        raise NotTold(f"the environment holds no signing secret {route.secret_ref!r}")
    # The same deliveries carry the same id, so that a receiver can tell a repetition.
    message = "ntc_" + hashlib.sha256(repr(sorted(parcel.deliveries)).encode()).hexdigest()[:24]
    stamp = int(clock().timestamp())
    try:
        signature = sign(secret, message=message, timestamp=stamp, body=body)
    except ValueError:
        raise NotTold(f"the signing secret {route.secret_ref!r} cannot be read") from None
    headers = (
        ("content-type", "application/json"),
        ("webhook-id", message),
        ("webhook-timestamp", str(stamp)),
        ("webhook-signature", signature),
    )
    status = asyncio.run(_exchange(route, WireRequest(label="notice", body=body, headers=headers), clock))
    if not 200 <= status < 300:  # noqa: PLR2004 - HTTP's own numbers
        raise NotTold(f"the webhook answered with {status}")


async def _exchange(route: Route, request: WireRequest, clock: Callable[[], datetime]) -> int:
    connections = Connections()
    endpoint = Endpoint(url=route.address, allow_private=route.allow_private)
    wire = connections.wire(endpoint, gate=_no_gate, clock=clock, limits=_LIMITS)
    try:
        return (await wire.send(request)).status
    except AdapterError as error:
        raise NotTold(f"the webhook could not be reached: {error.reason}") from None
    finally:
        await connections.aclose()


async def _no_gate() -> None:
    """Nobody's QPS is spent: this is not a tool server."""
