"""Whether a `build_ext` of a setup.py only reports on the build: prints, counts, measures time, sets how many jobs.

A build by kernelwheel loses nothing without such a class. What is not certain to be one counts as doing more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_FUNCTIONS = {
    "abs", "any", "bool", "divmod", "enumerate", "float", "format", "getattr", "hasattr", "id", "int", "isinstance",
    "len", "list", "max", "min", "print", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum",
    "super", "tqdm", "tuple", "type", "zip",
}  # fmt: skip
_MODULES = ("time.", "datetime.", "logging.", "log.", "logger.", "warnings.", "platform.", "multiprocessing.")
_ASKED = (
    "sys.stdout.", "sys.stderr.", "os.path.", "os.getenv", "os.environ.get", "os.cpu_count", "os.sched_getaffinity",
    "torch.cuda.", "torch.version.", "self.announce", "self.warn", "self.debug_print", "self.get_ext_", "tqdm.",
)  # fmt: skip
# Attributes of the command that decide what is built.
_DECIDING = {
    "compiler", "include_dirs", "define", "undef", "libraries", "library_dirs", "rpath", "link_objects", "debug",
    "extensions", "ext_map", "distribution", "build_lib", "build_temp", "inplace", "plat_name",
}  # fmt: skip
_JOBS = {"MAX_JOBS", "NINJA_STATUS", "VERBOSE", "CMAKE_BUILD_PARALLEL_LEVEL"}
_NOT_QUIET = (ast.ClassDef, ast.Lambda, ast.Await, ast.Delete, ast.Break, ast.Continue, ast.NamedExpr)
_LIBRARY_S = {"BuildExtension", "build_ext"}  # torch's and setuptools' classes


def only_reports(source: bytes, name: str) -> bool:
    """Whether the class of that name in a setup.py is a `build_ext` that only reports."""
    classes = {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
    return _is_quiet_class(name.rpartition(".")[2], classes)


def _is_quiet_class(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    if name in _LIBRARY_S:
        return True
    node = classes.get(name)
    if node is None or node.decorator_list or len(node.bases) != 1:
        return False
    base = _dotted(node.bases[0]).rpartition(".")[2]
    others = {key: each for key, each in classes.items() if key != name}
    return _is_quiet_class(base, others) and all(_is_quiet_member(each, base) for each in node.body)


def _is_quiet_member(member: ast.stmt, base: str) -> bool:
    if isinstance(member, ast.FunctionDef):
        # What the class takes over from setuptools must still be done, each time.
        own = member.name.startswith("_") and member.name != "__init__"
        return (
            not member.decorator_list and _is_quiet(member, base) and (own or _goes_on(member.body, member.name, base))
        )
    return isinstance(member, ast.Pass) or (isinstance(member, ast.Expr) and isinstance(member.value, ast.Constant))


def _goes_on(block: list[ast.stmt], method: str, base: str) -> bool:
    """Whether the base class's method is called on every way through a block."""
    for statement in block:
        if isinstance(statement, ast.If):
            if statement.orelse and all(_goes_on(each, method, base) for each in (statement.body, statement.orelse)):
                return True
        elif isinstance(statement, (ast.With, ast.Try)):
            if _goes_on(statement.body, method, base):
                return True
        elif isinstance(statement, ast.For):
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            if method == "build_extensions" and any(_dotted(each.func) == "self.build_extension" for each in calls):
                return "self.extensions" in ast.unparse(statement.iter) and not _contains(statement, ast.If)
        elif any(_is_base_s(node, base, method) for node in ast.walk(statement) if isinstance(node, ast.Call)):
            return not isinstance(statement, ast.FunctionDef)
        elif isinstance(statement, ast.Return):
            return False
    return False


def _is_quiet(function: ast.FunctionDef, base: str) -> bool:
    """Whether a function, with those inside it, changes nothing but its own variables and what reports need."""
    given = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own -= given
    inner = {node.name for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function}
    names = own | inner
    return all(_is_quiet_node(node, base, own, names) for node in ast.walk(function) if node is not function)


def _is_quiet_node(node: ast.AST, base: str, own: set[str], names: set[str]) -> bool:
    """Whether one node of a function may stand in it; `own` are its variables, `names` these and its functions."""
    if isinstance(node, ast.ExceptHandler):  # no error gets lost
        return isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
    if isinstance(node, ast.Call):
        return _is_quiet_call(node, names) or _is_base_s(node, base)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)):
        return all(_is_quiet_target(each, own, node, names - own) for each in _targets(node))
    if isinstance(node, ast.Return):
        return _is_passed_on(node.value, base)
    return not isinstance(node, _NOT_QUIET) and not (isinstance(node, ast.Raise) and node.exc is not None)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
    for each in targets:
        yield from each.elts if isinstance(each, ast.Tuple) else [each]


def _is_quiet_target(target: ast.expr, own: set[str], node: ast.AST, inner: set[str]) -> bool:
    if isinstance(target, ast.Name):
        return target.id in own
    if isinstance(target, ast.Subscript):
        key = target.slice
        return _dotted(target.value) == "os.environ" and isinstance(key, ast.Constant) and key.value in _JOBS
    name = _dotted(target)
    if name.startswith("self.compiler.") and isinstance(node, ast.Assign):  # a function around the compiler's own
        return isinstance(node.value, ast.Name) and node.value.id in inner
    return name.count(".") == 1 and name.startswith("self.") and name.removeprefix("self.") not in _DECIDING


def _is_quiet_call(call: ast.Call, own: set[str]) -> bool:
    name = _dotted(call.func)
    if name in _FUNCTIONS or name.startswith((*_MODULES, *_ASKED)):
        return True
    if name in own:  # a function that was there before, with what its caller gave
        return _passes_arguments(call)
    if name == "self.build_extension":
        return _passes_arguments(call)
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, (ast.Constant, ast.JoinedStr)):
        return True  # of a text
    return name.partition(".")[0] in own  # of something made here, such as a bar of progress


def _is_base_s(call: ast.Call, base: str, method: str = "") -> bool:
    """Whether a call is of a method of the base class, with what this one was given."""
    function = call.func
    if not isinstance(function, ast.Attribute) or (method and function.attr != method):
        return False
    owner = function.value
    is_super = isinstance(owner, ast.Call) and _dotted(owner.func) == "super"
    return (is_super or _dotted(owner).rpartition(".")[2] == base) and _passes_arguments(call)


def _passes_arguments(call: ast.Call) -> bool:
    plain = (ast.Name, ast.Constant)
    values = [*call.args, *(each.value for each in call.keywords)]
    return all(isinstance(each.value if isinstance(each, ast.Starred) else each, plain) for each in values)


def _is_passed_on(value: ast.expr | None, base: str) -> bool:
    if isinstance(value, ast.Call):
        return _is_base_s(value, base) or (isinstance(value.func, ast.Name) and _passes_arguments(value))
    return value is None or isinstance(value, (ast.Constant, ast.Name))


def _contains(statement: ast.AST, kind: type[ast.AST]) -> bool:
    return any(isinstance(node, kind) for node in ast.walk(statement))


def _dotted(node: ast.AST) -> str:
    """A name with its attributes, `self.compiler.spawn`; empty for anything else."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""
