"""The program: it answers what CMake and the finder of compilers ask an nvcc, or compiles a source."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .nvcc_options import FLAGS, VALUED, Refused, parse_call
from .passes import WINDOWS, Toolkit


def answer(program: str, arguments: Sequence[str]) -> None:
    """Answer or compile as `nvcc` would; the toolkit is the folder around `program`."""
    toolkit = Toolkit(Path(program).parents[1])
    command = parse_call(arguments)
    if command.asked == "version":
        print(f"nvcc: clang in its place\n{toolkit.version()}")
    elif command.asked.startswith("list-gpu"):
        codes, kind = (toolkit.virtual(), "compute") if command.asked == "list-gpu-arch" else (toolkit.real(), "sm")
        print("\n".join(f"{kind}_{code}" for code in codes))
    elif command.asked == "help":
        print("\n".join(f"--{name}" for name in sorted({*VALUED, *FLAGS})))
    elif command.asked == "dryrun":
        part = toolkit.part(command)
        library = f'"-L{part / ("lib" if command.platform else "lib64")}"'
        # After an empty line: CMake reads a first line that is no variable with its #$, as the name of the linker.
        print(f'\n#$ TOP={toolkit.root}\n#$ INCLUDES="-I{part}/include"  \n#$ LIBRARIES=  {library}')
        host = command.host_compiler or "c++"
        print("#$ clang++ -x cuda")  # of the line before the one that links, CMake takes the mark away
        needed = "" if command.platform == WINDOWS else "-lrt -lpthread -ldl"
        print(f'#$ "{host}" -m64 {library} -lcudadevrt -lcudart_static {needed} -o "a.out"')
    else:
        toolkit.compile(command)


def main(program: str, arguments: Sequence[str]) -> None:
    """The same; what cannot be done is said on standard error, as nvcc would."""
    try:
        answer(program, arguments)
    except Refused as refused:
        sys.exit(f"nvcc (clang): error: {refused}")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"nvcc (clang): error: {failed}: {failed.stdout}")
