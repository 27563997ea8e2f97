"""The rows of the matrix: which pairs of Python and torch there are, and what becomes of each. All pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

OLDEST = (2, 10)
STEPS = ("import", "verdict", "cuda", "picture", "gradients")


class Pair(NamedTuple):
    """An environment to make: versions of Python and torch; not offered if pip's indexes have no such torch for it."""

    python: str
    torch: str
    offered: bool = True

    @property
    def cpu(self) -> bool:
        """Whether it is a CPU build of torch."""
        return self.torch.endswith("+cpu")


class Row(NamedTuple):
    """What became of a pair; ci/matrix.py explains the fields."""

    python: str
    torch: str
    cuda: str | None
    outcome: str
    said: str = ""
    image: str = ""
    gradients: Mapping[str, str] = {}
    seconds: float = 0.0
    steps: Sequence[str] = ()

    @property
    def digests(self) -> dict[str, str]:
        """Every value that all rows must agree on, by what it is of."""
        return {"the picture": self.image} | {f"the gradient of {name}": d for name, d in self.gradients.items()}


def pairs_of(offered: Mapping[str, Iterable[str]]) -> list[Pair]:
    """Every Python with every minor release of torch, CPU and CUDA builds apart; the Pythons of one release together.

    Args:
        offered: for each Python, the versions of torch that pip's indexes have for it.
    """
    newest = {python: newest_patches(versions) for python, versions in offered.items()}
    pairs = []
    for minor, cpu in sorted({key for found in newest.values() for key in found}):
        for python in sorted(newest, key=numbers):
            torch = newest[python].get((minor, cpu))
            missing = "{}.{}".format(*minor) + ("+cpu" if cpu else "")
            pairs.append(Pair(python, torch or missing, torch is not None))
    return pairs


def newest_patches(versions: Iterable[str]) -> dict[tuple[tuple[int, int], bool], str]:
    """The newest patch of each minor release from the oldest on, by that release and whether it is a CPU build."""
    found: dict[tuple[tuple[int, int], bool], str] = {}
    for version in versions:
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:\+(cpu|cu\d+))?", version)
        if not match:  # a build for other hardware, or before a release
            continue
        minor, cpu = (int(match[1]), int(match[2])), match[4] == "cpu"
        if minor >= OLDEST and numbers(version) > numbers(found.get((minor, cpu), "")):
            found[minor, cpu] = version
    return found


def ends(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """The oldest Python with the oldest torch, and the newest with the newest; each with what to take instead, in
    order, if it turns out that pip may not install it. A CPU build goes before a CUDA build of the same release.
    """
    if not pairs:
        return []
    pythons = sorted({pair.python for pair in pairs}, key=numbers)
    oldest = [pair for pair in pairs if pair.python == pythons[0]]
    newest = [pair for pair in pairs if pair.python == pythons[-1]]
    return [
        sorted(oldest, key=lambda pair: (numbers(pair.torch)[:2], not pair.cpu)),
        sorted(newest, key=lambda pair: (numbers(pair.torch)[:2], pair.cpu), reverse=True),
    ]


def compare(rows: Sequence[Row]) -> list[Row]:
    """The rows, those failed whose digests are not those of most; the first is right if there is no majority."""
    whole = [row for row in rows if row.outcome == "passed"]
    if not whole:
        return list(rows)
    usual = Counter(tuple(sorted(row.digests.items())) for row in whole).most_common(1)[0][0]
    right = next(row for row in whole if tuple(sorted(row.digests.items())) == usual)
    compared = []
    for row in rows:
        differing = [name for name, digest in right.digests.items() if row.digests.get(name) != digest]
        if row.outcome == "passed" and differing:
            said = f"differs from Python {right.python} with torch {right.torch}: {', '.join(differing)}"
            row = row._replace(outcome="failed", said=said)
        compared.append(row)
    return compared


def row_of(python: str, torch: str, lines: Iterable[Mapping[str, object]], error: str, seconds: float) -> Row:
    """The row of an environment in which the probe printed these lines and ended with an error, or none."""
    said = {str(line["step"]): line for line in lines}
    start, picture, gradients = (said.get(step, {}) for step in ("import", "picture", "gradients"))
    found = gradients.get("sha256")
    cuda = start.get("cuda")
    return Row(
        python=python,
        torch=torch,
        cuda=str(cuda) if cuda else None,
        outcome="failed" if error or "gradients" not in said else "passed",
        said=error,
        image=str(picture.get("sha256", "")),
        gradients=dict(found) if isinstance(found, Mapping) else {},
        seconds=round(seconds, 1),
        steps=[step for step in STEPS if step in said],
    )


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare: its numbers, without what follows a plus."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))
