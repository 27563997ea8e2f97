"""What a kernel's PTX is counted by: its basic blocks, their instructions by class, and the loops around them.

Threads take turns here, so what a warp does together is put together afterwards: lanes that are in the same block in
the same trips of all the loops around it are one execution of that block by the warp. So lanes that part at a branch
meet again where its sides do, and lanes that leave a loop wait for those still in it, as ptxas lets them do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .ptx_instructions import place_of
from .ptx_loops import find_loops

# Loads, stores and atomics of memory that others see too. A generic address is taken for one of global memory.
_ACCESS = re.compile(
    r"(?P<what>ld|st|atom|red)(?!.*\.(?:param|local|const)\b)(?:\.\w+)*?(?:\.(?P<space>global|shared)(?:\.\w+)*?)?"
    r"(?:\.v(?P<n>[248]))?\.[a-z]+(?P<bits>\d+)"
)
_ACCESSES = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}
_LEAVING = ("bra", "ret", "exit")
_TOGETHER = re.compile(r"(bar|barrier|shfl|vote|match|redux)\b")  # the lanes are there at once
# Of what accesses no such memory, the first that fits is an instruction's class. Most moves are none in SASS.
CLASSES = {
    "branch": r"bra\b|ret\b|exit\b|call\b",
    "barrier": r"bar\b|barrier\b|membar\b|fence\b",
    "exchange": r"shfl\b|vote\b|match\b|redux\b|activemask\b",
    "special": r"(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\b|div\..*f(32|64)$",
    "move": r"mov\b|cvta\b|ld\b|st\b|selp\b",
    "float": r".*\.f(16|32|64)$",
    "integer": r".*",
}


class Statement(NamedTuple):
    """A label or an instruction; empty where there is a brace or a declaration."""

    label: str = ""
    guard: str = ""  # in C++
    opcode: str = ""
    operands: str = ""


class Block(NamedTuple):
    """Instructions of which a lane executes all or none."""

    instructions: Counter[str]  # by class
    accesses: tuple[str, ...]  # classes of those that access memory


class Counted(NamedTuple):
    """A kernel: its blocks, and what must be said to counters.h before some of its statements, by position."""

    blocks: tuple[Block, ...]
    marks: Mapping[int, str]


def class_of(opcode: str) -> str:
    """Of an instruction, from its name."""
    if access := _ACCESS.fullmatch(opcode):
        return f"{access['space'] or 'global'} {_ACCESSES[access['what']]}"
    return next(name for name, pattern in CLASSES.items() if re.match(pattern, opcode))


def count(statements: Sequence[Statement], names: Mapping[str, str]) -> Counted:
    """How to count a kernel.

    Args:
        statements: all of them.
        names: what stands for the names of variables, as in ptx_instructions.statement.

    Raises:
        UnknownInstruction: there is a loop that is entered in two places.
    """
    leaders = _leaders(statements)
    spans = [range(*span) for span in zip(leaders, [*leaders[1:], len(statements)], strict=True)]
    blocks = tuple(_block(statements[span.start : span.stop]) for span in spans)
    marks = {span.start: text for span, text in zip(spans, _visits(statements, spans, blocks), strict=True)}
    for span in spans:
        index = 0
        for position in span:
            statement, text = statements[position], ""
            if access := _ACCESS.fullmatch(statement.opcode):
                text, index = _access(access, statement.operands, index, names), index + 1
            elif statement.opcode.startswith("bra") and statement.guard:
                text = "simt::count_taken();"
            if text:
                guarded = f"if ({statement.guard}) {text}" if statement.guard else text
                marks[position] = f"{marks[position]} {guarded}" if position in marks else guarded
    return Counted(blocks, marks)


def _leaders(statements: Sequence[Statement]) -> list[int]:
    """Where blocks begin: at the start, behind labels, branches, and what the lanes do together."""
    found = {0}
    for position, (label, _, opcode, _) in enumerate(statements):
        if label or opcode.startswith(_LEAVING) or _TOGETHER.match(opcode):
            found.add(position + 1)
    return sorted(position for position in found if position < len(statements))


def _block(statements: Sequence[Statement]) -> Block:
    classes = [class_of(each.opcode) for each in statements if each.opcode]
    return Block(Counter(classes), tuple(name for name in classes if name.endswith(tuple(_ACCESSES.values()))))


def _visits(statements: Sequence[Statement], spans: Sequence[range], blocks: Sequence[Block]) -> list[str]:
    """What is said at the start of each block: in which trips of which loops this is."""
    parents, innermost = find_loops(_following(statements, spans))
    variables = "".join(f" uint64_t path_{each} = 0, trip_{each} = 0;" for each in parents)
    found, site = [f"uint64_t path_None = simt::count_entry();{variables}"], 0
    for number, block in enumerate(blocks):
        text, loop = "", innermost[number]
        if loop == number:
            inner = "".join(f" trip_{each} = 0;" for each, parent in parents.items() if parent == loop)
            text = f"path_{loop} = simt::count_trip(path_{parents[loop]}, {loop}, ++trip_{loop});{inner} "
        text += f"simt::count_visit(path_{loop} + {number}, {number}, {site}, {len(block.accesses)});"
        found.append(text)
        site += len(block.accesses)
    return [f"{found[0]} {found[1]}", *found[2:]]


def _following(statements: Sequence[Statement], spans: Sequence[range]) -> list[set[int]]:
    """Of each block, those that may follow it; its last statement decides."""
    numbers = {span.start: number for number, span in enumerate(spans)}
    labels = {statement.label: position for position, statement in enumerate(statements) if statement.label}
    found = []
    for span in spans:
        last, others = statements[span.stop - 1], set()
        if last.opcode.startswith("bra"):
            others.add(numbers[labels[last.operands.strip()] + 1])
        if span.stop in numbers and (last.guard or not last.opcode.startswith(_LEAVING)):
            others.add(numbers[span.stop])
        found.append(others)
    return found


def _access(access: re.Match[str], operands: str, index: int, names: Mapping[str, str]) -> str:
    space, write = access["space"] or "global", "false" if access["what"] == "ld" else "true"
    size = int(access["bits"]) // 8 * int(access["n"] or 1)
    place = place_of(operands, space, names)
    return f"simt::count_access({index}, {place}, {size}, simt::Space::k{space.title()}, {write});"
