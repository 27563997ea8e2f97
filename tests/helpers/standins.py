"""Stand-ins for what one machine cannot have at once: other toolkits, other torches, other compilers.

Each is a folder with the files that a finder reads and, for programs, a shell script that answers as the real one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwheel.compiler.compile import Planned
from kernelwheel.compiler.create_plan import create_plan
from kernelwheel.compiler.cross.target_platform import cross_platform
from kernelwheel.compiler.parent_watch import Caller
from kernelwheel.compiler.plan import Plan
from kernelwheel.compiler.toolchain.cuda import CudaDecision, decide_cuda
from kernelwheel.compiler.toolchain.cxx import Cxx, find_cxx
from kernelwheel.compiler.toolchain.launchers import Launchers
from kernelwheel.compiler.toolchain.nvcc import LIKE_TORCH, NvccCandidate, NvccLimits, NvccSearch, inspect_nvcc
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.compiler.toolchain.toolkit import Nvcc
from kernelwheel.compiler.toolchain.torch_files import Torch, read_torch
from kernelwheel.project import build_settings as settings
from kernelwheel.project.build_settings import BuildSettings
from kernelwheel.project.package import Abi, PackageFacts
from kernelwheel.project.source_files import source_digests
from kernelwheel.runtime.decision.snapshot import Sources

# What `nvcc --list-gpu-code` of each release prints.
GPU_CODES = {
    "11.8": "sm_35 sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90",
    "12.4": "sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90",
    "12.8": "sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_101 sm_120",
    "13.0": "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_110 sm_103 sm_120 sm_121",
    "13.2": "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_110 sm_103 sm_120 sm_121",
}
# The newest gcc and clang that nvcc of each release takes, as its crt/host_config.h says.
HOST_LIMITS = {"11.8": (11, 14), "12.4": (13, 17), "12.8": (14, 19), "13.0": (15, 20), "13.2": (15, 21)}
# A CUDA major that no machine has, so that a toolkit which is really there never fits and a stand-in decides.
NOWHERE = "99.0"


_HIDING = """
import importlib.machinery, os, sys
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if not {name, name.partition(".")[0]} & set(os.environ["HIDDEN"].split()):
            return super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
"""


def hide_packages(folder: Path, names: str) -> dict[str, str]:
    """The environment of a Python that finds none of these packages, by their import names; `folder` is made."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_HIDING, encoding="utf-8")
    return {"PYTHONPATH": str(folder), "HIDDEN": names}


def make_program(path: Path, script: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def make_torch(site: Path, version: str = "2.11.0", cuda: str | None = None, hip: str | None = None) -> Path:
    """torch's package folder below `site`, as far as files tell; importing it fails."""
    root = site / "torch"
    (root / "include/torch/csrc/stable").mkdir(parents=True)
    (root / "lib").mkdir()
    (root / "include/torch/csrc/stable/library.h").write_text("// the stable ABI\n", encoding="utf-8")
    (root / "include/torch/extension.h").write_text(f"// torch {version}\n", encoding="utf-8")
    (root / "lib/libtorch_cpu.so").touch()
    (root / "lib/libtorch_python.so").touch()
    if cuda:
        (root / "lib/libtorch_cuda.so").touch()
    (root / "__init__.py").write_text("raise RuntimeError('torch was imported')\n", encoding="utf-8")
    (root / "version.py").write_text(
        "from typing import Optional\n"
        "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
        f"__version__ = {version!r}\ndebug = False\n"
        f"cuda: Optional[str] = {cuda!r}\ngit_version = 'abc'\nhip: Optional[str] = {hip!r}\n",
        encoding="utf-8",
    )
    return root


def make_toolkit(
    root: Path, version: str = f"{NOWHERE}.1", codes: str = GPU_CODES["13.0"], headers: str = "include"
) -> Path:
    """A CUDA toolkit at `root`; its nvcc writes the arguments of each call into `root/calls`.

    Its headers are in `root/<headers>` and its libraries beside them: `targets/x86_64-linux/include` is conda's layout.
    """
    release = version.rpartition(".")[0]
    listing = "\n".join(f"echo {code}" for code in codes.split())
    make_program(
        root / "bin/nvcc",
        f"""here="$(dirname "$0")"; echo "$@" >> "$here/../calls"
case "$1" in
  --version) echo 'nvcc: NVIDIA (R) Cuda compiler driver'
             echo 'Cuda compilation tools, release {release}, V{version}';;
  --dryrun) echo '#$ _HERE_='"$here" >&2; echo '#$ TOP='"$here/.." >&2
            echo '#$ INCLUDES="-I'"$here/../{headers}"'"  ' >&2;;
  --list-gpu-code) {listing};;
  *) echo "nvcc fatal: unexpected $1" >&2; exit 1;;
esac""",
    )
    make_program(root / "bin/cuobjdump", "exit 0")
    cccl = f"{headers}/cccl" if int(version.split(".")[0]) >= 13 else headers
    library = "lib64" if headers == "include" else f"{headers}/../lib"
    for name in (
        "nvvm/bin/cicc", "bin/ptxas", f"{headers}/cuda_runtime.h", f"{cccl}/nv/target", f"{cccl}/cub/cub.cuh",
        f"{library}/libcudart_static.a",
    ):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{Path(name).name} of {version}\n", encoding="utf-8")
    gcc, clang = HOST_LIMITS.get(release, HOST_LIMITS["13.0"])
    limits = root / headers / "crt/host_config.h"
    limits.parent.mkdir(exist_ok=True)
    limits.write_text(
        f"#if __GNUC__ > {gcc}\n"
        f"#error -- unsupported GNU version! gcc versions later than {gcc} are not supported! ...\n#endif\n"
        f"#error -- unsupported HOS clang version! The version must be must be less than 5 and greater than 3.2 .\n"
        f"#error -- unsupported clang version! clang version must be less than {clang + 1} and greater than 3.2 .\n",
        encoding="utf-8",
    )
    return root


def make_distro_toolkit(usr: Path, version: str = "12.4.131", codes: str = GPU_CODES["12.4"]) -> Path:
    """A CUDA toolkit as Debian spreads it over `usr`; returns nvcc, which knows no root without a profile."""
    whole = make_toolkit(usr / "whole", version, codes)
    inner, libraries = usr / "lib/nvidia-cuda-toolkit", usr / "lib/x86_64-linux-gnu"
    for folder in (inner / "bin", inner / "libdevice", libraries, usr / "bin"):
        folder.mkdir(parents=True)
    (whole / "bin/nvcc").rename(inner / "bin/known")
    (whole / "nvvm/bin/cicc").rename(inner / "bin/cicc")
    (whole / "lib64/libcudart_static.a").rename(libraries / "libcudart_static.a")
    (whole / "include").rename(usr / "include")
    (usr / "include/stdlib.h").touch()
    (inner / "libdevice/libdevice.10.bc").touch()
    for name in ("cudafe++", "cuobjdump", "fatbinary", "nvlink", "ptxas"):
        make_program(usr / "bin" / name, f"echo {name} of {version}")
    (inner / "bin/cicc").chmod(0o755)
    make_program(
        inner / "bin/nvcc",
        f"""here="$(dirname "$0")"
case "$*" in
  *-M*) echo 'null: {usr}/include/cuda_runtime.h \\';;
  --dryrun*) echo '#$ _HERE_='"$here"
             if test -e "$here/nvcc.profile"; then
               echo '#$ TOP='"$here/.."; echo '#$ INCLUDES="-I'"$here/../include"'"  '
             else
               echo '#$ NVVMIR_LIBRARY_DIR={inner}/libdevice'; echo '#$ LIBRARIES=  -L{libraries}/stubs -L{libraries}'
             fi;;
  *) exec {inner}/bin/known "$@";;
esac""",
    )
    return make_program(usr / "bin/nvcc", f'exec {inner}/bin/nvcc "$@"')


def make_cuda12_parts(site: Path, version: str = "12.9.86") -> Path:
    """What pip has of CUDA 12, in a folder of packages, which is returned."""
    allowed = " ".join(f"'{code}'" for code in GPU_CODES["12.8"].split())
    release = version.rpartition(".")[0]
    make_program(
        site / "nvidia/cuda_nvcc/bin/ptxas",
        f"""case "$1" in
  --version) echo 'Cuda compilation tools, release {release}, V{version}';;
  --help) echo "Allowed values for this option:  {allowed}";;
esac""",
    )
    for name in (
        "cuda_nvcc/include/crt/host_config.h", "cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
        "cuda_runtime/include/cuda_runtime.h", "cuda_runtime/lib/libcudart_static.a", "cuda_cccl/include/nv/target",
    ):  # fmt: skip
        (site / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "nvidia" / name).write_text(f"{Path(name).name} of {version}\n", encoding="utf-8")
    return site


def make_clang(path: Path, version: str = "19.1.7") -> Path:
    """A clang that says what it is and what it makes PTX for, and compiles nothing; its parts are beside it."""
    cpus = "\n".join(f"    {code}" for code in GPU_CODES["12.4"].split())
    inside = make_program(
        path.with_name("clang"),
        f"""case "$*" in
  --version) echo 'Debian clang version {version} (1)';;
  -print-prog-name=clang) echo "${{0%/*}}/clang";;
  -print-resource-dir) echo "${{0%/*}}/resources";;
  *-print-supported-cpus) echo '{cpus}';;
esac""",
    )
    wrapper = path.parent / "resources/include/__clang_cuda_runtime_wrapper.h"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text("// clang's own\n", encoding="utf-8")
    return make_program(path, inside.read_text(encoding="utf-8").partition("\n")[2])


def make_cxx(path: Path, version: str = "12.2.0", target: str = "x86_64-linux-gnu", kind: str = "gcc") -> Path:
    """A C++ compiler that says what it is, and compiles nothing; its parts and headers are in folders beside it."""
    words = f"g++ ({kind}) {version}" if kind == "gcc" else f"clang version {version}"
    (path.parent / "c++ headers").mkdir(parents=True, exist_ok=True)
    (path.parent / "c++ headers" / "vector").write_text("// vector\n", encoding="utf-8")
    for name in ("cc1plus", "clang", "as", "ld", "crti.o", "crtbeginS.o"):
        make_program(path.parent / "parts" / name, f"echo {name}")
    return make_program(
        path,
        f"""case "$1" in
  --version) echo '{words}'; {"echo 'Free Software Foundation'" if kind == "gcc" else ":"};;
  -dumpfullversion) echo {version};;
  -dumpmachine) echo {target};;
  -print-*) echo "${{0%/*}}/parts/${{1#*=}}";;
  -dM | -march=*) echo '#define __cplusplus 201703L'; test "$1" != -march=x86-64-v3 || echo '#define __AVX2__ 1';;
  -v) echo ' /no/such/folder/cc1plus -E'; echo ' '"${{0%/*}}/c++ headers"; echo 'End of search list.';;
  *) exit 1;;
esac""",
    )


def settings_with(environ: Mapping[str, str] | None = None, **options: str) -> BuildSettings:
    """Effective settings of the package tiny; options by name with `_` for `-`, as from `-C`."""
    return settings.BuildSettings.resolve("tiny", {}, environ or {}, options)


@dataclass(frozen=True)
class Machine:
    """A whole stand-in builder below one folder: site-packages with torch, a toolkit, a compiler and a checkout."""

    folder: Path

    @property
    def site(self) -> Path:
        return self.folder / "site"

    @property
    def torch(self) -> Path:
        return self.site / "torch"

    @property
    def toolkit(self) -> Path:
        return self.folder / "toolkit"

    @property
    def cxx(self) -> Path:
        return self.folder / "bin" / "c++"

    @property
    def sources(self) -> Path:
        return self.folder / "checkout" / "native"

    def toolchain(self, chosen: BuildSettings) -> Toolchain:
        torch = read_torch(self.torch)
        environ = {"PATH": str(self.folder / "bin")}
        cuda = decide_cuda(NvccSearch(chosen, torch, environ))
        cxx = find_cxx(chosen, environ)
        return Toolchain(torch, cxx, cuda, None, Launchers(), chosen, cross_platform(chosen))

    def draw(self, *, version: str = "1.2.3", torch_target: str = "2.10", abi: Abi = "stable", **options: str) -> Plan:
        """The Plan that this machine draws for the package tiny."""
        return self.draw_for(PackageFacts("tiny", "native", torch_target, abi), self.sources, version, **options)

    def draw_for(self, facts: PackageFacts, root: Path, version: str = "1.2.3", **options: str) -> Plan:
        """The Plan that this machine draws for a package with sources in `root`."""
        chosen = settings_with({"CUDA_HOME": str(self.toolkit), "CXX": str(self.cxx)}, **options)
        return plan_of(facts, version, root, chosen, self.toolchain(chosen))


def toolchain_of_files(
    folder: Path,
    header: str = "",
    chooser: str = "",
    version: str = "2.13.0",
    nvcc: str = "",
    clang: str = "",
    **options: str,
) -> Toolchain:
    """What compiles, where no program is run, with a torch of ATen.h and cpp_extension.py; `nvcc`: its version."""
    for name, text in (("include/ATen/ATen.h", header), ("utils/cpp_extension.py", chooser)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    cuda = Nvcc(folder, folder, folder, nvcc, (), "here", clang=clang) if nvcc else None
    cxx = Cxx(Path("/usr/bin/c++"), "gcc", "12.2.0", "x86_64-linux-gnu")
    torch, decision = Torch(folder, version, None, None), CudaDecision(cuda, "", ())
    return Toolchain(torch, cxx, decision, None, Launchers(), settings_with({}, **options))


def plan_of(facts: PackageFacts, version: str, root: Path, chosen: BuildSettings, tools: Toolchain) -> Plan:
    """The Plan for a package with sources in `root`, with these settings."""
    return planned(facts, version, root, chosen, tools).plan


def inspect_beside(
    torch_cuda: str,
    nvcc: Path | str,
    environ: Mapping[str, str],
    sites: Sequence[Path] = (),
    limits: NvccLimits = LIKE_TORCH,
) -> NvccCandidate:
    """What is found of an nvcc beside a torch for some CUDA; `sites` are further folders of packages."""
    torch = Torch(Path("/nowhere/torch"), "2.13.0", torch_cuda, None)
    return inspect_nvcc("PATH", str(nvcc), NvccSearch(settings_with(), torch, environ, [*map(str, sites)], limits))


def planned(facts: PackageFacts, version: str, root: Path, chosen: BuildSettings, tools: Toolchain) -> Planned:
    """The same with what it is compiled with."""
    content = facts.content(version, source_digests(root, facts.files), chosen.content())
    return Planned(create_plan(content, root, replace(tools, settings=chosen)), tools)


def sources_of(facts: PackageFacts, root: Path) -> Sources:
    """What an editable install of a package with these sources finds."""
    return Sources(facts.content("1.2.3", source_digests(root, facts.files), {}), root, {})


TWICE = "#include <torch/csrc/stable/library.h>\n#include <vector>\nint twice;\n"
SOURCES = {"CMakeLists.txt": "project(tiny)\n", "twice.cpp": TWICE, "math/twice.cuh": "// twice\n"}


def make_machine(folder: Path, names: Sequence[str] = tuple(SOURCES)) -> Machine:
    """A stand-in builder; the source files are written in the order of `names`."""
    machine = Machine(folder)
    make_torch(machine.site, "2.11.0+cu990", NOWHERE)
    make_toolkit(machine.toolkit)
    make_cxx(machine.cxx)
    for name in names:
        path = machine.sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCES[name], encoding="utf-8")
    return machine


class Present(Caller):
    """The process that runs the tests: it asks for compiles in itself, stays, and ends nothing of its session."""

    def is_gone(self) -> bool:
        return False

    def end_session(self) -> None:
        pass


PRESENT = Present(os.getpid(), os.environ, streams=())
