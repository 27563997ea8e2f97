"""The edit that takes the extensions out of a setup.py: what goes, what stays to the byte, and when it is not made."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest
from kernelwheel.adoption.setup_edit import without_extensions

TORCH = "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
LEFT = "from torch.utils.cpp_extension import BuildExtension\n"
VALUE = "[CUDAExtension('a._C', ['a.cu'])]"
LIST = f"ext_modules={VALUE}"
COMMAND = "cmdclass={'build_ext': BuildExtension}"
# A script with more than extensions, and what is left of it. Comments, odd spaces and quotes stay.
BEFORE = """\
#!/usr/bin/env python
# -*- coding: utf-8 -*-
'''é'''
import os, glob
import subprocess as sp

from setuptools import find_packages, setup
from torch.utils.cpp_extension import (
    BuildExtension,  # compiles
    CUDA_HOME,
    CUDAExtension,
)

here = os.path.dirname( __file__ )
csrc = here + "/csrc"


@sp.list2cmdline
def flags(
    debug,
):
    return ["-O0"] if debug else FLAGS


def write_version():
    with open("a/version.py", "w") as file:
        file.write("x = 1")  # of this commit


FLAGS: list = ["-O3"]
modules = []
if CUDA_HOME:
    print("with CUDA")
    for name in ("a", "b"):
        modules.append(CUDAExtension(f"a.{name}", glob.glob(csrc + "/*.cu"), extra_compile_args=flags(False)))
elif os.name == "nt":
    FLAGS += ["/O2"]
try:
    options = {}
    options["x"] = 1
except IndexError:
    pass

if __name__ == '__main__':
    write_version()
    setup(
        name="a", ext_modules=modules, version="1",   # both
        packages=find_packages( where=here ),  # all

        cmdclass={
            'build_ext': BuildExtension.with_options(**options),
            'clean': sp.Popen},
        zip_safe=False)
"""
AFTER = """\
#!/usr/bin/env python
# -*- coding: utf-8 -*-
'''é'''
import os
import subprocess as sp

from setuptools import find_packages, setup
from torch.utils.cpp_extension import (
    CUDA_HOME,
)

here = os.path.dirname( __file__ )


def write_version():
    with open("a/version.py", "w") as file:
        file.write("x = 1")  # of this commit


if CUDA_HOME:
    print("with CUDA")

if __name__ == '__main__':
    write_version()
    setup(
        name="a", version="1",   # both
        packages=find_packages( where=here ),  # all

        cmdclass={
            'clean': sp.Popen},
        zip_safe=False)
"""


# Extensions in a block that asks about the toolkit, too; `release` is also a variable of a function's. As mamba's.
SWITCHED = f"""\
import os
{TORCH}ext_modules = []


def nvcc():
    return os.popen("nvcc -V").read()


def name():
    release = os.sep
    return release


if os.environ.get("WITH_CUDA"):
    release = nvcc()
    print(release)
    ext_modules.append(CUDAExtension('a._C', ['a.cu']))

setup(
    name=name(), ext_modules=ext_modules, cmdclass={{'clean': os.Own, 'build_ext': BuildExtension}}
    if ext_modules
    else {{'clean': os.Own}},
)
"""
SWITCHED_AFTER = """\
import os


def name():
    release = os.sep
    return release


setup(
    name=name(), cmdclass={'clean': os.Own},
)
"""


def edited(
    text: str, commands: Mapping[str, bool] = {"build_ext": True}, instead: bytes = b"", whole_blocks: bool = False
) -> str:
    after = without_extensions(text.encode(), commands, instead, whole_blocks).decode()
    assert ast.parse(after)
    return after


def test_what_only_the_extensions_used_goes_and_every_other_byte_stays() -> None:
    commands = {"build_ext": True, "clean": False}

    assert edited(BEFORE, commands) == AFTER
    assert edited(BEFORE.replace("\n", "\r\n"), commands) == AFTER.replace("\n", "\r\n")


def test_a_block_that_makes_extensions_goes_with_what_it_checks_if_asked_to() -> None:
    commands = {"clean": False, "build_ext": True}

    assert edited(SWITCHED, commands, whole_blocks=True) == SWITCHED_AFTER
    assert "    release = nvcc()\n    print(release)\n\n" in edited(SWITCHED, commands)
    with pytest.raises(ValueError, match=r"^what makes its extensions also gives release their values$"):
        edited(SWITCHED.replace("    release = os.sep\n", ""), commands, whole_blocks=True)
    with pytest.raises(ValueError, match="has a comment in it"):
        edited(SWITCHED.replace("    else", "    # no\n    else"), commands)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{TORCH}setup({LIST},\n      name='a',\n      {COMMAND})", "setup(\n      name='a',\n      )"),
        ("if y:\n    m = 1\nelse:\n    print()\nsetup(ext_modules=m)",
         "if y:\n    pass\nelse:\n    print()\nsetup()"),
        (f"{TORCH}def main():\n    m = {VALUE}\n    setup(ext_modules=m)\nmain()",
         f"{LEFT}def main():\n    setup()\nmain()"),
        (f"setup(a='b', {LIST},\n      c=1)", "setup(a='b',\n      c=1)"),
        ("import sys\nsys.path.append('b')\nm = [sys.path]\nsetup(ext_modules=m)",
         "import sys\nsys.path.append('b')\nsetup()"),
        ("m = [1]\nprint(m)\nsetup(ext_modules=m)", "m = [1]\nprint(m)\nsetup()"),
        ("def f():\n    global m\nm = [1]\nf()\nsetup(ext_modules=m)",
         "def f():\n    global m\nm = [1]\nf()\nsetup()"),
    ],
)  # fmt: skip
def test_small_scripts(before: str, after: str) -> None:
    assert edited(before) == after


@pytest.mark.parametrize(
    ("command", "is_torch_s", "after"),
    [
        (COMMAND, True, "setup()\n"),
        ("cmdclass={'build_ext': BuildExtension} if y else {}", True, "setup()\n"),
        (COMMAND, False, f"{LEFT}setup({COMMAND})\n"),
        ("cmdclass=BuildExtension.all", False, f"{LEFT}setup(cmdclass=BuildExtension.all)\n"),
    ],
)
def test_only_commands_that_are_torch_s_go(command: str, is_torch_s: bool, after: str) -> None:
    assert edited(f"{TORCH}setup({LIST}, {command})\n", {"build_ext": is_torch_s}) == after


def test_another_argument_takes_the_place_of_the_extensions() -> None:
    assert edited(f"setup(name='a',\n    {LIST},\n)", instead=b"packages=[]") == (
        "setup(name='a',\n    packages=[],\n)"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"setup({LIST})\nsetup({LIST})", "2 calls"),
        (f"setup({LIST}", "never closed"),
        (f"# -*- coding: latin-1 -*-\nsetup({LIST})", "not UTF-8"),
        (f"{TORCH}m = {VALUE}; y = 1\nsetup(ext_modules=m)", "shares a line"),
    ],
)
def test_what_is_not_certain_is_left_to_a_person(text: str, reason: str) -> None:
    with pytest.raises((SyntaxError, ValueError), match=reason):
        edited(text)
