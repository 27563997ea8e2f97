"""What would be compiled: asked of the compiler, which compiles nothing, and of the store that it would go to."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..runtime import compiler_process
from ..runtime.installed import InstalledPackage
from ..runtime.platforms import require_supported
from ..runtime.request import CompileRequest


def preview(
    requests: Sequence[CompileRequest], machine: CompileRequest | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """What would be compiled for these requests, and with what.

    `plans`, for each request `{"plan": …}` or `{"error": …}`, and `toolchain`, what is found for `machine`.
    """
    question = {"requests": [each.to_json() for each in requests], "machine": machine and machine.to_json()}
    answer: dict[str, Any] = compiler_process.send({"dry-run": question}, lambda line: None, environ)
    return answer


def require_store(package: InstalledPackage) -> None:
    """Raise the error for a store that what is compiled could not be put into, as far as is seen without making it."""
    require_supported()
    store = package.own_store()
    try:
        with suppress(FileNotFoundError):
            store.guard.check(store.root / ".work")
        for folder in (store.root, store.root / ".work"):
            there = next(place for place in (folder, *folder.parents) if place.exists())
            if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
                if os.statvfs(there).f_flag & os.ST_RDONLY:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(there))
                raise PermissionError(errno.EACCES, "this user may not make files here", str(there))
    except OSError as error:
        raise store.unwritable(error) from error
