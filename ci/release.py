"""Builds the files of a release from a commit, checks them, and says so; run by ci/wheels.

It builds with real front ends only: `python -m build` makes each sdist, and the wheel from the sdist; kernelwheel's
first, and then splat's, in a release by that kernelwheel. What pip brings for that is in ci/locks/build.txt of the
commit, each file by its sha256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "backend"))

from kernelwheel.runtime.errors import COMPILERS  # noqa: E402
from kernelwheel.version import OLDEST_TORCH  # noqa: E402

# What a build gets, in a checkout.
LOCK = Path("ci", "locks", "build.txt")
# The version of each distribution, which are one, and how it is written there.
VERSIONS = {"splat/_version.py": "VERSION", "backend/kernelwheel/version.py": "__version__"}
# What a tag's files say and a checkout does not, because a release is on an index under our names: kernelwheel is taken
# from there, by splat's build as by any other, and by what compiles at run time. As (file, expression, replacement).
COMPILER = "kernelwheel"
RELEASED = (
    ("backend/kernelwheel/runtime/errors.py", r"^PUBLISHED = False$", "PUBLISHED = True"),
    (
        "pyproject.toml",
        r"\A\[build-system\]\n(?:.+\n)+?backend-path = .+\n",
        f'[build-system]\nrequires = ["{COMPILER}[cuda]{COMPILERS}", "torch>={OLDEST_TORCH},<3"]\n'
        'build-backend = "kernelwheel.hooks"\n',
    ),
    ("pyproject.toml", r"^\[project\.optional-dependencies\]$", rf'\g<0>\njit = ["{COMPILER}[jit]{COMPILERS}"]'),
    ("MANIFEST.in", r"^include backend/.+\n^recursive-include backend/.+\n", ""),
)
# The oldest drivers that a release serves: 525 and later.
DRIVERS = "12.0"
# pip installs nothing else, and no sdist, which would be built with more than the lock has.
LOCKED = {"PIP_REQUIRE_HASHES": "1", "PIP_ONLY_BINARY": ":all:"}
# Lines of a build that tell how far it is, or what was decided.
PROGRESS = re.compile(
    r" *(\[\d+/\d+\]|compiling |nvcc:|CUDA kernels:|platform tag:|stable ABI:|  \S+: \S+@|\* |Successfully"
    r"|Collecting (torch|cuda-toolkit)\b)"
)
COLOR = re.compile(r"\x1b\[[0-9;]*m")


class Refused(Exception):
    """What was asked for cannot be done: what is required, what was found, and what fixes it."""

    def __init__(self, required: str, found: str, fix: str) -> None:
        super().__init__(f"required:  {required}\nfound:     {found}\nto fix:    {fix}")


class Check(NamedTuple):
    """A check of the release: its name, whether it passed, and what it said."""

    name: str
    passed: bool
    said: str


class BuildEnvironment(NamedTuple):
    """How a build is run: the folder for everything that it makes, variables, umask, and words before the command."""

    folder: Path
    env: Mapping[str, str]
    umask: int = 0o022
    prefix: tuple[str, ...] = ()


def main(arguments: Sequence[str]) -> int:
    """Make dist/; return 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="ci/wheels", description=__doc__)
    parser.add_argument("commit", nargs="?", help="the commit to build; without it HEAD, if nothing is uncommitted")
    parser.add_argument("--check-reproducible", action="store_true", help="build twice and compare")
    parser.add_argument("--platform", action="append", default=[], help="also a wheel for another platform; repeatable")
    parser.add_argument("--older", type=Path, required=True, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    try:
        commit = find_commit(ROOT, args.commit)
        version = version_of(ROOT, commit)
        with tempfile.TemporaryDirectory(prefix="release-") as work:
            older = args.older if args.check_reproducible else None
            checks = release(Path(work), commit, version, older, args.platform)
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    for check in checks:
        print(f"{'passed' if check.passed else 'FAILED'}  {check.name}")
    return 0 if all(check.passed for check in checks) else 1


def release(work: Path, commit: str, version: str, older: Path | None, platforms: Sequence[str] = ()) -> list[Check]:
    """Build, check and write dist/."""
    say(f"building {version} from {commit[:12]}")
    checkout = clone(commit, version, work / "checkout")
    epoch = git("show", "-s", "--format=%ct", commit)
    made = build(checkout, BuildEnvironment(work / "build", {}), epoch, platforms)
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    files = [Path(shutil.copy2(path, dist)) for path in made]
    say("checking")
    checks = check_files(files, checkout)
    if older:
        environment = different_environment(work / "another folder ünlike the first", older)
        say(f"building again: {describe(environment)}")
        checkout = clone(commit, version, environment.folder / "checkout")
        for path in checkout.rglob("*"):
            os.utime(path, (1e9, 1e9))
        again = build(checkout, environment, epoch, platforms)
        checks.append(check_equal(files, again, describe(environment)))
    (dist / "results.json").write_text(json.dumps([check._asdict() for check in checks], indent=1), encoding="utf-8")
    lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(lines), encoding="ascii")
    return checks


def find_commit(repository: Path, named: str | None) -> str:
    """The commit to build. Uncommitted changes would silently be left out, so they are refused unless one is named."""
    if named is None and (changed := git("status", "--porcelain", repository=repository)):
        raise Refused(
            "a commit with everything in it", changed, "commit it, or name the commit to build: ci/wheels HEAD"
        )
    try:
        return git("rev-parse", "--verify", "--quiet", f"{named or 'HEAD'}^{{commit}}", repository=repository)
    except subprocess.CalledProcessError:
        raise Refused("a commit", f"nothing that is called {named}", "git log --oneline") from None


def version_of(repository: Path, commit: str) -> str:
    """The version that a commit stands for: the one that is written if it has its tag, or else one that names it.

    Raises:
        Refused: the files have several, a tag is for another version, or CHANGELOG.md does not begin with the tag's.
    """
    texts = {file: git("show", f"{commit}:{file}", repository=repository) for file in VERSIONS}
    written = {
        file: found[1] if (found := re.search(rf'^{VERSIONS[file]} = "(.+)"$', text, re.MULTILINE)) else "none"
        for file, text in texts.items()
    }
    version, *others = dict.fromkeys(written.values())
    if others or version == "none":
        both = ", ".join(f"{file}: {each}" for file, each in written.items())
        raise Refused(f"one version in {' and '.join(VERSIONS)}", both, "write the same into both, and commit")
    tags = [tag for tag in git("tag", "--points-at", commit, repository=repository).split() if re.match(r"v\d", tag)]
    if not tags:
        return f"{version}+g{commit[:9]}"
    if tags != [f"v{version}"]:
        raise Refused(
            f"the tag v{version}, as in {' and '.join(VERSIONS)}", ", ".join(tags), "change the files, or move the tag"
        )
    changes = git("show", f"{commit}:CHANGELOG.md", repository=repository)
    top = re.search(r"^## (.+)$", changes, re.MULTILINE)
    if not top or top[1].split()[0] != version:
        raise Refused(
            f"a CHANGELOG.md whose first section is ## {version}",
            f"## {top[1]}" if top else "no section",
            f"begin it with what {version} changes, commit, and move the tag",
        )
    return version


def clone(commit: str, version: str, folder: Path) -> Path:
    """A clean checkout of a commit, with its version; and with what a release says, if it is one."""
    git("clone", "--quiet", "--no-checkout", str(ROOT), str(folder))
    git("checkout", "--quiet", "--detach", commit, repository=folder)
    write_version(folder, version)
    return folder


def write_version(folder: Path, version: str) -> None:
    """Write a version into a checkout, and with a release's what else a release says."""
    edit(folder, (*edits_for(version), *(RELEASED if is_release(version) else ())))


def edits_for(version: str) -> list[tuple[str, str, str]]:
    """What writes a version into the files that have it."""
    return [(file, rf'^{name} = ".+"$', f'{name} = "{version}"') for file, name in VERSIONS.items()]


def edit(folder: Path, edits: Iterable[tuple[str, str, str]]) -> None:
    """Replace an expression in each of these files, where it stands once."""
    for file, expression, replacement in edits:
        text, count = re.subn(expression, replacement, (folder / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
        if count != 1:
            raise Refused(f"{expression} once in {file}", f"{count} times", "mend it, or its expression in ci")
        (folder / file).write_text(text, encoding="utf-8")


def is_release(version: str) -> bool:
    """Whether a version may be on an index: one that names its commit may not (version specifiers, "Local")."""
    return "+" not in version


def build(checkout: Path, environment: BuildEnvironment, epoch: str, platforms: Sequence[str] = ()) -> list[Path]:
    """The sdists and the wheels of a checkout, built in isolation: kernelwheel's and splat's; then those for others."""
    out = environment.folder / "out"
    compiler = environment.folder / COMPILER
    out.mkdir(parents=True)
    compiler.mkdir()
    if environment.prefix:  # another user
        for path in (environment.folder, *environment.folder.rglob("*")):
            shutil.chown(path, "nobody")
    run_front_end(environment, epoch, checkout / "backend", checkout / LOCK, "--outdir", compiler)
    lock = lock_with(checkout / LOCK, next(compiler.glob("*.whl")), environment.folder)
    environment = environment._replace(env={**environment.env, **found_in(compiler)})
    run_front_end(environment, epoch, checkout, lock, "--outdir", out)
    made = [path for folder in (compiler, out) for path in sorted(folder.iterdir()) if path.suffix in (".whl", ".gz")]
    for platform in platforms:
        packages = environment.folder / f"packages-{platform}"
        fetch_packages(packages, platform, built_with(made)["nvcc"], checkout)
        config = [f"--config-setting=platform={platform}", f"--config-setting=target-packages={packages}"]
        other = environment.folder / platform
        run_front_end(environment, epoch, checkout, lock, "--wheel", *config, "--outdir", other)
        made += sorted(other.glob("*.whl"))
    return made


def lock_with(lock: Path, wheel: Path, folder: Path) -> Path:
    """The lock with kernelwheel's wheel, so that pip takes no other, wherever that may be."""
    version = wheel.name.split("-")[1]
    listed = folder / "build.txt"
    listed.write_text(f"{lock.read_text(encoding='ascii')}{COMPILER}=={version} --hash=sha256:{sha256(wheel)}\n")
    return listed


def found_in(folder: Path) -> dict[str, str]:
    """The variables by which pip finds the files of a folder, too."""
    return {"PIP_FIND_LINKS": " ".join(filter(None, [os.environ.get("PIP_FIND_LINKS"), folder.as_uri()]))}


def fetch_packages(folder: Path, platform: str, nvcc: str, checkout: Path) -> None:
    """The parts of the CUDA toolkit for another platform, for `target-packages`, in the release that built the wheel.

    Args:
        folder: where they are unpacked.
        platform: `linux-aarch64`.
        nvcc: what built the first wheel: `13.0.88`, or `clang 19.1.7 with CUDA 12.9.86`.
        checkout: the checkout, which has the lock.
    """
    from kernelwheel.compiler.cross.target_platform import pip_words
    from kernelwheel.project.build_platforms import PLATFORMS

    release = ".".join(nvcc.split()[-1].split(".")[:2])
    words = ["--target", str(folder), "--constraint", str(checkout / LOCK), *pip_words(release, PLATFORMS[platform])]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *words]
    env = {**os.environ, **LOCKED}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"the toolkit's parts for {platform}, as in {LOCK}", done.stderr, "see what pip says")


def run_front_end(environment: BuildEnvironment, epoch: str, project: Path, lock: Path, *words: str | Path) -> None:
    """Run `python -m build` on a project, with what the lock lists, and show how far it is."""
    options = {"SOURCE_DATE_EPOCH": epoch, "SPLAT_MANYLINUX": "required", "SPLAT_CUDA": "on", "SPLAT_DRIVERS": DRIVERS}
    env = {**os.environ, **environment.env, **options, **LOCKED}
    locked = f"--dependency-constraints-txt={lock}"
    command = [*environment.prefix, sys.executable, "-m", "build", "--verbose", locked, *map(str, words), str(project)]
    said: list[str] = []
    with subprocess.Popen(
        command, env=env, umask=environment.umask, cwd=environment.folder, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if PROGRESS.match(line):
                print(f"  {line.strip()}", flush=True)
    if process.returncode != 0:
        raise Refused("a build that succeeds", "".join(said[-40:]), "mend what the build says, commit, and try again")


def wheels_of(files: Sequence[Path]) -> list[Path]:
    """splat's wheels among the files of a release; the first is for this machine's platform."""
    return [path for path in files if path.suffix == ".whl" and not path.name.startswith(COMPILER)]


def built_with(files: Sequence[Path]) -> dict[str, str]:
    """What the first wheel was built with: torch and nvcc."""
    with ZipFile(wheels_of(files)[0]) as archive:
        values: dict[str, str] = json.loads(archive.read("splat/_native/manifest.json"))["built_with"]
    return values


def different_environment(folder: Path, older: Path) -> BuildEnvironment:
    """An environment that differs from the first in everything that must not matter, as far as this machine has it."""
    (folder / "temporary").mkdir(parents=True)
    cache = subprocess.run(["pip", "cache", "dir"], capture_output=True, text=True, check=False).stdout.strip()
    env = {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "XDG_CACHE_HOME": str(folder / "cache"),
        "PATH": f"{older}:{os.environ['PATH']}", "MAX_JOBS": "3", "LC_ALL": "C", "TZ": "Pacific/Kiritimati",
        "PYTHONHASHSEED": "42", "PIP_CACHE_DIR": cache, "ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"),
    }  # fmt: skip
    return BuildEnvironment(folder, env, 0o077, as_nobody(folder.parent))


def as_nobody(work: Path) -> tuple[str, ...]:
    """The words that run a command as another user; none if that is not possible."""
    words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return ()
    work.chmod(0o711)
    probe = work / "probe"
    probe.mkdir()
    shutil.chown(probe, "nobody")
    seen = "import os, sys; sys.exit(not os.path.exists(sys.executable))"
    for command in (
        [sys.executable, "-m", "venv", "--without-pip", str(probe)],
        [str(probe / "bin/python"), "-c", seen],
    ):
        try:
            subprocess.run([*words, *command], capture_output=True, check=True, cwd=probe)
        except subprocess.CalledProcessError:
            return ()
    return words


def describe(environment: BuildEnvironment) -> str:
    """What an environment differs in, in words."""
    cmake = subprocess.run(
        ["cmake", "--version"], env={"PATH": environment.env["PATH"]}, capture_output=True, text=True, check=False
    )
    names = "another checkout, TMPDIR, HOME, cache, umask, number of jobs, locale, time zone, hash seed and file times"
    user = ", another user" if environment.prefix else ""
    return f"{names}{user}, {cmake.stdout.splitlines()[0] if cmake.stdout else 'the same CMake'}"


def check_files(files: Sequence[Path], checkout: Path) -> list[Check]:
    """What outside tools say of the files."""
    tools, folder = Path(sys.executable).parent, files[0].parent
    checks = [
        run(folder, "twine check --strict", tools / "twine", "check", "--strict", *(path.name for path in files)),
        run(checkout, "validate-pyproject", tools / "validate-pyproject", "pyproject.toml", "backend/pyproject.toml"),
        run(
            folder,
            f"check-wheel-contents, {COMPILER}",
            tools / "check-wheel-contents",
            next(path.name for path in files if path.name.startswith(COMPILER) and path.suffix == ".whl"),
        ),
    ]
    for number, wheel in enumerate(wheels_of(files)):
        tag = wheel.stem.rpartition("-")[2]
        checked = [run(folder, "check-wheel-contents", tools / "check-wheel-contents", wheel.name)]
        if tag.startswith("win"):
            checked += check_windows(wheel)
        else:
            shown = run(folder, "auditwheel show", tools / "auditwheel", "show", wheel.name)
            checked += [check_tag(wheel.name, shown), check_abi(wheel, tools)]
        which = f", {tag}" if number else ""
        checks += [check._replace(name=check.name + which) for check in checked]
    return checks


def check_tag(wheel: str, shown: Check) -> Check:
    """Whether a wheel has its platform tag from what auditwheel reads in it; a tag for a newer glibc is earned too.

    The libraries of torch, which stay outside, make auditwheel's own tag `linux`; the symbols' tag is said after it.
    """
    said = " ".join(shown.said.split())
    needs = re.search(r'This constrains the platform tag to "manylinux_2_(\d+)_(\w+)"', said)
    has = re.search(r"-manylinux_2_(\d+)_(\w+)\.whl$", wheel)
    earned = bool(needs and has and needs[2] == has[2] and int(needs[1]) <= int(has[1]))
    return shown._replace(passed=shown.passed and earned)


def check_abi(wheel: Path, tools: Path) -> Check:
    """What torch-abi-audit says of the libraries in a wheel."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(wheel, folder, "zip")
        return run(Path(folder), "torch-abi-audit", tools / "torch-abi-audit", "./splat", "--check", "torch")


def check_windows(wheel: Path) -> list[Check]:
    """What the libraries in a wheel for Windows import, by pefile: auditwheel and torch-abi-audit read ELF alone."""
    import pefile
    from kernelwheel.packing.allowed_dlls import is_allowed
    from torch_abi_audit.torch_abi import classify_symbol, classify_symbols

    imported: dict[str, list[str]] = {}
    with ZipFile(wheel) as archive:
        target = json.loads(archive.read("splat/_native/manifest.json"))["requires"]["torch"]
        for name in archive.namelist():
            if name.endswith(".dll"):
                with pefile.PE(data=archive.read(name), fast_load=True) as file:
                    file.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]])
                    for table in file.DIRECTORY_ENTRY_IMPORT:
                        symbols = [(each.name or b"").decode("ascii") for each in table.imports]
                        imported.setdefault(table.dll.decode("ascii"), []).extend(symbols)
    foreign = [name for name in imported if not is_allowed(name)]
    used = sorted({symbol for name in imported if name.startswith(("torch", "c10")) for symbol in imported[name]})
    verdict = classify_symbols(used)
    outside = [name for name in used if classify_symbol(name) != "stable_shim"] + [*verdict.unknown_shim_symbols]
    since = [int(part) for part in (verdict.min_torch_version or "0").split(".")[:2]]
    old_enough = since <= [int(part) for part in target.split(".")]
    checks = [
        Check(
            "imports, in place of auditwheel",
            bool(imported) and not foreign,
            f"imported: {', '.join(sorted(imported))}\nneither torch nor Windows: {', '.join(foreign) or 'none'}",
        ),
        Check(
            "imports, in place of torch-abi-audit",
            bool(used) and not outside and old_enough,
            f"{len(used)} functions of torch, by torch-abi-audit's lists those of torch {verdict.min_torch_version}; "
            f"the wheel requires {target}\nnot of the stable ABI: {', '.join(outside) or 'none'}",
        ),
    ]
    for check in checks:
        print(f"  {check.name}: {'passed' if check.passed else 'FAILED'}", flush=True)
    return checks


def check_equal(files: Sequence[Path], again: Sequence[Path], how: str) -> Check:
    """Whether two builds gave the same files; if not, where they differ."""
    said = [f"built twice: {how}"]
    equal = [path.name for path in files] == [path.name for path in again]
    for one, other in zip(files, again, strict=False):
        if sha256(one) == sha256(other):
            said.append(f"equal, byte for byte: {one.name}")
            continue
        equal = False
        kept = one.parent.with_name("dist-again")
        kept.mkdir(exist_ok=True)
        shutil.copy2(other, kept)
        said.append(f"{one.name} differs; to see where: diffoscope dist/{one.name} dist-again/{one.name}")
    return Check("reproducible", equal, "\n".join(said))


def run(folder: Path, name: str, *command: str | Path) -> Check:
    """Run a check in a folder, whose path is then in no report; it passes if its exit status is 0."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    print(f"  {name}: {'passed' if done.returncode == 0 else 'FAILED'}", flush=True)
    said = COLOR.sub("", done.stdout + done.stderr)  # twine colours what is not a terminal, too
    return Check(name, done.returncode == 0, said.strip())


def git(*words: str, repository: Path = ROOT) -> str:
    """What git prints."""
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(line: str) -> None:
    """A heading, as the other scripts print it."""
    print(f"\n== {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
