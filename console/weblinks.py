"""An address that a server wants a person to visit, taken apart so that the host cannot be mistaken.

Nothing is ever fetched here. What a browser and a person would read differently is not offered as a link.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

_PLAIN = re.compile(r"[!-~]+")
_HOST_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A URL in three pieces, with what speaks against opening it."""

    url: str
    before: str
    host: str
    after: str
    warnings: tuple[str, ...] = ()
    blocked: str = ""
    """Why it is not offered as a link; empty: it may be opened by a person's click."""


def inspect(url: str) -> Link:
    """Take a URL apart and judge it. Never raises."""
    reason = _reason_to_block(url)
    if reason:
        return Link(url=url, before=url, host="", after="", blocked=reason)
    split = urlsplit(url)
    before = f"{url[: len(split.scheme)]}://"
    found = _HOST_PORT.fullmatch(split.netloc)
    host = found["host"] if found else ""
    return Link(
        url=url,
        before=before,
        host=host,
        after=url[len(before) + len(host) :],
        warnings=tuple(_warnings(split.scheme, host)),
    )


def _reason_to_block(url: str) -> str:
    if not _PLAIN.fullmatch(url):
        return _("It holds blanks, hidden characters or letters that a web address must not hold.")
    if "\\" in url:
        return _("It holds a backslash, which browsers and people read differently.")
    try:
        split = urlsplit(url)
        _port = split.port
    except ValueError:
        return _("It is not a web address.")
    if split.scheme not in {"http", "https"} or not url.lower().startswith(f"{split.scheme}://"):
        return _("Only http and https addresses can be opened from here.")
    if "@" in split.netloc:
        return _("It carries a user name in front of its host, which hides where it really leads.")
    if not _HOST_PORT.fullmatch(split.netloc):
        return _("Its host cannot be read.")
    return ""


def _warnings(scheme: str, host: str) -> list[str]:
    found = []
    if scheme == "http":
        found.append(_("The connection is not encrypted (http)."))
    if any(label.startswith("xn--") for label in host.lower().split(".")):
        found.append(_("The host is written in punycode: it may look like another name in your browser."))
    if _is_address(host):
        found.append(_("The host is a bare address, not a name."))
    return found


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        # 2130706433 and 0x7f.1 are addresses to a browser as well.
        return re.fullmatch(r"(0[xX][0-9a-fA-F]*|[0-9]+)", host.rstrip(".").rsplit(".", 1)[-1]) is not None
    return True
