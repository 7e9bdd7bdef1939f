"""What is planned is there: a schedule that names a task nobody has does nothing, silently."""

from django.conf import settings

from console.celery import app


def test_every_task_of_the_schedule_exists():
    app.loader.import_default_modules()

    assert {entry["task"] for entry in settings.BEAT_SCHEDULE.values()} <= set(app.tasks)
