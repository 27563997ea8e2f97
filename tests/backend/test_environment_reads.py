"""No module takes an option from the environment behind the registry's back: whatever touches it is listed here."""

from __future__ import annotations

import ast
from pathlib import Path

import kernelwheel
import pytest

MODULES = sorted(Path(kernelwheel.__path__[0]).rglob("*.py"))

# What each module does with the environment, and why no option is taken from it there. Nothing else may: an option
# belongs into the registry, and another variable comes as a value, or in the mapping `environ` of an argument.
# PATH, read from such a mapping, is where programs are looked for.
ALLOWED = {
    "variables.py": {"reads variable": "the one reader of options; their names are the registry's"},
    "settings.py": {
        "reads name": "the registry's own names, as they are set, to be shown",
        "reads variable": "shows what a misspelled variable says",
        "iterates environ": "looks for misspelled variables",
    },
    "hooks.py": {
        "os.environ": "hands it to the registry, and to the finder for PATH",
        "tempfile.TemporaryDirectory": "scratch folders; where they are decides nothing",
    },
    "explain.py": {"os.environ": "hands it to the finder of nvcc for PATH; the options come as Settings"},
    "kernels.py": {"os.environ": "the default of the argument that goes to the registry"},
    "jit.py": {"os.environ": "hands it to the finder for PATH; the options come as Settings"},
    "cmake_build.py": {
        "reads name": "PASSED_ON, a list of its own: what a compiler may see, none of it an option",
        "os.environ": "hands it to the launchers, which take a list of their own",
        "tempfile.gettempdir": "where a launcher's server works, and for an error",
    },
    "work_folder.py": {
        "tempfile.gettempdir": "where to compile without a cache; the path is no part of a Plan",
        "tempfile.mkdtemp": "below gettempdir",
    },
    "compile.py": {"tempfile.gettempdir": "as in work_folder.py, for an error"},
    "launchers.py": {"iterates environ": "what a launcher may see: a list of its own, none of it an option"},
    "cmake_driver.py": {
        "os.environ": "the environment that cmake_build.py made for it goes on to CMake",
        "iterates environ": "as a whole",
    },
    "programs.py": {
        "subprocess.run without env": "a program that is asked what it is; the answer is in the Plan",
        "reads name": "puts back what `variable_set` changed for setuptools and wheel",
    },
    "readback.py": {"subprocess.run without env": "cuobjdump, which has no options there"},
    "places.py": {"platformdirs.user_cache_path": "the user's cache folder (XDG_CACHE_HOME), where cache-dir is empty"},
    "installation.py": {
        "reads name": "what doctor shows of variables that are no options",
        "reads 'LD_LIBRARY_PATH'": "doctor: what it makes the loader find",
    },
}

# By full name: what reads the environment by itself.
READERS = {
    "os.environ", "os.environb", "os.getenv", "os.getenvb", "os.get_exec_path", "os.path.expanduser",
    "os.path.expandvars", "os.system", "os.popen", "pathlib.Path.home",
}  # fmt: skip
READING_MODULES = ("tempfile.", "platformdirs.", "getpass.", "os.exec", "os.spawn", "os.posix_spawn")
READING_METHODS = {"expanduser"}
NOT_READING = {"subprocess.PIPE", "subprocess.STDOUT", "subprocess.DEVNULL", "subprocess.TimeoutExpired"}
MAPPINGS = {"environ", "_environ", "environb"}
BUILTIN_READERS = {"dict", "list", "set", "sorted", "tuple", "iter", "any", "all", "max", "min"}


class Touches(ast.NodeVisitor):
    """What a module does with the environment, each in words, in `found`."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.full: dict[str, str] = {}  # what an imported name stands for

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.full[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.level == 0:
                self.full[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def name_of(self, node: ast.expr) -> str:
        """`os.environ` for that, however `os` or `environ` was imported; empty for what is no name."""
        if isinstance(node, ast.Attribute):
            return f"{self.name_of(node.value)}.{node.attr}"
        return self.full.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def is_mapping(self, node: ast.expr) -> bool:
        return self.name_of(node).rpartition(".")[2] in MAPPINGS

    def read(self, key: ast.expr) -> None:
        if not (isinstance(key, ast.Constant) and key.value == "PATH"):
            self.found.add(f"reads {ast.unparse(key)}")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self.is_mapping(node.value):
            self.generic_visit(node)
        elif isinstance(node.ctx, ast.Load):
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
        if isinstance(node.func, ast.Attribute) and node.func.attr in READING_METHODS:
            self.found.add(node.func.attr)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.named(node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.named(node)

    def named(self, node: ast.expr) -> None:
        name = self.name_of(node)
        if name in READERS or name.startswith(READING_MODULES):
            self.found.add(name)


def touches_in(text: str) -> set[str]:
    """What a module's text does with the environment."""
    visitor = Touches()
    visitor.visit(ast.parse(text))
    return visitor.found


@pytest.mark.parametrize("module", [pytest.param(module, id=module.name) for module in MODULES])
def test_a_module_touches_the_environment_only_as_the_list_says(module: Path) -> None:
    assert touches_in(module.read_text(encoding="utf-8")) == set(ALLOWED.get(module.name, {}))


def test_the_list_names_modules_that_are_there_and_gives_reasons() -> None:
    assert set(ALLOWED) <= {module.name for module in MODULES}
    assert all(reason for touches in ALLOWED.values() for reason in touches.values())


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
        ("import os\ng(os.environ)", "os.environ"),
        ("import os\ne = os.environ", "os.environ"),
        ("import os\nos.getenv('CXX')", "os.getenv"),
        ("from os import getenv as g\ng('CXX')", "os.getenv"),
        ("import os\nos.getenvb(b'CXX')", "os.getenvb"),
        ("import os\nos.path.expandvars('$CXX')", "os.path.expandvars"),
        ("from os.path import expanduser\nexpanduser('~')", "os.path.expanduser"),
        ("from pathlib import Path\nPath('~').expanduser()", "expanduser"),
        ("from pathlib import Path\nPath.home()", "pathlib.Path.home"),
        ("import shutil\nshutil.which('nvcc')", "shutil.which without path"),
        ("from shutil import which\nwhich('nvcc')", "shutil.which without path"),
        ("import tempfile\ntempfile.gettempdir()", "tempfile.gettempdir"),
        ("from tempfile import mkdtemp\nmkdtemp()", "tempfile.mkdtemp"),
        ("import subprocess\nsubprocess.run(['nvcc'])", "subprocess.run without env"),
        ("from subprocess import Popen\nPopen(['nvcc'])", "subprocess.Popen without env"),
        ("import os\nos.system('nvcc')", "os.system"),
        ("import getpass\ngetpass.getuser()", "getpass.getuser"),
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
