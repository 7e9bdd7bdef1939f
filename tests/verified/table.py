"""Print contract x peer x step: `python -m tests.verified.table`.

Nothing is tried here. Every cell is a test of `test_promises`, which fails where a cell is not as it is printed.
"""

from adapters import registry
from tests.verified import cast
from tests.verified.promises import STEPS


def main():
    """Print a table for each contract, its notes below it."""
    for version in registry.versions():
        peers = [peer for peer in cast.PEERS if peer.version == version]
        notes: list[str] = []
        print(f"## {version}\n")
        print("| step | promised |", " | ".join(peer.name for peer in peers), "|")
        print("|---" * (len(peers) + 2) + "|")
        for title, step in STEPS.items():
            promised = step.promised(registry.adapter(version, registry.releases(version)[-1]).promises)
            shown = [_cell(peer, title, notes) for peer in peers]
            if any(cell != "-" for cell in shown):
                print(f"| {title} | {promised} |", " | ".join(shown), "|")
        print()
        for number, note in enumerate(notes, start=1):
            print(f"{number}. {note}")
        print()


def _cell(peer, title, notes):
    if (peer.name, title) not in {(one.name, tried) for one, tried in cast.cells()}:
        return "-"
    deviation = cast.DEVIATES.get((peer.name, title))
    if deviation is None:
        return "pass"
    if deviation.why not in notes:
        notes.append(deviation.why)
    return f"deviates ({notes.index(deviation.why) + 1}): {' or '.join(deviation.seen)}"


if __name__ == "__main__":
    main()
