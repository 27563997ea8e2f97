"""What a folder of photographs holds: COLMAP's model, or the transforms.json of Nerfstudio and of NeRF's scenes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from ..scene.gaussians import SceneError
from ..scene.names import listed
from .capture import Capture, CaptureFolder, Photograph, normal, say_unmasked
from .colmap_model import find_model, has_model, read_model
from .other_layouts import advice, entries, picture_folder, pictures_in, shell_word
from .panoramas import without_panoramas
from .transforms_file import read_splits, read_transforms

_TRANSFORMS: Final = "transforms.json"
_TRAIN, _HELD_OUT = "transforms_train.json", ("transforms_test.json", "transforms_val.json")
"""NeRF's scenes have a file for each use. The first of the others that is there is held out."""
_IMAGES: Final = ("images", "images_2", "images_4", "images_8", "input", "color", "rgb")
"""Folders of a model's pictures: those that were made smaller, too, what 3DGS's convert.py takes, and ScanNet's."""
_MOST_DEEPER: Final = 100
"""Folders at each level below the given one, that are looked into."""
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
    `images`, or another of `_IMAGES`, in it or up to two folders above it, and their masks in a folder `masks` beside
    that one, or in `masks`, if it is given. If the folder has none of these, but exactly one of
    those in it, or in these, has, that one is taken, and a warning says so. Panoramas become six views each.

    Raises:
        SceneError: if there are none, they are damaged, or they cannot be used; the message says what is required.
        OSError: if a file cannot be opened.
    """
    for folder, option in ((pictures, "--images"), (masks, "--masks")):
        if folder is not None and not folder.is_dir():
            raise SceneError(f"{folder}: a folder of pictures is required for {option}, found none")
    capture, beside = _read(path, pictures)
    folder = masks or next((place for parent in beside if (place := parent / _MASKS).is_dir()), None)
    if folder is not None:
        capture = _masked(capture, folder, required=masks is not None)
    say_unmasked(capture, folder or capture.source)
    return without_panoramas(capture)


def _read(path: Path, pictures: Path | None) -> tuple[Capture, tuple[Path, ...]]:
    """The capture, and the folders that masks may lie in."""
    if not path.is_dir():
        return read_transforms(path, pictures), (path.parent,)
    chosen = _chosen(path, pictures)
    if (chosen / _TRANSFORMS).exists():
        file = CaptureFolder(chosen, path).file(_TRANSFORMS, f"{path}")
        return read_transforms(file, pictures, path), (chosen, path)
    if (chosen / _TRAIN).exists():
        return _read_splits(CaptureFolder(chosen, path), pictures, path), (chosen, path)
    model = find_model(chosen)
    if model is None:
        raise SceneError(
            f"{path}: photographs with cameras are required: COLMAP's cameras, images and points3D in the folder, in "
            f"sparse/0 or in sparse, a {_TRANSFORMS} or a {_TRAIN}; found {advice(path)}"
        )
    folder, beside = (
        _images(path, chosen, model)
        if pictures is None
        else (CaptureFolder(pictures, option="--images", named=True), pictures.parent)
    )
    capture = read_model(CaptureFolder(model, path), folder)
    _say_unused(capture, folder.path)
    return capture, (beside,)


def _chosen(path: Path, pictures: Path | None) -> Path:
    """The folder itself, or the only one of those one or two levels deeper that has cameras, if it has none."""
    if _is_complete(path, pictures):
        return path
    level, without_pictures = [path], []
    for _ in range(2):
        deeper = (place for folder in level for place in entries(folder) if place.is_dir() and not place.is_symlink())
        level = list(islice(deeper, _MOST_DEEPER))
        found = [place for place in level if _is_complete(place, pictures or (path if _place(path) else None))]
        if len(found) > 1:
            raise SceneError(
                f"{path}: one folder of photographs with cameras is required, found {len(found)} in it: "
                f"{listed([str(place.relative_to(path)) for place in found])}; fit one of them"
            )
        if found:
            warnings.warn(f"{path}: the cameras are those of the folder {found[0]} in it", stacklevel=4)
            return found[0]
        without_pictures += [place for place in level if has_model(place)]
    return path if has_model(path) or len(without_pictures) != 1 else without_pictures[0]


def _is_complete(path: Path, pictures: Path | None) -> bool:
    """Whether a folder has cameras, and their pictures too if it is not known that these lie elsewhere."""
    if any((path / name).exists() for name in (_TRANSFORMS, _TRAIN)):
        return True
    return has_model(path) and (pictures is not None or _place(path) is not None)


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


def _read_splits(folder: CaptureFolder, pictures: Path | None, within: Path) -> Capture:
    train, *found = (
        folder.file(name, f"{folder.path}") for name in (_TRAIN, *_HELD_OUT) if (folder.path / name).exists()
    )
    for other in found[1:]:
        warnings.warn(f"{other}: not used, {found[0]} is what the scene is measured by", stacklevel=3)
    return read_splits({train: False, **dict.fromkeys(found[:1], True)}, pictures, within)


def _masked(capture: Capture, folder: Path, required: bool) -> Capture:
    """The capture with the masks of a folder, for the photographs that have none."""
    # Without --masks, the folder's name is the capture's, and a link of this name may lead out of it.
    within = CaptureFolder(folder, None if required else folder.parent, "--masks")
    found = [
        photograph if photograph.mask else replace(photograph, mask=_mask(within, photograph))
        for photograph in capture.photographs
    ]
    if found and not any(photograph.mask for photograph in found):
        what = f"{folder}: masks with the names of photographs, like {capture.photographs[0].path.name}.png,"
        if required:
            raise SceneError(f"{what} are required for --masks, found none")
        warnings.warn(f"{what} would be used, found none", stacklevel=3)
    photograph_of: dict[Path, Path] = {}
    for photograph, before in zip(found, capture.photographs, strict=True):
        if photograph.mask and not before.mask:
            other = photograph_of.setdefault(photograph.mask, photograph.path)
            if other != photograph.path:
                raise SceneError(
                    f"{photograph.mask}: a mask for each photograph is required, found one for {other} and "
                    f"{photograph.path}; put masks in folders of the same names as the photographs'"
                )
    return replace(capture, photographs=tuple(found))


def _mask(folder: CaptureFolder, photograph: Photograph) -> Path | None:
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


def _images(path: Path, chosen: Path, model: Path) -> tuple[CaptureFolder, Path]:
    """The folder of a model's pictures, and that which may have one of their masks."""
    place = _place(*dict.fromkeys([chosen, model, *model.absolute().parents[:2], path]))
    if place is None:
        found = picture_folder(chosen)
        raise SceneError(
            f"{path}: the model's pictures are required in {chosen / _IMAGES[0]}, found no such folder; name it: "
            f"--images {shell_word(found) if found else 'FOLDER'}"
        )
    # A model may be in the folder of its pictures: then this is the capture, and what is beside it is somebody else's.
    beside = place if normal(path).is_relative_to(normal(place)) else place.parent
    return CaptureFolder(place, beside, "--images"), beside


def _place(*folders: Path) -> Path | None:
    return next((place for name in _IMAGES for folder in folders if (place := folder / name).is_dir()), None)
