"""docs_pages.py FOLDER: what ci/docs has Sphinx read: the pages, and those of the reference, which the code gives."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import conf  # by which splat can be imported
from docs_tables import cmake_functions, manifest_fields
from kernelwheel import reference

ROOT = Path(__file__).resolve().parent.parent
GUIDES = {
    "splat": ["usage", "fit", "view", "formats", "gsplat"],
    "kernelwheel": ["packaging", "load", "settings", "publish"],
    "How it works": ["design", "reliability", "kernels"],
}
LOADER = "kernelwheel.runtime"  # in every wheel, as `<package>._kernelwheel`
# The modules that have a page for each of their names.
PACKAGES = {"splat": ["splat"], "kernelwheel": ["kernelwheel", LOADER]}
HERE = "<!-- The site has the tables here: ci/docs_pages.py -->\n"
# What docs/ names besides, a page each.
MODULES = ["splat.strategy.ops", "splat.compat.gsplat14", "splat.compat.gsplat_helpers"]


def write(folder: Path) -> None:
    """All pages, in the places that they have in the checkout, so that their links lead where they do there."""
    for path in [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md")]:
        put(folder / path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    shutil.copytree(ROOT / "docs/pictures", folder / "docs/pictures")
    settings = folder / "docs/settings.md"
    before, after = settings.read_text(encoding="utf-8").split(HERE)
    tables = "\n".join(f"## {title}\n\n{table}" for title, table in reference.tables("splat").items())
    put(settings, before + tables + after)

    for package, modules in PACKAGES.items():
        documented = [(module, name) for module in modules for name in public(module)]
        put(folder / f"reference/{package}.md", summary(package, documented))
        for module, name in documented:
            put(folder / f"reference/{module}.{name}.md", page_of(module, name))
    for module in MODULES:
        own = [name for name in public(module) if getattr(import_module(module), name).__module__ == module]
        put(folder / f"reference/{module}.md", f"# {module}\n\n" + automatic("module", module, ", ".join(own)))
    put(folder / "reference/manifest.md", manifest())
    functions = (ROOT / "backend/kernelwheel/cmake/KernelWheel.cmake").read_text(encoding="utf-8")
    put(folder / "reference/cmake.md", f"# CMake\n\n{cmake_functions(functions)}")

    others = {
        "Reference": [f"reference/{page}" for page in ("splat", *MODULES, "kernelwheel", "cmake", "manifest")],
        "The project": ["CONTRIBUTING", "CHANGELOG"],
    }
    trees = {**{title: [f"docs/{name}" for name in names] for title, names in GUIDES.items()}, **others}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    put(folder / "index.md", text + "".join(tree(pages, title) for title, pages in trees.items()))


def put(path: Path, text: str) -> None:
    """Write a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def tree(pages: list[str], title: str = "") -> str:
    """What puts pages into the navigation."""
    caption = f":caption: {title}\n" if title else ""
    return "\n```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(pages) + "\n```\n"


def automatic(kind: str, name: str, members: str | None = None) -> str:
    """What Sphinx puts an object's docstring in place of, with those of members; of all of them, if that is empty."""
    option = "" if members is None else f"   :members: {members}\n"
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{option}```\n"


def public(module: str) -> list[str]:
    """The functions and classes that a module says are public, or else has under names without an underscore."""
    there = import_module(module)
    names = vars(there).get("__all__") or [name for name in dir(there) if not name.startswith("_")]
    return [name for name in names if callable(getattr(there, name))]


def page_of(module: str, name: str) -> str:
    """The page of one public name; splat has the loader's errors, too."""
    if name.endswith("Error"):
        text = (
            f"The loader's [`{name}`]({LOADER}.{name}.md).\n"
            if module != LOADER
            else automatic("exception", f"{module}.{name}", "")
        )
    elif name[0].isupper():
        text = automatic("class", f"{module}.{name}", "")
    else:
        text = automatic("function", f"{module}.{name}")
    return f"# {name}\n\n{text}"


def summary(package: str, names: list[tuple[str, str]]) -> str:
    """The docstring of a package, and a table of its names with what their docstrings begin with."""
    texts = [inspect.getdoc(getattr(import_module(module), name)) or "" for module, name in names]
    begins = (
        conf.with_shapes_as_code(re.split(r"(?<=[^.]\.)\s", text, maxsplit=1)[0].replace("\n", " ")) for text in texts
    )
    pages = [".".join(each) for each in names]
    rows = ((f"[`{page}`]({page}.md)", begin) for page, begin in zip(pages, begins, strict=True))
    return f"# {package}\n\n{automatic('module', package)}\n{reference.table(('name', 'what it is'), rows)}" + tree(
        pages
    )


def manifest() -> str:
    """The fields of the manifest."""
    module = automatic("module", "kernelwheel.runtime.artifact.manifest")
    name = "kernelwheel.store.manifest_fields"
    schema = automatic("module", name) + automatic("function", f"{name}.check_manifest")
    return f"# manifest.json\n\n{module}\n{manifest_fields()}\n## The schema\n\n{schema}"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
