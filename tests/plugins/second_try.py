"""A test with a real browser, a foreign server or a killed process gets one second try, and the report shows the first.

Such a test has other programs' timing in it: on a loaded machine one of a thousand meets a moment that none of our
waits foresaw, and a run of five thousand tests would fail for it. Nothing is hidden: each first failure is printed in
full, the closing line counts the reruns, and what is ours alone (ledger, driver, interleavings) has one try only.
"""

import pytest

OTHERS = ("browser", "verified", "faults")
OURS = "interleave"  # seeded: what fails once fails always


def pytest_collection_modifyitems(items):
    """Mark the tests that live with other programs."""
    for item in items:
        if OURS not in item.path.parts and any(item.get_closest_marker(name) for name in OTHERS):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter):
    """Print what went wrong the first time."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.line(report.longreprtext)
