"""ci/gpu: everything that needs a GPU, in steps that fit into commands of some minutes; the folder for its machine.

See ci/gpu for what it is given. Exit status: 0 if all steps are good or cannot be done here, 1 if one failed, 2 if it
was not started, 3 if some are left for the next command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu_pack  # noqa: E402
import gpu_plan  # noqa: E402
import gpu_run  # noqa: E402
import gpu_site  # noqa: E402
from gpu_pack import Refused  # noqa: E402
from gpu_rows import SKIPPED  # noqa: E402
from gpu_run import ARCHIVE  # noqa: E402

TESTS = ("test_cuda", "test_rasterization", "test_gradients", "test_gradients_projection")
PACK = "gpu-pack"
CPU_RUNS = "2"
# What a Python says of itself.
PROBE = """
import json, sys
try:
    import torch
except ImportError:
    sys.exit(f"required: torch for CUDA; found: none in {sys.executable}; to fix: set PYTHON to a Python that has it")
there = torch.cuda.is_available()
print(json.dumps({
    "machine": torch.cuda.get_device_name() if there else "",
    "capability": ".".join(map(str, torch.cuda.get_device_capability())) if there else "",
    "torch": torch.__version__,
    "python": sys.version.split()[0],
}))
"""
# Which nvcc made the kernels: of another CUDA major than torch's, that pair is what runs.
PAIR = """
import splat, torch
from splat._kernelwheel.host import driver_version
nvcc = splat.build_info()["manifest"]["built_with"]["nvcc"]
majors = {str(version).split(".")[0] for version in (nvcc, torch.version.cuda)}
pair = "one CUDA major" if len(majors) == 1 else "two CUDA majors"
driver = ".".join(map(str, driver_version() or ("none",)))
print(f"kernels by nvcc {nvcc}, torch for CUDA {torch.version.cuda}: {pair}; driver for CUDA {driver}")
"""


def main(arguments: Sequence[str]) -> int:
    """Pack, or run, or both."""
    place = list(arguments).index("--") if "--" in arguments else len(arguments)
    words, rest = arguments[:place], arguments[place + 1 :]
    args = parse(words)
    try:
        given = args.wheels
        if args.pack:
            gpu_pack.make(args.pack, args.wheels, args.python, scene_folders(), args.counts)
            size = gpu_pack.size_of(args.pack) / 2**20
            print(f"{args.pack}: {size:.1f} MiB, {', '.join(sorted(path.name for path in args.pack.iterdir()))}")
            given = [args.pack]
            if not args.dry_run:
                return 0
        return run(args, given, rest)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="ci/gpu", description="See the beginning of ci/gpu.")
    parser.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL|FOLDER")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--pack", nargs="?", type=Path, const=ROOT / PACK)
    parser.add_argument("--python", default=gpu_pack.PYTHON, metavar="VERSION")
    parser.add_argument("--counts", type=Path)
    args = parser.parse_args(words)
    if args.pack and args.pack.suffix == ".whl":  # `--pack WHEEL`
        args.wheels, args.pack = [*args.wheels, args.pack], ROOT / PACK
    for path in args.wheels:
        if not path.exists():
            parser.error(f"there is no {path}")
    if not args.wheels:
        parser.error("name splat's wheel, or a packed folder")
    return args


def run(args: argparse.Namespace, given: Sequence[Path], rest: Sequence[str]) -> int:
    """The steps, as far as the time goes."""
    begin = time.monotonic()
    wheels = [wheel.resolve() for path in given for wheel in (sorted(path.glob("*.whl")) if path.is_dir() else [path])]
    folders = [path.resolve() for path in given if path.is_dir()]
    python = sys.executable
    device = "cpu" if args.dry_run else "cuda"
    said = probe(python, device)
    ours = [wheel for wheel in wheels if wheel.name.startswith("splat_kernels-")]
    if len(ours) != 1:
        raise Refused(f"required: one wheel of splat; found: {len(ours)}; to fix: name it, or a packed folder")
    measured = {
        "machine": said["machine"] or "CPU",
        "torch": said["torch"],
        "python": said["python"],
        "wheel": ours[0].name,
        "sha256": hashlib.sha256(ours[0].read_bytes()).hexdigest(),
    }
    chosen = os.environ.get("SPLAT_GPU_STEPS", "").split()
    steps = [step for step in gpu_plan.STEPS if not chosen or step.name in chosen]
    results = ROOT / "gpu-results"
    out: Path = (args.out or (results / "dry-run" if args.dry_run else results)).resolve()
    print(plan(steps, args.minutes, out / ARCHIVE))
    print(", ".join(f"{name} {value}" for name, value in measured.items()))

    folder = (args.state or results / device).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for earlier in (*(each / ARCHIVE for each in folders), out / ARCHIVE):
        if not folder.exists() and earlier.exists():
            print(f"goes on from {earlier}")
            gpu_run.unpack(earlier, folder)
    state = gpu_run.State.open(folder, measured)
    site = gpu_site.install(wheels, folder)
    env = gpu_site.environment(site, folder, folders, said["capability"])
    if not state.outcomes:
        done = subprocess.run(
            [python, "-c", PAIR], env=env, cwd=site.parent, capture_output=True, text=True, check=False
        )
        print(done.stdout or done.stderr)
    counts = args.counts or next(
        (each / gpu_pack.COUNTS for each in folders if (each / gpu_pack.COUNTS).exists()), None
    )
    commands = make_commands(python, device, state, counts, rest)
    seconds = None if args.minutes is None else 60 * args.minutes
    gpu_run.Runner(state, out / ARCHIVE, commands, env, seconds, begin).run(steps)
    return report(steps, state, out / ARCHIVE)


def report(steps: Sequence[gpu_plan.Step], state: gpu_run.State, archive: Path) -> int:
    """What became of each step; the exit status."""
    print(f"\n{'step':<10} {'state':<8} {'s':>5}")
    for step in steps:
        outcome = state.outcomes.get(step.name, gpu_plan.Outcome("left", 0.0))
        print(f"{step.name:<10} {outcome.state:<8} {outcome.seconds:>5.0f}  {outcome.reason}".rstrip())
    status, words = gpu_plan.verdict(steps, state.outcomes)
    size = archive.stat().st_size / 2**20
    print(f"\n{words}\nwhat comes back: {archive}, {size:.2f} MiB; its results.jsonl is for ci/bench compare")
    return status


def plan(steps: Sequence[gpu_plan.Step], minutes: float | None, archive: Path) -> str:
    """What will be done, how long each step may take, and what comes back."""
    lines = [f"{'step':<10} {'at most':>7}"]
    for step in steps:
        beside = ", while others run" if step.beside else f", after {step.after}" if step.after else ""
        lines.append(f"{step.name:<10} {step.box:>5} s  {step.what}{beside}")
    lines.append(
        f"in all at most {sum(step.box for step in steps) / 60:.0f} minutes; what ends early leaves its time to others"
    )
    if minutes:
        for number, names in enumerate(gpu_plan.schedule(steps, 60 * minutes), 1):
            lines.append(f"command {number} of {minutes:g} minutes, at the slowest: {', '.join(names)}")
    return "\n".join([*lines, f"comes back: {archive}, one file below {gpu_run.ARCHIVE_LIMIT / 2**20:.0f} MiB", ""])


def probe(python: str, device: str) -> dict[str, str]:
    """What there is to run on.

    Raises:
        Refused: no torch, or no GPU.
    """
    done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
    if done.returncode:
        raise Refused(done.stderr.strip())
    said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    if device == "cpu":
        return said | {"machine": "", "capability": ""}
    if not said["machine"]:
        raise Refused(
            f"required: a GPU; found: torch {said['torch']} sees none; to fix: run this on a machine with one, or with "
            "--dry-run"
        )
    return said


def scene_folders() -> list[Path]:
    """Where the tests look for theirs."""
    named = os.environ.get("SPLAT_TEST_SCENES")
    return [*([Path(named)] if named else []), *(base / "shared" / "scenes" for base in (ROOT.parent, ROOT))]


def make_commands(
    python: str, device: str, state: gpu_run.State, counts: Path | None, rest: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Of each step."""

    def program(name: str, step: str, *options: str) -> list[str]:
        rows = ["--device", device, "--rows", str(state.rows(step))]
        return [python, str(ROOT / "benchmarks" / f"{name}.py"), *rows, *options]

    files = [str(ROOT / "tests" / f"{name}.py") for name in TESTS]
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", "-p", "gpu_tests"]
    chosen = ["-m", "not simt", "-k", "cuda", "-q", "--rows", str(state.rows("tests")), *rest]
    floors = ["--rates", str(state.rows("rates")), *(["--counts", str(counts.resolve())] if counts else [])]
    forms = [python, str(ROOT / "benchmarks" / "gpu_forms.py"), "--device", device]
    doctor = [python, "-m", "splat", "doctor"]
    cpu = device == "cpu"
    commands: dict[str, list[str]] = {
        # Without a GPU, or beside another splat, it has findings.
        "doctor": [python, "-c", f"import subprocess; subprocess.run({doctor!r})"] if cpu else doctor,
        "rates": program("gpu_rates", "rates"),
        "peer": skip("gsplat has no kernels for a CPU") if cpu else [python, str(ROOT / "benchmarks" / "gpu_peer.py")],
        "tests": [python, "-m", "pytest", *options, *chosen, *files],
        "forms": program("gpu_forms", "forms"),
        "times": program("gpu_time", "times", *(["--runs", CPU_RUNS] if cpu else [])),
        "kernels": program("gpu_kernels", "kernels", *floors),
        "graph": program("gpu_graph", "graph"),
        "counters": program("gpu_counters", "counters"),
        "first": program("gpu_first", "first"),
    }
    for tool in gpu_plan.SANITIZERS:
        # Without torch's caching, so that what is allocated is what is asked for.
        checked = [python, str(ROOT / "ci" / "gpu_sanitizer.py"), tool, str(state.rows(tool)), *forms]
        uncached = ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", *checked]
        commands[tool] = skip("there is no GPU whose memory could be checked") if cpu else uncached
    return commands


def skip(reason: str) -> list[str]:
    """What says that a step cannot be done."""
    return ["sh", "-c", f'echo "skipped: {reason}"; exit {SKIPPED}']


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
