"""What a folder of photographs holds: COLMAP's model, or the transforms.json of Nerfstudio and of NeRF's scenes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..scene.gaussians import SceneError
from .capture import Capture, Photograph, PictureFolder
from .colmap_model import find_model, read_model
from .other_layouts import advice, pictures_in
from .transforms_file import read_splits, read_transforms

_TRANSFORMS: Final = "transforms.json"
_TRAIN, _HELD_OUT = "transforms_train.json", ("transforms_test.json", "transforms_val.json")
"""NeRF's scenes have a file for each use. The first of the others that is there is held out."""
_IMAGES: Final = ("images", "images_2", "images_4", "images_8")
"""Folders of a model's pictures; the others are those that were made smaller."""
_ARCHIVES: Final = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar")
_MASKS: Final = "masks"
_MASK_ENDINGS: Final = ("{name}.png", "{stem}.png", "{name}", "{stem}.jpg")
"""Of a photograph's name, those of its mask; COLMAP's is the first."""
_MOST_FOLDERS: Final = 4
"""Of a photograph's path, with its name, that may be repeated below the masks' folder."""


def is_capture(path: Path) -> bool:
    """Whether this path stands for photographs with cameras: a folder, or a .json file."""
    return path.is_dir() or path.suffix.lower() == ".json"


def check_no_capture(path: Path) -> None:
    """SceneError if a path that stands for no photographs with cameras is one of an archive, which may have them.

    OSError if there is nothing.
    """
    path.stat()
    if path.suffix.lower() in _ARCHIVES:
        raise SceneError(f"{path}: a folder of photographs is required, found an archive; unpack it first")


def read_capture(path: Path, pictures: Path | None = None, masks: Path | None = None) -> Capture:
    """Read the cameras of a folder, or of a .json file; the pictures lie in `pictures`, if it is given.

    A `transforms.json` in the folder goes first, then the `transforms_train.json` of NeRF's scenes. A model of COLMAP
    may be in the folder, in `sparse/0` (or the largest beside it) or in `sparse`; its pictures are in a folder
    `images`, or `images_2`, `images_4` or `images_8`, in it or up to two folders above it, and their masks in a folder
    `masks` beside that one, or in `masks`, if it is given.

    Raises:
        SceneError: if there are none, they are damaged, or they cannot be used; the message says what is required.
        OSError: if a file cannot be opened.
    """
    for folder, option in ((pictures, "--images"), (masks, "--masks")):
        if folder is not None and not folder.is_dir():
            raise SceneError(f"{folder}: a folder of pictures is required for {option}, found none")
    capture, beside = _read(path, pictures)
    if masks is not None:
        return _masked(capture, masks, required=True)
    return _masked(capture, beside / _MASKS, required=False) if (beside / _MASKS).is_dir() else capture


def _read(path: Path, pictures: Path | None) -> tuple[Capture, Path]:
    """The capture, and the folder that masks lie in."""
    if not path.is_dir():
        return read_transforms(path, pictures), path.parent
    if (path / _TRANSFORMS).exists():
        return read_transforms(path / _TRANSFORMS, pictures), path
    if (path / _TRAIN).exists():
        return _read_splits(path, pictures), path
    model = find_model(path)
    if model is None:
        raise SceneError(
            f"{path}: photographs with cameras are required: COLMAP's cameras, images and points3D in the folder, in "
            f"sparse/0 or in sparse, a {_TRANSFORMS} or a {_TRAIN}; found {advice(path)}"
        )
    folder = _images(path, model) if pictures is None else PictureFolder(pictures)
    capture = read_model(model, folder)
    _say_unused(capture, folder.path)
    return capture, folder.path.parent


def _say_unused(capture: Capture, folder: Path) -> None:
    """A warning if the folder has pictures that COLMAP found no cameras for."""
    used = {photograph.path for photograph in capture.photographs}
    unused = [path for path in pictures_in(folder) if path not in used]
    if unused:
        warnings.warn(
            f"{capture.source}: no cameras for {len(unused)} of the {len(used) + len(unused)} pictures of {folder}; "
            "these are not used",
            stacklevel=4,
        )


def _read_splits(path: Path, pictures: Path | None) -> Capture:
    found = [path / name for name in _HELD_OUT if (path / name).exists()]
    for other in found[1:]:
        warnings.warn(f"{other}: not used, {found[0]} is what the scene is measured by", stacklevel=3)
    return read_splits({path / _TRAIN: False, **dict.fromkeys(found[:1], True)}, pictures)


def _masked(capture: Capture, folder: Path, required: bool) -> Capture:
    """The capture with the masks of a folder, for the photographs that have none."""
    within = PictureFolder(folder)
    found = [
        photograph if photograph.mask else replace(photograph, mask=_mask(within, photograph))
        for photograph in capture.photographs
    ]
    without = sum(not photograph.mask for photograph in found)
    if without == len(found) > 0:
        what = f"{folder}: masks with the names of photographs, like {capture.photographs[0].path.name}.png,"
        if required:
            raise SceneError(f"{what} are required for --masks, found none")
        warnings.warn(f"{what} would be used, found none", stacklevel=3)
    elif without:
        warnings.warn(
            f"{folder}: no masks for {without} of {len(found)} photographs; they are used whole", stacklevel=3
        )
    return replace(capture, photographs=tuple(found))


def _mask(folder: PictureFolder, photograph: Photograph) -> Path | None:
    """A mask with the photograph's name, and that of folders above it if there are such folders for masks."""
    parts = photograph.path.parts
    for start in range(max(len(parts) - _MOST_FOLDERS, 0), len(parts)):
        place = Path(*parts[start:-1])
        for ending in _MASK_ENDINGS:
            name = ending.format(name=photograph.path.name, stem=photograph.path.stem)
            path = folder.path / place / name
            if path.is_file() and path.resolve() != photograph.path.resolve():
                return folder.file(str(place / name), f"the mask of {photograph.path}")
    return None


def _images(path: Path, model: Path) -> PictureFolder:
    folders = list(dict.fromkeys([path, model, *model.absolute().parents[:2]]))
    for place in (folder / name for name in _IMAGES for folder in folders):
        if place.is_dir():
            return PictureFolder(place, within=place.parent)
    raise SceneError(
        f"{path}: the model's pictures are required in {path / _IMAGES[0]}, found no such folder; name it: --images"
    )
