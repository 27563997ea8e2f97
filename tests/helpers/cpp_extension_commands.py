"""Prints the command lines that torch.utils.cpp_extension would run for an extension, as JSON: compilers and linker.

Run as `python cpp_extension_commands.py CUDA_HOME NAME INCLUDE SOURCE...` in the project; CUDA_HOME is empty for a
CppExtension. Nothing is compiled.
"""

import json
import sys

from setuptools import Distribution
from torch.utils import cpp_extension

home, name, include, *sources = sys.argv[1:]
commands = []


class Observed(cpp_extension.BuildExtension):
    """Records the commands instead of running them."""

    def build_extensions(self):
        self.compiler.spawn = lambda command, **_: commands.append(list(map(str, command)))
        super().build_extensions()


cpp_extension.CUDA_HOME = home or None
kind = cpp_extension.CUDAExtension if home else cpp_extension.CppExtension
extension = kind(name, sources, include_dirs=[include], define_macros=[("WITH_CUDA", None)] if home else [])
distribution = Distribution({"name": "observed", "ext_modules": [extension]})
command = Observed(distribution, use_ninja=False)
command.build_temp = command.build_lib = "observed"
command.ensure_finalized()
command.run()
print(json.dumps(commands))
