"""Where Stores are: the folders that the settings name, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import SettingsError, StoreError
from ..core.settings import Settings
from .entries import Store
from .permissions import Trust

EVERYONE = "everyone"


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
        StoreError: as `default_folder`, or for a program that runs with another user's rights.
        SettingsError: `trusted-owners` names a user whom this machine does not know.
    """
    trust = trust_of(settings)
    for folder in map(Path, settings.cache_path):
        yield Store(folder, package, version, own=False, trust=trust)
    own = Path(settings.cache_dir) if settings.cache_dir else default_folder()
    yield Store(own, package, version, trust=trust)


def trust_of(settings: Settings) -> Trust:
    """Whom the settings trust, by number.

    Raises:
        SettingsError: there is no such user.
        StoreError: this program runs with the rights of another user than the one who started it, and whose
            environment says where caches are.
    """
    if (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid()):
        raise StoreError(
            "a program with another user's rights uses no cache",
            required="one user: the caches are those of the one who started the program",
            found=f"user {os.getuid()}, rights of user {os.geteuid()} (setuid or setgid)",
            remedies=["install a wheel that was built for this machine"],
        )
    return Trust(
        frozenset(_number_of(name, settings) for name in settings.trusted_owners if name != EVERYONE),
        EVERYONE in settings.trusted_owners,
    )


def _number_of(user: str, settings: Settings) -> int:
    if user.isdecimal() and len(user) <= 10:
        return int(user)
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise SettingsError(
            f"option 'trusted-owners' names {user!r}, and there is no such user here",
            required=f"names or numbers of users, or {EVERYONE}",
            found=f"{user!r} from {settings.origin('trusted-owners')}",
            remedies=["correct the name, or write the user's number (id -u)"],
        ) from None
