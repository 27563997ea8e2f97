"""Whether an Artifact may be loaded on a Host: pure functions, called before any dlopen, that list the mismatches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import REINSTALL
from ..machine.files import json_sha256
from ..machine.host import Arch, Host, torch_required
from ..machine.platforms import numbers
from ..record import Record
from .content import Content, can_use_cuda, only, part_made, without_cuda
from .manifest import Library, Manifest, Requires


class Mismatch(Record):
    """One reason against an Artifact."""

    # `version`, `sources`, `extensions`, `options`, `platform`, `cpu`, `libc`, `libstdcxx`, `python`, `torch`, `cuda`,
    # `driver` or `capability`
    dimension: str
    required: str  # what the Artifact needs
    found: str  # what this machine has
    remedy: str
    device: str = "cpu"  # `cpu` if nothing in the Artifact can be used, `cuda` if only its CUDA kernels cannot
    compile_cures: bool = True  # whether compiling on this machine would fix it


class Wanted(Record):
    """What a package requires of the Artifacts that it loads; None: anything."""

    version: str | None = None  # the package's
    content: Content | None = None  # what kernels of it would be compiled from now, and how, with the options for CUDA
    unknown: Mismatch | None = None  # what rules out all kernels, as nothing says what they would be compiled from


ANYTHING = Wanted()


def check(manifest: Manifest, host: Host, wanted: Wanted = ANYTHING) -> tuple[Mismatch, ...]:
    """What rules an Artifact out: what a machine lacks that it needs, and what it has that is not wanted.

    GPUs and driver are checked if the Host knows them; a CPU that it does not know (`asked_for`) has nothing.
    """
    return (*_other_content(manifest, wanted), *_mismatches(manifest, host))


def _other_content(manifest: Manifest, wanted: Wanted) -> Iterator[Mismatch]:
    """Mismatches for kernels that were built from other code than the package's, or with other options."""
    package, version, has = manifest.package, wanted.version, manifest.content
    if version is not None and version != manifest.version:
        found = f"kernels of version {manifest.version}"
        yield Mismatch("version", f"{package} {version}", found, REINSTALL, compile_cures=False)
    if wanted.unknown:
        yield wanted.unknown
    if wanted.content is None:
        return
    wants = only(wanted.content if manifest.uses_cuda else without_cuda(wanted.content), part_made(has))
    if has["sources"] != wants["sources"]:
        required = f"kernels built from sources {json_sha256(wants['sources'])[:12]}"
        found = f"kernels built from sources {json_sha256(has['sources'])[:12]}"
        yield Mismatch("sources", required, found, f"rebuild {package} from its present sources")
    if has["extensions"] != wants["extensions"]:
        required = f"kernels built as the extensions of {package} are declared"
        found = "kernels built with other flags, definitions or files"
        yield Mismatch("extensions", required, found, f"rebuild {package} with its present extensions")
    now, then = _options(wants), _options(has)
    for name in sorted({*now, *then}):
        if now.get(name) != then.get(name):
            required, found = (f"kernels built with {name} {_as_text(each.get(name))}" for each in (now, then))
            yield Mismatch("options", required, found, f"rebuild {package} with its present options")


def _options(content: Content) -> dict[str, Any]:
    """What of a content is set in one line: the options, and whatever else but the package and its sources."""
    apart = ("package", "version", "sources", "extensions", "options")
    return {**content["options"], **{name: value for name, value in content.items() if name not in apart}}


def _as_text(value: Any) -> str:
    return (" ".join(value) if isinstance(value, list) else str(value or "")) or "empty"


def _mismatches(manifest: Manifest, host: Host) -> Iterator[Mismatch]:
    needs = manifest.requires
    wheel = f"a wheel of {manifest.package} that was built for this machine"
    if needs.platform != host.platform:
        yield Mismatch("platform", needs.platform, host.platform, f"install {wheel}")
        return  # the rest would be noise
    if lacking := sorted(manifest.cpu.keys() - (host.cpu or ())):
        cures = all(manifest.cpu[each] == "cpu" for each in lacking)
        remedy = "build from source here" if cures else "rebuild it without the flags that name these"
        required, found = f"a CPU with {', '.join(sorted(manifest.cpu))}", f"a CPU without {', '.join(lacking)}"
        yield Mismatch("cpu", required, found, f"install {wheel}, or {remedy}", compile_cures=cures)
    if numbers(needs.libc) > numbers(host.libc):
        yield Mismatch("libc", needs.libc, host.libc or "no glibc", f"build from source here, or install {wheel}")
    if numbers(needs.libstdcxx) > numbers(host.libstdcxx):
        known = bool(host.libstdcxx)  # if not, kernels compiled here would be refused for the same reason
        found = host.libstdcxx or "no libstdc++ with a known version in this process"
        remedy = "update libstdc++" + (f", build from source here, or install {wheel}" if known else "")
        yield Mismatch("libstdcxx", needs.libstdcxx, found, remedy, compile_cures=known)
    yield from _binding_mismatches(needs, host, wheel)
    # One file for CPU and GPU cannot be loaded without libtorch_cuda if it needs it.
    if can_use_cuda(manifest.content) and (host.cuda is not None or manifest.serves_both):
        yield from _cuda_mismatches(manifest, host, "cpu" if manifest.serves_both else "cuda")


def _binding_mismatches(needs: Requires, host: Host, wheel: str) -> Iterator[Mismatch]:
    """Mismatches of Python and torch: operators run on any new enough torch, modules on one Python and one torch."""
    if needs.python is not None and needs.python != host.python:
        required, found = (f"a Python with ABI {python}" for python in (needs.python, host.python))
        yield Mismatch("python", required, found, f"install {wheel}, with {host.python} in its name")
    exact, has = not needs.torch.replace(".", "").isdecimal(), host.torch.partition("+")[0]
    if torch_required(host.torch) != needs.torch if exact else numbers(has) < numbers(needs.torch):
        relation = "==" if exact else ">="
        remedy = "use that torch" if "+" in needs.torch else f"pip install 'torch{relation}{needs.torch}'"
        remedy += f", or build {wheel}" if exact else ""
        yield Mismatch("torch", f"torch {relation} {needs.torch}", f"torch {host.torch}", remedy, compile_cures=exact)


def _cuda_mismatches(manifest: Manifest, host: Host, device: str) -> Iterator[Mismatch]:
    """What rules out the CUDA kernels; `device` is what cannot be used with a torch that does not fit.

    Operators bring the CUDA runtime along, so the driver must suffice, and torch may be for any CUDA; see
    docs/design.md.
    """
    needs = manifest.requires
    if not manifest.uses_cuda:
        because = manifest.built_with.get("cuda", {}).get("because", "not recorded")
        required, found = f"CUDA kernels, for torch {host.torch}", f"CPU kernels only, because at build time: {because}"
        yield Mismatch("cuda", required, found, "rebuild the wheel against a torch with CUDA", "cuda")
        return
    major = int(host.cuda.split(".")[0]) if host.cuda else None
    if major is None or needs.cuda not in (None, major):
        torch = "a torch with CUDA" if needs.cuda is None else f"a torch for CUDA {needs.cuda}"
        found = f"torch {host.torch}, " + (f"for CUDA {host.cuda}" if host.cuda else "which has no CUDA")
        yield Mismatch("cuda", torch, found, f"install {torch}, or rebuild the wheel against this torch", device)
        return
    if host.driver is not None and host.driver < numbers(needs.driver or ""):
        serves_torch = major <= host.driver[0]  # if not, torch sees no GPU, and no other kernels would help
        earlier = f", or rebuild the wheel with an nvcc of CUDA {host.driver[0]}" if serves_torch else ""
        required, found = f"a driver for CUDA {needs.driver} or later", "a driver for CUDA {}.{}".format(*host.driver)
        yield Mismatch("driver", required, found, f"update the NVIDIA driver{earlier}", "cuda", serves_torch)
        return
    for capability in host.capabilities or ():
        if reason := capability_mismatch(manifest, capability, host.driver):
            yield reason


def capability_mismatch(
    manifest: Manifest,
    capability: tuple[int, int],
    driver: tuple[int, int] | None,
    libraries: Iterable[Library] | None = None,
) -> Mismatch | None:
    """Whether a GPU can run the Artifact's CUDA kernels: SASS that fits, or PTX that its driver can compile."""
    newer = manifest.requires.driver_for_ptx or ""
    driver_is_new_enough = driver is not None and numbers(newer) <= driver
    name = "{}.{}".format(*capability)
    for library in manifest.kernels if libraries is None else libraries:
        if any(Arch.from_string(arch).sass_runs_on(capability) for arch in library.sass):
            continue
        ptx = [arch for arch in library.ptx if Arch.from_string(arch).ptx_runs_on(capability)]
        if ptx and driver_is_new_enough:
            continue
        if ptx:
            serves = "{}.{}".format(*driver) if driver else "unknown"
            found = f"PTX {ptx[-1]} from CUDA {newer}, and a driver for CUDA {serves}"
            remedy = f"update the NVIDIA driver to CUDA {newer}, or build with TORCH_CUDA_ARCH_LIST={name}"
        else:
            found = f"SASS for {', '.join(library.sass) or 'none'}; PTX for {', '.join(library.ptx) or 'none'}"
            remedy = f"build with TORCH_CUDA_ARCH_LIST={name}"
        return Mismatch("capability", f"kernels for compute capability {name}", found, remedy, "cuda")
    return None
