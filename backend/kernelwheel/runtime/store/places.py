"""The locations of Stores: the folders named in the settings, and the user's own cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import StoreError
from ..machine.permissions import Trust
from ..machine.platforms import HOST_PLATFORM
from ..settings import EVERYONE, Settings
from ..variables import cache_home
from .store import Store


def default_folder() -> Path:
    """The user's cache folder (XDG_CACHE_HOME, else ~/.cache), in which each package has its own subfolder."""
    folder = cache_home()
    if folder is None:
        raise StoreError(
            "no folder to store compiled kernels in",
            required="an absolute path from XDG_CACHE_HOME, or from the user's home",
            found=f"neither, nor a home of user {HOST_PLATFORM.starter()} in the user database",
            remedies=["set HOME, or XDG_CACHE_HOME to an absolute path"],
        )
    return folder / "kernelwheel"


def stores(settings: Settings, package: str, version: str) -> Iterator[Store]:
    """The Stores that the settings name, in search order; the last is the user's own."""
    trust = trust_of(settings)
    for folder in map(Path, settings.cache_path):
        yield Store(folder, package, version, own=False, trust=trust)
    own = Path(settings.cache_dir) if settings.cache_dir else default_folder()
    yield Store(own, package, version, trust=trust)


def trust_of(settings: Settings) -> Trust:
    """The users that the settings trust, by number."""
    if HOST_PLATFORM.has_other_privileges():
        raise StoreError(
            "a program that runs with another user's privileges cannot use a cache",
            required="one user: the environment of whoever started the program decides where caches are",
            found=f"user {HOST_PLATFORM.starter()}, privileges of user {HOST_PLATFORM.user()}, or privileges put "
            "aside or given by the program's file (setuid, setgid, capabilities; AT_SECURE)",
            remedies=["install a wheel that was built for this machine"],
        )
    named = settings.trusted_owners
    return Trust(frozenset(int(user) for user in named if user != EVERYONE), EVERYONE in named)
