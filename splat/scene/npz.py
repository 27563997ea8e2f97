"""Reading .npz files, zip files of arrays, that may be damaged or hostile.

numpy itself allocates whatever size a header claims, and unpacks whatever it is given. Here the zip file's directory
and the header of an array must agree before memory is allocated for it.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from .file_input import named_errors, opened_file
from .gaussians import SceneError
from .names import listed
from .zip_input import opened_zip

MAX_HEADER: Final = 1024
"""Maximum size of an array's header in bytes; numpy writes about 120."""
MAX_RATIO: Final = 100
"""The unpacked arrays may be at most this many times as large as the file,"""
ALWAYS: Final = 2**26
"""or have this many bytes, whichever is more."""

Arrays = dict[str, npt.NDArray[Any]]


def read_npz(path: Path, names: Sequence[str], memory: int | None = None) -> tuple[Arrays, str]:
    """Read the arrays with these names; also return, for messages, the names that the file has.

    `memory` is what may be used, in bytes, if known.

    Raises:
        SceneError: if it is damaged, not an .npz file, or unpacks to far more than its size or to more than `memory`;
            the message names it.
        OSError: if it cannot be opened.
    """
    with opened_file(path) as file:
        with named_errors(path):
            archive = opened_zip(file, "an .npz file of arrays")
        with archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            wanted = {name: members[name] for name in names if name in members}
            _check_sizes(path, wanted, file, memory)
            return {name: _read_array(path, name, archive, info) for name, info in wanted.items()}, listed([*members])


def _check_sizes(path: Path, members: dict[str, zipfile.ZipInfo], file: BinaryIO, memory: int | None) -> None:
    size = file.seek(0, io.SEEK_END)
    unpacked = sum(info.file_size for info in members.values())
    if unpacked > max(MAX_RATIO * size, ALWAYS):
        raise SceneError(
            f"{path}: {listed([*members])} unpack to {unpacked} bytes, more than {MAX_RATIO} times the {size} of the "
            "file; save it uncompressed, with numpy.savez"
        )
    if memory is not None and unpacked > memory:
        raise SceneError(
            f"{path}: {listed([*members])} unpack to {unpacked / 2**30:.1f} GiB, found {memory / 2**30:.1f} GiB of "
            "memory; save fewer or smaller pictures"
        )


def _read_array(path: Path, name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    try:
        _check_array(archive, info)
    except Exception as error:  # zipfile and numpy have no common error class for damaged files
        raise SceneError(f"{path}: {name} is damaged, or not an array: {_brief(error)}") from error
    try:
        with archive.open(info) as member:
            array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:
        raise SceneError(f"{path}: {name} is damaged, or not an array: {_brief(error)}") from error
    return array


def _check_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Check that the array's header and the zip file's directory agree on its size."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile unpacks others completely, whatever size they claim.
        raise ValueError("its compression is not that of numpy.savez_compressed")
    with archive.open(info) as member:
        shape, dtype = _read_header(member)
        held = info.file_size - member.tell()
    if dtype.hasobject:
        raise ValueError(f"plain numbers are required, found objects ({_brief(dtype)})")
    needed = dtype.itemsize * math.prod(shape)
    if needed != held:
        raise ValueError(f"{needed} bytes are required for its shape {_brief(shape)} of {_brief(dtype)}, found {held}")


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the file was written by Python 2
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(member, max_header_size=MAX_HEADER)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(member, max_header_size=MAX_HEADER)
        else:
            raise ValueError(f"version 1.0 or 2.0 is required, found {version}")
    return shape, dtype


def _brief(value: object) -> str:
    """A value or an error, shortened to part of a line."""
    text = " ".join(str(value).split()) or type(value).__name__
    return text if len(text) <= 150 else f"{text[:150]}..."
