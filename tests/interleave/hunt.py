"""Hunts planted faults with random runs, and keeps a schedule that shows each."""

from pathlib import Path

from tests.interleave import mutants, plan, runs, shrink
from tests.interleave.choices import Choices

CORPUS = Path(__file__).parent / "corpus"


class Scripted(Choices):
    """Choices of a seed, but for a few places where something wanted is chosen the first time."""

    def __init__(self, seed, script):
        super().__init__(seed=seed)
        self._wanted = list(script)

    def choose(self, kind, options, words=""):
        for wanted in self._wanted:
            where, what = wanted
            if where in words and what in options:
                self._wanted.remove(wanted)
                self.log.append(options.index(what))
                self.told.append((len(self.log) - 1, f"{words}: {what}"))
                return what
        return super().choose(kind, options, words)


def hunt(place, name, seeds, *, most=400, shrink_s=6.0):
    """Return the first outcome, made small, in which a planted fault shows, and the runs it took; or None.

    At most `most` runs, of seeds whose plan can show the fault at all.
    """
    mutant, tried = mutants.MUTANTS[name], 0
    for seed in seeds:
        depth = runs.depth_of(seed)
        if not mutant.wants(plan.draw(Choices(seed=seed), depth=depth)):
            continue
        tried += 1
        if tried > most:
            break
        with mutants.planted(name):
            found = runs.alone(place, choices=Scripted(seed, mutant.script), depth=depth)
        # What fails without the planted fault too says nothing about it.
        if found.violations and not runs.alone(place, script=found.script, depth=depth).violations:
            with mutants.planted(name):
                small = shrink.shrink(place, found, patience_s=shrink_s)
            small.seed = seed
            return small, tried
    return None, tried


def keep(place, name, *, tell, shrink_s=6.0):
    """Hunt one planted fault and keep its schedule in the corpus. False: it was not found."""
    small, tried = hunt(place, name, range(1, 10_001), shrink_s=shrink_s)
    tell(f"{name}: {'not found' if small is None else f'seed {small.seed}'} in {tried} runs")
    if small is not None:
        path = CORPUS / f"planted-{name.replace(' ', '-')}.json"
        shrink.save(small, path, note=mutants.MUTANTS[name].what, mutant=name)
    return small is not None
