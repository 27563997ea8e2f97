"""The loops of a kernel, from which of its basic blocks may follow which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import networkx

from .ptx_instructions import UnknownInstruction


class Loops(NamedTuple):
    """Each is named by the number of the block that begins it, which is the first of every trip."""

    parents: Mapping[int, int | None]  # of each loop, the one around it
    innermost: Sequence[int | None]  # of each block, the loop that it is in


def find_loops(following: Sequence[AbstractSet[int]]) -> Loops:
    """Of the blocks that may follow each one; block 0 is the first.

    Raises:
        UnknownInstruction: there is a loop that is entered in two places.
    """
    graph = networkx.DiGraph([(block, other) for block, others in enumerate(following) for other in others])
    graph.add_node(0)
    graph = graph.subgraph({0} | networkx.descendants(graph, 0)).copy()
    dominators = networkx.immediate_dominators(graph, 0)
    bodies: dict[int, set[int]] = {}
    for block, other in list(graph.edges):
        if _leads_through(other, block, dominators):
            body = bodies.setdefault(other, {other})
            if block != other:
                inside = graph.subgraph(set(graph) - {other})
                body |= {block} | networkx.ancestors(inside, block)
    graph.remove_edges_from([(block, other) for block, other in graph.edges if block in bodies.get(other, ())])
    if not networkx.is_directed_acyclic_graph(graph):
        raise UnknownInstruction("a loop that is entered in two places")

    def smallest(block: int, but: int | None = None) -> int | None:
        around = [first for first, body in bodies.items() if block in body and first != but]
        return min(around, key=lambda first: len(bodies[first]), default=None)

    return Loops(
        {first: smallest(first, first) for first in bodies}, [smallest(each) for each in range(len(following))]
    )


def _leads_through(first: int, block: int, dominators: Mapping[int, int | None]) -> bool:
    """Whether every way to a block leads through the first one."""
    at: int | None = block
    while at is not None and at != first:
        at = dominators.get(at) if dominators.get(at) != at else None
    return at == first
