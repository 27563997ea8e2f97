"""What each CUDA kernel takes of a multiprocessor, read from the library that the wheel ships: for every architecture.

Registers of a thread, bytes of shared memory of a block, and bytes of a thread's stack, which is where spilled
registers go: without one, none are. Only splat's kernels are shown.

Usage: kernel_resources.py [FILE]..., libraries or object files; without them, the library of the installed splat.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

from measure import table


class Use(NamedTuple):
    """What ptxas gave one kernel."""

    registers: int
    stack: int
    shared: int


def main(files: list[Path]) -> None:
    """Print a row for each kernel and a column for each architecture, and the kernels that spill."""
    uses: dict[str, dict[str, Use]] = {}
    for file in files:
        for (architecture, kernel), use in read(file).items():
            uses.setdefault(kernel, {})[architecture] = use
    if not uses:
        raise SystemExit(f"no CUDA kernels of splat in {', '.join(map(str, files))}")
    architectures = sorted({name for row in uses.values() for name in row}, key=lambda name: int(name[3:].rstrip("af")))
    rows = [
        [kernel, *(describe(row[name]) if name in row else "-" for name in architectures)]
        for kernel, row in sorted(uses.items())
    ]
    print("registers / bytes of shared memory; + bytes of stack, where there is any")
    table(["kernel", *architectures], rows)
    spilling = [f"{kernel} ({name})" for kernel, row in uses.items() for name, use in row.items() if use.stack]
    print(f"kernels with a stack: {', '.join(spilling) or 'none'}")


def describe(use: Use) -> str:
    """One cell of the table."""
    return f"{use.registers} / {use.shared}" + (f" + {use.stack}" if use.stack else "")


def read(file: Path) -> dict[tuple[str, str], Use]:
    """By architecture and kernel, what cuobjdump says of splat's own."""
    text = _run(find_cuobjdump(), "--dump-resource-usage", str(file))
    found: dict[tuple[str, str], Use] = {}
    architecture = kernel = ""
    for line in text.splitlines():
        if named := re.match(r"arch = (sm_\w+)", line):
            architecture = named[1]
        elif named := re.match(r"\s*Function (\S+):", line):
            kernel = named[1]
        elif "5splat7kernels" in kernel and (numbers := re.match(r"\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", line)):
            found[architecture, kernel] = Use(*map(int, numbers.groups()))
    names = sorted({kernel for _, kernel in found})
    readable = dict(zip(names, map(_short, _run("c++filt", *names).splitlines()), strict=True)) if names else {}
    return {(architecture, readable[kernel]): use for (architecture, kernel), use in found.items()}


def _short(declaration: str) -> str:
    """`rasterize<3>` of `void splat::kernels::rasterize<3>(...)`."""
    return declaration.split("splat::kernels::", 1)[1].split("(", 1)[0]


def find_cuobjdump() -> str:
    """NVIDIA's reader of device code."""
    site = Path(sysconfig.get_path("purelib"))
    # The toolkit's, else the one that triton brings, which torch needs.
    beside = [*site.glob("nvidia/cu*/bin/cuobjdump"), site / "triton" / "backends" / "nvidia" / "bin" / "cuobjdump"]
    program = next((str(path) for path in beside if path.exists()), None) or shutil.which("cuobjdump")
    if program is None:
        raise SystemExit("required: cuobjdump; found: none; to fix: pip install 'cuda-toolkit[cuobjdump]'")
    return program


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def installed_libraries() -> Path:
    """The folder of those of the splat that this Python imports."""
    import splat

    return Path(splat.__file__).parent / "_native"


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(installed_libraries().glob("libsplat_cuda*.so")))
