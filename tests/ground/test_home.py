"""The run folder."""

import json
import stat

from console.ground.home import Home, from_environment, write_private


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path):
    home = Home(tmp_path / "run")

    first = home.secret_key()

    assert home.secret_key() == first
    assert len(first) >= 50
    assert stat.S_IMODE((home.root / "secret-key").stat().st_mode) == 0o600


def test_a_private_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "people.json"

    write_private(path, "one")
    write_private(path, "two")

    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_running_services_are_empty_when_nothing_runs_and_when_the_file_is_broken(tmp_path):
    home = Home(tmp_path)
    assert home.running_services() == {}

    home.services.write_text('{"DATABASE_URL": ')
    assert home.running_services() == {}

    home.services.write_text(json.dumps({"DATABASE_URL": "dbname=x"}))
    assert home.running_services() == {"DATABASE_URL": "dbname=x"}


def test_the_environment_names_another_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGCALL_HOME", str(tmp_path / "elsewhere"))

    assert from_environment().root == tmp_path / "elsewhere"
