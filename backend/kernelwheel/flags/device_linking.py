"""Flags that ask nvcc for device code that is linked from several files: an option of a Plan, not a flag."""

from __future__ import annotations

from collections.abc import Iterable

_RELOCATABLE = ("-rdc", "--rdc", "-relocatable-device-code", "--relocatable-device-code")
_COMPILE_ONLY = ("-dc", "--dc", "-device-c", "--device-c")


def without_device_linking(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """The other flags, and those that ask for it (nvcc manual, `--relocatable-device-code`)."""
    rest: list[str] = []
    asked: list[str] = []
    following = iter(flags)
    for flag in following:
        option, _, value = flag.partition("=")
        if option not in _RELOCATABLE + _COMPILE_ONLY:
            rest.append(flag)
        elif option in _COMPILE_ONLY or (value or next(following, "")) in ("true", "1"):
            asked.append(flag)
    return rest, asked
