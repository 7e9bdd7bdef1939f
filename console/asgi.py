"""The web process: HTTP to Django's views, WebSockets to the live consumer.

Note [One interpreter]
The loop that tells the sockets shares its interpreter with the threads that make pages. Each write to a socket lets go
of the interpreter, and with Python's own 5 ms the loop waits that long to have it back, a hundred times for a hundred
sockets; 0.5 ms costs the pages nothing that was seen. And a full garbage collection looked through 140,000 objects,
nearly all of them code, for a tenth of a second in which nothing moved; what is loaded by now stays until the end, so
it is not looked through again (T10).
"""

import gc
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Before settings are read: under ASGI each request runs in a thread of its own, so connections are shared by a pool.
os.environ.setdefault("LONGCALL_POOL", "8")

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application
from django.urls import get_resolver, path

pages = get_asgi_application()

from console.live import LiveConsumer

sockets = URLRouter([path("ws/live", LiveConsumer.as_asgi())])  # type: ignore[arg-type, list-item]
application = ProtocolTypeRouter({"http": pages, "websocket": AllowedHostsOriginValidator(CookieMiddleware(sockets))})

# See Note [One interpreter].
sys.setswitchinterval(0.0005)
_ = get_resolver().url_patterns  # loads every view
gc.collect()
gc.freeze()
