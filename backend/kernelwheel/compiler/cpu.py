"""The CPU that libraries are compiled for, from the option `cpu` and all flags: a part of the Plan's target."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from ..project.build_settings import NATIVE, BuildSettings
from ..runtime.errors import BuildError, SettingsError
from ..runtime.machine.platforms import cpu_features
from ..runtime.settings import TABLE
from .compile_job import OF_RUN_TIME
from .machine_flags import NATIVE_OPTION, CpuPlan, features_of, machine_options, meaning, words
from .plan import Declared, Plan, declared_flags
from .toolchain.toolchain import Toolchain

COMMANDS = "compile_commands.json"  # CMake's, of what each file is compiled with
_IF_DISPATCHED = f'are called only where the package has asked the CPU: set dispatched = ["FILE"] in {TABLE}'


def draw_cpu(plan: Plan, toolchain: Toolchain) -> CpuPlan:
    """What a Plan says of the CPU, from the option `cpu` and the flags that are declared.

    Raises:
        BuildError: the compiler does not know the CPU, or a library for Windows would need more than every CPU has.
        SettingsError: it is `native`, and so that of a builder, whose libraries are for others.
    """
    settings, cxx = toolchain.settings, toolchain.cxx
    for_others = settings.origin("platform") != OF_RUN_TIME
    declared = list(declared_flags(plan, settings))
    native = [f"{flag} in {each.where}" for each in declared for flag in each.flags if NATIVE_OPTION.search(flag)]
    name = _named(plan, settings)
    if for_others and (name == NATIVE or (native and not name)):
        raise _native_for_others(plan, settings, [f"cpu is native ({settings.origin('cpu')})"] if name else native)
    if name not in ("", NATIVE) and not for_others and features_of(cxx, (f"-march={name}",)) - cpu_features():
        name = NATIVE
    drawn = CpuPlan(name)
    every, by_flags = set[str](), set[str]()
    for file, flags in _by_file(declared).items():
        if not _is_dispatched(file, plan):
            every |= features_of(cxx, (*drawn.options, *machine_options(drawn.stands_for(flags), file)))
            named = (each for each in machine_options(flags, file) if not NATIVE_OPTION.search(each))
            by_flags |= features_of(cxx, tuple(named)) - features_of(cxx, ())
    digest = ""
    if name == NATIVE or (native and not name):
        every = (every & cpu_features()) | by_flags  # what Linux does not list, it cannot be asked for
        digest = meaning(cxx, [drawn.options, *(machine_options(each.flags, each.file or "") for each in declared)])
    if every and not plan.platform.startswith("linux"):
        raise BuildError(
            f"{plan.package} would need a CPU that not every machine with {plan.platform} has",
            required=f"flags for every CPU of {plan.platform}, where nobody checks which one a machine has",
            found=", ".join(sorted(every)),
            remedies=["leave out such flags and the option cpu", f"or, for files that {_IF_DISPATCHED}"],
        )
    return CpuPlan(name, {each: "flags" if each in by_flags else "cpu" for each in sorted(every)}, digest)


def check_commands(plan: Plan, toolchain: Toolchain, work: Path) -> None:
    """Refuse what was compiled for more of a CPU than the Plan says, as by flags that a CMakeLists.txt sets by itself.

    Raises:
        BuildError: names the files, what they were compiled for, and the flags; or CMake does not say what it compiled.
    """
    found, sources, said = [], (work / "src").resolve(), work / "build" / COMMANDS
    if plan.extensions and not plan.built:
        return  # nothing was compiled
    if not said.is_file():
        raise BuildError(
            f"what {plan.package} was compiled for is not known",
            required=f"CMake's {COMMANDS}",
            found="none: CMakeLists.txt sets CMAKE_EXPORT_COMPILE_COMMANDS",
            remedies=["leave CMAKE_EXPORT_COMPILE_COMMANDS as it is"],
        )
    for command in json.loads(said.read_text(encoding="utf-8")):
        folder = Path(command["directory"])
        path = (folder / command["file"]).resolve()
        file = path.relative_to(sources).as_posix() if path.is_relative_to(sources) else path.name
        options = machine_options(words(command["command"], folder), file)
        more = set[str]()
        if not plan.cpu.native and any(map(NATIVE_OPTION.search, options)):
            more = {"the CPU of this machine"}
        elif not _is_dispatched(file, plan):
            more = {*features_of(toolchain.cxx, options)} - plan.cpu.features.keys()
            more &= cpu_features() if plan.cpu.native else more
        if more:
            found.append(f"{file}: {', '.join(sorted(more))} ({' '.join(options)})")
    if found:
        planned = f"a CPU with {', '.join(plan.cpu.features)}" if plan.cpu.features else f"every CPU of {plan.platform}"
        raise BuildError(
            f"{plan.package} has files that were compiled for more of a CPU than its Plan says",
            required=f"files for {planned}",
            found="\n".join(dict.fromkeys(found)),
            remedies=[
                f'leave out these flags and set cpu = "{_example(plan)}" in {TABLE}, which is checked before loading',
                f"or, for files that {_IF_DISPATCHED}",
            ],
        )


def _by_file(declared: Iterable[Declared]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in declared:
        if each.file is not None:
            found[each.file] = (*found.get(each.file, ()), *each.flags)
    return found


def _named(plan: Plan, settings: BuildSettings) -> str:
    """The CPU that the option names for the platform; empty if it names none."""
    of_arm = plan.platform.endswith("aarch64")
    return next((name for name in settings.cpu if name == NATIVE or name.startswith("arm") == of_arm), "")


def _is_dispatched(file: str, plan: Plan) -> bool:
    return any(fnmatchcase(file, pattern) for pattern in plan.content["dispatched"])


def _example(plan: Plan) -> str:
    return "armv8.2-a" if plan.platform.endswith("aarch64") else "x86-64-v3"


def _native_for_others(plan: Plan, settings: BuildSettings, found: Iterable[str]) -> SettingsError:
    example, variable = _example(plan), settings.variable("cpu")
    return SettingsError(
        f"{plan.package} would be compiled for the CPU of this machine, and a wheel is for others",
        required="a CPU by its name, which is recorded, and checked before anything is loaded",
        found="\n".join(dict.fromkeys(found)),
        remedies=[
            f'set cpu = "{example}" in {TABLE} (-C cpu={example}, {variable}={example}): native then stands for it',
            "or leave native out: the wheel then runs on every CPU of its platform",
        ],
    )
