"""A setup.py with an argument of each kind, and a setup.cfg beside it, as packages of ten years have."""

import os

from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "src/everything/version.py"), encoding="utf-8") as file:
    exec(file.read())

setup(
    name="Every.Thing",
    version=__version__,  # noqa: F821
    description="Everything that setup() takes",
    author="Ada Lovelace, Charles Babbage",
    author_email="ada@example.invalid, charles@example.invalid",
    maintainer="Grace Hopper",
    url="https://example.invalid/everything",
    download_url="https://example.invalid/everything.tar.gz",
    project_urls={"Source": "https://example.invalid/source"},
    license="MIT",
    keywords="one, two words",
    platforms=["linux"],
    python_requires=">=3.8, <4",
    install_requires=["numpy", 'tomli; python_version < "3.11"'],
    extras_require={
        "Test_All": ["pytest>=8", 'colorama; sys_platform == "win32"'],
        "dev:python_version<'3.12'": ["black"],
        ":os_name=='nt'": ["pywin32"],
    },
    entry_points={
        "console_scripts": ["everything = everything.tools:main"],
        "gui_scripts": ["everything-window = everything.tools:main"],
        "everything.plugins": ["first = everything.tools:main"],
    },
    scripts=["bin/everything-old"],
    packages=find_packages(os.path.join(here, "src")),
    package_dir={"": os.path.join(here, "src")},
    package_data={"everything": ["data/*.json", os.path.join(here, "src/everything/data/table.csv")]},
    exclude_package_data={"everything": ["data/secret.json"]},
    data_files=[("share/everything", ["share/notes.txt"])],
    zip_safe=False,
    test_suite="tests",
    ext_modules=[CppExtension("everything._C", ["csrc/ext.cpp"]), CppExtension("everything_plain", ["csrc/ext.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
