"""Wait until the site answers, and say early why it does not."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from enum import Enum

LOOK_AGAIN = 0.1


class Answer(Enum):
    """What one look at the site told."""

    READY = "ready"
    NOT_YET = "not yet"


class BrokenSiteError(Exception):
    """The site answers, but with an error; the text names it."""


def wait(url: str, *, patience: float, go_on: Callable[[], bool]) -> bool:
    """Wait until `url` answers 200. Return False when `patience` seconds passed or `go_on` said no.

    Raises: BrokenSiteError at the first answer that is an error: it would not get better by waiting.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and go_on():
        if look(url) is Answer.READY:
            return True
        time.sleep(LOOK_AGAIN)
    return False


def look(url: str) -> Answer:
    """Look once.

    Raises: BrokenSiteError.
    """
    # No proxy: the environment's is for the world outside, this address is our own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5):
            return Answer.READY
    except urllib.error.HTTPError as error:
        raise BrokenSiteError(f"{url} answers {error.code} {error.reason}") from error
    except OSError:
        return Answer.NOT_YET
