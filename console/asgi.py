"""The web process: HTTP to Django's views, WebSockets to the live consumer."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Before settings are read: under ASGI each request runs in a thread of its own, so connections are shared by a pool.
os.environ.setdefault("LONGCALL_POOL", "8")

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

application = ProtocolTypeRouter({"http": get_asgi_application()})
