"""The steps of ci/gpu: which one is next, what ends one, what the next command finds, and the one archive."""

from __future__ import annotations

import json
import os
import signal
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "ci"), str(REPOSITORY / "benchmarks")]

import compare_results  # noqa: E402
import gpu_plan  # noqa: E402
import gpu_run  # noqa: E402
from gpu_plan import CUT, FAILED, PASSED, SKIPPED, SPARED, STEPS, Outcome, Step, choose, schedule, verdict  # noqa: E402
from gpu_run import Runner, State  # noqa: E402

pytestmark = pytest.mark.once
WHEEL = {"machine": "a GPU", "sha256": "1"}
NINE = 9 * 60


def order(outcomes: dict[str, Outcome], left: float | None = None, steps: Sequence[Step] = STEPS) -> list[str]:
    """What is run in one command where nothing changes."""
    tried: list[str] = []
    while (step := choose(steps, outcomes, tried, (), left)) is not None and step.name not in tried:
        tried.append(step.name)
        outcomes.setdefault(step.name, Outcome(CUT, 0))
    return tried


# The plan


def test_what_answers_most_comes_first() -> None:
    names = order({})

    assert names == [step.name for step in STEPS]
    assert names.index("tests") < names.index("times") < names.index("kernels") < names.index("memcheck")


def test_what_does_not_fit_is_passed_over() -> None:
    small = [step.name for step in STEPS if step.least <= 20]

    assert order({}, left=20) == small
    assert 0 < len(small) < len(STEPS)


def test_what_goes_on_is_first_and_what_failed_last() -> None:
    outcomes = {
        "doctor": Outcome(FAILED, 1),
        "rates": Outcome(CUT, 1, moved=False),
        "peer": Outcome(SKIPPED, 1),
        "tests": Outcome(PASSED, 1),
        "times": Outcome(CUT, 1, moved=True),
    }

    names = order(outcomes)

    assert names[:2] == ["forms", "times"]
    assert names[-2:] == ["rates", "doctor"]
    assert not {"peer", "tests"} & set(names)


def test_within_a_command_only_what_goes_on_is_run_again_and_only_after_the_others() -> None:
    steps = STEPS[:2]
    moved, stuck, passed = Outcome(CUT, 1, moved=True), Outcome(CUT, 1), Outcome(PASSED, 1)

    assert choose(steps, {"doctor": moved}, ["doctor"], (), None) == steps[1]
    assert choose(steps, {"doctor": moved, "rates": passed}, ["doctor", "rates"], (), None) == steps[0]
    assert choose(steps, {"doctor": stuck, "rates": passed}, ["doctor", "rates"], (), None) is None


def test_at_the_slowest_three_commands_of_nine_minutes_have_all_and_the_first_the_measurements() -> None:
    commands = schedule(STEPS, NINE)

    assert len(commands) == 3
    assert sorted(name for names in commands for name in names) == sorted(step.name for step in STEPS)
    assert {"doctor", "rates", "tests", "times", "kernels"} <= set(commands[0])
    boxes = {step.name: 0 if step.beside else step.box for step in STEPS}
    assert all(sum(boxes[name] for name in names) <= NINE - SPARED for names in commands)


def test_a_step_is_not_given_more_than_there_is() -> None:
    assert gpu_plan.seconds_for(STEPS[0], None) == STEPS[0].box
    assert gpu_plan.seconds_for(STEPS[0], 1e6) == STEPS[0].box
    assert gpu_plan.seconds_for(STEPS[0], 7) == 7


def test_the_verdict() -> None:
    good = {step.name: Outcome(PASSED, 1) for step in STEPS} | {"counters": Outcome(SKIPPED, 1)}

    assert verdict(STEPS, good) == (0, "good")
    assert verdict(STEPS, good | {"times": Outcome(CUT, 1)})[0] == 3
    assert verdict(STEPS, good | {"tests": Outcome(FAILED, 1), "times": Outcome(CUT, 1)}) == (
        1,
        "failed: tests; left: times; the same command goes on with them",
    )


# Running


def step(name: str, box: int = 30, **more: object) -> Step:
    return Step(name, "", box, least=1, **more)  # type: ignore[arg-type]


def run(folder: Path, commands: dict[str, str], *steps: Step, seconds: float | None = None) -> State:
    """One command, of shell scripts."""
    state = State.open(folder / "state", WHEEL)
    scripts = {name: ["sh", "-c", script] for name, script in commands.items()}
    Runner(state, folder / "results.tar.gz", scripts, os.environ, seconds).run(
        steps or [step(name) for name in commands]
    )
    return state


def states(state: State) -> dict[str, str]:
    return {name: outcome.state for name, outcome in state.outcomes.items()}


def members(folder: Path) -> dict[str, bytes]:
    with tarfile.open(folder / "results.tar.gz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def test_an_exit_status_says_what_became_of_a_step(tmp_path: Path) -> None:
    commands = {"good": "echo fine", "bad": "exit 3", "none": "echo skipped: no such program; exit 77"}

    state = run(tmp_path, commands)

    assert states(state) == {"good": PASSED, "bad": FAILED, "none": SKIPPED}
    assert state.outcomes["bad"].reason == "exit status 3"
    assert state.outcomes["none"].reason == "no such program"
    assert members(tmp_path)["good.txt"] == b"fine\n"


def test_a_box_ends_a_step_and_all_that_it_started_and_the_next_one_runs(tmp_path: Path) -> None:
    script = f'sleep 60 & echo $! >"{tmp_path}/child"; wait'

    begin = time.monotonic()
    state = run(tmp_path, {"long": script, "next": "true"}, step("long", 1), step("next"))

    assert time.monotonic() - begin < 20
    assert states(state) == {"long": CUT, "next": PASSED}
    child = int((tmp_path / "child").read_text())
    for _ in range(50):
        if not Path("/proc", str(child)).exists() or " Z " in Path("/proc", str(child), "stat").read_text():
            return
        time.sleep(0.1)
    pytest.fail("the child runs on")


def test_the_next_command_goes_on_with_what_the_first_one_left(tmp_path: Path) -> None:
    rows = tmp_path / "state" / "long.jsonl"
    script = f'echo begun >>"{tmp_path}/begun"; test -e "{rows}" || {{ echo \'{{"row": "1"}}\' >"{rows}"; sleep 60; }}'
    commands = {"short": f'echo short >>"{tmp_path}/begun"', "long": script}
    steps = step("short"), step("long", 1)

    # The time is not enough for a second try in the same command.
    first = run(tmp_path, commands, *steps, seconds=SPARED + 2)
    assert states(first) == {"short": PASSED, "long": CUT}
    assert first.outcomes["long"].moved
    assert json.loads(members(tmp_path)["long.jsonl"]) == {"row": "1"}

    second = run(tmp_path, commands, *steps)
    assert states(second) == {"short": PASSED, "long": PASSED}
    assert (tmp_path / "begun").read_text().split() == ["short", "begun", "begun"]
    assert second.outcomes["long"].seconds > first.outcomes["long"].seconds


def test_another_machine_goes_on_from_the_archive(tmp_path: Path) -> None:
    run(tmp_path, {"one": "echo first"})
    gpu_run.unpack(tmp_path / "results.tar.gz", tmp_path / "other" / "state")

    state = run(tmp_path / "other", {"one": "exit 1", "two": "true"})

    assert states(state) == {"one": PASSED, "two": PASSED}
    assert members(tmp_path / "other")["one.txt"] == b"first\n"


def test_results_of_another_wheel_are_put_aside(tmp_path: Path) -> None:
    run(tmp_path, {"one": "true"})

    state = State.open(tmp_path / "state", WHEEL | {"sha256": "2"})

    assert state.outcomes == {}
    assert (tmp_path / "state.1" / "one.txt").exists()


def test_without_time_nothing_is_begun_and_there_is_an_archive(tmp_path: Path) -> None:
    state = run(tmp_path, {"one": "true"}, seconds=SPARED)

    assert states(state) == {}
    assert "results.jsonl" in members(tmp_path)


def test_a_signal_ends_what_runs_and_leaves_the_archive(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, {"one": "true", "two": "echo begun; kill -TERM $PPID; exec sleep 60", "three": "true"})

    assert stopped.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    kept = json.loads(members(tmp_path)["steps.json"])["outcomes"]
    assert {name: outcome["state"] for name, outcome in kept.items()} == {"one": PASSED, "two": CUT}
    assert members(tmp_path)["two.txt"] == b"begun\n"


def test_what_runs_beside_others_is_waited_for_where_it_is_needed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    commands = {
        "peer": f'while ! grep -q tests "{said}"; do sleep 0.05; done; echo peer >>"{said}"',
        "tests": f'echo tests >>"{said}"',
        "times": f'echo times >>"{said}"',
    }
    said.touch()

    state = run(tmp_path, commands, step("peer", beside=True), step("tests"), step("times", after="peer"))

    assert states(state) == dict.fromkeys(commands, PASSED)
    assert said.read_text().split() == ["tests", "peer", "times"]


def test_what_was_measured_without_an_unfinished_peer_is_not_done(tmp_path: Path) -> None:
    steps = step("peer", 1, beside=True), step("times", after="peer")

    first = run(tmp_path, {"peer": "sleep 60", "times": "true"}, *steps)
    assert states(first) == {"peer": CUT, "times": CUT}

    second = run(tmp_path, {"peer": "true", "times": "true"}, *steps)
    assert states(second) == {"peer": PASSED, "times": PASSED}


# The archive


def test_the_archive_has_all_rows_the_ends_of_logs_and_no_programs(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"scene": f"number {n}", "ms": "1.5"}) + "\n" for n in range(3))
    commands = {
        "times": f"printf '%s' '{rows}' >\"{tmp_path}/state/times.jsonl\"",
        "loud": "yes | head -c 3000000; echo; echo the end",
        "peer": f'mkdir -p "{tmp_path}/state/build/a" && touch "{tmp_path}/state/build/a/b.o"',
    }

    run(tmp_path, commands)

    found = members(tmp_path)
    assert set(found) == {"results.jsonl", "steps.json", "times.jsonl", "times.txt", "loud.txt", "peer.txt"}
    assert len(found["loud.txt"]) == gpu_run.CAPS[0]
    assert found["loud.txt"].endswith(b"the end\n")
    assert found["times.jsonl"].decode() == rows
    (tmp_path / "results.jsonl").write_bytes(found["results.jsonl"])
    measured, table = compare_results.read(tmp_path / "results.jsonl")
    assert measured == WHEEL
    assert table == {"header": ["scene", "ms"], "rows": [[f"number {n}", "1.5"] for n in range(3)]}


def test_an_archive_that_would_be_too_large_has_less_of_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_run, "ARCHIVE_LIMIT", 200_000)
    row = '{"row": "1"}'
    rows = f"{row}\n" * 10_000  # more than is kept of a log

    run(tmp_path, {"noise": f"head -c 900000 /dev/urandom; yes '{row}' | head -n 10000 >../noise.jsonl"})

    assert (tmp_path / "results.tar.gz").stat().st_size < 200_000
    assert len(members(tmp_path)["noise.txt"]) == gpu_run.CAPS[1]
    assert members(tmp_path)["noise.jsonl"].decode() == rows
