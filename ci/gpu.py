"""ci/gpu: everything that needs a GPU, step by step; the folder for its machine.

See ci/gpu for what it is given. Exit status: 0 if all steps are good or cannot be done here, 1 if one failed or was
stopped, 2 if it was not started.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "backend")]

import gpu_pack  # noqa: E402
from gpu_pack import NEEDED, PEER, Refused, wheels_to_install  # noqa: E402
from gpu_rows import SKIPPED, read_rows, tables  # noqa: E402
from kernelwheel.runtime.errors import SettingsError  # noqa: E402
from kernelwheel.runtime.variables import search_path  # noqa: E402

TESTS = ("csrc/test_cuda", "ops/test_rasterization", "ops/test_gradients", "ops/test_gradients_projection")
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
GRACE = 5.0  # seconds between asking a step to end and ending it
CPU_RUNS = "2"


class Step(NamedTuple):
    """One of the things to do."""

    name: str
    what: str
    seconds: int  # that it may take


STEPS = (
    Step("doctor", "what the wheel says of this machine", 30),
    Step("rates", "copy rate, clock, launches: what floors are made of", 30),
    Step("peer", "gsplat's kernels", 300),
    Step("tests", "the tests of CUDA, against the CPU and the reference", 300),
    Step("forms", "every form of the kernels, once", 60),
    Step("times", "calls by scene and form, against gsplat: GPU, host, memory", 170),
    Step("kernels", "time of each kernel beside its floor", 60),
    Step("graph", "a training step as a CUDA graph, beside launching it", 40),
    Step("counters", "ncu: issue rate, L2, atomics of the rasterizers", 75),
    Step("first", "the first call of a process", 120),
    *(Step(tool, f"compute-sanitizer's {tool}, on the same forms", 130) for tool in SANITIZERS),
)

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
from splat._kernelwheel.machine.host import driver_version
nvcc = splat.build_info()["manifest"]["built_with"]["nvcc"]
majors = {str(version).split(".")[0] for version in (nvcc, torch.version.cuda)}
pair = "one CUDA major" if len(majors) == 1 else "two CUDA majors"
driver = ".".join(map(str, driver_version() or ("none",)))
print(f"kernels by nvcc {nvcc}, torch for CUDA {torch.version.cuda}: {pair}; driver for CUDA {driver}")
"""


def main(arguments: Sequence[str]) -> int:
    """Pack, or run, or both."""
    place = list(arguments).index("--") if "--" in arguments else len(arguments)
    args, rest = parse(arguments[:place]), arguments[place + 1 :]
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
    except (Refused, SettingsError) as refused:
        print(refused, file=sys.stderr)
        return 2


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="ci/gpu", description="See the beginning of ci/gpu.")
    parser.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL|FOLDER")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--steps", default=",".join(step.name for step in STEPS), metavar="NAME,...")
    parser.add_argument("--out", type=Path, default=ROOT / "gpu-results")
    parser.add_argument("--pack", nargs="?", type=Path, const=ROOT / "gpu-pack")
    parser.add_argument("--python", default=gpu_pack.PYTHON, metavar="VERSION")
    parser.add_argument("--counts", type=Path)
    args = parser.parse_args(words)
    if args.pack and args.pack.suffix == ".whl":  # `--pack WHEEL`
        args.wheels, args.pack = [*args.wheels, args.pack], ROOT / "gpu-pack"
    for path in args.wheels:
        if not path.exists():
            parser.error(f"there is no {path}")
    if not args.wheels:
        parser.error("name splat's wheel, or a packed folder")
    args.steps = args.steps.split(",")
    if unknown := set(args.steps) - {step.name for step in STEPS}:
        parser.error(f"no step is called {', '.join(sorted(unknown))}")
    return args


def run(args: argparse.Namespace, given: Sequence[Path], rest: Sequence[str]) -> int:
    """The steps, and what became of each."""
    wheels = [wheel.resolve() for path in given for wheel in (sorted(path.glob("*.whl")) if path.is_dir() else [path])]
    folders = [path.resolve() for path in given if path.is_dir()]
    device = "cpu" if args.dry_run else "cuda"
    machine = probe(device)
    ours = [wheel for wheel in wheels if wheel.name.startswith("splat_kernels-")]
    if len(ours) != 1:
        raise Refused(f"required: one wheel of splat; found: {len(ours)}; to fix: name it, or a packed folder")
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    counts = args.counts or next(
        (each / gpu_pack.COUNTS for each in folders if (each / gpu_pack.COUNTS).exists()), None
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the step that runs is ended, too
    states = {}
    with tempfile.TemporaryDirectory(prefix="gpu-") as temporary:
        site = Path(temporary) / "site-packages"
        install(wheels, site)
        env = environment(site, folders, machine["capability"])
        subprocess.run([sys.executable, "-c", PAIR], env=env, cwd=temporary, check=False)
        commands = make_commands(device, out, counts, rest)
        for step in STEPS:
            if step.name in args.steps:
                states[step.name] = run_step(step, commands[step.name], env, Path(temporary), out)
    measured = {
        "machine": machine["machine"] or "CPU",
        "torch": machine["torch"],
        "python": machine["python"],
        "wheel": ours[0].name,
        "sha256": hashlib.sha256(ours[0].read_bytes()).hexdigest(),
    }
    rows = [table for name in states for table in tables(read_rows(out / f"{name}.jsonl"))]
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [{"measured": measured}, *rows]))
    print(f"\n{', '.join(f'{name} {value}' for name, value in measured.items())}")
    for name, state in states.items():
        print(f"{name:<10} {state}")
    return 0 if all(state.startswith(("passed", "skipped")) for state in states.values()) else 1


def run_step(step: Step, command: Sequence[str], env: Mapping[str, str], folder: Path, out: Path) -> str:
    """What became of it: passed, failed, skipped or stopped, and why. Its output is shown, and kept."""
    print(f"\n== {step.name}: {step.what} (at most {step.seconds} s)", flush=True)
    (out / f"{step.name}.jsonl").unlink(missing_ok=True)  # a run before measured another wheel
    begin, last, late = time.monotonic(), "", threading.Event()
    with (
        (out / f"{step.name}.txt").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=dict(env),
            cwd=folder, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        timer = threading.Timer(step.seconds, stop, (process, late))
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                print(line, end="", flush=True)
                last = line.strip() or last
            status = process.wait()
        finally:
            timer.cancel()
            end_group(process)
    seconds = f"({time.monotonic() - begin:.0f} s)"
    if late.is_set():
        return f"stopped {seconds}"
    if status == SKIPPED:
        return f"skipped {last.removeprefix('skipped: ')}"
    return f"failed, exit status {status} {seconds}" if status else f"passed {seconds}"


def stop(process: subprocess.Popen[str], late: threading.Event) -> None:
    """End a step whose time is up."""
    late.set()
    end_group(process)


def end_group(process: subprocess.Popen[str]) -> None:
    """A process and what it has started, politely first."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        os.killpg(process.pid, signal.SIGKILL)


def probe(device: str) -> dict[str, str]:
    """What there is to run on.

    Raises:
        Refused: no torch, or no GPU.
    """
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
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


def install(wheels: Sequence[Path], site: Path) -> None:
    """splat, and what this Python lacks, in a folder; hypothesis takes constants of other code for a test's elsewhere.

    Raises:
        Refused: pip fails, or something is missing still.
    """
    there = {module for module in NEEDED | PEER if importlib.util.find_spec(module) is not None}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-index", "--no-deps", "--no-compile", "--target", str(site)]
    if subprocess.run([*pip, *options, *map(str, wheels_to_install(wheels, there))], check=False).returncode:
        raise Refused("required: wheels that pip installs; found: it failed, as above; to fix: ci/gpu --pack")
    found = {path.name.removesuffix(".py") for path in site.iterdir()}
    lacking = [name for module, name in NEEDED.items() if module not in there | found]
    if lacking:
        version = ".".join(map(str, sys.version_info[:2]))
        raise Refused(
            f"required: {', '.join(NEEDED.values())}; found: all but {', '.join(lacking)}; to fix: where "
            f"there is a network, ci/gpu --pack FOLDER --python {version} WHEEL; then name FOLDER here"
        )


def environment(site: Path, folders: Sequence[Path], capability: str) -> dict[str, str]:
    """Of the steps: our packages, the programs beside Python (ninja), no JIT of splat."""
    programs, paths = [site / "bin", Path(sys.executable).parent], [site, ROOT / "benchmarks", ROOT / "ci"]
    env = dict(os.environ) | {
        "PATH": search_path(*programs, then=os.environ.get("PATH", "")),
        "PYTHONPATH": search_path(*paths, then=os.environ.get("PYTHONPATH", "")),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "SPLAT_JIT": "never",
        "TORCH_EXTENSIONS_DIR": str(site.parent / "build"),
    }
    if capability:
        env["TORCH_CUDA_ARCH_LIST"] = capability
    scenes = [folder / "scenes" for folder in folders if (folder / "scenes").is_dir()]
    return env | ({"SPLAT_TEST_SCENES": env.get("SPLAT_TEST_SCENES") or str(scenes[0])} if scenes else {})


def scene_folders() -> list[Path]:
    """Where the tests look for theirs."""
    named = os.environ.get("SPLAT_TEST_SCENES")
    return [*([Path(named)] if named else []), *(base / "shared" / "scenes" for base in (ROOT.parent, ROOT))]


def make_commands(device: str, out: Path, counts: Path | None, rest: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Of each step."""
    python, cpu = sys.executable, device == "cpu"

    def program(name: str, *options: str) -> list[str]:
        rows = ["--device", device, "--rows", str(out / f"{name}.jsonl")]
        return [python, str(ROOT / "benchmarks" / f"gpu_{name}.py"), *rows, *options]

    files = [str(ROOT / "tests" / f"{name}.py") for name in TESTS]
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    floors = ["--rates", str(out / "rates.jsonl"), *(["--counts", str(counts.resolve())] if counts else [])]
    doctor = [python, "-m", "splat", "doctor"]
    commands: dict[str, list[str]] = {
        # Without a GPU, or beside another splat, it has findings.
        "doctor": [python, "-c", f"import subprocess; subprocess.run({doctor!r})"] if cpu else doctor,
        "peer": skip("gsplat has no kernels for a CPU") if cpu else [python, str(ROOT / "benchmarks" / "gpu_peer.py")],
        "tests": [python, "-m", "pytest", *options, "-m", "not simt", "-k", "cuda", "-q", *rest, *files],
        "times": program("times", *(["--runs", CPU_RUNS] if cpu else [])),
        "kernels": program("kernels", *floors),
        **{name: program(name) for name in ("rates", "forms", "graph", "counters", "first")},
    }
    for tool in SANITIZERS:
        # Without torch's caching, so that what is allocated is what is asked for.
        forms = [python, str(ROOT / "benchmarks" / "gpu_forms.py"), "--device", device]
        checked = [python, str(ROOT / "ci" / "gpu_sanitizer.py"), tool, *forms]
        uncached = ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", *checked]
        commands[tool] = skip("there is no GPU whose memory could be checked") if cpu else uncached
    return commands


def skip(reason: str) -> list[str]:
    """What says that a step cannot be done."""
    return ["sh", "-c", f'echo "skipped: {reason}"; exit {SKIPPED}']


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
