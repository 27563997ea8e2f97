"""The SASS instructions in each part of a rasterizer's loops, told apart by rules.

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
and those with atomics within one that has others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from model_sass import LEFT_OUT, Kernel, Part, Span, largest, one, smallest


class Shape(NamedTuple):
    """What a kernel's loops look like."""

    backward: bool
    tests: bool


def instructions(kernel: Kernel, shape: Shape) -> Counter[str]:
    """The number of instructions of each part.

    Raises:
        SystemExit: a part is missing, so that the rules do not fit the kernel.
    """
    steps = one("steps", kernel.those_with("MUFU.EX2", kernel.loops), smallest)
    around = sorted((loop for loop in kernel.loops if loop.holds(steps)), key=lambda loop: loop.size)
    tests = [one("tests", around[:1], smallest)] if shape.tests else []
    batches = one("batches", kernel.those_with("BAR", around[len(tests) :]), smallest)
    known = [(steps, "steps"), (batches, "batches"), *((loop, "tests") for loop in tests)]

    def apart(spans: Sequence[Span]) -> list[Span]:
        return [span for span in spans if not any(span.holds(other) or span == other for other, _ in known)]

    stagings = [span for span in apart([*kernel.loops, *kernel.branches]) if batches.holds(span)]
    other_loops = [loop for loop in apart(kernel.loops) if not batches.holds(loop)]
    return kernel.instructions(
        [
            *known,
            (one("stagings", kernel.those_with("STS", stagings), largest), "stagings"),
            *_parts_of_step(kernel, [branch for branch in kernel.branches if steps.holds(branch)], shape.backward),
            *kernel.calls(),
            *((span, LEFT_OUT) for span in apart(kernel.branches) if any(span.holds(loop) for loop in other_loops)),
        ]
    )


def _parts_of_step(kernel: Kernel, branches: Sequence[Span], backward: bool) -> list[Part]:
    parts: list[Part] = []
    if computing := kernel.those_with("MUFU.EX2", branches):
        parts.append((smallest(computing), "exponentials"))
    if not backward:
        sums = [branch for branch in branches if kernel.number(branch, "FFMA") >= 3 and branch not in computing]
        return [*parts, (one("visible", sums, largest), "visible")]
    blending = one("blending", kernel.those_with("SHFL", branches), largest)
    within = [branch for branch in branches if blending.holds(branch)]
    atomics = kernel.those_with("RED", within)
    inner = [branch for branch in atomics if any(outer.holds(branch) for outer in atomics)]
    absolute = [*kernel.those_with("SHFL", within), *inner]
    return [*parts, (blending, "blending"), *((branch, LEFT_OUT) for branch in absolute)]
