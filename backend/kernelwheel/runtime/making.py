"""Compile what no Artifact at hand has, once, while others wait; or say why that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..build import cached_build, progress
from ..core.settings import Settings
from ..core.verdict import Mismatch
from ..store.artifact import Artifact
from ..store.entries import Store
from . import jit
from .refusal import incompatible, obstacle_to_compile
from .source import Source

if TYPE_CHECKING:
    from .kernels import Kernels


def make(kernels: Kernels, device: str, index: int | None, use: Callable[[Artifact], object]) -> Artifact:
    """Compile what no Artifact at hand has, keep it and use it; or raise why that cannot be."""
    against = against_wheel(kernels, device, index)
    off = str(kernels.settings.origin("cuda")) if device == "cuda" and kernels.settings.cuda == "off" else ""
    source = source_for(kernels, device, against, kernels.jit, off)
    *_, store = kernels.stores()
    with progress.shown(kernels.package) as say, store.making(lambda maker: say(f"waiting for {maker}")):
        made = kernels.first(kernels.fits(device, index), Artifact.verify)  # somebody may have made it while we waited
        if made is None:
            because = "; ".join(f"{m.dimension}: {m.found}" for m in against) or "the setting jit is always"
            say(f"no {device.upper()} kernels for this machine ({because}): compiling them now")
            made = compile_now(kernels, source, store, kernels.settings, device, say)
    if unfit := kernels.mismatches(made.manifest, device, index):
        raise incompatible(kernels.package, device, unfit, "what was compiled here, as the settings say")
    use(made)  # not while others wait
    return made


def against_wheel(kernels: Kernels, device: str, index: int | None) -> tuple[Mismatch, ...]:
    """What stands against the wheel's Artifact; that there is none, in an editable install."""
    return kernels.mismatches(kernels.manifest, device, index) if kernels.manifest else kernels.verdict.mismatches


def source_for(kernels: Kernels, device: str, against: Sequence[Mismatch], allowed: str, off: str = "") -> Source:
    """What to compile from, where that is allowed (as by the setting `jit`) and cures what stands against the rest."""
    source = kernels.source
    obstacle = obstacle_to_compile(against, allowed, str(kernels.settings.origin("jit")), source is not None, off)
    if source is None or obstacle:
        raise incompatible(kernels.package, device, against, obstacle)
    return source


def compile_now(
    kernels: Kernels, source: Source, store: Store, settings: Settings, device: str, say: Callable[[str], None]
) -> Artifact:
    """The store's entry for the Plan that is drawn now, compiled unless it is there. Call it inside `making`."""
    capabilities = kernels.host.capabilities or () if device == "cuda" else ()
    plan, tools = jit.draw(source, kernels.version, settings, device == "cuda", capabilities)
    if plan.sources_digest != kernels.wanted.sources:
        kernels.look_again(plan.sources_digest)
    return cached_build.compile_once(plan, tools, source.folder, store, settings.jobs, say)
