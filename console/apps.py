"""The Django application "console": templates tags, commands, translations."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Registers the application."""

    name = "console"
