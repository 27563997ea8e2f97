"""No module takes an option from the environment behind the registry's back: exceptions.toml lists what touches it.

An option belongs in the registry, and another variable comes as a value, or in the mapping `environ` of an argument.
PATH, read from such a mapping, is where programs are looked for.
"""

from __future__ import annotations

import ast

import pytest
from exceptions import MODULES, exceptions

pytestmark = pytest.mark.once

# What reads the environment by itself.
READERS = {
    "getpass", "os.environ", "os.environb", "os.get_exec_path", "os.getenv", "os.getenvb", "os.path.expanduser",
    "os.path.expandvars", "os.popen", "os.system", "pathlib.Path.expanduser", "pathlib.Path.home", "platformdirs",
    "tempfile",
}  # fmt: skip
NOT_READING = {"subprocess.PIPE", "subprocess.STDOUT", "subprocess.DEVNULL", "subprocess.TimeoutExpired"}
MAPPINGS = {"environ", "_environ", "environb"}
BUILTIN_READERS = {"dict", "list", "set", "sorted", "tuple", "iter", "any", "all", "max", "min"}


class Touches(ast.NodeVisitor):
    """How a module touches the environment, each way in words, in `found`."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.full: dict[str, str] = {}  # what an imported name stands for

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.used(alias.name)
            self.full[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.level == 0:
                self.full[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                self.used(f"{node.module}.{alias.name}")

    def name_of(self, node: ast.expr) -> str:
        """`os.environ` for that, however `os` or `environ` was imported; empty for what is no name."""
        if isinstance(node, ast.Attribute):
            return f"{self.name_of(node.value)}.{node.attr}"
        return self.full.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def used(self, name: str) -> None:
        """Note a name that is one of READERS, or of what is in one."""
        self.found |= {f"uses {reader}" for reader in READERS if name == reader or name.startswith(f"{reader}.")}

    def visit_Name(self, node: ast.Name) -> None:
        self.used(self.name_of(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.used(self.name_of(node))
        self.generic_visit(node)

    def is_mapping(self, node: ast.expr) -> bool:
        return self.name_of(node).rpartition(".")[2] in MAPPINGS

    def read(self, key: ast.expr) -> None:
        if not (isinstance(key, ast.Constant) and key.value == "PATH"):
            self.found.add(f"reads {ast.unparse(key)}")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self.is_mapping(node.value):
            self.generic_visit(node)
            return
        self.used(self.name_of(node.value))
        if isinstance(node.ctx, ast.Load):
            self.read(node.slice)

    def visit_Compare(self, node: ast.Compare) -> None:
        if self.is_mapping(node.comparators[-1]):
            self.read(node.left)
        else:
            self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.iterated(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.iterated(node.iter)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.iterated(value)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.iterated(node.left)
        self.iterated(node.right)
        self.generic_visit(node)

    def iterated(self, node: ast.expr) -> None:
        if self.is_mapping(node):
            self.found.add("iterates environ")

    def visit_Call(self, node: ast.Call) -> None:
        name = self.name_of(node.func)
        given = {keyword.arg for keyword in node.keywords}
        if isinstance(node.func, ast.Attribute) and self.is_mapping(node.func.value):
            self.used(self.name_of(node.func.value))
            if node.func.attr in ("get", "pop", "setdefault"):
                self.read(node.args[0])
            else:
                self.found.add("iterates environ")
            for argument in node.args[1:]:
                self.visit(argument)
            return
        if name in BUILTIN_READERS:
            for argument in node.args:
                self.iterated(argument)
        if name == "shutil.which" and "path" not in given and len(node.args) < 3:
            self.found.add("shutil.which without path")
        if name.startswith("subprocess.") and "env" not in given and name not in NOT_READING:
            self.found.add(f"{name} without env")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "expanduser":
            self.found.add("expanduser")
        self.generic_visit(node)


def touches_in(text: str) -> set[str]:
    """What a module's text does with the environment."""
    visitor = Touches()
    visitor.visit(ast.parse(text))
    return visitor.found


@pytest.mark.parametrize("module", MODULES)
def test_a_module_touches_the_environment_only_as_the_table_says(module: str) -> None:
    assert touches_in(MODULES[module].read_text(encoding="utf-8")) == set(exceptions(module, "environment"))


@pytest.mark.parametrize(
    ("text", "touch"),
    [
        ("import os\nos.environ['CXX']", "reads 'CXX'"),
        ("import os\nos.environ.get('CXX')", "reads 'CXX'"),
        ("import os as o\no.environ.pop('CXX', None)", "reads 'CXX'"),
        ("import os\n'CXX' in os.environ", "reads 'CXX'"),
        ("from os import environ\nenviron['CXX']", "reads 'CXX'"),
        ("from os import environ as e\ne['CXX']", "reads 'CXX'"),
        ("import os\nos.environb[b'CXX']", "reads b'CXX'"),
        ("def f(environ): return environ['CXX']", "reads 'CXX'"),
        ("def f(self): return self._environ.get('CXX')", "reads 'CXX'"),
        ("def f(environ): return environ['PATH'] + environ[name]", "reads name"),
        ("def f(environ): return environ.get('PATH', environ['HOME'])", "reads 'HOME'"),
        ("import os\nenvironment = dict(os.environ)", "iterates environ"),
        ("import os\nenvironment = {**os.environ}", "iterates environ"),
        ("import os\nenvironment = os.environ | {}", "iterates environ"),
        ("import os\nenvironment = os.environ.copy()", "iterates environ"),
        ("def f(environ): return [n for n in environ if n]", "iterates environ"),
        ("def f(environ):\n for n in environ: print(n)", "iterates environ"),
        ("from pathlib import Path\nPath('~').expanduser()", "expanduser"),
        ("import shutil\nshutil.which('nvcc')", "shutil.which without path"),
        ("from shutil import which\nwhich('nvcc')", "shutil.which without path"),
        ("import subprocess\nsubprocess.run(['nvcc'])", "subprocess.run without env"),
        ("from subprocess import Popen\nPopen(['nvcc'])", "subprocess.Popen without env"),
    ],
)
def test_every_way_to_the_environment_is_seen(text: str, touch: str) -> None:
    assert touch in touches_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "import shutil\nshutil.which('nvcc', path=environ.get('PATH', ''))",
        "def f(environ): return g(environ)",
        "def f(self, environ): self._environ = environ",
        "import subprocess\nsubprocess.run(['nvcc'], env={}, stdin=subprocess.PIPE)",
        "import os\nos.path.join('a', os.sep)",
    ],
)
def test_what_takes_nothing_from_the_environment_is_let_be(text: str) -> None:
    assert touches_in(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "import os\nprint(os.environ)", "import os as o\nprint(o.environ)", "from os import environ\nprint(environ)",
        "import os\nprint(os.environb)", "import os\nos.getenv('CXX')", "from os import getenv as g\ng('CXX')",
        "import os\nos.getenvb(b'CXX')", "import os\nos.get_exec_path()", "import os\nos.path.expandvars('$CXX')",
        "from os.path import expanduser\nexpanduser('~')", "from pathlib import Path\nPath.home()",
        "import pathlib\npathlib.Path.home()", "import os\nos.environ['CXX'] = 'g++'", "import os\nos.environ.clear()",
        "import tempfile\ntempfile.gettempdir()", "from tempfile import mkdtemp\nmkdtemp()",
        "import os\nos.system('nvcc')",
        "import os\nos.popen('nvcc')", "import getpass\ngetpass.getuser()", "import platformdirs\nplatformdirs",
    ],
)  # fmt: skip
def test_what_reads_the_environment_by_itself_is_seen(text: str) -> None:
    assert [touch for touch in touches_in(text) if touch.startswith("uses ")] != []
