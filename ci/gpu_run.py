"""Run the steps of ci/gpu, each in its box; what is known is kept in a folder, and in one archive, at any time."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gpu_plan import CUT, FAILED, MEASURING, PASSED, SKIPPED, SPARED, Outcome, Step, choose, seconds_for
from gpu_rows import SKIPPED as SKIPPED_STATUS
from gpu_rows import read_rows, tables

ARCHIVE = "gpu-results.tar.gz"
ARCHIVE_LIMIT = 16 * 2**20
KEPT_BACK = ("site-packages", "build", "empty")  # folders of the state that are no results
CAPS = (2**20, 2**16, 2**12)  # bytes of a file that are archived, its last ones; the next if all are too many
EVERY = 20.0  # seconds between two archives
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
NOTHING = Outcome(CUT, 0.0)
GRACE = 5.0  # seconds between asking a step to end and ending it


@dataclass
class State:
    """A folder of results, with what became of each step."""

    folder: Path
    measured: dict[str, str]  # what the results are of
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @staticmethod
    def open(folder: Path, measured: dict[str, str]) -> State:
        """That of earlier commands. If it is of something else, it is moved aside, and a new one is begun."""
        file = folder / "steps.json"
        if file.exists():
            known = json.loads(file.read_text(encoding="utf-8"))
            if known["measured"] == measured:
                outcomes = {name: Outcome(**outcome) for name, outcome in known["outcomes"].items()}
                return State(folder, measured, outcomes)
            aside = next(path for n in range(1, 1000) if not (path := folder.with_name(f"{folder.name}.{n}")).exists())
            folder.rename(aside)
            print(f"the results that were here are of another wheel or GPU; moved to {aside}")
        folder.mkdir(parents=True, exist_ok=True)
        return State(folder, measured)

    def set(self, name: str, outcome: Outcome) -> None:
        """Keep it."""
        self.outcomes[name] = outcome
        kept = {"measured": self.measured, "outcomes": {n: o._asdict() for n, o in self.outcomes.items()}}
        replace(self.folder / "steps.json", json.dumps(kept, indent=1).encode())

    def log(self, name: str) -> Path:
        """A step's output, of all commands."""
        return self.folder / f"{name}.txt"

    def rows(self, name: str) -> Path:
        """What a step has measured or passed, one JSON object a line."""
        return self.folder / f"{name}.jsonl"

    def units(self, name: str) -> int:
        """How far a step has got, as a number that grows."""
        objects = len(list(self.folder.glob("build/**/*.o"))) if name == "peer" else 0
        return objects + len(read_rows(self.rows(name)))


@dataclass
class Running:
    """A step's process."""

    step: Step
    process: subprocess.Popen[bytes]
    log: Path
    begin: float
    end: float
    units: int
    shown: int  # bytes of the log

    def show(self) -> None:
        """What is new in the log."""
        with self.log.open("rb") as output:
            output.seek(self.shown)
            new = output.read()
        self.shown += len(new)
        sys.stdout.write(new.decode(errors="replace"))
        sys.stdout.flush()


@dataclass
class Runner:
    """One command's run of the steps."""

    state: State
    archive: Path
    commands: Mapping[str, Sequence[str]]
    env: Mapping[str, str]
    seconds: float | None  # for all; none: as long as the boxes allow
    begin: float = field(default_factory=time.monotonic)
    running: dict[str, Running] = field(default_factory=dict)
    archived: float = 0.0
    stopped_by: int = 0  # a signal

    def run(self, steps: Sequence[Step]) -> None:
        """What fits. A signal is waited for where nothing is half done; it ends what runs, and what is known is kept.

        Raises:
            SystemExit: a signal came.
        """
        before = {number: signal.signal(number, self.note) for number in SIGNALS}
        tried: set[str] = set()
        try:
            while (
                not self.stopped_by
                and (step := choose(steps, self.state.outcomes, tried, self.running, self.left())) is not None
            ):
                if step.after in self.running:
                    self.wait(self.running[step.after])
                    continue  # there may be less time than before
                tried.add(step.name)
                begun = self.start(step)
                if not step.beside:
                    self.wait(begun)
            for each in list(self.running.values()):
                self.wait(each)
        finally:
            for each in list(self.running.values()):
                self.finish(each)
            self.write_archive()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.stopped_by:
            sys.exit(128 + self.stopped_by)

    def note(self, number: int, frame: FrameType | None) -> None:
        """What a signal does."""
        self.stopped_by = number

    def left(self) -> float | None:
        """Seconds for steps."""
        return None if self.seconds is None else self.begin + self.seconds - SPARED - time.monotonic()

    def start(self, step: Step) -> Running:
        """Begin it."""
        seconds = seconds_for(step, self.left())
        print(f"\n== {step.name}: {step.what} (at most {seconds:.0f} s)", flush=True)
        log = self.state.log(step.name)
        empty = self.state.folder / "empty"  # where Python finds nothing to import
        empty.mkdir(exist_ok=True)
        units, shown = self.state.units(step.name), log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.commands[step.name],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self.env),
                cwd=empty,
                preexec_fn=os.setpgrp,  # to end it with all that it starts, and to be the one that a signal ends
            )
        now = time.monotonic()
        begun = Running(step, process, log, now, now + seconds, units, shown)
        self.running[step.name] = begun
        return begun

    def wait(self, running: Running) -> None:
        """Until it ends, or its box does; its output is shown meanwhile."""
        while running.process.poll() is None and time.monotonic() < running.end and not self.stopped_by:
            running.show()
            time.sleep(0.1)
            for other in list(self.running.values()):
                if other is not running and (other.process.poll() is not None or time.monotonic() >= other.end):
                    self.finish(other)
            if time.monotonic() - self.archived > EVERY:
                self.write_archive()
        self.finish(running)

    def finish(self, running: Running) -> None:
        """End it where it runs still, and keep what became of it."""
        step, seconds = running.step, time.monotonic() - running.begin
        cut = running.process.poll() is None
        end_group(running.process)
        running.show()
        del self.running[step.name]
        earlier = self.state.outcomes.get(step.name)
        total = seconds + (earlier.seconds if earlier else 0.0)
        if cut:
            moved = self.state.units(step.name) > running.units
            outcome = Outcome(CUT, total, f"stopped after {seconds:.0f} s", moved)
        else:
            outcome = outcome_of(running.process.returncode, total, running.log)
            if outcome.state == PASSED and self.lacks(step):
                outcome = Outcome(CUT, total, f"without what {step.after} has not finished")
        reason = f", {outcome.reason}" if outcome.reason else ""
        print(f"-- {step.name}: {outcome.state}{reason} ({seconds:.0f} s)", flush=True)
        self.state.set(step.name, outcome)
        self.write_archive()

    def lacks(self, step: Step) -> bool:
        """Whether what it waits for was stopped, or not begun, but will be there some day."""
        return bool(step.after) and self.state.outcomes.get(step.after, NOTHING).state == CUT

    def write_archive(self) -> None:
        """All results, in the one file that comes back."""
        self.archived = time.monotonic()
        for cap in CAPS:
            packed = pack(self.state, cap)
            if len(packed) < ARCHIVE_LIMIT:
                break
        replace(self.archive, packed)


def outcome_of(status: int, seconds: float, log: Path) -> Outcome:
    """What an exit status says."""
    if status == 0:
        return Outcome(PASSED, seconds)
    if status == SKIPPED_STATUS:
        said = [line for line in last(log, 2**14).decode(errors="replace").splitlines() if line.startswith("skipped: ")]
        return Outcome(SKIPPED, seconds, said[-1].removeprefix("skipped: ") if said else "")
    return Outcome(FAILED, seconds, f"exit status {status}" if status > 0 else f"signal {-status}")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """A process and what it has started, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            if number == signal.SIGKILL:
                return
    process.wait()


def last(file: Path, size: int) -> bytes:
    """The end of a file."""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - size))
        return opened.read()


def replace(file: Path, content: bytes) -> None:
    """Write a file that is never there in part."""
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(content)
    part.replace(file)


def pack(state: State, cap: int) -> bytes:
    """The archive's bytes: the ends of all files, and all measurements as `ci/bench compare` reads them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        lines = [{"measured": state.measured}, *measurements(state.folder)]
        add(archive, "results.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
        for file in sorted(state.folder.rglob("*")):
            name = file.relative_to(state.folder)
            kept_back = name.parts[0] in KEPT_BACK or file.name == ARCHIVE or file.name.endswith(".part")
            if file.is_file() and not kept_back:
                # Rows are never cut: what would be left is what an earlier command did not do.
                add(archive, str(name), last(file, cap if file.suffix == ".txt" else ARCHIVE_LIMIT))
    return packed.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """A member."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(content), int(time.time())
    archive.addfile(member, io.BytesIO(content))


def measurements(folder: Path) -> Iterator[dict[str, Any]]:
    """The tables of all steps that measure."""
    for name in MEASURING:
        yield from tables(read_rows(folder / f"{name}.jsonl"))


def unpack(archive: Path, folder: Path) -> None:
    """Go on from an archive that came back from another machine."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            content = opened.extractfile(member)
            if content is not None and member.name == Path(member.name).name and member.name != "results.jsonl":
                (folder / member.name).write_bytes(content.read())
