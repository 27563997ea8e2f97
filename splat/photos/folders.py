"""What a folder of photographs holds: COLMAP's model, or Nerfstudio's transforms.json."""

from __future__ import annotations

from pathlib import Path

from ..scene.gaussians import SceneError
from .capture import Capture, PictureFolder
from .colmap_model import find_model, read_model
from .transforms_file import read_transforms


def is_capture(path: Path) -> bool:
    """Whether this path stands for photographs with cameras: a folder, or a .json file."""
    return path.is_dir() or path.suffix.lower() == ".json"


def read_capture(path: Path, pictures: Path | None = None) -> Capture:
    """Read the cameras of a folder, or of a .json file; the pictures lie in `pictures`, if it is given.

    A `transforms.json` in the folder goes first. A model of COLMAP may be in the folder, in `sparse/0` or in `sparse`;
    its pictures are in a folder `images` in it, or up to two folders above it.

    Raises:
        SceneError: if there are none, they are damaged, or they cannot be used; the message says what is required.
        OSError: if a file cannot be opened.
    """
    if pictures is not None and not pictures.is_dir():
        raise SceneError(f"{pictures}: a folder of pictures is required for --images, found none")
    if not path.is_dir():
        return read_transforms(path, pictures)
    if (path / "transforms.json").exists():
        return read_transforms(path / "transforms.json", pictures)
    model = find_model(path)
    if model is None:
        raise SceneError(
            f"{path}: photographs with cameras are required: COLMAP's cameras, images and points3D in the folder, in "
            "sparse/0 or in sparse, or a transforms.json; found neither. COLMAP computes cameras from pictures: "
            f"colmap automatic_reconstructor --image_path PICTURES --workspace_path {path}"
        )
    return read_model(model, _images(path, model) if pictures is None else PictureFolder(pictures))


def _images(path: Path, model: Path) -> PictureFolder:
    places = list(
        dict.fromkeys([path / "images", *(above / "images" for above in (model, *model.absolute().parents[:2]))])
    )
    for place in places:
        if place.is_dir():
            return PictureFolder(place, within=place.parent)
    raise SceneError(
        f"{path}: the model's pictures are required in {places[0]}, found no such folder; name it: --images"
    )
