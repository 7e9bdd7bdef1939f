"""What must not run side by side does not: a release of pytest once took that away without a word."""

import os
import subprocess
import sys

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(8))
def test_says_where_it_runs(number):
    with open("workers", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_the_tests_of_one_group_run_in_one_process(tmp_path):
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    words = ("-q", "--numprocesses", "2", "--dist", "loadgroup", "--rootdir", ".")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_grouped.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers = (tmp_path / "workers").read_text().split()
    assert (len(workers), len(set(workers))) == (8, 1)
