"""What Celery runs of the console: bodies of three lines."""

from __future__ import annotations

import os

from celery import shared_task

from console import tidings
from console.bulk import still_may
from operations import ledger, notices
from operations.engine import utcnow

SLICE_S = 4.0
"""How long batches are worked at before the thread takes the next message."""


@shared_task(ignore_result=True)
def notify() -> None:
    """Send the notices that are due. A doubled message finds them taken."""
    notices.send_due(clock=utcnow, words=tidings.words, environ=os.environ)


@shared_task(ignore_result=True)
def desk() -> None:
    """Gather the incidents, then do rows of running batches. A doubled message finds them taken.

    It stands here and not in `operations`, because each row asks again whether its person still may.
    """
    ledger.gather_incidents(now=utcnow())
    ledger.run_batches(seconds=SLICE_S, may=still_may, clock=utcnow)
