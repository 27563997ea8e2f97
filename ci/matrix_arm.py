"""The environments of the matrix for a wheel that was built for aarch64: under qemu-user, with Debian's Python."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from zipfile import ZipFile

import aarch64
from matrix_environment import Workplace, lacks_room, offered_torches, probe, refusal
from matrix_rows import Pair, Row, pairs_of

ROOM = 5  # GB: torch is unpacked without NVIDIA's libraries


def is_for_arm(wheel: Path) -> bool:
    """Whether a wheel is for aarch64, by its platform tag."""
    return wheel.stem.endswith("_aarch64")


def arm_pairs() -> list[Pair]:
    """Debian's Python with every minor release of torch that pip's indexes have for aarch64."""
    return pairs_of({aarch64.PYTHON: offered_torches(aarch64.PYTHON, aarch64.PLATFORMS)})


def try_on_arm(pair: Pair, place: Workplace) -> Row:
    """Make a folder with the pair's torch, run the probe in it, and remove it."""
    if not pair.offered:
        return Row(pair.python, pair.torch, None, "not offered", "no index has it for this Python")
    if lacking := lacks_room(place, ROOM):
        return Row(pair.python, pair.torch, None, "no room", lacking)
    start = time.monotonic()
    folder = place.folder / "aarch64"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        try:
            if aarch64.make_machine(folder, pair.torch):
                return Row(pair.python, pair.torch, None, "failed", "this machine cannot run it: see above")
        except SystemExit as error:
            return Row(pair.python, pair.torch, None, *refusal("", str(error)))
        with ZipFile(place.wheel) as archive:
            archive.extractall(folder / "splat")
        *machine, python = json.loads((folder / "machine.json").read_text(encoding="utf-8"))["python"]
        path = f"PYTHONPATH={folder / 'splat'}:{folder / 'site'}"
        row = probe([*machine, "-E", path, python, "-P", "-s"], pair.torch, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return row._replace(python=pair.python, torch=pair.torch, seconds=round(time.monotonic() - start, 1))
