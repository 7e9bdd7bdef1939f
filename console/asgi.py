"""The web process: HTTP to Django's views, WebSockets to the live consumer."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Before settings are read: under ASGI each request runs in a thread of its own, so connections are shared by a pool.
os.environ.setdefault("LONGCALL_POOL", "8")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path

pages = get_asgi_application()

from console.live import LiveConsumer

sockets = URLRouter([path("ws/live", LiveConsumer.as_asgi())])  # type: ignore[arg-type, list-item]
application = ProtocolTypeRouter(
    {"http": pages, "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(sockets))}
)
