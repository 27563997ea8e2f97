"""The page of all options, made from the registry: `python -m kernelwheel.reference PACKAGE > docs/settings.md`.

In an installed package it is `python -m <package>._kernelwheel.reference <package>`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from .core.options import OPTIONS, REGISTRY, Decides, Option
from .core.settings import TABLE

_RECORDED: dict[Decides, str] = {"binary": "value and origin", "tools": "origin", "work": "nothing"}

_HEAD = "| option | environment | meaning | takes | default | in the manifest |"
_PAGE = """# Settings

<!-- Made from the registry: PYTHONPATH=backend python -m kernelwheel.reference {package} > docs/settings.md -->

An option stands in `{table}` of pyproject.toml, in an environment variable, or in a front end's
`-C name=value`; the later of these three counts. Names may have `_` for `-`. An empty variable counts as not set.

{options}

These take several values, as a list in the table or by `-C` given again: {several}.

## In the manifest

`built_with.settings` of a manifest, which `inspect` shows, has the options that decide what an Artifact is, as the last
column says. A manifest has no path of its builder: of an option that says where a compiler is, it has only where it was
set; what the compiler is, is in the Plan. How the work was done is not there, so that equal builds are equal files.
Compiler flags are a part of the Plan and are there as they were written: a path in them is a path in the manifest.
Without CUDA kernels, options that are for them alone had no effect and are not there, but for those of the table.

## At run time

A compile at run time from a wheel has the options of the package's table that decide the binary, from the manifest, but
for `archs`: there the GPUs of the machine decide. The environment counts more, as in a build. How the work is done, as
`jit` and where caches are, is for that machine's environment alone. An editable install reads the table itself.

## Whose caches are trusted

Loading a library runs its code. So a cache, also one that is only read, is used where nobody but root, this user and
the users in `trusted-owners` can write to it. What is checked, at each use:

- The cache folder and every folder above it, up to the root of the file system, belongs to one of them. Others cannot
  write to it, unless its sticky bit is set, as for `/tmp`; a group can, above the cache folder, if all its members are
  trusted (a user's private group). Links on the way belong to one of them too.
- Everything in the cache folder belongs to one of them, nobody else can write to it, and there are no links.

The store of a cluster may belong to a service account, a container's volume to another user's number: name that user,
`{trusted}=1234`. In a container that nobody else is in, where a volume is open to all, `{trusted}=everyone` switches
these checks off. A program that was started by one user and has the rights of another (setuid) uses no cache at all.

## What is an error

- An option, or one of the package's own variables, that is unknown or misspelled: the message names the nearest.
- A value that the option does not take: the message says where it stood.
- One option twice in one place, as `cuda-home` and `cuda_home`, or several values for an option that takes one.
- `cuda` off, and by `-C` an option that is for CUDA kernels alone: {cuda_only}.
  Their variables are there for many packages, and the table may be waiting for a build with CUDA: those may stand
  beside `cuda` off.
- An `nvcc` of one toolkit and the `cuda-home` of another, both usable, and both from variables or both from `-C`.
- Architectures in `cuda-flags`: their one place is `archs`.
- `-C` options for an editable install: it compiles at first use, by the table and the variables of then.
"""


def page(package: str) -> str:
    """The page for a package: its own variables have its name in front.

    Args:
        package: its import name.
    """
    rows = [_row(option, package) for option in REGISTRY]
    return _PAGE.format(
        package=package,
        table=TABLE,
        options="\n".join([_HEAD, "|" + "---|" * _HEAD.count(" | ") + "---|", *rows]),
        several=_names(option for option in REGISTRY if option.separator is not None),
        cuda_only=_names(option for option in REGISTRY if option.cuda_only),
        trusted=OPTIONS["trusted-owners"].variable(package),
    )


def _row(option: Option[Any], package: str) -> str:
    cells = (
        f"`{option.name}`",
        f"`{option.variable(package)}`",
        option.help,
        option.takes,
        f"`{option.default}`" if option.default else "empty",
        _RECORDED[option.decides],
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _names(options: Iterable[Option[Any]]) -> str:
    return ", ".join(f"`{option.name}`" for option in options)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m kernelwheel.reference PACKAGE")
    print(page(sys.argv[1]), end="")
