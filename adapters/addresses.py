"""Which addresses we connect to: the guard against a server URL that points inside.

A server may name places of its own (an operation, a page of a list); `below` keeps them under
the URL that an admin registered.

The check is made on the address that is really used. A name is resolved once, every address it
has must be allowed, and the connection goes to one of those addresses: a second look-up, which
could answer otherwise, never happens. The name stays what TLS verifies and what `Host` says.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

import httpx

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port in, addresses out. Raises OSError when the name has none."""

P = TypeVar("P", bound=asyncio.Protocol)

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_ATTEMPTS = 4

_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure: a public address, routed to the host of the machine
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # AWS
        "fd20:ce::254",  # Google Cloud
    )
)
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")
_IPV4_COMPATIBLE = ipaddress.ip_network("::/96")
_ODD_URL = re.compile(r"[\s\\\x00-\x1f\x7f]")
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+")
_MOVES = re.compile(r"[/\\\x00-\x1f\x7f]")


class ForbiddenAddress(httpx.ConnectError):
    """The address is one we do not connect to. Nothing was sent."""


def url_problem(url: str) -> str | None:
    """Say what is wrong with a server's URL as text, None if nothing is. Quotes nothing of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "the URL cannot be read"
    if _ODD_URL.search(url):
        return "the URL holds a blank, a backslash or a control character"
    if parts.scheme not in {"http", "https"}:
        return "the URL is neither http nor https"
    if "@" in parts.netloc:
        return "the URL holds a user name or a password"
    if not parts.hostname or "%" in parts.netloc:
        return "the URL has no host, or one with a zone or an escape"
    return "the URL has a fragment" if parts.fragment else None


def below(url: str, *, path: str, query: Sequence[tuple[str, str]] = ()) -> str:
    """Return the URL of a place below a registered URL. Raises ValueError; quotes nothing of it.

    `path` is escaped already. What a server further on would unescape counts too: no segment may
    be empty, be a dot segment, or hide a slash.
    """
    place = url if not path else f"{url.rstrip('/')}/{path}"
    if path and ("?" in url or not all(_stays(segment) for segment in path.split("/"))):
        raise ValueError("the path would leave the registered URL")
    if not query:
        return place
    return f"{place}{'&' if '?' in url else '?'}{urlencode(query)}"


def _stays(segment: str) -> bool:
    plain = unquote(segment, errors="replace")
    is_whole = _SEGMENT.fullmatch(segment) is not None
    return is_whole and plain not in {".", ".."} and not _MOVES.search(plain)


def address_problem(address: str, *, allow_private: bool) -> str | None:
    """Say why an address is forbidden, None if it is not.

    `allow_private` allows what is merely not public: loopback and private networks. Link-local,
    metadata, multicast, reserved and unspecified addresses stay forbidden.
    """
    try:
        found = _real(ipaddress.ip_address(address))
    except ValueError:
        return "no address"
    if found in _METADATA or found.is_link_local:
        return "a metadata or link-local address"
    if found.is_multicast or found.is_unspecified or found in _THIS_NETWORK or found in _NAT64_LOCAL:
        return "no address of one machine"
    if found.is_reserved and not found.is_loopback:
        return "a reserved address"
    return None if allow_private or found.is_global else "not a public address"


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver; an address written in numbers is its own answer."""
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(
    host: str, port: int, *, allow_private: bool, resolve: Resolve = system_resolve
) -> Sequence[str]:
    """Resolve a host once. Raises ForbiddenAddress if any of its addresses is forbidden.

    Any, not all: a name with one public and one inner address is an attack or a mistake.
    Raises httpx.ConnectError when there is no address.
    """
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError):
        found = ()
    if not found:
        raise httpx.ConnectError("the name of the server has no address")
    for address in found:
        problem = address_problem(address, allow_private=allow_private)
        if problem:
            raise ForbiddenAddress(f"the server's address is forbidden: {problem}")
    return found


async def connect(
    make: Callable[[], P],
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None,
    allow_private: bool,
    resolve: Resolve = system_resolve,
) -> P:
    """Connect to a checked address of the host; return the protocol made by `make`. TLS verifies the name.

    Raises httpx.ConnectError, as ForbiddenAddress where an address is one we do not connect to.
    """
    found = await checked_addresses(host, port, allow_private=allow_private, resolve=resolve)
    last: OSError | None = None
    for address in found[:MAX_ATTEMPTS]:
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(
                make, address, port, ssl=tls, server_hostname=host if tls is not None else None
            )
        except ssl.SSLError as error:
            raise httpx.ConnectError("no TLS connection") from error
        except OSError as error:
            last = error
        else:
            return protocol
    raise httpx.ConnectError("nobody answers there") from last


def _real(address: _Address) -> _Address:
    """The IPv4 address that an IPv6 address stands for, if it stands for one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
