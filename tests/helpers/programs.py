"""The programs that tests find on PATH: what the README asks for, and nothing else that a machine happens to have."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sysconfig
from contextlib import suppress
from pathlib import Path

MACHINE = os.environ["PATH"]
"""The PATH of whoever runs the tests, for programs that a test can do without."""
# git; a C++ compiler with its binutils, under each of their names; and what every Linux has: utilities of POSIX, GNU
# and util-linux.
_ASKED_FOR = re.compile(
    rf"""git
    | ({platform.machine()}-linux-gnu-)? (c\+\+ | cc | cpp | g\+\+ | gcc | gcc-(ar|nm|ranlib) | gcov) (-\d+)?
    | ({platform.machine()}-linux-gnu-)? (
        addr2line | ar | as | c\+\+filt | ld | ld\.(bfd|gold) | nm | objcopy | objdump | ranlib | readelf | size | strip
    )
    | \[ | awk | base64 | basename | bash | cat | chgrp | chmod | chown | chroot | cksum | cmp | comm | cp | cut
    | date | dd | df | diff | dirname | du | echo | egrep | env | expr | false | fgrep | find | flock | getconf
    | getent | grep | gunzip | gzip | head | hostname | id | install | kill | ldconfig | ldd | link | ln | ls
    | md5sum | mkdir | mkfifo | mknod | mktemp | more | mount | mv | nice | nl | nohup | nproc | nsenter | od
    | paste | pathchk | printenv | printf | ps | pwd | readlink | realpath | renice | rm | rmdir | script | sed
    | seq | setpriv | setsid | sh | sha1sum | sha256sum | shuf | sleep | sort | split | stat | stdbuf | stty
    | su | sum | sync | tac | tail | tar | taskset | tee | test | timeout | touch | tr | true | truncate | tsort
    | tty | umount | uname | unexpand | uniq | unlink | unshare | uptime | wc | who | whoami | xargs | yes
    | zcat
    """,
    re.VERBOSE,
)


def make_path(folder: Path) -> str:
    """A PATH with this environment's own programs, and links in `folder` to those that the README asks for."""
    for place in filter(None, MACHINE.split(os.pathsep)):
        with suppress(OSError):  # no such folder, or one that this user may not list
            for program in Path(place).absolute().iterdir():
                link = folder / program.name
                if _ASKED_FOR.fullmatch(program.name) and not link.is_symlink():
                    link.symlink_to(program)
    return os.pathsep.join((sysconfig.get_path("scripts"), str(folder)))


def find_optional(name: str) -> str | None:
    """A program that this machine may have, such as a browser or another compiler."""
    return shutil.which(name, path=MACHINE)


CLANG = next((found for number in range(30, 18, -1) if (found := find_optional(f"clang++-{number}"))), None)
"""A clang that compiles with CUDA 12, if this machine has one."""
CUDA_12 = os.environ.get("SPLAT_TEST_CUDA12", "")
"""The folder with the parts of CUDA 12 that it needs, from ci/test."""
