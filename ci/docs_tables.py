"""What the site says of the manifest's fields and of CMake's functions, from schema, registries and comments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kernelwheel.compiler.plan import CudaPlan, Plan
from kernelwheel.compiler.toolchain.binding import Binding
from kernelwheel.project.arch_choice import ArchList
from kernelwheel.project.extension import KEYS
from kernelwheel.project.package import FACTS
from kernelwheel.reference import table
from kernelwheel.runtime.artifact.manifest import Library, Manifest, Requires
from kernelwheel.runtime.record import remembered
from kernelwheel.store import manifest_fields as schema


def manifest_fields() -> str:
    """The table of the manifest's fields, each by its name from the top."""
    return table(("field", "value", "meaning"), _rows(schema._MANIFEST, "", {}))


def _rows(kind: Any, above: str, meanings: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The fields of an object. One that has a name in the schema has meanings of its own."""
    meanings = next((said for known, said in _meanings() if known is kind), meanings)
    for key, each in kind.items():
        name, value = f"{above}.{'*' if key is str else key}".removeprefix("."), ""
        while isinstance(each, (list, tuple)):
            value += "list of " if isinstance(each, list) else "null or "
            (each,) = each
        yield f"`{name}`", value + ("object" if isinstance(each, dict) else _takes(each)), meanings.get(key, "")
        if isinstance(each, dict):
            yield from _rows(each, name, meanings)


def _takes(test: Any) -> str:
    """What a test lets pass: its name, or what it asks."""
    asked = re.search(r"lambda value: (.*?)}?,?(  #.*)?\n", inspect.getsource(test))
    return f"`{asked[1]}`" if asked else test.__name__.removeprefix("is_").strip("_")


def _meanings() -> Iterator[tuple[Any, Mapping[str, str]]]:
    """The meanings of the keys of each object that has a name in the schema."""
    helps = {"_PLAN": FACTS, "_EXTENSION": KEYS}
    records: dict[str, list[type]] = {
        "_PLAN": [Plan, CudaPlan, ArchList, Binding],
        "_MANIFEST": [Manifest],
        "_REQUIRES": [Requires],
        "_LIBRARY": [Library],
    }
    sections = re.findall(r"^(_[A-Z_]+): Kind = \{(.*?)^\}", inspect.getsource(schema), re.MULTILINE | re.DOTALL)
    for name, section in sections:
        said = {key.name.replace("-", "_"): key.help for key in helps.get(name, ())}
        if name == "_PLAN":
            computed = (each for each in vars(Plan).items() if isinstance(each[1], (property, remembered)))
            said |= {name: inspect.getdoc(each) or "" for name, each in computed}
        for text in (section, *map(inspect.getsource, records.get(name, []))):
            said |= _comments(text)
        yield vars(schema)[name], said


def _comments(source: str) -> dict[str, str]:
    """The comments behind and above fields, up to the first line that is empty behind one."""
    found: dict[str, str] = {}
    above = ""
    for line in source.splitlines():
        if not line and found:
            break
        if alone := re.match(r" +# (.*)", line):
            above += f"{alone[1]} "
            continue
        field = re.match(r' +"?(\w+)"?: .*?(?:  # (.*))?$', line)
        if field and (said := (above + (field[2] or "")).strip()):
            found[field[1]] = said
        above = ""
    return found


def cmake_functions(text: str) -> str:
    """The functions that a CMakeLists.txt calls, and the variables it finds, from the text of KernelWheel.cmake."""
    head = re.sub("^# ?", "", text.partition("\n\n")[0], flags=re.MULTILINE)
    parts = []
    for name, takes, about in re.findall(r"^  (kernelwheel_\w+)(\(.*\)) +(.*)$", head, re.MULTILINE):
        (above,) = re.findall(rf"((?:^# .*\n)*)function\({name} ", text, re.MULTILINE)
        more = re.sub("^# ", "", above, flags=re.MULTILINE)
        parts.append(f"## {name}\n\n```cmake\n{name}{takes}\n```\n\nFor {about}. {more}\n")
    variables = re.findall(r"^  (KERNELWHEEL_.*?)  +(.*(?:\n {10,}.*)*)", head, re.MULTILINE)
    rows = ((re.sub(r"\w+", r"`\g<0>`", names), " ".join(about.split())) for names, about in variables)
    return f"{''.join(parts)}\n## Variables\n\n{table(('variable', 'meaning'), rows)}"
