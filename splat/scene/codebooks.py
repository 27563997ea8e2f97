"""Quantisation: codebooks of numbers and palettes of vectors, the same on each run."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

ENTRIES: Final = 256
"""Of a codebook: as many as a byte can name."""
_BINS: Final = (64, 256, 1024, 4096)
"""Of the histograms that are tried: fine ones are right where values are many, coarse ones where they are few."""
_ROUNDS: Final = 50
_GROUP: Final = 1024
"""So many vectors are compared with each other's centroids; more are divided first."""
_PALETTE_ROUNDS: Final = 5
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, which is odd: products spread (Knuth, *The Art of Computer Programming*, 6.4)."""

Floats = npt.NDArray[np.float32]


def codebook(values: Floats) -> tuple[Floats, npt.NDArray[np.uint8]]:
    """256 numbers in ascending order, and for each value which of them is the nearest.

    They begin where the cube root of the values' density is divided evenly, which is best for many entries (Panter and
    Dite 1951), and are then moved to the means of what is nearest to them (Lloyd 1982).
    """
    ordered = np.sort(values, axis=None).astype(np.float64)
    entries = np.unique(ordered)
    if len(entries) > ENTRIES:
        entries = _lloyd(ordered)
    padded = np.zeros(ENTRIES, np.float32)
    padded[: len(entries)] = entries
    padded[len(entries) :] = entries[-1] if len(entries) else 0
    middles = (padded[1:].astype(np.float64) + padded[:-1]) / 2
    return padded, np.searchsorted(middles, values).astype(np.uint8)


def _lloyd(ordered: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    sums, squares = (np.concatenate([[0], power.cumsum()]) for power in (ordered, ordered * ordered))
    best, least = ordered[:ENTRIES], np.inf
    for bins in _BINS:
        counts, edges = np.histogram(ordered, bins)
        shares = np.concatenate([[0], np.cbrt(counts).cumsum()])
        entries = np.interp((np.arange(ENTRIES) + 0.5) / ENTRIES * shares[-1], shares, edges)
        for _ in range(_ROUNDS):
            cuts = np.concatenate([[0], np.searchsorted(ordered, (entries[1:] + entries[:-1]) / 2), [len(ordered)]])
            sizes = np.diff(cuts)
            means = np.diff(sums[cuts]) / np.maximum(sizes, 1)
            error = float((np.diff(squares[cuts]) - sizes * means * means).sum())
            moved = np.maximum.accumulate(np.where(sizes > 0, means, entries))  # round-off must not change their order
            if np.array_equal(moved, entries):
                break
            entries = moved
        if error < least:
            best, least = entries, error
    return best


def palette(vectors: Floats, size: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """At most `size` vectors [size, D] that stand for vectors [N, D], and for each of these which of them does.

    If no more differ, these are they. Others are divided at the median of the coordinate that varies most, until groups
    are small. Each group has its share of the palette, found by Lloyd's rounds within it: the time is bounded, and the
    result is near the best.
    """
    first, labels = _distinct(vectors)
    if len(first) <= size:
        return vectors[first], labels
    labels = np.zeros(len(vectors), np.int64)
    parts: list[Floats] = [np.zeros((0, vectors.shape[1]), np.float32)]
    done = used = 0
    for rows in _groups(vectors):
        done += len(rows)
        share = max(done * size // len(vectors) - used, 1)
        centroids, own = _clusters(vectors[rows], share)
        labels[rows] = used + own
        parts.append(centroids)
        used += len(centroids)
    return np.concatenate(parts), labels


def _distinct(vectors: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first row of each vector, in order, and for each vector which of these it is."""
    rows = np.arange(len(vectors))
    digests = np.zeros(len(vectors), np.uint64)
    for column in vectors.T:
        digests = (digests ^ np.ascontiguousarray(column).view(np.uint32)) * _MULTIPLIER
    _, first, labels = np.unique(digests, return_index=True, return_inverse=True)
    if not all(np.array_equal(column, column[first][labels]) for column in vectors.T):
        return rows, rows  # two have the same digest, so each stands for itself
    order = np.argsort(first)
    ranks = np.empty_like(order)
    ranks[order] = rows[: len(order)]
    return first[order], ranks[labels]


def _groups(vectors: Floats) -> list[npt.NDArray[np.int64]]:
    """The rows of each group, in order."""
    waiting, groups = [np.arange(len(vectors))] if len(vectors) else [], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= _GROUP:
            groups.append(rows)
            continue
        own = vectors[rows]
        order = np.argsort(own[:, own.var(axis=0).argmax()], kind="stable")
        half = len(rows) // 2
        waiting += [rows[np.sort(order[half:])], rows[np.sort(order[:half])]]
    return groups


def _clusters(vectors: Floats, size: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    if size >= len(vectors):
        return vectors, np.arange(len(vectors))
    centre = vectors.mean(axis=0)
    near = vectors - centre  # of small numbers, the differences are more exact
    centroids = near[np.arange(size) * len(near) // size]
    for _ in range(_PALETTE_ROUNDS):
        labels = _nearest(near, centroids)
        order = np.argsort(labels, kind="stable")
        used, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
        centroids[used] = np.add.reduceat(near[order], starts, axis=0) / counts[:, None].astype(np.float32)
    return centroids + centre, _nearest(near, centroids)


def _nearest(vectors: Floats, centroids: Floats) -> npt.NDArray[np.int64]:
    nearest: npt.NDArray[np.int64] = ((centroids * centroids).sum(axis=1) - 2 * vectors @ centroids.T).argmin(axis=1)
    return nearest
