"""How Sphinx makes the site, without torch, kernels or network, from the pages that ci/docs_pages.py writes."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import kernelwheel.runtime
from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "splat and kernelwheel"
copyright = "their authors, Apache-2.0"
release = kernelwheel.__version__
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_math_renderer = "mathml"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
napoleon_custom_sections = ["Returns"]  # text, in which what is before a colon is no type
autodoc_preserve_defaults = True  # that of an environment would be this machine's
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
default_role = "literal"

# A shape, as in `[..., N, 3]`, outside of what is code already.
SHAPE = re.compile(r"(`[^`]*`)|(?<![\w\]])(\[(?:\.\.\.|[\w*]+)?(?:[,+]\s*(?:\.\.\.|[\w* +]+))*\])")


def with_shapes_as_code(text: str) -> str:
    """Docstrings write shapes without backticks; `[*, 2]` would begin an emphasis."""
    return SHAPE.sub(lambda found: found[1] or f"`{found[2]}`", text)


def mend_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """A docstring as reStructuredText."""
    lines[:] = with_shapes_as_code("\n".join(lines)).split("\n")


def show_numbers(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """A signature with the values of numbers that have a name."""
    there = getattr(inspect.unwrap(value), "__globals__", {}) if callable(value) else {}

    def number(found: re.Match[str]) -> str:
        return repr(there[found[0]]) if isinstance(there.get(found[0]), (int, float)) else found[0]

    return (re.sub(r"(?<== )[A-Z_\d]+\b", number, signature), returned) if signature else None


def formula(translator: Any, node: Any) -> None:
    """A formula as MathML, which browsers draw by themselves."""
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


class Absent(type):
    """The class of those that stand for names of packages that are not here."""

    def __getattr__(cls, name: str) -> Absent:
        return absent(f"{cls.__module__}.{cls.__name__}", name)


def absent(module: str, name: str) -> Absent:
    """A class that an import finds; what it makes takes any arguments, and as a decorator changes nothing."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(
        name,
        (),
        {
            "__module__": module,
            "__init__": lambda self, *args, **options: None,
            "__call__": lambda self, *args: args[0] if args else self,
            "__getattr__": lambda self, name: absent(module, name),
        },
    )


class WithoutPackages(MetaPathFinder, Loader):
    """What imports of packages that are not here find."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What imports ask."""
        found = name.partition(".")[0] in ("PIL", "rich", "torch")
        return ModuleSpec(name, self, is_package=True) if found else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module every name."""
        vars(module).update(__version__="0", __getattr__=lambda name: absent(module.__name__, name))


sys.meta_path.insert(0, WithoutPackages())
sys.modules["splat._kernelwheel"] = kernelwheel.runtime  # in a wheel, a copy of it


def setup(app: Sphinx) -> None:
    """What the settings above cannot say."""
    app.add_lexer("mermaid", TextLexer)  # charts that GitHub draws
    app.connect("autodoc-process-docstring", mend_docstring)
    app.connect("autodoc-process-signature", show_numbers)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
