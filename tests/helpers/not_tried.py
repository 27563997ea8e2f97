"""What tests could not try on this machine, by what is missing: said once, for all environments together.

not_tried.py FOLDER: of the runs that left their outcomes there, in the folder that SPLAT_TEST_ONCE named.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

MOST_LINES = 15
FILES = "outcomes-*.json"


def lines(runs: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """The lines about runs, each test -> why it was skipped, or nothing if it ran. What ran in one was tried."""
    outcomes: dict[str, str] = {}
    for run in runs:
        outcomes |= {test: reason for test, reason in run.items() if outcomes.get(test) != ""}
    counts = Counter(reason for reason in outcomes.values() if reason).most_common()
    if not counts:
        yield "everything was tried on this machine"
        return
    yield f"not tried on this machine, {sum(count for _, count in counts)} of {len(outcomes)} tests:"
    shown = counts if len(counts) < MOST_LINES else counts[: MOST_LINES - 2]
    yield from (f"{count:6}  {' '.join(reason.split())}" for reason, count in shown)
    if rest := counts[len(shown) :]:
        yield f"{sum(count for _, count in rest):6}  for {len(rest)} other reasons; pytest -rs lists them"


class Outcomes:
    """The plugin of pytest that collects them: test -> why it was skipped, or nothing if it ran."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that was skipped as a whole, as one test."""
        if report.skipped:
            self._skipped(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test; one that is expected to fail ran."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped(report)
        elif report.when == "call":
            self.found[report.nodeid] = ""

    def _skipped(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        assert isinstance(report.longrepr, tuple)
        self.found[report.nodeid] = str(report.longrepr[2]).removeprefix("Skipped: ")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Leave them to `main` where several environments run at the same time; else say what was not tried."""
        if folder := os.environ.get("SPLAT_TEST_ONCE"):
            Path(folder, FILES.replace("*", str(os.getpid()))).write_text(json.dumps(self.found), encoding="utf-8")
        elif any(self.found.values()):
            for line in lines([self.found]):
                terminalreporter.write_line(line)


def main(folder: Path) -> None:
    """Print the lines about all runs that left their outcomes in a folder."""
    print(*lines(json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(FILES))), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
