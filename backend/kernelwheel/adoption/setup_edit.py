"""A setup.py without its extensions: an edit of its text that takes out what only they need, and keeps the rest."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Methods that change a list or a dictionary, and do nothing else.
_CHANGING = {"append", "extend", "insert", "update", "setdefault", "add"}
# The end of a line behind an item of a list in several lines, or behind a statement.
_ITEM_END = re.compile(rb"[ \t]*,?[ \t]*(#[^\n]*)?(\r?\n)")
_LINE_END = re.compile(rb"[ \t]*(#[^\n]*)?(\r?\n|$)")
_ELSE = re.compile(rb"[\s)]*else\b\s*")
_BLANK_LINES = re.compile(rb"([ \t]*\r?\n)+")


def without_extensions(
    source: bytes, torch_commands: Mapping[str, bool], instead: bytes = b"", whole_blocks: bool = False
) -> bytes:
    """A setup.py's text without `ext_modules`, the commands that are torch's own, and what only these use.

    Statements, imports and entries of lists go, and what is given if there are extensions; every other byte stays.
    Whether the result does the same otherwise, its run must show.

    `torch_commands` are the names of the commands in `cmdclass`, and whether each is torch's own class; `instead` is
    the argument to give in place of `ext_modules`, if one is to be. With `whole_blocks`, a block that makes extensions
    goes with all that it does besides, such as checks of the toolkit, if nothing else uses its names.

    Raises:
        ValueError: it is not certain what to take out; says why.
    """
    tree = ast.parse(source)
    if tokenize.detect_encoding(io.BytesIO(source).readline)[0] != "utf-8" or re.search(rb"\r(?!\n)", source):
        raise ValueError("its text is not UTF-8, or its lines end in CR")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node.func) == "setup"]
    if len(calls) != 1:
        raise ValueError(f"it has {len(calls)} calls of setup()")
    unused = _Unused(tree, calls[0], [*_arguments(calls[0], torch_commands)], whole_blocks)
    return _cut(source, tree, unused.found(), instead)


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _arguments(call: ast.Call, torch_commands: Mapping[str, bool]) -> Iterator[ast.AST]:
    """What goes of a call of setup(); torch's commands stay if they are among others, and not in plain sight."""
    modules = [getattr(each.value, "id", None) for each in call.keywords if each.arg == "ext_modules"]
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg == "ext_modules" or (keyword.arg == "cmdclass" and all(torch_commands.values())):
            yield keyword
            continue
        if isinstance(value, ast.IfExp) and isinstance(value.test, ast.Name) and value.test.id in modules:
            yield from (value.body, value.test)
            value = value.orelse
        if keyword.arg == "cmdclass" and isinstance(value, ast.Dict):
            for key, kind in _pairs(value):
                if torch_commands.get(getattr(key, "value", "")):
                    yield from (key, kind)


@dataclass
class _Unused:
    """The search for what nothing uses any more once some arguments of setup() are gone.

    Names are taken by their spelling, whatever their scope: one that is also used elsewhere stays.
    """

    tree: ast.Module
    call: ast.Call
    arguments: list[ast.AST]
    whole_blocks: bool
    _gone: set[ast.AST] = field(default_factory=set)

    def found(self) -> set[ast.AST]:
        """The arguments, and the statements and imports that only these use."""
        gone = self._search()
        if not self.whole_blocks:
            return gone
        blocks = [each for each in self.tree.body if isinstance(each, _COMPOUND) and gone & {*ast.walk(each)}]
        self.arguments += (each for each in blocks if self.call not in ast.walk(each))
        gone = self._search()
        if used := {*_given(self.arguments)} & {name for each in self.tree.body for name in _used(each, gone)}:
            raise ValueError(f"what makes its extensions also gives {', '.join(sorted(used))} their values")
        return gone

    def _search(self) -> set[ast.AST]:
        """Those arguments and statements, and what only they use."""
        self._gone = {*self.arguments}
        while True:
            dead = set(_loaded(self._gone))
            while True:  # until all uses of these names are in what would go
                more = {*self.arguments, *self._removable(self.tree.body, dead)}
                alive = dead & set(_loaded([self.tree], more))
                if not alive:
                    break
                dead -= alive
            if more == self._gone:
                return more
            self._gone = more

    def _removable(self, block: Iterable[ast.stmt], dead: Collection[str]) -> Iterator[ast.AST]:
        for statement in block:
            if statement in self.arguments:
                yield statement
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = [each for each in statement.names if _bound(each) in dead]
                yield from [statement] if len(names) == len(statement.names) else names
            elif any(node is self.call for node in ast.walk(statement)):
                for inner in _blocks(statement):
                    yield from self._removable(inner, dead)
            elif isinstance(statement, _COMPOUND):
                inside = [each for inner in _blocks(statement) for each in inner if not isinstance(each, ast.Pass)]
                parts = [each for inner in _blocks(statement) for each in self._removable(inner, dead)]
                yield from [statement] if inside and {*inside} <= {*parts} else parts
            elif self._is_about(statement, dead):
                yield statement

    def _is_about(self, statement: ast.stmt, dead: Collection[str]) -> bool:
        """Whether a simple statement or a definition does nothing but give these names their values."""
        if isinstance(statement, _DEFINITIONS):
            return statement.name in dead
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
            targets = [statement.target]
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function = statement.value.func
            return (
                isinstance(function, ast.Attribute)
                and function.attr in _CHANGING
                and self._is_variable(function.value, dead)
            )
        flat = [inner for each in targets for inner in (each.elts if isinstance(each, ast.Tuple) else [each])]
        return bool(flat) and all(
            (isinstance(each, ast.Name) and each.id in dead)
            or (isinstance(each, ast.Subscript) and self._is_variable(each.value, dead))
            for each in flat
        )

    def _is_variable(self, node: ast.expr, dead: Collection[str]) -> bool:
        """Whether this is a dead name, or an item of what it names, and the name is of a value of this file."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in dead:
            return False
        return not any(isinstance(each, ast.alias) and _bound(each) == node.id for each in ast.walk(self.tree))


def _bound(name: ast.alias) -> str:
    return name.asname or name.name.partition(".")[0]


def _blocks(statement: ast.stmt | ast.Module) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _loaded(nodes: Iterable[ast.AST], without: Collection[ast.AST] = ()) -> Iterator[str]:
    """The names that are used in some nodes, but for what is below others."""
    for node in nodes:
        if node in without:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names
        yield from _loaded(ast.iter_child_nodes(node), without)


def _used(statement: ast.stmt, without: Collection[ast.AST]) -> set[str]:
    """The names of a module that one of its statements uses: not the variables of a function."""
    own = {*_given([statement])} if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) else set()
    shared = {name for each in ast.walk(statement) if isinstance(each, ast.Global) for name in each.names}
    return {*_loaded([statement], without)} - (own - shared)


def _given(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that get a value in some nodes."""
    for node in (inner for each in nodes for inner in ast.walk(each)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.alias, *_DEFINITIONS)):
            yield _bound(node) if isinstance(node, ast.alias) else node.name


def _cut(source: bytes, tree: ast.Module, gone: set[ast.AST], instead: bytes) -> bytes:
    """The text without some nodes, which must be on lines of their own."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    entries = {pair[0]: pair[1] for each in ast.walk(tree) if isinstance(each, ast.Dict) for pair in _pairs(each)}
    choices: dict[ast.AST, ast.IfExp] = {each.body: each for each in ast.walk(tree) if isinstance(each, ast.IfExp)}
    entries |= {body: each.test for body, each in choices.items()}
    blocks = [block for each in ast.walk(tree) if isinstance(each, (ast.stmt, ast.Module)) for block in _blocks(each)]
    emptied = {block[0] for block in blocks if block and all(each in gone for each in block)}
    cuts = [
        (each, _place(choices.get(each, each), entries.get(each, each), starts)) for each in gone - {*entries.values()}
    ]
    for node, (start, end) in sorted(cuts, key=lambda cut: -cut[1][0]):
        if isinstance(node, ast.stmt):
            source = _without_lines(source, start, end, node in emptied)
        elif instead and isinstance(node, ast.keyword) and node.arg == "ext_modules":
            source = source[:start] + instead + source[end:]
        elif node in choices:
            if not (rest := _ELSE.match(source, end)):
                raise ValueError("what setup() gets if there are extensions has a comment in it")
            source = source[:start] + source[rest.end() :]
        else:
            source = _without_item(source, start, end)
    return source


def _pairs(node: ast.Dict) -> Iterator[tuple[ast.AST, ast.AST]]:
    return ((key, value) for key, value in zip(node.keys, node.values, strict=True) if key)


def _place(first: ast.AST, last: ast.AST, starts: list[int]) -> tuple[int, int]:
    """Where a node begins and ends, in bytes; a definition begins with its decorators."""
    line = min(getattr(node, "lineno", 0) for node in (first, *getattr(first, "decorator_list", [])))
    column, last_line, last_column = first.col_offset, last.end_lineno, last.end_col_offset  # type: ignore[attr-defined]
    return starts[line - 1] + column, starts[last_line - 1] + last_column


def _without_item(source: bytes, start: int, end: int) -> bytes:
    """The text without an item of a list with commas: with its line, the comma behind it, or the one before it."""
    line = source.rfind(b"\n", 0, start) + 1
    rest = _ITEM_END.match(source, end)
    if rest and not source[line:start].strip():
        return source[:line] + source[rest.end() :]
    behind = re.compile(rb"[ \t]*,[ \t]*").match(source, end)
    before = re.search(rb",[ \t]*\Z", source[line:start])
    if before and (not behind or _LINE_END.match(source, behind.end())):
        return source[: line + before.start()] + source[end:]
    return source[:start] + source[behind.end() if behind else end :]


def _without_lines(source: bytes, start: int, end: int, needs_pass: bool) -> bytes:
    """The text without the lines of a statement, which must have nothing else."""
    line = source.rfind(b"\n", 0, start) + 1
    rest = _LINE_END.match(source, end)
    if source[line:start].strip() or not rest:
        raise ValueError("what only its extensions use shares a line with something else")
    if needs_pass and not source.startswith(b"elif", start):
        return source[:start] + b"pass" + (rest[2] or b"") + source[rest.end() :]
    blank = _BLANK_LINES.match(source, rest.end())
    above_is_blank = not source[source.rfind(b"\n", 0, max(line - 1, 0)) + 1 : line].strip()
    return source[:line] + source[blank.end() if blank and above_is_blank else rest.end() :]
