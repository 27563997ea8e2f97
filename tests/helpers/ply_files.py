"""PLY files for tests: whole ones, and headers and rows to put together."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np

FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
TYPES = {"float": "f4", "double": "f8", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4"}
NAMES = [
    *["x", "y", "z"],
    *(f"f_dc_{i}" for i in range(3)),
    *(f"f_rest_{i}" for i in range(45)),
    "opacity",
    *(f"scale_{i}" for i in range(3)),
    *(f"rot_{i}" for i in range(4)),
]


def columns(n: int = 7, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=n).astype(np.float32) for name in NAMES}


def ply(
    values: dict[str, np.ndarray],
    form: str = "binary_little_endian",
    types: dict[str, str] | None = None,
    before: tuple[str, bytes] = ("", b""),
    newline: str = "\n",
) -> bytes:
    """A file of `values`; `before` is the header and the rows of elements ahead of `vertex`."""
    types = types or {}
    n = len(next(iter(values.values())))
    header = ["ply", f"format {form} 1.0", "comment of the test", *before[0].splitlines(), f"element vertex {n}"]
    header += [f"property {types.get(name, 'float')} {name}" for name in values]
    order = FORMATS[form]
    if form == "ascii":
        rows = [" ".join(repr(value[i].item()) for value in values.values()) for i in range(n)]
        body = "".join(row + newline for row in rows).encode()
    else:
        dtype = np.dtype([(name, order + TYPES[types.get(name, "float")]) for name in values])
        table = np.zeros(n, dtype)
        for name, value in values.items():
            table[name] = value
        body = table.tobytes()
    return (newline.join([*header, "end_header"]) + newline).encode() + before[1] + body


WHOLE = ply(columns())
XYZ = "property float x\nproperty float y\nproperty float z\n"


def header(text: str) -> bytes:
    return f"ply\nformat binary_little_endian 1.0\n{text}end_header\n".encode()


def text(header: str, rows: bytes) -> bytes:
    return f"ply\nformat ascii 1.0\n{header}end_header\n".encode() + rows


@contextlib.contextmanager
def no_other_warning() -> Iterator[None]:
    """Any warning is an error, but for ours that counts what was left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", message=".*: left out .* Gaussians, which have a NaN, an infinity or a rotation"
        )
        yield
