"""Every adapter there is, by protocol version and release: the only list (N1).

A changed adapter is a new release beside the old one, so that what still runs under the old one
can be handed over or kept. Releases of a version are listed oldest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters import aip_151, mcp_2025_11_25, mcp_2026_07_28

if TYPE_CHECKING:
    from adapters.contract import Adapter

_ADAPTERS: dict[tuple[str, str], Adapter] = {
    ("2025-11-25", "r1"): mcp_2025_11_25.Mcp20251125(),
    ("2026-07-28", "r1"): mcp_2026_07_28.Mcp20260728(),
    ("aip-151", "r1"): aip_151.Aip151(),
}


class UnknownAdapterError(LookupError):
    """No adapter is registered for this protocol version and release."""


def adapter(version: str, release: str) -> Adapter:
    """Give the adapter of this protocol version and release. Raises UnknownAdapterError."""
    try:
        return _ADAPTERS[version, release]
    except KeyError:
        known = ", ".join(" ".join(key) for key in _ADAPTERS)
        raise UnknownAdapterError(f"no adapter for {version!r} {release!r}; there are: {known}") from None


def versions() -> tuple[str, ...]:
    """Every protocol version that has an adapter, in the order of registration."""
    return tuple(dict.fromkeys(version for version, _ in _ADAPTERS))


def releases(version: str) -> tuple[str, ...]:
    """The releases of one protocol version, oldest first; empty for a version we do not speak."""
    return tuple(release for known, release in _ADAPTERS if known == version)
