"""Where Stores are: the folders that the settings name, and the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .errors import StoreError
from .settings import Settings
from .store import Store


def default_folder() -> Path:
    """The user's cache folder (XDG_CACHE_HOME, else ~/.cache), where each package has its own part.

    Raises:
        StoreError: this user has none.
    """
    remedy = "set HOME, or XDG_CACHE_HOME to an absolute path"
    try:
        import platformdirs

        folder = platformdirs.user_cache_path("kernelwheel", appauthor=False)
        found = f"{folder}, which would be another folder in every process"
    except ImportError as error:
        folder, found, remedy = Path(), str(error), "pip install platformdirs"
    except RuntimeError as error:
        folder, found = Path(), str(error)
    if not folder.is_absolute():
        raise StoreError(
            "there is no folder to keep compiled kernels in",
            required="an absolute path from XDG_CACHE_HOME, or from the user's home",
            found=found,
            remedies=[remedy],
        )
    return folder


def stores(settings: Settings, package: str, version: str) -> Iterator[Store]:
    """The Stores that the settings name, in the order in which they are looked in; the last is the user's own.

    Raises:
        StoreError: as `default_folder`.
    """
    for folder in settings.cache_path:
        yield Store(Path(folder), package, version, own=False)
    yield Store(Path(settings.cache_dir) if settings.cache_dir else default_folder(), package, version)
