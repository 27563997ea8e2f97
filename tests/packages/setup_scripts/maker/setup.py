"""A setup.py that makes files of its package: a version with the commit in it, a link to a folder."""

import glob
import os
import subprocess

from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

here = os.path.dirname(os.path.realpath(__file__))
try:
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=here, text=True).strip()
except (OSError, subprocess.CalledProcessError):
    commit = "unknown"
with open(os.path.join(here, "maker", "version.py"), "w", encoding="utf-8") as file:
    file.write(f"__version__ = '1.0'\ncommit = {commit!r}\n")
with open(os.path.join(here, "notes-of-the-build.txt"), "w", encoding="utf-8") as file:
    file.write("nothing that a wheel has\n")

link = os.path.join(here, "maker", "configs")
if os.path.islink(link):
    os.unlink(link)
os.symlink(os.path.join(here, "configs"), link)

setup(
    name="maker",
    version="1.0",
    packages=find_packages(),
    package_data={"maker": glob.glob("configs/**/*.yaml", recursive=True)},
    ext_modules=[CppExtension("maker._C", ["csrc/ext.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
