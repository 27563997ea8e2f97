"""A toolkit put together in one folder, of links to parts that are installed elsewhere.

Laid out as NVIDIA does, it is a toolkit like any other: it can be identified, and reached through one link from any
folder.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM
from ...runtime.errors import KernelWheelError
from ...runtime.machine.permissions import NOBODY_ELSE, Guard
from ...runtime.variables import search_path

CUDART = HOST_PLATFORM.static("cudart_static")  # the static CUDA runtime, in `lib64` of a toolkit


def linked_folder(parts: Mapping[str, Path], files: Mapping[str, str]) -> Path | str:
    """A folder of links to `parts`, by name, which this process removes when it ends; or, in words, why there is none.

    `files` are the texts of what to make where there is no part, by name.
    """
    # Whoever could replace the folder would have their own program run.
    guard = Guard(Path(tempfile.gettempdir()), NOBODY_ELSE, "the temporary folder", "TMPDIR", "")
    try:
        guard.check(guard.folder)
        search_path(guard.folder)  # nvcc's profile puts what is below it on PATH
        links = tuple(sorted((name, place.resolve()) for name, place in parts.items()))
        return _folder(links, tuple(sorted((name, text) for name, text in files.items() if name not in parts)))
    except (KernelWheelError, OSError) as error:
        why = f"{error.problem}: {error.found}" if isinstance(error, KernelWheelError) else str(error)
        return f"its parts cannot be put together ({why})"


@cache
def _folder(links: tuple[tuple[str, Path], ...], files: tuple[tuple[str, str], ...]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kernelwheel-toolkit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, place in links:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(place)
    for name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755 if name == "bin/nvcc" else 0o644)
    return folder
