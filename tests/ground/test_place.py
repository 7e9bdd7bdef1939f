"""Where the embedded servers keep their files."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from console.ground import place
from console.ground.account import Account


@pytest.fixture
def folder():
    """A run folder that the servers' user may pass through, which pytest's own is not for root."""
    with tempfile.TemporaryDirectory(prefix="longcall-place-") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path


def test_files_and_sockets_are_inside_the_run_folder_and_private(folder):
    where = place.prepare(folder)

    assert where.files == folder / "servers"
    assert where.sockets == folder / "servers" / "sockets"
    for path in (where.files, where.sockets):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert path.stat().st_uid == where.account.uid


@pytest.mark.parametrize("name", ["with,comma", "with space", "sähköposti", "50%", "long" * 25])
def test_sockets_move_when_their_path_would_be_long_or_odd(folder, name):
    root = folder / name
    root.mkdir(mode=0o711)

    where = place.prepare(root)
    where.sockets.rmdir()

    assert where.files == root / "servers"
    assert not where.sockets.is_relative_to(root)
    assert place.PLAIN_PATH.fullmatch(str(where.sockets))
    assert len(str(where.sockets)) <= place.LONGEST_SOCKET_FOLDER


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_folder_that_somebody_else_put_there_is_refused(folder, kind):
    target = folder / "servers"
    if kind == "link":
        (folder / "elsewhere").mkdir()
        target.symlink_to(folder / "elsewhere")
    else:
        target.write_text("")

    with pytest.raises(place.UnsafeFolderError):
        place.prepare(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs its servers as another user")
def test_under_root_a_closed_run_folder_moves_the_files_where_their_user_gets_in(folder, monkeypatch):
    closed = folder / "root-home"
    (closed / "run").mkdir(parents=True)
    closed.chmod(0o700)
    monkeypatch.setattr(place, "SHARED", folder / "shared")

    first, again = place.prepare(closed / "run"), place.prepare(closed / "run")

    assert first.files.is_relative_to(folder / "shared")
    assert first.account.can_reach(first.files)
    assert again == first
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs its servers as another user")
def test_a_program_that_the_user_cannot_reach_is_copied_once_with_all_beside_it(folder):
    closed = folder / "root-home"
    (closed / "package" / "bin").mkdir(parents=True)
    (closed / "package.libs").mkdir()
    (closed / "package.libs" / "words").write_text("version 1")
    program = closed / "package" / "bin" / "server"
    program.write_text('#!/bin/sh\ncat "$(dirname "$0")/../../package.libs/words"\n')
    program.chmod(0o755)
    closed.chmod(0o700)
    where = place.prepare(folder)
    assert not where.account.can_run(program)

    copy = where.bring(program, closed / "package", closed / "package.libs")

    assert where.account.run([str(copy)]).stdout == "version 1"
    assert where.bring(program, closed / "package", closed / "package.libs") == copy


def test_a_program_within_reach_is_used_where_it_is(folder):
    where = place.prepare(folder)

    assert where.bring(Path("/bin/cat")) == Path("/bin/cat")


def test_an_account_that_does_not_switch_runs_as_ourselves():
    ourselves = Account(uid=os.geteuid(), gid=os.getegid(), switches=False)

    assert ourselves.run(["id", "-u"]).stdout.strip() == str(os.geteuid())
