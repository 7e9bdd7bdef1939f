"""What Celery runs of the console: bodies of three lines."""

from __future__ import annotations

import os

from celery import shared_task

from console import tidings
from operations import notices
from operations.engine import utcnow


@shared_task(ignore_result=True)
def notify() -> None:
    """Send the notices that are due. A doubled message finds them taken."""
    notices.send_due(clock=utcnow, words=tidings.words, environ=os.environ)
