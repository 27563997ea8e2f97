"""The SASS instructions in each part of a rasterizer's loops, read from a disassembly.

A part is named as the count in model_counts.Trips that says how often a warp goes through it:

- `steps`: the innermost loop that computes exponentials (MUFU.EX2);
- `tests`: the loop around it, where there is one; `batches`: the next one outwards, with the barriers;
- `stagings`: what writes to shared memory (STS) in a batch, a loop or a branch;
- `exponentials`: the branch of a step around the exponential; without one it belongs to the step;
- `visible` (forward): the branch of a step around the sums of the colours (FFMA);
- `blending` (backward): the branch of a step around the sums over the warp (SHFL);
- `warps`: all that is outside of the batches.

Left out is what the model's scenes do not execute: code after the kernel's last instruction, which is functions and
rare cases; branches with a call, for operands that a division does not meet here; branches around other loops outside
of the batches, which are for backgrounds; and absolute gradients: the branches within `blending` that exchange values,
and those with atomics within one that has others. A predicated instruction is issued whatever its predicate is, and
counts.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kernel_resources import find_cuobjdump

LEFT_OUT = "left out"


class Instruction(NamedTuple):
    """One line of a disassembly."""

    address: int
    always: bool  # no predicate
    opcode: str  # with its modifiers
    operands: str


class Span(NamedTuple):
    """Addresses [begin, end): a loop, or what a forward branch skips."""

    begin: int
    end: int

    def holds(self, other: Span) -> bool:
        """Whether the other span lies within this one, and is another one."""
        return self != other and self.begin <= other.begin and other.end <= self.end


class Shape(NamedTuple):
    """What a kernel's loops look like."""

    backward: bool
    tests: bool


def disassemble(file: Path, architecture: str, kernels: Sequence[str]) -> dict[str, list[Instruction]]:
    """The code of the kernels whose mangled names contain these words.

    Raises:
        SystemExit: the file has not exactly one kernel for a word.
    """
    command = [find_cuobjdump(), "--dump-sass", "--gpu-architecture", architecture, str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    functions = dict(part.split("\n", 1) for part in text.split("Function : ")[1:])
    found = {}
    for word in kernels:
        names = [name for name in functions if word in name]
        if len(names) != 1:
            raise SystemExit(f"required: one kernel named {word} for {architecture} in {file}; found: {len(names)}")
        found[word] = parse(functions[names[0]])
    return found


def parse(text: str) -> list[Instruction]:
    """The instructions of one function, up to the first EXIT without a condition."""
    code = []
    for match in re.finditer(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);", text):
        instruction = Instruction(int(match[1], 16), match[2] is None, match[3], match[4].strip())
        code.append(instruction)
        if instruction.opcode == "EXIT" and instruction.always:
            return code
    raise SystemExit("required: a disassembly with an EXIT; found: none")


def instructions(code: Sequence[Instruction], shape: Shape) -> Counter[str]:
    """The number of instructions of each part.

    Raises:
        SystemExit: a part is missing, so that the rules above do not fit the kernel.
    """
    parts = find_parts(code, shape)
    return Counter(_innermost(instruction, parts) for instruction in code)


def find_parts(code: Sequence[Instruction], shape: Shape) -> list[tuple[Span, str]]:
    """The spans that the rules name."""
    loops, branches = find_loops(code), find_branches(code)

    def count(span: Span, opcode: str) -> int:
        return sum(i.opcode.startswith(opcode) for i in code if span.begin <= i.address < span.end)

    def one(name: str, spans: Sequence[Span], choose: Callable[[Sequence[Span]], Span]) -> Span:
        if not spans:
            raise SystemExit(
                f"model_sass.py's rules do not fit the kernel's code: it has nothing that could be {name!r}"
            )
        return choose(spans)

    steps = one("steps", [loop for loop in loops if count(loop, "MUFU.EX2")], _smallest)
    around = sorted((loop for loop in loops if loop.holds(steps)), key=_size)
    tests = [one("tests", around[:1], _smallest)] if shape.tests else []
    batches = one("batches", [loop for loop in around[len(tests) :] if count(loop, "BAR")], _smallest)
    parts = [(steps, "steps"), (batches, "batches"), *((loop, "tests") for loop in tests)]

    def apart(spans: Sequence[Span]) -> list[Span]:
        return [span for span in spans if not any(span.holds(known) or span == known for known, _ in parts)]

    in_batches = [span for span in apart([*loops, *branches]) if batches.holds(span) and count(span, "STS")]
    parts.append((one("stagings", in_batches, _largest), "stagings"))
    in_steps = [branch for branch in branches if steps.holds(branch)]
    if computing := [branch for branch in in_steps if count(branch, "MUFU.EX2")]:
        parts.append((_smallest(computing), "exponentials"))
    if shape.backward:
        blending = one("blending", [branch for branch in in_steps if count(branch, "SHFL")], _largest)
        parts.append((blending, "blending"))
        within = [branch for branch in in_steps if blending.holds(branch)]
        atomics = [branch for branch in within if count(branch, "RED")]
        parts += [(branch, LEFT_OUT) for branch in within if count(branch, "SHFL")]
        parts += [(inner, LEFT_OUT) for inner in atomics if any(outer.holds(inner) for outer in atomics)]
    else:
        sums = [branch for branch in in_steps if count(branch, "FFMA") >= 3 and not count(branch, "MUFU.EX2")]
        parts.append((one("visible", sums, _largest), "visible"))
    for instruction in code:
        calling = [branch for branch in branches if branch.begin <= instruction.address < branch.end]
        if instruction.opcode.startswith("CALL") and calling:
            parts.append((_smallest(calling), LEFT_OUT))
    others = [loop for loop in apart(loops) if not batches.holds(loop)]
    parts += [(span, LEFT_OUT) for span in apart(branches) if any(span.holds(loop) for loop in others)]
    return parts


def find_loops(code: Sequence[Instruction]) -> list[Span]:
    """From where a branch goes back to, up to the branch."""
    ends: dict[int, int] = {}
    for instruction in code:
        target = _target(instruction)
        if target is not None and target < instruction.address:
            ends[target] = max(ends.get(target, 0), instruction.address + 1)
    return [Span(begin, end) for begin, end in ends.items()]


def find_branches(code: Sequence[Instruction]) -> list[Span]:
    """What a branch forward skips; one out of a loop skips nothing of what the loop's next trip does."""
    loops, found = find_loops(code), []
    for instruction in code:
        target = _target(instruction)
        if target is None or target <= instruction.address:
            continue
        within = [loop for loop in loops if loop.begin <= instruction.address < loop.end]
        if all(target < loop.end for loop in within):
            found.append(Span(instruction.address + 1, target))
    return found


def _target(instruction: Instruction) -> int | None:
    match = re.search(r"0x([0-9a-f]+)$", instruction.operands) if instruction.opcode.split(".")[0] == "BRA" else None
    return int(match[1], 16) if match else None


def _innermost(instruction: Instruction, parts: Sequence[tuple[Span, str]]) -> str:
    around = [(_size(span), name) for span, name in parts if span.begin <= instruction.address < span.end]
    return min(around)[1] if around else "warps"


def _size(span: Span) -> int:
    return span.end - span.begin


def _smallest(spans: Sequence[Span]) -> Span:
    return min(spans, key=_size)


def _largest(spans: Sequence[Span]) -> Span:
    return max(spans, key=_size)
