"""Sentences of the floors below, for people: what stands against a verdict, why a server did not answer.

Those floors know no translations, and their words stand in the ledger as they were said. So they are listed here,
and a test holds the list against them. What a server says itself is not ours to translate.
"""

from __future__ import annotations

from django.utils import translation
from django.utils.translation import gettext_noop as _

SAID = frozenset(
    {
        # the roles
        _("approver"),
        _("operator"),
        _("admin"),
        _("viewer"),
        # what stands against a verdict
        _("Nothing was ever sent."),
        _("Only the server's proof by the submission key shows that nothing was created."),
        _("The operation has ended and has its receipt."),
        _("The operation goes on by itself; nobody has to decide."),
        _("A task is bound already."),
        _("A cancel was asked; it is never submitted again."),
        _("No terminal status has been seen."),
        _("A terminal status alone is not a result; its bytes are not in evidence."),
        _("The evidence contradicts itself or the result was refused."),
        _("The lookup is still under way."),
        _("Nothing was created, and that is known: close it as never created."),
        # why a verdict was not carried out
        _("the verdict needs the id of the task that was found"),
        _("the operation has ended; there is nothing left to look up"),
        _("the person who proposed a verdict cannot confirm it"),
        _("Somebody has decided this proposal meanwhile."),
        _("that task has just been bound to another operation"),
        _("this verdict has come to need a second person"),
        # why there was no answer
        _("the URL cannot be used"),
        _("the URL is neither http nor https"),
        _("no connection to the server became free in time"),
        _("no connection to the server in time"),
        _("the server cannot be reached"),
        _("a proxy failed"),
        _("the request could not be written in time"),
        _("the connection broke while the request was written"),
        _("no answer in time"),
        _("the connection broke before the answer was whole"),
        _("the connection could not be closed"),
        _("the request broke the rules of HTTP"),
        _("the server broke the rules of HTTP, or hung up"),
        _("the answer's content encoding is broken"),
        _("too many redirects"),
        _("the status is an error"),
        _("two cookies of one name"),
        _("the stream was read twice"),
        _("the stream was closed"),
        _("the answer was not read"),
        _("the request was not read"),
        _("the answer was not whole in time"),
        _("the event stream ended without the answer"),
    }
)
"""What may be said, in the source's own words."""


def in_words(said: str) -> str:
    """Say it in the reader's language; what is not listed, such as a server's own words, stays as it is."""
    return translation.gettext(said) if said in SAID else said
