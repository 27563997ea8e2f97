"""Which architectures a compile is for: the TORCH_CUDA_ARCH_LIST grammar, a wheel's default list, what nvcc can do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from ..runtime.errors import SettingsError
from ..runtime.machine.host import TEGRA, Arch

# The names that torch.utils.cpp_extension understands.
NAMED = {
    "Kepler": "3.5+PTX",
    "Kepler+Tesla": "3.7",
    "Maxwell": "5.0;5.2+PTX",
    "Maxwell+Tegra": "5.3",
    "Pascal": "6.0;6.1+PTX",
    "Volta": "7.0+PTX",
    "Volta+Tegra": "7.2",
    "Turing": "7.5+PTX",
    "Ampere": "8.0;8.6+PTX",
    "Ampere+Tegra": "8.7",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
    "Blackwell+Tegra": "11.0",
}
OLDEST_DEFAULT = (7, 5)
_ITEM = re.compile(r"(?P<major>\d+)\.(?P<minor>\d)(?P<suffix>[af]?)(?P<ptx>\+PTX)?")
# The options of nvcc that choose architectures (nvcc manual, "Options for Steering GPU Code Generation").
CHOOSES = r"--?(gpu-architecture|arch|gpu-code|code|generate-code|gencode)([= ]|$)"


class ArchList(NamedTuple):
    """What to compile for: SASS for each of `sass` and PTX for each of `ptx`; both sorted, without duplicates."""

    sass: tuple[Arch, ...]  # the compute capabilities that there is machine code for, such as `9.0`
    ptx: tuple[Arch, ...]  # those that there is PTX for

    def __str__(self) -> str:
        """The same list in the TORCH_CUDA_ARCH_LIST grammar."""
        return ";".join(f"{arch}{'+PTX' if arch in self.ptx else ''}" for arch in self.sass)

    def covered_by(self, sass: Iterable[Arch], ptx: Iterable[Arch]) -> bool:
        """Whether there is SASS that runs on every SASS target, and PTX for every PTX target."""
        return all(
            any(made == arch or (not arch.suffix and made.sass_runs_on(arch[:2])) for made in sass)
            for arch in self.sass
        ) and all(
            any(made == arch or (not arch.suffix and made.ptx_runs_on(arch[:2])) for made in ptx) for arch in self.ptx
        )


def from_code(code: str) -> Arch:
    """Parse nvcc's spelling: `sm_90a`, `compute_120` or `90a`."""
    match = re.fullmatch(r"(?:sm_|compute_)?(\d+)(\d)([af]?)", code)
    if not match:
        raise ValueError(f"not an nvcc architecture: {code!r}")
    return Arch(int(match[1]), int(match[2]), match[3])


def parse(text: str, origin: str) -> ArchList:
    """Parse a TORCH_CUDA_ARCH_LIST: items separated by `;` or spaces, each a name or `X.Y[a|f][+PTX]`."""
    sass: set[Arch] = set()
    ptx: set[Arch] = set()
    for item in re.split(r"[;\s]+", text.strip()):
        for part in NAMED.get(item, item).split(";"):
            match = _ITEM.fullmatch(part)
            if not match:
                raise _bad_item(item, text, origin)
            arch = Arch(int(match["major"]), int(match["minor"]), match["suffix"])
            sass.add(arch)
            if match["ptx"]:
                ptx.add(arch)
    return ArchList(tuple(sorted(sass)), tuple(sorted(ptx)))


def gencode(archs: ArchList) -> list[str]:
    """nvcc's options for a list (nvcc manual, `--generate-code`)."""
    sass, ptx = ([str(arch).replace(".", "") for arch in each] for each in archs)
    for_sass = [f"-gencode=arch=compute_{code},code=sm_{code}" for code in sass]
    return for_sass + [f"-gencode=arch=compute_{code},code=compute_{code}" for code in ptx]


def chosen_by(flags: Iterable[str]) -> list[str]:
    """The options for nvcc that choose architectures: nvcc would add them to a Plan's, or fail on both."""
    return [flag for flag in flags if re.match(CHOOSES, flag)]


def from_flags(flags: Iterable[str]) -> ArchList:
    """What such options choose; each is one string with its value.

    Raises:
        ValueError: a list cannot say what one of them says; names it.
    """
    sass: set[Arch] = set()
    ptx: set[Arch] = set()
    for flag in flags:
        try:
            made, portable = _from_flag(flag)
        except ValueError:
            raise ValueError(flag) from None
        sass |= made | portable
        ptx |= portable
    return ArchList(tuple(sorted(sass)), tuple(sorted(ptx)))


def _from_flag(flag: str) -> tuple[set[Arch], set[Arch]]:
    """What one option compiles for: SASS and PTX (nvcc manual, `--generate-code` and `--gpu-architecture`)."""
    match = re.match(CHOOSES, flag)
    name, value = (match[1], re.sub(r"[\\\"'\s]", "", flag[match.end() :])) if match else ("", "")
    if name in ("arch", "gpu-architecture"):  # short for both kinds of code
        arch = from_code(value)
        return {arch}, {arch}
    generated = re.fullmatch(r"arch=(compute_\w+),code=\[?([\w,]+)\]?", value)
    if name not in ("gencode", "generate-code") or not generated:
        raise ValueError(flag)
    codes = generated[2].split(",")
    made = {from_code(code) for code in codes if code.startswith("sm_")}
    portable = {from_code(code) for code in codes if code.startswith("compute_")}
    if {from_code(generated[1])} != made | portable or len(codes) != len(made) + len(portable):
        raise ValueError(flag)
    return made, portable


def default(supported: Iterable[Arch], has_tegra: bool = False, virtual: Sequence[Arch] = ()) -> ArchList:
    """The list for a wheel: the first architecture of every major generation from 7.5 on, the newest also as PTX.

    SASS runs on every later minor revision of its generation, so one per generation is enough. A Tegra chip counts
    only if its generation has no other, or if the wheel's platform has such chips. There is nothing to leave out for
    Arm: even 7.5 has been beside an Arm CPU (NVIDIA T4G). `supported` and `virtual` are as for `check_supported`.
    """
    plain = [arch for arch in sorted(supported) if not arch.suffix and arch[:2] >= OLDEST_DEFAULT]
    first = {arch.major: arch for arch in reversed(plain)}
    tegra = [arch for arch in plain if has_tegra and arch[:2] in TEGRA]
    sass = tuple(sorted({*first.values(), *tegra}))
    return ArchList(sass, tuple(arch for arch in sass if not virtual or arch in virtual)[-1:])


def check_supported(
    archs: ArchList, supported: Sequence[Arch], nvcc: str, origin: str, virtual: Sequence[Arch] = ()
) -> None:
    """Refuse architectures that this nvcc does not support.

    Args:
        archs: the requested architectures.
        supported: `nvcc --list-gpu-code`, which omits the suffixes `a` and `f`: only the base is checked.
        nvcc: nvcc's name, for the message.
        origin: where the list was set.
        virtual: `nvcc --list-gpu-arch`: those that it makes PTX for, and machine code for features; empty: all.

    Raises:
        SettingsError: nvcc cannot compile for some of them; names each one.
    """
    bases, portable = ({(arch.major, arch.minor) for arch in listed} for listed in (supported, virtual or supported))
    unknown = {a for a in archs.sass if (a.major, a.minor) not in (portable if a.suffix else bases)}
    as_ptx = {a for a in archs.ptx if (a.major, a.minor) not in portable} - unknown
    if unknown or as_ptx:
        names = [*map(str, sorted(unknown)), *(f"{arch} as PTX" for arch in sorted(as_ptx))]
        found = "architectures of this compiler: " + " ".join(map(str, sorted(supported)))
        raise SettingsError(
            f"{nvcc} cannot compile for {', '.join(names)}",
            required=f"{archs} (from {origin})",
            found=found + (f"; as PTX, up to {max(virtual)}" if virtual and {*supported} - {*virtual} else ""),
            remedies=[_without(archs, unknown, as_ptx), "or build with a CUDA toolkit that supports it"],
        )


def _without(archs: ArchList, unknown: Set[Arch], as_ptx: Set[Arch]) -> str:
    left = ArchList(
        tuple(arch for arch in archs.sass if arch not in unknown),
        tuple(arch for arch in archs.ptx if arch not in unknown | as_ptx),
    )
    if not left.sass:
        return "omit the list to use this nvcc's default architectures"
    out = [*map(str, sorted(unknown)), *(f"+PTX of {arch}" for arch in sorted(as_ptx))]
    return f'leave out {" and ".join(out)}: TORCH_CUDA_ARCH_LIST="{left}"'


def _bad_item(item: str, text: str, origin: str) -> SettingsError:
    candidates = [*NAMED, *(f"{n}.{m}" for n in range(7, 13) for m in range(10))]
    nearest = difflib.get_close_matches(item, candidates, n=1, cutoff=0.7)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    return SettingsError(
        f"{item!r} is not a CUDA architecture",
        required=f"items such as 7.5, 8.0+PTX, 9.0a, 12.0f or a name ({', '.join(NAMED)}), separated by ; or spaces",
        found=f"{text!r} from {origin}",
        remedies=[f"{hint}correct the list, or omit it to use the default architectures"],
    )
