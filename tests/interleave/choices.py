"""All the chance of a run, as a list of small integers.

0 is always the dull choice: the oldest event goes first, nothing breaks. So a run is replayed by its
list, and shrunk by making the list shorter and duller.
"""

import random

FIXED = {
    "order": 0.3,  # which of those that could go on does
    "setup": 0.45,  # what the server, the tool and the people are like
    "net": 0.06,  # what happens to a message
    "hot": 0.3,  # the same, where most trouble is
    "server": 0.06,  # how the server spoils an answer
    "step": 0.025,  # what happens to a ledger step and its process
    "people": 0.45,  # how long people think, and what they do
    "world": 0.3,  # rollbacks, clocks, restarts
}
"""How often a choice of each kind is not dull."""
SWARM = (0.0, 1.0, 1.0, 3.0, 8.0)
STEADY = {"setup", "people", "order"}
"""Kinds that a swarm run leaves alone: they are no faults."""
MOST = 6_000
"""A run that makes more choices does not end by itself."""


class Exhausted(Exception):
    """The run made more choices than any run should."""


class Choices:
    """Draws choices from a seed, or repeats a list of them; what is missing at its end is 0."""

    def __init__(self, *, seed=None, script=None):
        self._random = random.Random(seed)
        self._script = script
        self._rates = self._draw_rates(seed)
        self.log = []
        self.told = []
        """The choices that were not dull: (place in the log, words)."""

    def _draw_rates(self, seed):
        if seed is None or seed % 2 == 0:
            return dict(FIXED)
        return {
            kind: rate if kind in STEADY else min(0.5, rate * self._random.choice(SWARM))
            for kind, rate in FIXED.items()
        }

    def pick(self, count, kind, words=""):
        """Return a number below `count`; 0 is dull."""
        if count < 2:
            return 0
        if self._script is not None:
            value = self._script[len(self.log)] if len(self.log) < len(self._script) else 0
            if value >= count:
                value = 0
        else:
            chance = self._random
            value = chance.randrange(1, count) if chance.random() < self._rates[kind] else 0
        if len(self.log) >= MOST:
            raise Exhausted(f"{MOST} choices")
        self.log.append(value)
        if value:
            self.told.append((len(self.log) - 1, f"{words or kind}: {value}"))
        return value

    def choose(self, kind, options, words=""):
        """Return one of the options; the first is dull."""
        value = self.pick(len(options), kind)
        if value:
            self.told[-1] = (len(self.log) - 1, f"{words or kind}: {options[value]}")
        return options[value]
