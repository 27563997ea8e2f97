"""Tries one wheel with every Python at hand and every minor release of torch, and compares what they compute.

Run by ci/matrix. In each environment: does `import splat` work, do the kernels fit, does the CUDA library load with
every symbol bound, and are a picture and its gradients those of the other environments, to the last digit? The results
go to a file after each row, and a row that passed with the same wheel and probe is not run again:

    {"wheel": NAME, "sha256": …, "probe": sha256 of matrix_probe.py, "rows": [
        {"python", "torch"    versions; torch with its build, as pip names it
         "cuda"               that torch is for; null: none, or never reached
         "outcome"            passed; failed; not offered: no index has this torch for this Python, or a constraint
                              of the user's excludes it; no room: the disk is too full. Nothing but passed is good.
         "said"               why, if it did not pass
         "image", "gradients" sha256 of the picture; of the gradients, by parameter
         "seconds", "steps"   the time it took, and the steps that were done
        }, …]}

The exit status is 1 if a row failed or had no room, or if none passed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matrix_arm import arm_pairs, is_for_arm, try_on_arm
from matrix_environment import PROBE, Workplace, offered_torches, pythons_at_hand, try_environment, try_pair
from matrix_rows import Pair, Row, compare, ends, numbers, pairs_of

COLUMNS = (("Python", 9), ("torch", 14), ("CUDA", 6), ("import", 8), ("verdict", 9), ("CUDA loads", 12),
           ("picture", 10), ("gradients", 11), ("seconds", 9), ("outcome", 0))  # fmt: skip


class Results:
    """The file of results, for one wheel and one probe; what was found before is kept."""

    def __init__(self, path: Path, wheel: Path) -> None:
        self.path = path
        self.head = {"wheel": wheel.name, "sha256": sha256(wheel), "probe": sha256(PROBE)}
        self.rows: dict[tuple[str, str], Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if path.is_file() and "rows" not in before:  # such as the results of ci/wheels
            sys.exit(f"required: a file of ci/matrix, or none; found: another kind in {path}; to fix: name another")
        if {name: before.get(name) for name in self.head} == self.head:
            self.rows = {(row["python"], row["torch"]): Row(**row) for row in before["rows"]}

    def passed(self, pair: Pair) -> Row | None:
        """The row of a pair, if it has passed."""
        row = self.rows.get((pair.python, pair.torch))
        return row if row and row.outcome == "passed" else None

    def add(self, row: Row) -> None:
        """Add a row, and write the file."""
        self.rows[row.python, row.torch] = row
        self.write()

    def finish(self, rows: Sequence[Row]) -> list[Row]:
        """Compare all rows, write the file, and return these as they now are."""
        self.rows = dict(zip(self.rows, compare(list(self.rows.values())), strict=True))
        self.write()
        return [self.rows[row.python, row.torch] for row in rows]

    def write(self) -> None:
        """Write the file: whole, or not at all."""
        rows = sorted(self.rows.values(), key=lambda row: (numbers(row.torch), row.torch, numbers(row.python)))
        text = json.dumps({**self.head, "rows": [row._asdict() for row in rows]}, indent=1)
        part = self.path.with_name(f"{self.path.name}.part")
        part.write_text(f"{text}\n", encoding="utf-8")
        part.replace(self.path)


def main(arguments: Sequence[str]) -> int:
    """Fill the table; return 1 if it is not good."""
    parser = argparse.ArgumentParser(prog="ci/matrix", description="one wheel with every Python and torch")
    parser.add_argument("--short", action="store_true", help="oldest Python and torch, newest Python and torch only")
    installed = "these have splat; without --wheel, only these"
    parser.add_argument("--installed", type=Path, nargs="+", default=[], metavar="ENVIRONMENT", help=installed)
    parser.add_argument("--wheel", type=Path, help="the wheel; without it, this checkout's")
    parser.add_argument("--out", type=Path, help="the file of results, by default matrix.json in the cache folder")
    parser.add_argument("--folder", type=Path, required=True, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.installed and args.wheel is None:
        print_header()
        return judge(compare(try_installed(args.installed, args.folder)))
    if args.wheel is None or not args.wheel.is_file():
        parser.error(f"required: a wheel; found: {args.wheel}; to fix: name a file, or leave out --wheel of ci/matrix")
    place = Workplace(args.folder, args.wheel.resolve())
    with (args.folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            parser.error(f"required: one run at a time; found: another in {args.folder}; to fix: wait for it")
        results = Results(args.out or args.folder / "matrix.json", place.wheel)
        rows = results.finish(fill(results, place, short=args.short))
        return judge(compare([*try_installed(args.installed, args.folder), *rows]))


def try_installed(environments: Sequence[Path], folder: Path) -> list[Row]:
    """The rows of environments that have splat, printed."""
    return [show(try_environment(environment, folder)) for environment in environments]


def fill(results: Results, place: Workplace, *, short: bool) -> list[Row]:
    """Try the pairs, one environment at a time; of the two ends, the first that pip installs."""
    arm = is_for_arm(place.wheel) and platform.machine() != "aarch64"
    pythons = {} if arm else pythons_at_hand(dict(os.environ))
    pairs = arm_pairs() if arm else pairs_of({python: offered_torches(python) for python in pythons})
    where = "under qemu, " if arm else ""
    print(f"{results.head['wheel']}, {where}with Python {', '.join({pair.python: 0 for pair in pairs})}", flush=True)
    print_header()
    rows, release = [], ""
    downloads = place.folder / "downloads"
    for alternatives in ends(pairs) if short else [[pair] for pair in pairs]:
        for pair in alternatives:
            if pair.torch != release:  # what a release needs is downloaded once, and takes 3 GB
                shutil.rmtree(downloads, ignore_errors=True)
                release = pair.torch
            row = results.passed(pair)
            if row is None:
                row = try_on_arm(pair, place) if arm else try_pair(pair, pythons[pair.python], place)
            results.add(row)
            rows.append(show(row))
            if row.outcome != "not offered":
                break
    shutil.rmtree(downloads, ignore_errors=True)
    return rows


def judge(rows: Sequence[Row]) -> int:
    """Say what compared rows come to; the exit status."""
    for row in rows:
        if row.outcome == "failed":
            print(f"FAILED  Python {row.python}, torch {row.torch}: {row.said}")
    counts = Counter(row.outcome for row in rows)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no Python, or no torch")
    good = counts["passed"] and not counts["failed"] and not counts["no room"]
    print("all that passed agree to the last digit" if good else "NOT GOOD")
    return 0 if good else 1


def print_header() -> None:
    """Print the names of the columns."""
    print(" ".join(name.ljust(width) for name, width in COLUMNS), flush=True)


def show(row: Row) -> Row:
    """Print a row of the table; digests by their first digits."""
    yes = {step: "yes" if step in row.steps else "-" for step in ("import", "verdict", "cuda")}
    gradients = hashlib.sha256(json.dumps(dict(row.gradients), sort_keys=True).encode()).hexdigest()
    cells = (
        row.python, row.torch, row.cuda or "-", *yes.values(), row.image[:8] or "-",
        gradients[:8] if row.gradients else "-", f"{row.seconds:.0f}", f"{row.outcome}: {row.said}".removesuffix(": "),
    )  # fmt: skip
    print(" ".join(cell.ljust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True)).rstrip(), flush=True)
    return row


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
