"""Checkpoints: all that a fit needs to go on as if it had not been interrupted, in an .npz file.

They hold only arrays of numbers, no pickles, and are read like any file that may be hostile (`read_npz`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..scene.file_output import check_writable, replacing
from ..scene.gaussians import SceneError
from ..scene.npz import read_npz
from .parameters import MOMENTS, Parameters, used_degree
from .training import Trainer

_LAYOUT: Final = 4
_SHARDS: Final = "shards"
"""The array of how many of the Gaussians each process had."""
_MOST_BYTES: Final = 10_000
"""Of the description of a fit."""
_SQUARES: Final = MOMENTS[1]
"""Adam's mean of squares."""


def check_checkpoint(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_checkpoint` could not write a file of this name."""
    return check_writable(path, ".npz", "checkpoints")


def write_checkpoint(path: Path, trainer: Trainer, pictures: str) -> None:
    """Write the trainer's state; the file appears complete or not at all.

    Of several processes, rank 0 writes the state of all of them, and all have to call this.

    `pictures` is the digest of what the scene is fitted to. Raises OSError if it cannot be written.
    """
    shards = trainer.shards
    said = json.dumps(_described(trainer, pictures)).encode()
    arrays: dict[str, npt.NDArray[Any]] = {
        "fit": np.frombuffer(said, np.uint8),
        _SHARDS: np.array(shards.counts(len(trainer.table)), np.int64),
    }
    for name, value in trainer.table.parameters.items():
        arrays[name] = shards.gather(value.detach()).cpu().numpy()
        state = trainer.table.optimizer.state.get(value, {})
        for moment in MOMENTS:
            rows = state[moment] if state else torch.zeros_like(value)
            arrays[f"{name}.{moment}"] = shards.gather(rows.detach()).cpu().numpy()
    arrays |= {f"count.{name}": shards.gather(value).cpu().numpy() for name, value in trainer.strategy.counts.items()}
    for name, values in trainer.picture_parameters.items():
        arrays |= {f"{name}{part}": value.cpu().numpy() for part, value in values.state().items()}
    if shards.first:
        with replacing(path) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


def resume(path: Path, trainer: Trainer, pictures: str) -> None:
    """Put a trainer that has taken no step into the state of a checkpoint, which may be of a fit with fewer steps.

    Each of as many processes as there were gets the Gaussians that it had; of another number, a part of them.

    Raises:
        SceneError: if the file is damaged, or of another fit; the trainer is as it was.
        OSError: if it cannot be opened.
    """
    names = list(trainer.table.parameters)
    moments = [f"{name}.{moment}" for name in names for moment in MOMENTS]
    counts = list(trainer.strategy.counts)
    pictures_have = {
        f"{name}{part}": tuple(value.shape)
        for name, of_pictures in trainer.picture_parameters.items()
        for part, value in of_pictures.state().items()
    }
    wanted = ["fit", _SHARDS, *names, *moments, *(f"count.{name}" for name in counts), *pictures_have]
    arrays, found = read_npz(path, wanted)
    if missing := [name for name in wanted if name not in arrays]:
        raise SceneError(f"{path}: a checkpoint of this fit is required, with {missing[0]}; found {found}")
    done, first = _check_same(path, arrays["fit"], _described(trainer, pictures))
    rows = len(arrays["means"]) if arrays["means"].ndim else 0
    if not 1 <= rows <= max(trainer.options.gaussians, trainer.total):
        raise SceneError(f"{path}: 1 to {trainer.options.gaussians} Gaussians are required, found {rows}")
    own = _own_rows(path, arrays[_SHARDS], rows, trainer)
    shapes = {name: (rows, *value.shape[1:]) for name, value in trainer.table.parameters.items()}
    values = {name: _tensor(path, name, arrays[name], shapes[name], trainer, own) for name in names}
    states = {
        name: {
            # Adam has counted the steps on its own.
            "step": torch.tensor(float(-(-done // trainer.shards.count)), device=trainer.views.device),
            **{
                moment: _tensor(path, f"{name}.{moment}", arrays[f"{name}.{moment}"], shapes[name], trainer, own)
                for moment in MOMENTS
            },
        }
        for name in names
    }
    _check_drawable(path, values)
    counted = {name: _tensor(path, name, arrays[f"count.{name}"], (rows,), trainer, own) for name in counts}
    of_each = {name: _tensor(path, name, arrays[name], shape, trainer) for name, shape in pictures_have.items()}
    trainer.table.replace(values, states)
    trainer.total = rows
    for name, of_pictures in trainer.picture_parameters.items():
        of_pictures.restore({part: of_each[f"{name}{part}"] for part in of_pictures.state()})
    trainer.strategy.counts = counted
    trainer.done, trainer.first = done, first
    trainer.least_degree = used_degree(torch.from_numpy(arrays["bands"]))


def digest_of(trainer: Trainer) -> str:
    """The digest of the pictures, cameras and points that a scene is fitted to."""
    views = trainer.views
    digest = hashlib.sha256()
    masks = [mask for mask in views.masks if mask is not None]
    digest.update(
        f"{[mask is not None for mask in views.masks]} {views.background} {views.offset}{views.lenses or ''}".encode()
    )
    for value in (*views.images, *masks, views.viewmats, views.Ks, views.points, views.colors):
        digest.update(f"{value.dtype} {list(value.shape)}".encode())
        digest.update(value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _described(trainer: Trainer, pictures: str) -> dict[str, Any]:
    width, height = max(trainer.views.sizes)
    size = f"{width}x{height}"
    state = {"done": trainer.done, "first": trainer.first}
    return {"layout": _LAYOUT, **state, "size": size, "pictures": pictures, **asdict(trainer.options)}


def is_complete(path: Path) -> bool:
    """Whether a file is the checkpoint of a fit that took all its steps."""
    try:
        arrays, _ = read_npz(path, ["fit"])
        said = _description(path, arrays["fit"])
        return type(said["done"]) is int and said["done"] == said["steps"]
    except (SceneError, KeyError):
        return False


def _description(path: Path, said: npt.NDArray[Any]) -> dict[str, Any]:
    try:
        if said.dtype != np.uint8 or said.size > _MOST_BYTES:
            raise ValueError("it has no description")
        described = json.loads(said.tobytes())
        if not isinstance(described, dict):
            raise ValueError("its description is no object")
    except (ValueError, RecursionError) as error:
        raise SceneError(f"{path}: a checkpoint is required, found something else: {str(error)[:150]}") from error
    return described


def _check_same(path: Path, said: npt.NDArray[Any], ours: dict[str, Any]) -> tuple[int, int]:
    """The number of steps that were taken, and of Gaussians at the start; SceneError if it is of another fit.

    More steps make the same fit a longer one.
    """
    theirs = _description(path, said)
    before = theirs.get("steps")
    for name, value in ours.items():
        longer = name == "steps" and isinstance(before, int) and value > before
        if name not in ("done", "first") and theirs.get(name) != value and not longer:
            was = f"{theirs.get(name)!s:.40}"
            option = f"--{name.replace('_', '-')}"
            found, remedy = {
                "layout": ("by another version of splat", "go on with that one"),
                "size": (f"to pictures of {was} pixels, not {value}", "give its --max-size or --downscale"),
                "pictures": (
                    "to other pictures, cameras or points",
                    "give those, and its --background, --lenses, --masks and --hold-out",
                ),
                "steps": (f"of {was} steps, not {value}", "give as many --steps, or more"),
            }.get(name, (f"with other {option}: required {value}, found {was}", f"give its {option}"))
            raise SceneError(
                f"{path}: it is the checkpoint of a fit {found}; {remedy}, with --resume, or remove the file to begin "
                "anew"
            )
    counts = []
    for name, most in (("done", theirs["steps"]), ("first", theirs["gaussians"])):
        value = theirs.get(name)
        if type(value) is not int or not 1 <= value <= most:
            raise SceneError(f"{path}: a checkpoint with {name!r} from 1 to {most} is required, found {value!s:.40}")
        counts.append(value)
    done, first = counts
    return done, first


def _own_rows(path: Path, shards: npt.NDArray[Any], rows: int, trainer: Trainer) -> slice:
    """Which of the Gaussians this process has."""
    counts = shards.tolist() if shards.dtype == np.int64 and shards.ndim == 1 else []
    if not counts or sum(counts) != rows or min(counts) < 0:
        raise SceneError(
            f"{path}: shards must be int64, the numbers of Gaussians of each process, {rows} in all; found "
            f"{shards.dtype} of {list(shards.shape)}"
        )
    ours = trainer.shards
    if len(counts) != ours.count:
        return ours.spread
    first = sum(counts[: ours.rank])
    return slice(first, first + counts[ours.rank])


def _tensor(
    path: Path,
    name: str,
    values: npt.NDArray[Any],
    shape: tuple[int, ...],
    trainer: Trainer,
    own: slice = slice(None),
) -> Tensor:
    """The array, or some of its rows, where the trainer is; SceneError if the whole has another type or shape."""
    if values.dtype != np.float32 or values.shape != shape:
        raise SceneError(
            f"{path}: {name} must be float32 of shape {list(shape)}, found {values.dtype} of {list(values.shape)}"
        )
    wrong = ~np.isfinite(values)
    if name.endswith(_SQUARES):
        wrong |= values < 0
    if wrong.any():
        required = "finite numbers of at least 0" if name.endswith(_SQUARES) else "finite numbers"
        raise SceneError(
            f"{path}: {name} must be {required}, found {int(wrong.sum())} others, the first {values[wrong][0]}: it is "
            "damaged, or the fit had failed; remove the file to begin anew"
        )
    # A copy, which does not keep the rows of others in memory.
    return torch.from_numpy(values[own].copy()).to(trainer.views.device)


def _check_drawable(path: Path, values: Parameters) -> None:
    """SceneError if some Gaussians would be left out of a scene."""
    wrong = ~values["scales"].exp().isfinite().all(dim=1) | (values["quats"] == 0).all(dim=1)
    if wrong.any():
        raise SceneError(
            f"{path}: Gaussians of finite sizes with rotations are required, found {int(wrong.sum())} others: it is "
            "damaged, or the fit had failed; remove the file to begin anew"
        )
