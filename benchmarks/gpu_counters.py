"""What the hardware counts in the rasterizers of both packages, by Nsight Compute, where it is there and permitted.

For each kernel: instructions, how many of the clocks that a scheduler was active issued one, the share of L2's sectors
that were found in it, sectors of atomics in L2, and what was read from and written to memory. --rows FILE keeps the
rows. Clocks are left alone, so ncu's times are those of kernels that are replayed, with caches flushed before each.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_names import short_name
from gpu_rows import SKIPPED, Row, Rows

# By ncu's name: ours, and what it is divided by.
METRICS = {
    "gpu__time_duration.sum": ("us", 1e3),
    "smsp__inst_executed.sum": ("M instructions", 1e6),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue, %", 1),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps, %", 1),
    "lts__t_sector_hit_rate.pct": ("L2 hits, %", 1),
    "lts__t_sectors.sum": ("M L2 sectors", 1e6),
    "lts__t_sectors_op_red.sum": ("M sectors of atomics", 1e6),
    "lts__t_sectors_op_atom.sum": ("M sectors of atomics that return", 1e6),
    "dram__bytes.sum": ("MB of memory", 1e6),
}
KERNELS = (
    "regex:^(rasterize|differentiate|project|project_backward|emit_pairs|rasterize_to_pixels_3dgs_fwd_kernel"
    "|rasterize_to_pixels_3dgs_bwd_kernel)$"
)
UNKNOWN = re.compile(r"[Ff]ailed to find metric (\S+)")
ERROR = "==ERROR== "


def main(device: str, rows: Rows) -> int:
    """The rows of two scenes."""
    program = find_ncu()
    if device == "cpu" or program is None:
        print(f"skipped: {'there is no GPU to count on' if program else 'no ncu on PATH or below /usr/local/cuda*'}")
        return SKIPPED
    from gpu_scenes import scenes  # torch is imported only where there is something to count

    for scene in list(scenes(device))[:2]:
        text = count(program, [sys.executable, str(Path(__file__).resolve()), "--render", scene], list(METRICS))
        found = parse(text)
        if not found and FileNotFoundError.__name__ in text:
            print(f"without {scene}")
        elif not found:
            print(f"{text}\nskipped: {why_nothing(text)}")
            return SKIPPED
        rows.add(*({"scene": scene} | row for row in found))
    rows.print_tables()
    return 0


def find_ncu() -> str | None:
    """On PATH, or where the toolkit installs it."""
    below = sorted(Path("/usr/local").glob("cuda*/bin/ncu"))
    return shutil.which("ncu") or (str(below[-1]) if below else None)


def count(program: str, command: Sequence[str], metrics: list[str]) -> str:
    """What ncu prints; metrics that this GPU does not know are left out."""
    options = ["--csv", "--print-units", "base", "--clock-control", "none", "--profile-from-start", "off"]
    chosen = ["--target-processes", "all", "--kernel-name", KERNELS, "--metrics", ",".join(metrics)]
    done = subprocess.run([program, *options, *chosen, *command], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    known = [metric for metric in metrics if metric not in {name.rstrip(".,") for name in UNKNOWN.findall(text)}]
    return count(program, command, known) if known and len(known) < len(metrics) else text


def parse(text: str) -> list[Row]:
    """A row for each kernel, in the order in which they ran, from ncu's CSV among other lines."""
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    found: dict[str, dict[str, str]] = {}
    for line in csv.DictReader(io.StringIO("\n".join(line for line in lines[begin:] if line.startswith('"')))):
        values = found.setdefault(line["ID"], {"kernel": short_name(line["Kernel Name"])})
        values[line["Metric Name"]] = line["Metric Value"].replace(",", "")
    rows = []
    for values in found.values():
        row = {"kernel": values["kernel"]}
        for metric, (name, divisor) in METRICS.items():
            try:
                row[name] = f"{float(values[metric]) / divisor:.4g}"
            except (KeyError, ValueError):
                row[name] = "-"
        rows.append(row)
    return rows


def why_nothing(text: str) -> str:
    """ncu's own words."""
    errors = [line.removeprefix(ERROR) for line in text.splitlines() if line.startswith(ERROR)]
    return errors[0] if errors else "ncu counted nothing"


def render_once(scene: str) -> None:
    """Each package once, forward and backward, while ncu listens; and once before."""
    import torch
    from gpu_scenes import differentiate, find_rivals, scenes, synchronize

    rivals = find_rivals("cuda")
    arguments = scenes("cuda")[scene]()
    for rasterization in rivals.values():
        differentiate(rasterization, arguments)
    synchronize("cuda")
    torch.cuda.profiler.start()
    for rasterization in rivals.values():
        differentiate(rasterization, arguments)
    synchronize("cuda")
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--render", metavar="SCENE", help="what ncu runs")
    given = parser.parse_args()
    if given.render:
        render_once(given.render)
    else:
        sys.exit(main(given.device, Rows(given.rows)))
