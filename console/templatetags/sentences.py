"""Words of the floors below, in the reader's language."""

from django import template

from console import sentences

register = template.Library()


@register.filter
def sentence(said: str | None) -> str:
    """Say what stands against a verdict, why a server did not answer, or which role somebody has."""
    return sentences.in_words(str(said or ""))
