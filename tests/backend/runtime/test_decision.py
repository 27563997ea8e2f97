"""What a call and `cache build` decide, as a pure function of what was read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kernelwheel.jit.loaded_library import RequestForList
from kernelwheel.project import arch_choice
from kernelwheel.runtime.artifact.artifact import Artifact, Damaged
from kernelwheel.runtime.artifact.compatible import ANYTHING, Mismatch, Wanted, check
from kernelwheel.runtime.decision.decision import Decision, Request, decide, decide_on_wheel
from kernelwheel.runtime.decision.no_kernels import unknown_sources
from kernelwheel.runtime.decision.snapshot import Snapshot, Sources
from kernelwheel.runtime.errors import IncompatibleArtifactError, KernelWheelError
from kernelwheel.runtime.machine.host import Host
from kernelwheel.runtime.settings import Settings
from kernelwheel.runtime.store.store import Store
from kernelwheel.store.build_ahead import BuildRequest
from samples import CPU_LIBRARY, CUDA_MANIFEST, HOST

MANIFEST = CUDA_MANIFEST._replace(libraries=(CPU_LIBRARY, CUDA_MANIFEST.libraries[1]._replace(ptx=())))
CPU_MANIFEST = MANIFEST._replace(requires=MANIFEST.requires._replace(driver=None), libraries=(CPU_LIBRARY,))
HOPPER = HOST
BLACKWELL = HOPPER._replace(capabilities=((12, 0),))
NO_GPU = HOPPER._replace(capabilities=(), driver=None)
CPU_TORCH = HOPPER._replace(torch="2.13.0+cpu", cuda=None, capabilities=(), driver=None)
EARLIER_CUDA = HOPPER._replace(torch="2.11.0+cu128", cuda="12.8")
OLD_DRIVER = EARLIER_CUDA._replace(driver=(12, 9))
OLD_TORCH = HOPPER._replace(torch="2.9.0+cu130")

WHEEL = Artifact(Path("/site/tiny/_native"), MANIFEST, None)
CPU_WHEEL = WHEEL._replace(manifest=CPU_MANIFEST)
STORE = Store(Path("/cache"), "tiny", "1.2.3")
ENTRY = Artifact(STORE.root / "entry", MANIFEST, STORE.guard)
BLACKWELL_ENTRY = ENTRY._replace(
    manifest=MANIFEST._replace(libraries=(CPU_LIBRARY, MANIFEST.libraries[1]._replace(sass=("12.0",))))
)
DEFAULT_ENTRY = ENTRY._replace(
    manifest=MANIFEST._replace(built_with={"settings": {"archs": {"value": "8.0;9.0", "origin": "default"}}})
)
ARM_ENTRY = ENTRY._replace(manifest=MANIFEST._replace(requires=MANIFEST.requires._replace(platform="linux-aarch64")))
ARM_HOPPER = HOPPER._replace(platform="linux-aarch64")
WINDOWS = CPU_TORCH._replace(platform="windows-x86_64", libc="", libstdcxx="")
WINDOWS_NEEDS = CPU_MANIFEST.requires._replace(platform="windows-x86_64", libc="", libstdcxx="")
WINDOWS_WHEEL = WHEEL._replace(manifest=CPU_MANIFEST._replace(requires=WINDOWS_NEEDS))
NEVER = "windows-x86_64, on which no kernels are compiled"
TROUBLE = KernelWheelError("trouble", required="none", found="some", remedies=["fix it"])


MISSING = Mismatch("artifact", "compiled kernels", "no kernels are installed", "install a wheel")


def at(
    *found: Artifact | Damaged, needs_cuda: bool = False, source: bool = True, environ: Mapping[str, str] | None = None,
    **changes: Any,
) -> Snapshot:  # fmt: skip
    """What is read where this is found, on a Host to be filled in."""
    wheel = next((each for each in found if isinstance(each, Artifact) and each.guard is None), None)
    settings = Settings.resolve("tiny", {}, environ or {})
    content = {**MANIFEST.content, **({"extensions": [{"cuda": "required"}]} if needs_cuda else {})}
    values: dict[str, Any] = {
        "package": "tiny",
        "version": "1.2.3",
        "folder": WHEEL.folder,
        "host": HOST,
        "manifest": wheel.manifest if wheel else None,
        "damage": None,
        "missing": None if wheel else MISSING,
        "jit": settings.jit,
        "settings": settings,
        "sources": Sources(content, Path("/src"), {}) if source else None,
        "wanted": Wanted("1.2.3", content) if source else Wanted("1.2.3", unknown=unknown_sources("tiny")),
        "stores": (STORE,),
        "entries": tuple(each for each in found if each != wheel),
    }
    return Snapshot(**{**values, **changes})


def outcome_of(given: Snapshot, host: Host, request: Request) -> Decision:
    return decide(given._replace(host=host), request)


JIT_NEVER, JIT_ALWAYS, CUDA_OFF = {"TINY_JIT": "never"}, {"TINY_JIT": "always"}, {"TINY_CUDA": "off"}

# what a call does: device, host, circumstances, outcome, part of the reason
CALLS: dict[str, tuple[str, Host, Snapshot, str, str]] = {
    "a wheel that fits": ("cuda", HOPPER, at(WHEEL), "load", "in the wheel fit"),
    "a GPU that the wheel has no kernels for": ("cuda", BLACKWELL, at(WHEEL), "compile", "capability"),
    "an entry for that GPU": ("cuda", BLACKWELL, at(WHEEL, BLACKWELL_ENTRY), "load", "in the store fit"),
    "a CPU wheel beside a CUDA torch": ("cuda", HOPPER, at(CPU_WHEEL), "compile", "CPU kernels only"),
    "a torch of an earlier CUDA": ("cuda", EARLIER_CUDA, at(WHEEL), "load", "in the wheel fit"),
    "a driver that serves torch alone": ("cuda", OLD_DRIVER, at(WHEEL), "compile", "found a driver for CUDA 12.9"),
    "no GPU": ("cuda", NO_GPU, at(WHEEL), "fail", "torch sees no GPU"),
    "no CUDA in torch": ("cuda", CPU_TORCH, at(WHEEL), "fail", "2.13.0+cpu has no CUDA"),
    "a shared store, on aarch64": ("cuda", ARM_HOPPER, at(ENTRY, ARM_ENTRY), "load", "in the store fit"),
    "a store of another platform's": ("cuda", ARM_HOPPER, at(ENTRY), "compile", "no kernels are installed"),
    "an editable install and an entry": ("cpu", HOPPER, at(ENTRY), "load", "in the store fit"),
    "nothing to compile from": ("cpu", HOPPER, at(source=False), "fail", "no sources are installed"),
    "an entry, and nothing that says what it must be of": (
        "cpu", HOPPER, at(ENTRY, source=False), "fail",
        "no sources are installed",
    ),
    "no GPU, and all needs one": ("cpu", NO_GPU, at(needs_cuda=True), "fail", "only on request: TINY_CUDA=on"),
    "no GPU, but the others' named": (
        "cpu", NO_GPU, at(needs_cuda=True, environ={"TORCH_CUDA_ARCH_LIST": "9.0"}), "compile",
        "no kernels are",
    ),
    "jit is never": (
        "cuda", BLACKWELL, at(WHEEL, environ=JIT_NEVER), "fail",
        "jit is never (environment variable TINY_JIT)",
    ),
    "cuda is off": (
        "cuda", BLACKWELL, at(WHEEL, environ=CUDA_OFF), "fail",
        "cuda is off (environment variable TINY_CUDA)",
    ),
    "cuda is off, and kernels that are there": (
        "cuda", HOPPER, at(WHEEL, environ=CUDA_OFF), "load",
        "in the wheel fit",
    ),
    "what no compile cures": ("cpu", OLD_TORCH, at(WHEEL), "fail", "compiling would not fix that"),
    "a wheel for Windows": ("cpu", WINDOWS, at(WINDOWS_WHEEL), "load", "in the wheel fit"),
    "a wheel for Linux, on Windows": ("cpu", WINDOWS, at(WHEEL), "fail", NEVER),
    "jit is always, on Windows": (
        "cpu", WINDOWS, at(WINDOWS_WHEEL, environ=JIT_ALWAYS), "fail",
        f"jit is always (environment variable TINY_JIT); {NEVER}",
    ),
    "a damaged wheel": ("cpu", HOPPER, at(WHEEL, ENTRY, damage=TROUBLE), "fail", "trouble (found: some)"),
    "a store that is not safe": ("cpu", HOPPER, at(error=TROUBLE), "fail", "trouble (found: some)"),
    "a store that is not safe, and a wheel": ("cpu", HOPPER, at(WHEEL, error=TROUBLE), "load", "in the wheel fit"),
    "a store that is not safe, and a wheel that does not fit": (
        "cpu", OLD_TORCH, at(WHEEL, error=TROUBLE), "fail",
        "(torch: required torch >= 2.10, found torch 2.9.0+cu130), and trouble",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("device", "host", "given", "outcome", "because"), CALLS.values(), ids=CALLS)
def test_what_a_call_does(device: str, host: Host, given: Snapshot, outcome: str, because: str) -> None:
    expected = outcome_of(given, host, Request(device))

    assert (expected.request.device, expected.outcome) == (device, outcome)
    assert because in expected.because
    assert (expected.artifact is not None) == (outcome == "load")
    assert (expected.error is not None) == (outcome == "fail")
    assert expected.error is None or expected.error.remedies


# what `cache build` does, with the architectures requested
BUILDS: dict[str, tuple[str, Host, Snapshot, str, str, str]] = {
    "a wheel that fits": ("cuda", HOPPER, at(WHEEL), "", "load", "in the wheel fit"),
    "a wheel, and no GPU to ask": ("cuda", NO_GPU, at(WHEEL), "", "load", "in the wheel fit"),
    "architectures that the wheel has": ("cuda", BLACKWELL, at(WHEEL), "8.6;9.0", "load", "in the wheel fit"),
    "others": (
        "cuda", HOPPER, at(WHEEL), "7.5", "compile",
        "archs: required CUDA kernels for 7.5, found SASS for 8.0, 9.0",
    ),
    "an entry for some GPU, and none to ask": ("cuda", NO_GPU, at(ENTRY), "", "compile", "no kernels are installed"),
    "an entry with the default list": ("cuda", NO_GPU, at(DEFAULT_ENTRY), "", "load", "in the store fit"),
    "jit is never": ("cpu", HOPPER, at(environ=JIT_NEVER), "", "compile", "no kernels are installed"),
    "nothing to compile from": ("cpu", HOPPER, at(source=False), "", "fail", "no sources are installed"),
    "a damaged wheel": ("cuda", NO_GPU, at(WHEEL, damage=TROUBLE), "", "fail", "trouble (found: some)"),
}  # fmt: skip


@pytest.mark.parametrize(("device", "host", "given", "archs", "outcome", "because"), BUILDS.values(), ids=BUILDS)
def test_what_a_build_does(device: str, host: Host, given: Snapshot, archs: str, outcome: str, because: str) -> None:
    targets = arch_choice.parse(archs, "a test") if archs else None

    expected = outcome_of(given, host, BuildRequest(device, archs=targets))

    assert (expected.request.device, expected.outcome) == (device, outcome)
    assert because in expected.because


def test_what_is_loaded_is_the_first_that_fits() -> None:
    assert outcome_of(at(WHEEL, ENTRY, BLACKWELL_ENTRY), BLACKWELL, Request("cuda")).artifact == BLACKWELL_ENTRY
    assert check(BLACKWELL_ENTRY.manifest, BLACKWELL) == ()


TWO_GPUS = HOPPER._replace(capabilities=((9, 0), (12, 0)))
BOTH_ENTRY = ENTRY._replace(
    manifest=MANIFEST._replace(libraries=(CPU_LIBRARY, MANIFEST.libraries[1]._replace(sass=("9.0", "12.0"))))
)


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        (at(WHEEL, BOTH_ENTRY), BOTH_ENTRY),  # a process can load only one library of CUDA kernels
        (at(WHEEL, BLACKWELL_ENTRY), WHEEL),
        (at(WHEEL, error=TROUBLE), WHEEL),
    ],
)
def test_kernels_for_all_gpus_go_before_those_for_the_one_of_the_call(given: Snapshot, loaded: Artifact) -> None:
    assert outcome_of(given, TWO_GPUS, Request("cuda", capability=(9, 0))).artifact == loaded


def test_entries_are_put_away_if_they_were_passed_over_and_not_for_being_there() -> None:
    damaged = Damaged(STORE.root / "damaged", IncompatibleArtifactError("", required="", found="", remedies=[]))

    assert outcome_of(at(damaged), HOPPER, Request("cpu")) == outcome_of(at(), HOPPER, Request("cpu"))._replace(
        damaged=(damaged,)
    )
    assert outcome_of(at(damaged, ENTRY, damaged), HOPPER, Request("cpu")).damaged == (damaged,)
    assert outcome_of(at(WHEEL, damaged), HOPPER, Request("cpu")).damaged == ()


def test_an_entry_serves_a_list_that_is_not_parsed_if_it_was_made_for_the_same() -> None:
    same, other = (RequestForList("cuda", archs=archs) for archs in ("8.0;9.0", "9.0"))

    assert outcome_of(at(DEFAULT_ENTRY), HOPPER, same).artifact == DEFAULT_ENTRY
    assert outcome_of(at(DEFAULT_ENTRY), HOPPER, other).outcome == "compile"
    assert outcome_of(at(DEFAULT_ENTRY), BLACKWELL, same).outcome == "compile", "this process's GPUs count"


def test_a_wheel_that_fits_is_decided_on_alone() -> None:
    unread: dict[str, Any] = {"settings": None, "sources": None, "wanted": ANYTHING, "stores": (), "entries": ()}

    assert decide_on_wheel(at(WHEEL, **unread), Request("cuda")) == decide(at(WHEEL, ENTRY), Request("cuda"))
    assert decide_on_wheel(at(WHEEL, **unread, jit=""), Request("cuda")) is None
    assert decide_on_wheel(at(CPU_WHEEL, **unread), Request("cuda")) is None
