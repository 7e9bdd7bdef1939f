"""The Celery application: the pool of hands.

The schedule (BEAT_SCHEDULE in settings) runs in a thread of the worker: `celery worker -B` leaves an orphan that goes
on ticking after a kill -9, and a process of its own costs 40 MB. Several workers may all tick: a tick that finds
nothing due does nothing.
"""

import os
from typing import Any

from celery import Celery, bootsteps
from celery.beat import EmbeddedService, Scheduler
from celery.signals import worker_process_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")


REST = 4.0
"""Seconds that a stopping worker gives its drives; `up` waits for twice as long before it kills."""


class BeatThread(bootsteps.StartStopStep):
    """Starts and stops the schedule together with the worker that carries it."""

    requires = ("celery.worker.components:Pool",)
    label = "BeatThread"

    def include_if(self, parent: Any) -> bool:  # noqa: ANN401 - Celery passes its untyped worker
        """Return whether this worker carries the schedule (LONGCALL_BEAT)."""
        return bool(parent.app.conf.beat_schedule) and _beat_is_on()

    def create(self, parent: Any) -> Any:  # noqa: ANN401 - as above
        """Return the thread; Celery starts and stops it with the worker."""
        # Its own default scheduler keeps a file in the current folder; ours has nothing to remember.
        return EmbeddedService(parent.app, thread=True, scheduler_cls=Scheduler)


def rest(**_told: Any) -> None:  # noqa: ANN401 - whatever Celery says of a process that ends
    """Let the drives of this process end before it goes: a request cut off leaves its call unknown for nothing (L4)."""
    from operations.engine import engine

    if engine.cache_info().currsize:
        engine().stop(REST)


# With `--processes` the engines are in the children of the worker, which its own steps do not reach.
worker_process_shutdown.connect(rest)


class EngineRest(bootsteps.StartStopStep):
    """Gives the drives of this worker their rest."""

    requires = ("celery.worker.components:Pool",)
    label = "EngineRest"

    def start(self, parent: Any) -> None:  # noqa: ANN401 - Celery passes its untyped worker
        """Nothing to start: the first drive makes the engine."""

    def stop(self, parent: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Wait for what is under way, for some seconds."""
        rest()


def _beat_is_on() -> bool:
    from django.conf import settings  # the application exists before the settings are read

    return bool(settings.BEAT)


app = Celery("longcall")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(BeatThread)
app.steps["worker"].add(EngineRest)
app.autodiscover_tasks(["operations", "console"])
