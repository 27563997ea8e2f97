"""A setup.py whose sources are above its folder, beside a part of the repository that git has not brought."""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(os.path.join(root, "VERSION"), encoding="utf-8") as file:
    version = file.read().strip()

setup(
    name="above",
    version=version,
    packages=["above"],
    ext_modules=[
        CppExtension("above._C", ["../src/ext.cpp"], extra_compile_args=[f"-I{root}/third_party/vectors/include"])
    ],
    cmdclass={"build_ext": BuildExtension},
)
