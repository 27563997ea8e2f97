"""`python -m splat.as_gsplat PROGRAM ARGUMENTS...`: an unedited program for gsplat runs on splat's functions.

The program is run by this Python, with a folder on PYTHONPATH by which it, and what it starts, gets them: see
`splat/compat/at_start`.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from ._kernelwheel.errors import KernelWheelError
from ._kernelwheel.variables import search_path
from .cli import let_threads_wait
from .compat import at_start

NO_GSPLAT = (
    "gsplat is not installed in this Python, and programs import it: pip install gsplat==1.5.3 (its CUDA kernels are "
    "not needed)"
)
NO_PYTHONPATH = "Python's options -I, -E and -S switch off PYTHONPATH, through which programs get splat's functions"

LIST = """
from splat.commands.printing import print_result
from splat.compat import overlay
for line in overlay.listing():
    print_result(line)
"""


def main() -> NoReturn:
    """Become the program."""
    parser = ArgumentParser(
        prog="python -m splat.as_gsplat",
        description="run a program for gsplat, unedited, on splat's functions; gsplat 0.1.9 to 1.6 must be installed",
        usage="%(prog)s [--device cpu] PROGRAM ARGUMENTS... | [--device cpu] -m MODULE ARGUMENTS... | --list",
        allow_abbrev=False,
    )
    parser.add_argument("--list", action="store_true", help="print what is replaced, and by what")
    parser.add_argument("--device", choices=["cpu"], help="let .cuda() and device='cuda' mean the CPU")
    own, words = split(sys.argv[1:])
    args = parser.parse_args(own)
    if args.list:
        words = ["-c", LIST]
    if not words:
        parser.error("a PROGRAM is required, or -m MODULE, or --list")
    if find_spec("gsplat") is None:
        parser.error(NO_GSPLAT)
    if sys.flags.ignore_environment or sys.flags.no_site:
        parser.error(NO_PYTHONPATH)
    try:
        pythonpath = search_path(*at_start.__path__, then=os.environ.get("PYTHONPATH", ""))
    except KernelWheelError as error:
        parser.error(str(error))
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["SPLAT_AS_GSPLAT"] = args.device or "1"
    os.environ["PYTHONPATH"] = pythonpath
    let_threads_wait()
    *options, last = sys.orig_argv[1 : -len(sys.argv)]
    if last != "-m":  # python -um
        options.append(last.removesuffix("m"))
    os.execv(sys.executable, [sys.executable, *options, *words])


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our options, and what is the program's: from its name, or -m, on, to the letter."""
    own: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        count = 2 if rest[0] == "--device" else 1
        own += rest[:count]
        del rest[:count]
    return own, rest


if __name__ == "__main__":
    main()
