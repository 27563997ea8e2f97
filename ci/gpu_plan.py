"""What ci/gpu does, in which order, and how long each step may take: a table and pure functions on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

PASSED, FAILED, SKIPPED, CUT = "passed", "failed", "skipped", "cut"
SPARED = 10  # seconds at the end of a command, to end what runs and to write the archive
MEASURING = ("rates", "times", "kernels", "graph", "counters", "first")  # whose rows are tables
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")


class Step(NamedTuple):
    """One of the things to do."""

    name: str
    what: str
    box: int  # seconds that it may take at once
    least: int = 15  # seconds without which it is not begun
    beside: bool = False  # needs no GPU: runs while the next ones do
    after: str = ""  # waits for the one that runs beside


class Outcome(NamedTuple):
    """What became of a step, all commands together."""

    state: str
    seconds: float
    reason: str = ""
    moved: bool = False  # cut, but rows or tests were added: it goes on where it was


# What answers most comes first; what only confirms comes last. Timings wait until nothing else runs.
STEPS = (
    Step("doctor", "what the wheel says of this machine", 30),
    Step("rates", "copy rate, clock, launches: what floors are made of", 30),
    Step("peer", "gsplat's kernels, compiled beside the tests", 240, least=60, beside=True),
    Step("tests", "the tests of CUDA, against the CPU and the reference", 150, least=30),
    Step("forms", "every form of the kernels, once", 30),
    Step("times", "calls by scene and form, against gsplat: GPU, host, memory", 170, least=40, after="peer"),
    Step("kernels", "time of each kernel beside its floor", 60, least=25, after="peer"),
    Step("graph", "a training step as a CUDA graph, beside launching it", 40, least=15),
    Step("counters", "ncu: issue rate, L2, atomics of the rasterizers", 75, least=40, after="peer"),
    Step("first", "the first call of a process", 40, least=20, after="peer"),
    *(Step(tool, f"compute-sanitizer's {tool}, on the same forms", 130, least=40) for tool in SANITIZERS),
)


def is_done(outcome: Outcome | None) -> bool:
    """Whether nothing is left of a step."""
    return outcome is not None and outcome.state in (PASSED, SKIPPED)


def choose(
    steps: Sequence[Step],
    outcomes: Mapping[str, Outcome],
    tried: Collection[str],
    running: Collection[str],
    left: float | None,
) -> Step | None:
    """The step to run now; None if nothing is left that fits into the seconds that are.

    First what was never begun or goes on where it was, then what was cut and would begin anew, then what failed. Within
    one command a step is run again only if it goes on.
    """

    def rank(step: Step) -> tuple[bool, int]:
        outcome = outcomes.get(step.name)
        late = 0 if outcome is None or outcome.moved else 1 if outcome.state == CUT else 2
        return step.name in tried, late

    able = [
        step
        for step in steps
        if not is_done(outcomes.get(step.name))
        and step.name not in running
        and (step.name not in tried or outcomes[step.name].moved)
        and (left is None or step.least <= left)
    ]
    return min(able, key=rank) if able else None  # the first of several


def seconds_for(step: Step, left: float | None) -> float:
    """Its box, in what is left of all."""
    return step.box if left is None else min(step.box, left)


def schedule(steps: Sequence[Step], seconds: float) -> list[list[str]]:
    """Which steps end in which command if each takes all of its box."""
    waiting, commands = list(steps), []
    while waiting:
        left, beside, names = seconds - SPARED, 0.0, list[str]()
        for step in list(waiting):
            took = 0.0 if step.beside else step.box + (beside if step.after else 0.0)
            if took > left and names:
                continue
            left -= took
            beside = step.box if step.beside else max(0.0, beside - took)
            names.append(step.name)
            waiting.remove(step)
        commands.append(names)
    return commands


def verdict(steps: Sequence[Step], outcomes: Mapping[str, Outcome]) -> tuple[int, str]:
    """The exit status, and what to say: 1 if a step failed, 3 if some are left."""
    failed = [step.name for step in steps if step.name in outcomes and outcomes[step.name].state == FAILED]
    left = [step.name for step in steps if step.name not in failed and not is_done(outcomes.get(step.name))]
    words = [f"failed: {', '.join(failed)}"] if failed else []
    words += [f"left: {', '.join(left)}; the same command goes on with them"] if left else []
    return 1 if failed else 3 if left else 0, "; ".join(words) or "good"
