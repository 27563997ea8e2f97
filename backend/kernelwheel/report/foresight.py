"""Look at what is there, and say what the next call and the next `cache build` will do: for `doctor` and `explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..build.plan import Plan
from ..core.errors import KernelWheelError
from ..core.host import Host
from ..core.settings import Settings
from ..core.verdict import Wanted
from ..runtime import jit, serving
from ..runtime.forecast import Circumstances, Forecast, Task, failure, forecast, without_tools
from ..runtime.kernels import Kernels
from ..runtime.loading import needed_for
from ..runtime.refusal import no_sources
from ..store.artifact import Artifact
from ..store.inventory import UNREADABLE


def calls(kernels: Kernels) -> Iterator[Forecast]:
    """What the next call does: on the CPU, and on each generation of GPU that this process sees."""
    at = circumstances(kernels)
    hosts = [kernels.host._replace(capabilities=(c,)) for c in kernels.host.capabilities or ()]
    for device, host in [("cpu", kernels.host), *(("cuda", host) for host in hosts or [kernels.host])]:
        expected = forecast(Task(device, host), at, _fault_for(device))
        if expected.outcome == "compile":
            _, no_plan = draw(kernels, kernels.settings, device, host)
            expected = without_tools(expected, no_plan) if no_plan else expected
        capability = "{}.{}".format(*host.capabilities[0]) if device == "cuda" and host.capabilities else None
        yield replace(expected, capability=capability)


def build(kernels: Kernels, cuda: bool | None = None, archs: str = "") -> Forecast:
    """What `cache build` does. Arguments as of `serving.build`; without `cuda`, as the command decides."""
    device = "cpu"
    try:
        device = "cuda" if (serving.wants_cuda(kernels) if cuda is None else cuda) else "cpu"
        settings = serving.settings_for(kernels, archs)
        targets = serving.targets_of(settings)
    except KernelWheelError as error:
        return failure(device, error)
    task = Task(device, kernels.host, build=True, targets=targets)
    expected = forecast(task, circumstances(kernels), _fault)
    if expected.outcome != "compile":
        return expected
    plan, no_plan = draw(kernels, settings, device, kernels.host)
    if plan is None:
        return without_tools(expected, no_plan) if no_plan else expected
    return _of_the_very_plan(kernels, plan, device) or expected


def _of_the_very_plan(kernels: Kernels, plan: Plan, device: str) -> Forecast | None:
    """What a compile would make may be there all the same, where only the Plan says what the architectures are."""
    *_, store = kernels.stores()
    folder = store.root / plan.fingerprint
    try:
        store.read(folder).verify()
    except UNREADABLE as error:
        return failure(device, error)
    except KernelWheelError:  # not there; or damaged, and then it is put away
        return None
    return Forecast(device, "load", "the kernels in the store are those that a compile would make", str(folder))


def circumstances(kernels: Kernels) -> Circumstances:
    """What decides, as it is now. Looks at manifests alone, and changes nothing."""
    artifacts: list[Artifact] = []
    blocked, jit_setting, origin, off = None, "auto", "default", ""
    wanted, sources = Wanted(kernels.version), False
    if kernels.manifest is not None:
        artifacts.append(Artifact(kernels.folder, kernels.manifest, None))
    try:
        sources = kernels.source is not None
        jit_setting, origin = kernels.settings.jit, str(kernels.settings.origin("jit"))
        off = str(kernels.settings.origin("cuda")) if kernels.settings.cuda == "off" else ""
        wanted = kernels.wanted
        for store in kernels.stores():
            # Those of our own that are damaged are put away when a call finds them; those of others stop it.
            artifacts.extend(store.entries((lambda *_: None) if store.own else None))
    except KernelWheelError as error:
        blocked = error
    return Circumstances(
        wanted=wanted,
        artifacts=artifacts,
        damage=kernels.damage,
        blocked=blocked,
        jit=jit_setting,
        jit_origin=origin,
        cuda_off=off,
        sources=sources,
    )


def draw(
    kernels: Kernels, settings: Settings, device: str, host: Host
) -> tuple[Plan, None] | tuple[None, KernelWheelError]:
    """The Plan of what a compile would make for a machine's GPUs; or why it would not even start."""
    if kernels.source is None:
        return None, no_sources(kernels.package)
    capabilities = host.capabilities or () if device == "cuda" else ()
    try:
        plan, _ = jit.draw(kernels.source, kernels.version, settings, device == "cuda", capabilities)
    except KernelWheelError as error:
        return None, error
    return plan, None


def _fault_for(device: str) -> Callable[[Artifact], KernelWheelError | None]:
    """What a call on a device type finds wrong with the files of an Artifact: it looks at what it loads, no further."""

    def look(found: Artifact) -> KernelWheelError | None:
        try:
            for name in needed_for(device):
                for library in found.manifest.libraries_for(name):
                    found.verify_library(library)
        except KernelWheelError as error:
            return error
        return None

    return look


def _fault(found: Artifact) -> KernelWheelError | None:
    """The same for `cache build`, which looks at every library."""
    try:
        found.verify()
    except KernelWheelError as error:
        return error
    return None
