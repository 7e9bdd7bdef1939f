"""The Django application "operations": the ledger's tables and everything that may write them."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """Registers the application."""

    name = "operations"
