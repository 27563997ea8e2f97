"""Kernel launches with spaces in their brackets, which nvcc's front end reads and clang's does not."""

from __future__ import annotations

import json
import re
from pathlib import Path


def join_launches(text: str) -> str:
    """A source with `kernel << <grid, block >> > ()` as clang reads it: nvcc allows spaces in `<<<` and `>>>`.

    Lines and columns stay, and so does what is in comments and literals. Where `>> >` ends lists of template arguments,
    `>>>` does too.
    """
    return _LAUNCH.sub(
        lambda found: (
            f"{found['bracket'] * 3}{found[0].replace(found['bracket'], '')}" if found["bracket"] else found[0]
        ),
        text,
    )


_LAUNCH = re.compile(
    r"""//.*
    | /\*[\s\S]*?\*/
    | R"(?P<end>[^\s()\\]{0,16})\([\s\S]*?\)(?P=end)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![\da-fA-F])'(?:\\.|[^'\\\n])*'
    | operator\s*<<
    | (?P<bracket>[<>]) (?: (?P=bracket)\s+ | \s+(?P=bracket) ) (?P=bracket)
    """,
    re.VERBOSE,
)


def overlay_of(source: Path, folder: Path) -> list[str]:
    """clang's options to read a source with joined launches in place of this one; none if it has no others."""
    try:
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []  # clang says what is wrong
    joined = join_launches(text)
    if joined == text:
        return []
    copy, table = folder / f"{source.stem}.joined.cu", folder / f"{source.stem}.overlay.json"
    copy.write_text(joined, encoding="utf-8", errors="surrogateescape")
    file = {"name": str(source.absolute()), "type": "file", "external-contents": str(copy.absolute())}
    table.write_text(json.dumps({"version": 0, "use-external-names": False, "roots": [file]}), encoding="utf-8")
    return ["-ivfsoverlay", str(table)]
