"""Reading a kernel's SASS: its loops, what its branches skip, and the instructions of the parts that rules name.

A part is a span of addresses; an instruction belongs to the smallest part that holds it, and to `warps` if none does. A
predicated instruction is issued whatever its predicate is, and counts.
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

    @property
    def target(self) -> int | None:
        """Where a branch leads to."""
        match = re.search(r"0x([0-9a-f]+)$", self.operands) if self.opcode.split(".")[0] == "BRA" else None
        return int(match[1], 16) if match else None


class Span(NamedTuple):
    """Addresses [begin, end): a loop, or what a forward branch skips."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.end - self.begin

    def holds(self, other: Span) -> bool:
        """Whether the other span lies within this one, and is another one."""
        return self != other and self.begin <= other.begin and other.end <= self.end


Part = tuple[Span, str]


class Kernel(NamedTuple):
    """A kernel's code up to its first EXIT without a condition; functions and rare cases stand behind it."""

    code: list[Instruction]
    loops: list[Span]
    branches: list[Span]  # what is skipped

    def number(self, span: Span, opcode: str) -> int:
        """The instructions of a span whose opcode begins so."""
        return sum(i.opcode.startswith(opcode) for i in self.code if span.begin <= i.address < span.end)

    def those_with(self, opcode: str, spans: Sequence[Span]) -> list[Span]:
        """The spans that have such an instruction."""
        return [span for span in spans if self.number(span, opcode)]

    def calls(self) -> list[Part]:
        """The branches around calls, for operands that a division does not meet here."""
        found = []
        for instruction in self.code:
            around = [branch for branch in self.branches if branch.begin <= instruction.address < branch.end]
            if instruction.opcode.startswith("CALL") and around:
                found.append((smallest(around), LEFT_OUT))
        return found

    def instructions(self, parts: Sequence[Part]) -> Counter[str]:
        """How many each part has."""
        found: Counter[str] = Counter()
        for instruction in self.code:
            around = [(span.size, name) for span, name in parts if span.begin <= instruction.address < span.end]
            found[min(around)[1] if around else "warps"] += 1
        return found


def smallest(spans: Sequence[Span]) -> Span:
    """By addresses."""
    return min(spans, key=lambda span: span.size)


def largest(spans: Sequence[Span]) -> Span:
    """By addresses."""
    return max(spans, key=lambda span: span.size)


def one(name: str, spans: Sequence[Span], choose: Callable[[Sequence[Span]], Span]) -> Span:
    """The span that a rule finds.

    Raises:
        SystemExit: it finds none.
    """
    if not spans:
        raise SystemExit(f"the model's rules do not fit the kernel's code: it has nothing that could be {name!r}")
    return choose(spans)


def disassemble(file: Path, architecture: str, kernels: Sequence[str]) -> dict[str, Kernel]:
    """The kernels whose mangled names contain these words.

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


def parse(text: str) -> Kernel:
    """One function."""
    code = []
    for match in re.finditer(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);", text):
        instruction = Instruction(int(match[1], 16), match[2] is None, match[3], match[4].strip())
        code.append(instruction)
        if instruction.opcode == "EXIT" and instruction.always:
            return Kernel(code, find_loops(code), find_branches(code))
    raise SystemExit("required: a disassembly with an EXIT; found: none")


def find_loops(code: Sequence[Instruction]) -> list[Span]:
    """From where a branch goes back to, up to the branch."""
    ends: dict[int, int] = {}
    for instruction in code:
        target = instruction.target
        if target is not None and target < instruction.address:
            ends[target] = max(ends.get(target, 0), instruction.address + 1)
    return [Span(begin, end) for begin, end in ends.items()]


def find_branches(code: Sequence[Instruction]) -> list[Span]:
    """What a branch forward skips; one out of a loop skips nothing of what the loop's next trip does."""
    loops, found = find_loops(code), []
    for instruction in code:
        target = instruction.target
        if target is None or target <= instruction.address:
            continue
        within = [loop for loop in loops if loop.begin <= instruction.address < loop.end]
        if all(target < loop.end for loop in within):
            found.append(Span(instruction.address + 1, target))
    return found
