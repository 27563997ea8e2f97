"""Photographs of one scene with known cameras, before any picture is read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ..scene.gaussians import SH_C0, SceneError
from ..scene.names import listed, name_end
from ..scene.ply import read_ply
from .lens_models import Lens

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Photograph:
    """A picture's file, and the camera that took it."""

    path: Path
    lens: Lens
    viewmat: Floats
    """[4, 4] world-to-camera: x to the right, y down, z forward."""
    mask: Path | None = None
    """A picture that is black where the photograph is not to be used."""
    held_out: bool | None = None
    """Whether it is for measuring, and not for fitting; None if the capture does not say."""


@dataclass(frozen=True)
class Capture:
    """Photographs of one scene, and points of it."""

    source: Path
    """What was read, for messages."""
    photographs: tuple[Photograph, ...]
    """In the order of their names."""
    points: Floats
    """[P, 3], and [P, 3], their colours as uint8; P may be 0."""
    colors: npt.NDArray[np.uint8]


LONGEST_NAME: Final = 4096
"""Letters of a file's path, on Linux its bytes."""
NO_POINTS: Final = (np.zeros((0, 3)), np.zeros((0, 3), np.uint8))


class CaptureFolder:
    """A folder whose files are named by untrusted data: no name and no link may lead out of it."""

    def __init__(
        self, folder: Path, within: Path | None = None, option: str = "", upwards: bool = False, named: bool = False
    ) -> None:
        """Links may lead to anywhere in `within`, which is the folder itself if it is not given.

        `upwards`: so may names. `option` is that of the command by which its user can name another folder; `named`:
        this one was named by it.
        """
        self.path, self.option, self.named = folder, option, named
        self.reach = within if within and upwards else folder
        """The folder that names may lead to."""
        self._remedy = f"copy it there, or name its folder with {option}" if option else "copy it there"
        self._root = os.path.realpath(within or folder)
        self._deeper = folder.relative_to(self.reach)
        self._roots = (normal(self.reach), Path(os.path.realpath(self.reach)))

    def inside(self, name: str) -> Path | None:
        """The path of this name; None if it leads out. Decided by the name alone: nothing outside is looked at."""
        if not name.strip() or not _is_usable(name):
            return None
        for root in self._roots:
            path = normal(root / self._deeper / name)
            if path.is_relative_to(root):
                return self.reach / path.relative_to(root)
        return None

    def file(self, name: str, what: str) -> Path:
        """The path of this name; SceneError if it lies outside. The file need not exist."""
        path = self.inside(name)
        if path is None:
            raise SceneError(f"{what}: the name of a file inside {self.reach} is required, found {name_end(name)}")
        if os.path.lexists(path) and not (target := Path(os.path.realpath(path))).is_relative_to(self._root):
            raise SceneError(
                f"{what}: a file inside {self._root} is required, found a link from {name_end(name)} to {target}; "
                f"{self._remedy}"
            )
        return path


def normal(path: Path) -> Path:
    """An absolute path without `..`, found without a look at what is there."""
    return Path(os.path.normpath(path.absolute()))


def _is_usable(name: str) -> bool:
    """Whether a file can have this name."""
    try:
        return len(name) <= LONGEST_NAME and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def pictures_exist(source: Path, paths: Sequence[Path]) -> list[bool]:
    """Whether each of the pictures is there, and a regular file.

    A warning names those that are not; SceneError if these are more than half: instant-ngp leaves them out, too.
    """
    there = [path.is_file() for path in paths]
    missing = [name_end(str(path)) for path, is_there in zip(paths, there, strict=True) if not is_there]
    words = f"{source}: {len(missing)} of its {len(paths)} pictures are missing"
    if 2 * len(missing) > len(paths):
        raise SceneError(f"{words}: {listed(missing)}; put them there, or name their folder with --images")
    if missing:
        warnings.warn(f"{words} and left out: {listed(missing)}", stacklevel=4)
    return there


def say_unmasked(capture: Capture, source: Path) -> None:
    """Warn about `source` if some photographs have a mask, wherever it was found, and others have none."""
    without = [name_end(str(photograph.path)) for photograph in capture.photographs if not photograph.mask]
    if 0 < len(without) < len(capture.photographs):
        warnings.warn(
            f"{source}: no masks for {len(without)} of {len(capture.photographs)} photographs; they are used "
            f"whole: {listed(without)}",
            stacklevel=4,
        )


def read_cloud(path: Path) -> tuple[Floats, npt.NDArray[np.uint8]]:
    """The points [P, 3] of a PLY file and their colours [P, 3]; raises as `read_ply`."""
    scene = read_ply(path, only_points=True)
    colors = (0.5 + SH_C0 * scene.sh[:, 0]).clamp(0, 1).mul(255).round().byte()
    return scene.coordinates.numpy(), colors.numpy()


def rigid_transform(rotation: Floats, shift: Floats, what: str) -> Floats:
    """A matrix [4, 4] from a rotation [3, 3] and a shift [3]; SceneError if it is none, or not finite."""
    if not (np.isfinite(rotation).all() and np.isfinite(shift).all()):
        raise SceneError(f"{what}: a finite pose is required, found a NaN or an infinity")
    if (
        np.abs(rotation).max() > 2
        or np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-3
        or np.linalg.det(rotation) < 0
    ):
        raise SceneError(f"{what}: a rotation is required in its pose, found a matrix that stretches or mirrors")
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, shift
    return matrix
