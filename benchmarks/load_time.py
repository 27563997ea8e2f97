"""kernelwheel's `load` against torch's: cold, warm, after an edit of a header, and sixteen processes at once.

Usage: load_time.py BACKEND FOLDER, run by a Python with torch, ninja and what a compile needs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from measure import table

RUNS = 7
PROCESSES = 16
FILES = {
    "one.cpp": """#include <torch/extension.h>
#include "value.h"
torch::Tensor two(torch::Tensor x);
int value() { return VALUE; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("two", &two); m.def("value", &value); }
""",
    "two.cpp": "#include <torch/extension.h>\ntorch::Tensor two(torch::Tensor x) { return x + x; }\n",
    "stable.cpp": """#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include "value.h"
using torch::stable::Tensor;
Tensor two(Tensor x) { return torch::stable::empty_like(x); }
STABLE_TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) { m.def("two(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) { m.impl("two", TORCH_BOX(&two)); }
""",
}
# Waits until all are ready, as the import of torch is not measured; that of what loads is.
PROGRAM = """
import sys, time, torch
how, folder = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
begin = time.perf_counter()
if how == "torch":
    from torch.utils.cpp_extension import load
else:
    from kernelwheel import load
if how == "stable":
    load("timed", [f"{folder}/stable.cpp"], abi="stable")
else:
    assert load("timed", [f"{folder}/one.cpp", f"{folder}/two.cpp"]).value() == int(open(f"{folder}/expected").read())
print(time.perf_counter() - begin, flush=True)
"""


def main(backend: Path, folder: Path) -> None:
    """Measure and print one table."""
    shutil.rmtree(folder, ignore_errors=True)
    rows = []
    for how in ("kernelwheel", "stable", "torch"):
        place = folder / how
        write_sources(place, 1)
        (cold,) = seconds(how, place, backend, 1)
        warm = statistics.median(seconds(how, place, backend, 1)[0] for _ in range(RUNS))
        write_sources(place, 2)
        (edited,) = seconds(how, place, backend, 1)
        write_sources(place, 1)
        (back,) = seconds(how, place, backend, 1)
        crowd = folder / f"{how}-crowd"
        write_sources(crowd, 1)
        many = max(seconds(how, crowd, backend, PROCESSES))
        rows.append([how, *(f"{each:.1f}" for each in (cold, edited, back, many)), f"{1e3 * warm:.1f}"])
    header = ["s of load, beyond torch", "cold", "a header edited", "edited back", f"{PROCESSES} processes", "warm: ms"]
    table(header, rows)


def write_sources(folder: Path, value: int) -> None:
    """Write the sources, with a header that defines a value."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**FILES, "value.h": f"#define VALUE {value}\n", "expected": str(value)}.items():
        if not (folder / name).exists() or (folder / name).read_text() != text:
            (folder / name).write_text(text)


def seconds(how: str, folder: Path, backend: Path, processes: int) -> list[float]:
    """What each of so many processes takes that call `load` at the same moment."""
    (folder / "tmp").mkdir(exist_ok=True)
    environ = {
        **os.environ,
        "PYTHONPATH": str(backend),
        "KERNELWHEEL_CACHE_DIR": str(folder / "cache"),
        "TORCH_EXTENSIONS_DIR": str(folder / "torch"),
        "TMPDIR": str(folder / "tmp"),
    }
    with (folder / "log").open("ab") as log:
        members = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, how, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
                text=True,
            )
            for _ in range(processes)
        ]
        for member in members:
            assert member.stdout is not None
            member.stdout.readline()
        for member in members:
            assert member.stdin is not None
            member.stdin.close()
        answers = [member.stdout.readline() for member in members if member.stdout]
        if any(member.wait() for member in members):
            raise SystemExit(f"load failed, see {folder}/log")
    return [float(answer) for answer in answers]


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
