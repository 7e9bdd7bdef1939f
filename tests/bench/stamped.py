"""The product's site as it is, with a stamp where a commit has returned and where the site itself hears of it.

Served by uvicorn as `tests.bench.stamped:application`; under /bench/stamps it tells both, by the machine's clock.
"""

import json
import time

from console.asgi import application as site
from console.live import Listener
from operations.ledger import step

committed, heard = {}, {}
"""By operation and version."""
_transact, _note = step._transact, Listener._note


def _stamp_commit(*change, **beside):
    moved, error = _transact(*change, **beside)
    if error is None:
        committed.setdefault(f"{moved.operation} {moved.version}", time.time())
    return moved, error


def _stamp_hearing(listener, payload):
    at = time.time()
    _note(listener, payload)
    told = json.loads(payload)
    heard.setdefault(f"{told['op']} {told['v']}", at)


step._transact, Listener._note = _stamp_commit, _stamp_hearing


async def application(scope, receive, send):
    if scope.get("path") != "/bench/stamps":
        await site(scope, receive, send)
        return
    body = json.dumps({"committed": committed, "heard": heard}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
