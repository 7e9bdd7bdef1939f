"""What Celery runs. Bodies of three lines: a message is only a wake-up, the ledger is the queue."""

from __future__ import annotations

from celery import shared_task

from operations import watch as watch_
from operations.engine import engine, utcnow

SLICE_S = 5.0
"""How long one drive task works before its process takes the next message."""


@shared_task(ignore_result=True)
def drive() -> None:
    """Drive what is due for one slice, and wake another process where more is due.

    A lost or doubled message changes nothing.
    """
    if engine().slice(SLICE_S):
        drive.apply_async(expires=SLICE_S)


@shared_task(ignore_result=True)
def watch() -> None:
    """Check the ledger and measure the gates. A doubled message finds the minute taken."""
    watch_.watch(clock=utcnow)
