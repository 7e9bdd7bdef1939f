"""Every adapter there is, by protocol version and release: the only list (N1).

A changed adapter is a new release beside the old one, so that what still runs under the old one
can be handed over or kept. Releases of a version are listed oldest first.

Note [Releases from outside]
Somebody whose server needs another reading of a contract this week cannot wait for our next version, and
must not edit this file. `LONGCALL_ADAPTERS` names lists of further adapters, `package.module:NAME`, with
commas between. They are read once, when a process starts, so web and workers of one installation have the
same ones. They can only be added: none takes the place of another, and each stands after ours, as the
newest. Having the code decides nothing: a release takes its first call when an admin gives it a share (O2).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from adapters import aip_151, mcp_2025_11_25, mcp_2026_07_28

if TYPE_CHECKING:
    from adapters.contract import Adapter

ADAPTERS = "LONGCALL_ADAPTERS"
_OURS: tuple[Adapter, ...] = (
    mcp_2025_11_25.Mcp20251125(),
    mcp_2026_07_28.Mcp20260728(),
    aip_151.Aip151(),
)


class BadAdaptersError(ValueError):
    """What `LONGCALL_ADAPTERS` names cannot be used. The process must not start with half of it."""


class UnknownAdapterError(LookupError):
    """No adapter is registered for this protocol version and release."""


def collect(*lists: Iterable[Adapter]) -> dict[tuple[str, str], Adapter]:
    """Return adapters by protocol version and release, in order. Raises BadAdaptersError where two have one name."""
    found: dict[tuple[str, str], Adapter] = {}
    for one in (one for adapters in lists for one in adapters):
        name = (one.promises.protocol_version, one.release)
        if name in found:
            raise BadAdaptersError(f"there is a release {name[1]} of {name[0]} already")
        found[name] = one
    return found


def from_outside(named: str) -> list[Adapter]:
    """Return the adapters of `package.module:NAME`, several with commas between. Raises BadAdaptersError."""
    found: list[Adapter] = []
    for place in filter(None, (part.strip() for part in named.split(","))):
        module, _colon, name = place.partition(":")
        try:
            named_there = getattr(importlib.import_module(module), name)
            found += [_adapter_like(one) for one in named_there]
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise BadAdaptersError(f"{ADAPTERS}: {place!r} is no list of adapters: {error}") from error
    return found


def _adapter_like(one: Adapter) -> Adapter:
    """Return what can be looked up by version and release. Raises AttributeError for anything else."""
    if not one.promises.protocol_version or not one.release:
        raise ValueError("an adapter names its protocol version and its release")
    return one


_ADAPTERS: Mapping[tuple[str, str], Adapter] = collect(_OURS, from_outside(os.environ.get(ADAPTERS, "")))


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


def first_release(version: str) -> str:
    """The release that a protocol version comes in with: the newest of ours, never one from outside while we have one.

    Raises UnknownAdapterError for a version we do not speak.
    """
    ours = [one.release for one in _OURS if one.promises.protocol_version == version]
    known = ours[-1:] or list(releases(version)[:1])
    if not known:
        raise UnknownAdapterError(f"no adapter speaks {version!r}")
    return known[0]
