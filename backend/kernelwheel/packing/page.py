"""The page of a wheel, to be looked at before it is published: one HTML file that loads nothing.

Everything in it comes from the wheel, or from files with results beside it, and is escaped: a wheel may be hostile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from pathlib import Path
from typing import Any

from ..cli.inspection import existing_file, view_wheel
from ..cli.manifest_text import settings_text
from ..runtime.errors import TEXT, IncompatibleArtifactError, printable
from ..runtime.exit_status import Parser
from ..runtime.files import file_sha256
from ..runtime.manifest import Manifest

MOST_MEMBERS = 25
# Outcomes of checks and of rows of the matrix, and how they are marked.
MARKS = {"passed": "good", "failed": "bad"}

STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --back: #fff; --line: #d8dbe0; --soft: #f3f4f6; --good: #1a7f37;
  --bad: #c62828; --open: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --back: #16181b; --line: #3a3e45; --soft: #22252a;
  --good: #57c274; --bad: #ff7b72; --open: #e3b341; } }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
.status { padding: .75rem 1rem; border-left: .4rem solid; background: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th { white-space: nowrap; }
td:first-child { overflow-wrap: anywhere; min-width: 8rem; }
code, pre { font: .8125rem/1.45 ui-monospace, monospace; }
.facts code { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0; min-width: 16rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
"""


@dataclass(frozen=True)
class Page:
    """What the page shows.

    Attributes:
        wheel: the file's name.
        manifest: the wheel's.
        damage: how its files differ from its manifest and RECORD.
        members: name, size in the file and size unpacked, of every member.
        sbom: its software bill of materials (CycloneDX), or empty.
        checks: `name`, `passed` and `said` of each check that was run on it.
        matrix: the rows of ci/matrix: `python`, `torch`, `outcome`, `said`.
    """

    wheel: str
    manifest: Manifest
    damage: Sequence[str]
    members: Sequence[tuple[str, int, int]]
    sbom: Mapping[str, Any]
    checks: Sequence[Mapping[str, Any]]
    matrix: Sequence[Mapping[str, Any]]

    @property
    def status(self) -> tuple[str, str]:
        """How it is marked (`good`, `bad`, or `open` if something was not run), and the sentence that says so."""
        failed = [str(check["name"]) for check in self.checks if not check["passed"]]
        wrong = [_row_name(row) for row in self.matrix if row["outcome"] == "failed"]
        missing = [_row_name(row) for row in self.matrix if row["outcome"] not in MARKS]
        if self.damage:
            return "bad", f"Damaged: {'; '.join(self.damage)}."
        if failed or wrong:
            return "bad", f"Failed: {', '.join([*failed, *wrong])}."
        if not self.checks:
            return "open", "Undamaged. No results of checks were given."
        if missing or not self.matrix:
            return "open", f"All checks passed. Not run: {', '.join(missing) or 'the matrix'}."
        return "good", f"All {len(self.checks)} checks and {len(self.matrix)} environments passed."


def main(arguments: Sequence[str]) -> int:
    """Write the page of a wheel; return 1 if it cannot be written."""
    parser = Parser(prog="python -m kernelwheel page", description="Write a page about a wheel.")
    parser.add_argument("wheel", type=existing_file, metavar="WHEEL")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="the HTML file")
    results = "a file with the results of "
    parser.add_argument("--results", type=existing_file, metavar="FILE", help=f"{results}checks, from ci/wheels")
    parser.add_argument("--matrix", type=existing_file, metavar="FILE", help=f"{results}environments, from ci/matrix")
    args = parser.parse_args(arguments)
    view = view_wheel(args.wheel)
    checks = read_results(_text(args.results), args.results.name) if args.results else []
    rows = read_matrix(_text(args.matrix), args.matrix.name, file_sha256(args.wheel)) if args.matrix else []
    page = Page(view.wheel, view.manifest, view.damage, view.members, view.sbom, checks, rows)
    try:
        args.output.write_text(page_html(page), encoding="utf-8")
    except OSError as error:
        print(f"{args.output} cannot be written: {error}", file=sys.stderr)
        return 1
    return 0


def page_html(page: Page) -> str:
    """The page as HTML."""
    mark, sentence = page.status
    body = [
        f"<h1>{_escape(page.wheel)}</h1>",
        f'<p class="status {mark}">{_escape(sentence)}</p>',
        *_section("What it needs", _table([], _needs(page))),
        *_section("Libraries", _table(["file", "size", "device", "SASS", "PTX", "sha256"], _libraries(page.manifest))),
        *_section("Checks", _table(["check", "outcome", "said"], map(_check, page.checks))),
        *_section("Matrix", _table(["Python", "torch", "CUDA", "outcome", "said"], map(_environment, page.matrix))),
        *_section("Toolchain", _table([], _toolchain(page.manifest))),
        *_section("Bill of materials", _table(["component", "version", "licence", "sha256"], _components(page))),
        *_section("Sizes", _table(["member", "in the wheel", "unpacked"], _sizes(page.members))),
    ]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_escape(page.wheel)}</title><style>{STYLE}</style></head>\n<body>\n"
    )
    return head + "\n".join(body) + "\n</body></html>\n"


def read_results(text: str, where: str) -> list[Mapping[str, Any]]:
    """The checks in a file such as dist/results.json.

    Raises:
        IncompatibleArtifactError: it is another kind of file.
    """
    return _read(text, where, {"name": str, "passed": bool, "said": str}, lambda values: values)


def read_matrix(text: str, where: str, wheel_sha256: str) -> list[Mapping[str, Any]]:
    """The rows in a file that ci/matrix has written.

    Raises:
        IncompatibleArtifactError: it is another kind of file, or about another wheel.
    """
    rows = _read(text, where, {"python": str, "torch": str, "outcome": str}, lambda values: values["rows"])
    found = json.loads(text).get("sha256")
    if found != wheel_sha256:
        raise IncompatibleArtifactError(
            f"{where} is about another wheel",
            required=f"results for the wheel with sha256 {wheel_sha256}",
            found=str(found),
            remedies=["run ci/matrix --wheel with this wheel"],
        )
    return rows


def _read(text: str, where: str, fields: Mapping[str, type], part: Any) -> list[Mapping[str, Any]]:
    try:
        rows = part(json.loads(text))
        if type(rows) is not list or not all(isinstance(row[name], fields[name]) for row in rows for name in fields):
            raise TypeError("no such rows")
        return rows
    except (ValueError, TypeError, KeyError) as error:
        raise IncompatibleArtifactError(
            f"{where} cannot be shown",
            required=f"JSON with rows of {', '.join(fields)}",
            found=f"{type(error).__name__}: {error}",
            remedies=["give the file that ci/wheels or ci/matrix has written"],
        ) from error


# Parts


def _needs(page: Page) -> Iterable[tuple[str, str]]:
    needs, built = page.manifest.requires, page.manifest.built_with
    python, platform = _tags(page.wheel)
    linked = f"linked for glibc {page.manifest.content['options'].get('glibc') or 'as on the builder'}"
    yield "Platform tag", f"{platform}: {linked}; needs {needs.libc or 'no glibc'}, {needs.libstdcxx or 'no libstdc++'}"
    yield "Python tag", f"{python}: " + (f"a Python with ABI {needs.python}" if needs.python else "no symbol of Python")
    yield "torch", needs.torch if needs.torch.endswith(".*") else f"{needs.torch} or later, by its stable ABI"
    if page.manifest.uses_cuda:
        yield "CUDA", f"a torch for CUDA {needs.cuda}" if needs.cuda else "a torch for any CUDA"
        yield "Driver", f"for CUDA {needs.driver} or later; for the PTX, {needs.driver_for_ptx}"
    else:
        yield "CUDA", f"no kernels: {built['cuda']['because']}"
    yield "Fingerprint", page.manifest.fingerprint


def _tags(wheel: str) -> tuple[str, str]:
    """The Python and platform tags in a wheel's file name."""
    parts = wheel.removesuffix(".whl").split("-")
    return ("-".join(parts[-3:-1]), parts[-1]) if len(parts) >= 5 else ("unknown", "unknown")


def _libraries(manifest: Manifest) -> Iterable[tuple[str, ...]]:
    for each in manifest.libraries:
        yield each.file, _megabytes(each.size), each.device, " ".join(each.sass), " ".join(each.ptx), each.sha256


def _check(check: Mapping[str, Any]) -> tuple[str, ...]:
    return str(check["name"]), "passed" if check["passed"] else "failed", str(check["said"])


def _environment(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name) or "") for name in ("python", "torch", "cuda", "outcome", "said"))


def _row_name(row: Mapping[str, Any]) -> str:
    return f"Python {row['python']} with torch {row['torch']}"


def _toolchain(manifest: Manifest) -> Iterable[tuple[str, str]]:
    for name, value in manifest.built_with.items():
        if name == "settings":
            yield name, settings_text(value)
        elif name != "cuda":
            yield name, str(value) if value is not None else "none"


def _components(page: Page) -> Iterable[tuple[str, ...]]:
    for each in _objects(page.sbom, "components"):
        licences = [str(entry.get("expression", entry.get("license", ""))) for entry in _objects(each, "licenses")]
        hashes = [str(digest.get("content", "")) for digest in _objects(each, "hashes")]
        yield str(each.get("name", "")), str(each.get("version", "")), ", ".join(licences), " ".join(hashes)


def _objects(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects in a list of a JSON document that follows no checked schema."""
    listed = value.get(name)
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _sizes(members: Sequence[tuple[str, int, int]]) -> Iterable[tuple[str, str, str]]:
    largest = sorted(members, key=lambda member: -member[1])
    for name, packed, unpacked in largest[:MOST_MEMBERS]:
        yield name, _kilobytes(packed), _kilobytes(unpacked)
    rest = largest[MOST_MEMBERS:]
    if rest:
        yield f"{len(rest)} smaller ones", _kilobytes(sum(m[1] for m in rest)), _kilobytes(sum(m[2] for m in rest))
    yield "all", _kilobytes(sum(m[1] for m in members)), _kilobytes(sum(m[2] for m in members))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _kilobytes(size: int) -> str:
    return f"{size / 1e3:.1f} kB"


# HTML


def _escape(text: str) -> str:
    """Text from anybody as HTML: neither a tag nor a character that turns the text around it."""
    return escape_html(printable(text, TEXT))


def _section(title: str, table: str) -> list[str]:
    return [f"<h2>{_escape(title)}</h2>", table or "<p>None.</p>"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; without a head, the first cell of each row is one. Empty if there are no rows."""
    lines = [_row(row, headless=not head) for row in rows]
    if not lines:
        return ""
    top = "".join(f"<th>{_escape(name)}</th>" for name in head)
    kind, first = ("", f"<tr>{top}</tr>") if head else (' class="facts"', "")
    return f'<div class="scroll"><table{kind}>{first}' + "\n".join(lines) + "</table></div>"


def _row(cells: Sequence[str], headless: bool) -> str:
    first = f"<th>{_escape(cells[0])}</th>" if headless else _cell(cells[0])
    return f"<tr>{first}{''.join(map(_cell, cells[1:]))}</tr>"


def _cell(text: str) -> str:
    if text in MARKS or text in ("not offered", "no room"):
        return f'<td class="{MARKS.get(text, "open")}">{_escape(text)}</td>'
    if text.endswith((" kB", " MB")) and text[0].isdigit():
        return f'<td class="number">{_escape(text)}</td>'
    shown = f"<pre>{_escape(text)}</pre>" if "\n" in text else _escape(text)
    return f"<td><code>{shown}</code></td>" if len(text) == 64 else f"<td>{shown}</td>"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
