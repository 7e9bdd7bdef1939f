"""Lists as people like to see them: kept on the server, so that they follow the person and can be shared."""

from __future__ import annotations

from django.db import models

from operations.models.people import Team


class SavedView(models.Model):
    """A list with its filters, its order and its columns, under a name."""

    id = models.UUIDField(primary_key=True)
    """Chosen by the form: the same post twice is one view (R9)."""
    owner = models.TextField()
    name = models.TextField()
    query = models.TextField()
    """What stands behind the question mark of the list's address, without the place in its pages."""
    team = models.ForeignKey(Team, null=True, on_delete=models.SET_NULL)
    """Everybody of this team sees it; None: its owner alone."""
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "saved_view"
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="one_view_of_a_name")]


class DefaultView(models.Model):
    """The view that a person's list opens with."""

    person = models.TextField(primary_key=True)
    view = models.ForeignKey(SavedView, on_delete=models.CASCADE)

    class Meta:
        db_table = "default_view"
