"""Rights as a test wants them, where the ledger asks for the rights of people."""

from operations.approval import Person


def everybody(names):
    """Anybody is an approver of every server, and in no team."""
    return {name: approver(name) for name in names}


def approver(name, **rights):
    """One approver of every server; `rights` says what differs."""
    held = {"names": frozenset({name.removeprefix("person:")}), "approves": True, "servers": None}
    return Person(by=name, **(held | rights))
