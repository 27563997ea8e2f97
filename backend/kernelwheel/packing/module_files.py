"""The Python files in a wheel where the libraries of extensions used to be, so that imports stay as they were."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from ..project.extension import Extension, refuse
from ..runtime.decision.snapshot import package_path

_TEXT = '''"""The compiled {what} {name}: checked and loaded by {package}._kernelwheel."""

from {package}._kernelwheel.lazy_module import {function}

{assigned}{function}(__name__, "{package}", "{distribution}")
'''
_FUNCTIONS = {
    "module": {"function": "import_lazily", "assigned": "__getattr__, __dir__ = "},
    "operators": {"function": "load_operators", "assigned": ""},
}


def module_files(extensions: Iterable[Extension], package: str, distribution: str) -> Iterator[tuple[str, bytes]]:
    """The files by their names in the wheel; `distribution` is what the package is installed as, with its version."""
    for each in extensions:
        if each.by_path:  # the library itself is there
            continue
        what = "module" if each.kind == "module" else "operators"
        text = _TEXT.format(what=what, name=each.name, package=package, distribution=distribution, **_FUNCTIONS[what])
        yield module_file(each.name, package), text.encode("utf-8")


def module_file(name: str, package: str) -> str:
    """The file that is imported as `name`; the package itself may be an extension, and then has no other file."""
    return package_path(name) + ("/__init__.py" if name == package else ".py")


def top_level(text: str, package: str, names: Iterable[str]) -> str:
    """The top_level.txt that setuptools wrote, with the names that the package and its extensions are imported by."""
    known = {*text.split(), *(name.partition(".")[0] for name in (package, *names))}
    return "".join(f"{name}\n" for name in sorted(known))


def refuse_clashes(extensions: Iterable[Extension], package: str, members: Collection[str]) -> None:
    """Refuse an extension whose name is that of a module in the wheel.

    Raises:
        SettingsError: names both.
    """
    for each in extensions:
        path = re.escape(each.name.replace(".", "/"))
        taken = (
            rf"{path}(\.py|\.[\w.-]*(so|pyd)|/__init__\.py|/.*)" if each.name != package else rf"{path}/__init__\.py"
        )
        clash = next((member for member in members if re.fullmatch(taken, member)), None)
        if clash:
            refuse(each.name, "name", "a name that no module of the package has", clash)
