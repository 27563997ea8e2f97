"""Generator of the options page docs/settings.md, from the registry of options.

Run `python -m kernelwheel.reference PACKAGE > docs/settings.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from .project.build_settings import REGISTRY, BuildSettings
from .project.extension import EXTENSION, KEYS, Key
from .runtime.settings import TABLE, Decides, Option

_RECORDED: dict[Decides, str] = {
    "content": "value and origin",
    "target": "value and origin",
    "tools": "origin",
    "work": "nothing",
}

_HEAD = "| option | environment | meaning | takes | default | in the manifest |"
_PAGE = """# Settings

<!-- Generated from the registry: PYTHONPATH=backend python -m kernelwheel.reference {package} > docs/settings.md -->

Options are set in `{table}` of pyproject.toml, in environment variables, or with a front end's
`-C name=value`; each of these overrides the ones before it. Names may be written with `_` instead of `-`. An empty
variable counts as unset.

{options}

These options take several values, as a list in the table or by repeating `-C`: {several}.

## Extensions

These are the keys of `{extension}`, of which there is one for each library; all of them are in the Plan and in the
manifest. Files and folders are relative to the project and cannot leave it.

{keys}

## In the manifest

`built_with.settings` in a manifest, shown by `inspect`, records the options that decide what an Artifact is; the last
column above says what it records. A manifest contains no paths of its builder: for an option that names the path of a
compiler, it records only where the option was set, and the compiler itself is described in the Plan. Options that only
affect how the work is done are not recorded, so that equal builds give equal files. Compiler flags are part of the Plan
and are recorded as written, including any paths in them. In a build without CUDA kernels, options that only affect CUDA
kernels are not recorded, except for those in the table.

## At run time

A compile at run time from a wheel uses the options of the package's table that decide the binary, as recorded in the
manifest. The exception is `archs`, which defaults to the machine's GPUs. Environment variables override them, as in a
build. How the work is done (`jit`, the location of caches) is decided only by the environment of that machine. An
editable install reads the table itself.

## Whose caches are trusted

Loading a library runs its code. So a cache, even a read-only one, is used only if nobody but root, this user and the
users in `trusted-owners` can write to it. These checks are made at each use:

- The cache folder and all its parents, up to the root of the file system, belong to one of these users. Nobody else can
  write to them, with two exceptions: a folder with the sticky bit, such as `/tmp`, and above the cache folder, a group
  whose members are all trusted (a user's private group). The user database must list them: if it does not list this
  user and the folder's owner in the group, as with a directory service (SSSD with `enumerate = false`), the members
  cannot be told, and the folder is refused. Symbolic links on the path also belong to one of these users.
- Everything in the cache folder belongs to one of these users, nobody else can write to it, and it contains no symbolic
  links.

A cluster's store may belong to a service account, and a container's volume to another user id: name that user, as in
`{trusted}=1234`. In a container without other users, whose volume is open to all, `{trusted}=everyone` switches these
checks off. A program that runs with other privileges than those of the user who started it uses no
cache at all, even if it has put them aside: setuid, setgid, or capabilities of its file. A security module (SELinux,
AppArmor) that changes the domain of a program may make the kernel say the same of it (AT_SECURE).

## What is an error

- An unknown or misspelled option, or variable of the package: the message suggests the closest name.
- A value that the option does not take: the message says where it was set.
- The same option twice in one place, as `cuda-home` and `cuda_home`, or several values for an option that takes one.
- With `cuda` off, an option set by `-C` that only affects CUDA kernels: {cuda_only}.
  Their variables may be meant for other packages, and the table for builds with CUDA, so both are allowed.
- An `nvcc` of one toolkit and the `cuda-home` of another, both usable, and both from variables or both from `-C`.
- Architectures in `cuda-flags`: they belong in `archs`.
- `-C` options for an editable install: it compiles on first use, with the table and the variables at that time.
"""


def settings_page(package: str) -> str:
    """The page for a package, whose own variables start with its name.

    Args:
        package: its import name.
    """
    rows = [_row(option, package) for option in REGISTRY]
    return _PAGE.format(
        package=package,
        table=TABLE,
        options="\n".join([_HEAD, "|" + "---|" * _HEAD.count(" | ") + "---|", *rows]),
        extension=EXTENSION,
        keys="\n".join(["| key | meaning | takes | default |", "|---|---|---|---|", *map(_key_row, KEYS)]),
        several=_names(option for option in REGISTRY if option.separator is not None),
        cuda_only=_names(option for option in REGISTRY if option.cuda_only),
        trusted=BuildSettings.OPTIONS["trusted-owners"].variable(package),
    )


def _key_row(key: Key) -> str:
    return f"| `{key.name}` | {key.help} | {key.takes} | {key.default} |"


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
    print(settings_page(sys.argv[1]), end="")
