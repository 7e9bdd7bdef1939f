"""Which adapters there are, and how further releases come in (N1)."""

import os
import subprocess
import sys

import pytest

from adapters import registry
from adapters.mcp_2025_11_25 import Mcp20251125
from console.ground.home import PROJECT
from tests.adapters.planted import TakesErrorsForSuccess

VERSION = "2025-11-25"


def test_several_releases_of_one_version_stand_oldest_first():
    found = registry.collect([Mcp20251125()], [TakesErrorsForSuccess()])

    assert list(found) == [(VERSION, "r1"), (VERSION, "r2")]


def test_no_release_takes_the_place_of_another():
    with pytest.raises(registry.BadAdaptersError, match="a release r1 of 2025-11-25 already"):
        registry.collect([Mcp20251125()], [Mcp20251125()])


def test_a_list_from_outside_is_named_by_its_place():
    [found] = registry.from_outside(" tests.adapters.planted:RELEASES, ")

    assert (found.promises.protocol_version, found.release) == (VERSION, "r2")
    assert registry.from_outside("") == []


@pytest.mark.parametrize(
    "named", ["no.such.module:X", "tests.adapters.planted:NOTHING", "tests.adapters.planted", "os:sep"]
)
def test_what_is_no_list_of_adapters_is_refused_with_its_name(named):
    with pytest.raises(registry.BadAdaptersError, match=named.replace(".", r"\.")):
        registry.collect(registry.from_outside(named))


def test_a_version_comes_in_with_a_release_of_ours():
    """Having the code of a newer one decides nothing."""
    command = (
        "from adapters import registry; print(registry.releases('2025-11-25'), registry.first_release('2025-11-25'))"
    )
    surroundings = os.environ | {registry.ADAPTERS: "tests.adapters.planted:RELEASES"}

    said = subprocess.run(
        [sys.executable, "-c", command], cwd=PROJECT, env=surroundings, capture_output=True, text=True, check=True
    ).stdout

    assert said.strip() == "('r1', 'r2') r1"


def test_a_process_does_not_start_with_half_of_its_adapters():
    surroundings = os.environ | {registry.ADAPTERS: "no.such.module:X"}

    ended = subprocess.run(
        [sys.executable, "-c", "import adapters.registry"],
        cwd=PROJECT,
        env=surroundings,
        capture_output=True,
        check=False,
    )

    assert ended.returncode != 0
    assert b"LONGCALL_ADAPTERS: 'no.such.module:X' is no list of adapters" in ended.stderr


def test_a_version_that_nobody_speaks_has_no_release():
    with pytest.raises(registry.UnknownAdapterError):
        registry.first_release("1999-01-01")
