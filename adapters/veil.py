r"""Masks known credentials in what a server says, before anything is read (R8).

A server may echo a credential as it is, or as JSON may spell it: any character as `\u00XX`, a slash or a
quote behind a backslash, and once more behind further backslashes where one JSON text stands inside another.
The network may cut it anywhere.

What is masked never gets further into this process: no digest, no parser, no page and no table has seen it.
So what the ledger calls the raw bytes are the bytes behind the veil, and whoever holds the stored copy can
check its digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from adapters.contract import MASK

_BEHIND_BACKSLASH = b'/"'
_BACKSLASH = 0x5C
_LONGEST_SPELLING = 8
r"""Bytes that one character of a secret may take: `\u00XX`, and a few backslashes more."""
_ASCII_END = 0x80
_MORE = -1
_NO = -2


class Veil:
    """Masks secrets in bytes that come whole or in pieces. `places`: how many it has masked so far."""

    def __init__(self, secrets: tuple[bytes, ...]) -> None:
        self.places = 0
        self._secrets = secrets
        self._spelled: re.Pattern[bytes] | None = None
        self._begins: re.Pattern[bytes] | None = None
        if secrets:
            self._spelled, self._begins = _patterns(secrets)
        self._reach = _LONGEST_SPELLING * max(map(len, secrets), default=0)
        self._held = b""

    def over(self, whole: bytes) -> bytes:
        """Mask what is complete."""
        if self._spelled is None:
            return whole
        if b"\\" not in whole and not any(secret in whole for secret in self._secrets):
            return whole
        masked, places = self._spelled.subn(lambda _found: MASK, whole)
        self.places += places
        return masked

    def feed(self, piece: bytes) -> bytes:
        """Give out what cannot be the beginning of a secret."""
        if self._begins is None:
            return piece
        shown = self.over(self._held + piece)
        cut = self._beginning(shown)
        self._held = shown[cut:]
        return shown[:cut]

    def rest(self) -> bytes:
        """Give out what was held back: no secret followed."""
        rest, self._held = self._held, b""
        return rest

    def _beginning(self, data: bytes) -> int:
        """Where at the end of the data a secret may begin; its length where none can."""
        assert self._begins is not None, "there are secrets"  # noqa: S101 - for the type checker
        for found in self._begins.finditer(data, max(0, len(data) - self._reach)):
            if any(_begins(data, found.start(), secret) for secret in self._secrets):
                return found.start()
        return len(data)


_NOTHING_HIDDEN = Veil(())


def veil_over(secrets: tuple[bytes, ...]) -> Veil:
    """A veil over these secrets; where there are none, one for all: it holds nothing back and counts nothing."""
    return Veil(secrets) if secrets else _NOTHING_HIDDEN


@lru_cache(maxsize=256)
def _patterns(secrets: tuple[bytes, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """How the secrets may be spelled, and the bytes with which a spelling begins; made once for each credential."""
    spelled = re.compile(b"|".join(b"".join(_spellings(secret)) for secret in secrets))
    first = {secret[0] for secret in secrets} | {_BACKSLASH}
    return spelled, re.compile(b"[%s]" % re.escape(bytes(sorted(first))))


def _spellings(secret: bytes) -> Iterator[bytes]:
    for char in secret:
        plain = re.escape(bytes([char]))
        if char == _BACKSLASH:
            plain = rb"\\+"
        elif char in _BEHIND_BACKSLASH:
            plain = rb"\\*" + plain
        if char < _ASCII_END:
            digits = "".join(f"[{digit}{digit.upper()}]" for digit in f"{char:02x}").encode()
            plain = rb"(?:%s|\\+u00%s)" % (plain, digits)
        yield plain


def _begins(data: bytes, at: int, secret: bytes) -> bool:
    """Whether the data ends inside a spelling of the secret that begins here."""
    for char in secret:
        at = _past(data, at, char)
        if at < 0:
            return at == _MORE
    return False


def _past(data: bytes, at: int, char: int) -> int:
    """Return the place behind one character of a secret; _NO for another one, _MORE where the data ends before."""
    run = at
    while run < len(data) and data[run] == _BACKSLASH:
        run += 1
    if run == len(data):
        return _MORE
    if run > at and char == _BACKSLASH:
        return run
    if data[run] == char and (run == at or char in _BEHIND_BACKSLASH):
        return run + 1
    if run == at or data[run] != ord("u"):
        return _NO
    digits, wanted = data[run + 1 : run + 5].lower(), b"%04x" % char
    if not wanted.startswith(digits):
        return _NO
    return run + 5 if digits == wanted else _MORE
