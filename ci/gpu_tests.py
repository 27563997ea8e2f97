"""A plugin of pytest: what passed in an earlier run is not run again (`-p gpu_tests --rows FILE`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_rows import read_rows


def pytest_addoption(parser: pytest.Parser) -> None:
    """The file of the tests that passed."""
    parser.addoption("--rows", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    """What writes the file."""
    config.pluginmanager.register(PassedBefore(config.getoption("--rows")))


class PassedBefore:
    """The tests that passed, one JSON object a line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.before = {row["test"] for row in read_rows(file)}
        self.took: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave them out."""
        through = [item for item in items if item.nodeid in self.before]
        if through:
            config.hook.pytest_deselected(items=through)
            items[:] = [item for item in items if item.nodeid not in self.before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write one more when it is torn down."""
        if report.when == "call" and report.passed:
            self.took[report.nodeid] = report.duration
        elif report.when == "teardown" and report.passed and report.nodeid in self.took:
            row = {"test": report.nodeid, "s": f"{self.took[report.nodeid]:.2f}"}
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """If nothing was left to run, all of it is good."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.before:
            session.exitstatus = pytest.ExitCode.OK
