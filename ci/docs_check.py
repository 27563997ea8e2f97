"""docs_check.py FOLDER: the site has every public name, and its links lead to what is there; it fetches nothing."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page has anchors for, where its links lead, and what its text is shown with."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.needed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that matter."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        links = [values[name] for name in ("href", "src") if name in values]
        self.links += links
        if tag != "a":
            self.needed += links


def public_names(root: Path) -> Iterator[str]:
    """Those that splat and kernelwheel have in `__all__`, where they are documented: errors are the loader's."""
    for package, folder in (("splat", root / "splat"), ("kernelwheel", root / "backend/kernelwheel")):
        (listed,) = re.findall(
            r"^__all__ = (\[.*?\])", (folder / "__init__.py").read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        for name in set(ast.literal_eval(listed)) - {"__version__"}:
            yield f"kernelwheel.runtime.{name}" if name.endswith("Error") else f"{package}.{name}"


def faults(site: Path, names: Iterable[str] = ()) -> list[str]:
    """What is wrong with a site, a line each."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    there = {anchor for page in pages.values() for anchor in page.anchors}
    found = [f"{name} is not in the reference" for name in names if name not in there]
    for path, page in sorted(pages.items()):
        name = path.relative_to(site.resolve())
        found += [f"{name}: fetches {link}" for link in page.needed if urlsplit(link).netloc]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchored = target not in pages or unquote(parts.fragment) in {"", *pages[target].anchors}
            if not (target.exists() and anchored):
                found.append(f"{name}: {link} leads nowhere")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(sys.argv[1]), public_names(Path(__file__).parents[1]))) or None)
