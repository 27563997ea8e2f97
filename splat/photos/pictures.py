"""Reading photographs: sizes first, then pixels, made smaller on request; files may be damaged or hostile."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from ..scene.file_input import opened_file
from ..scene.gaussians import SceneError
from .lens_models import Lens
from .undistortion import size_before, undistort
from .unpacking import check_scans, tile_size, unpacking_bytes

Bytes = npt.NDArray[np.uint8]

# Not all that Pillow reads: for some formats it starts other programs.
PICTURES: Final = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
MOST_PIXELS: Final = 160_000_000
"""Of a picture: a few more than the 151 million of the largest cameras. A file of 20 KB can have as many."""
_EXACT: Final = ("PNG", "TIFF", "BMP", "GIF", "PPM")
"""Of these, those that keep each value."""
BLACK: Final = (0, 0, 0)
_HEIC_BRANDS: Final = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")
"""Of the pictures that phones write, which Pillow reads with another package's help."""
_ORIENTATION: Final = 0x0112
_TURNED: Final = 5
"""The first of EXIF's orientations whose width is the height of what is stored."""


class DamagedPictureError(SceneError):
    """A file is no picture, or a damaged one."""


class PictureHeader(NamedTuple):
    """What a picture is, without its pixels."""

    size: tuple[int, int]
    """Width and height as stored."""
    orientation: int
    """EXIF's, 1 to 8: how to turn what is stored so that it looks right (EXIF 2.32, 4.6.4, tag 274)."""

    @property
    def shown_size(self) -> tuple[int, int]:
        """Width and height of what looks right."""
        width, height = self.size
        return (height, width) if self.orientation >= _TURNED else self.size


class Pixels(NamedTuple):
    """A picture as it is used."""

    colors: Bytes
    """[H, W, 3]."""
    transparent: bool
    """Whether something is seen through it."""


@contextmanager
def opened_picture(
    path: Path, required: str = "a picture (PNG, JPEG, ...)", none: str = "none"
) -> Iterator[Image.Image]:
    """An open picture. What is wrong with the file is a SceneError: `required`, found `none` or a damaged one.

    OSError if it cannot be opened.
    """
    large = f"{path}: a picture of at most {MOST_PIXELS} pixels is required, found {{}}; make it smaller first"
    with opened_file(path) as file, warnings.catch_warnings():
        # About large and unusual pictures; those that are too large are an error.
        warnings.simplefilter("ignore")
        try:
            head = file.read(12)
            file.seek(0)
            is_heic = head[4:8] == b"ftyp" and head[8:] in _HEIC_BRANDS
            if is_heic:
                _heif_opener(path)
            with Image.open(file, formats=("HEIF",) if is_heic else PICTURES) as picture:
                for (width, height), what in ((picture.size, ""), (tile_size(picture), "tiles of ")):
                    if width * height > MOST_PIXELS:
                        raise SceneError(large.format(f"{what}{width}x{height}"))
                yield picture
        except Image.DecompressionBombError as error:  # far more, which Pillow notices by itself
            raise SceneError(large.format("more")) from error
        except UnidentifiedImageError as error:
            raise DamagedPictureError(f"{path}: {required} is required, found {none}") from error
        except (MemoryError, SceneError):
            raise
        except Exception as error:  # Pillow's decoders have no common error class for damaged files
            raise DamagedPictureError(f"{path}: {required} is required, found a damaged picture: {error}") from error


def _heif_opener(path: Path) -> None:
    try:
        import_module("pillow_heif").register_heif_opener()
    except ImportError as error:
        raise SceneError(
            f"{path}: pillow-heif is required to read HEIC pictures, found none ({error}); to fix: pip install "
            "'pillow-heif>=0.18', or save them as JPEG"
        ) from None


def picture_header(path: Path) -> PictureHeader:
    """What a picture is, from its header."""
    with opened_picture(path) as picture:
        return PictureHeader(picture.size, _orientation(picture))


def _orientation(picture: Image.Image) -> int:
    # Not that of PNG files, which unpacks the picture to look behind it.
    found = Image.Image.getexif(picture).get(_ORIENTATION, 1)
    return found if found in range(1, 9) else 1


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a picture as stored."""
    return picture_header(path).size


def check_unpacking(
    path: Path, size: tuple[int, int], memory: int | None, lenses: tuple[Lens, Lens] | None = None
) -> None:
    """Raise SceneError if `read_resized` takes more than `memory`, in bytes, if known. No pixel is read."""
    with opened_picture(path) as picture:
        whole = picture.size
        picture.draft("RGB", size_before(size, *lenses) if lenses else size)
        width, height = picture.size
        needed = unpacking_bytes(picture, whole)
    if memory is not None and needed > memory:
        raise SceneError(
            f"{path}: unpacking a picture of {width}x{height} pixels needs about {needed / 2**30:.1f} GiB, found "
            f"{memory / 2**30:.1f} GiB of memory; make it smaller first"
        )


def read_resized(
    path: Path,
    size: tuple[int, int],
    background: tuple[int, int, int] = BLACK,
    turned: bool = False,
    lenses: tuple[Lens, Lens] | None = None,
) -> Pixels:
    """A picture of `size`, width and height, each pixel the mean of those that it covers.

    `background` is put behind what is transparent. `turned`: it is turned as its EXIF says. `lenses`: that which took
    it, and the pinhole camera that it is to be of.
    """
    with opened_picture(path) as picture:
        check_scans(picture, path)
        sideways = turned and _orientation(picture) >= _TURNED
        # A JPEG can be unpacked at a half, a fourth or an eighth of its size.
        wanted = size_before(size, *lenses) if lenses else size
        picture.draft("RGB", wanted[::-1] if sideways else wanted)
        shown = ImageOps.exif_transpose(picture) if turned else picture
        whole, transparent = _opaque(_in_8_bits(shown, path), background)
        if lenses:
            whole = Image.fromarray(undistort(np.asarray(whole), *lenses))
        made = whole if whole.size == size else whole.resize(size, Image.Resampling.BOX)
        return Pixels(np.array(made), transparent)


def read_mask(path: Path, size: tuple[int, int], lenses: tuple[Lens, Lens] | None = None) -> npt.NDArray[np.bool_]:
    """A mask [H, W] of `size`, width and height: false where the picture is 0, or mostly so, as COLMAP has it.

    A format that loses details has no exact 0: there it is what is nearer to black than to the brightest.
    """
    with opened_picture(path) as picture:
        check_scans(picture, path)
        used = Image.fromarray(_is_kept(picture) * np.uint8(255))
        if lenses:
            used = Image.fromarray(undistort(np.asarray(used), *lenses))
        return np.array(used if used.size == size else used.resize(size, Image.Resampling.BOX)) > 127


def _is_kept(picture: Image.Image) -> npt.NDArray[np.bool_]:
    if _is_wide(picture):
        kept: npt.NDArray[np.bool_] = np.asarray(picture) != 0
        return kept
    brightest: Bytes = np.asarray(_opaque(picture, BLACK)[0]).max(axis=2)
    return np.greater(brightest, 0 if picture.format in _EXACT else int(brightest.max()) // 2)


def _opaque(picture: Image.Image, background: tuple[int, int, int]) -> tuple[Image.Image, bool]:
    """The picture as RGB, before a background, and whether that can be seen."""
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture.convert("RGB"), False
    shown = picture.convert("RGBA")
    lowest, _ = shown.getchannel("A").getextrema()
    solid = Image.new("RGBA", shown.size, (*background, 255))
    solid.alpha_composite(shown)
    return solid.convert("RGB"), lowest != 255


def _is_wide(picture: Image.Image) -> bool:
    """Whether it is grey with more than 8 bits."""
    return picture.mode == "F" or picture.mode.startswith("I")


def _in_8_bits(picture: Image.Image, path: Path) -> Image.Image:
    """The picture with 8 bits a channel: grey of 16 bits, or of numbers from 0 to 1, is not what Pillow makes of it."""
    if not _is_wide(picture):
        return picture
    values = np.asarray(picture)
    most = 1.0 if picture.mode == "F" else 65535.0
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= most:  # a NaN, too
        raise SceneError(
            f"{path}: a grey picture of values from 0 to {most:g} is required, found {low:g} to {high:g}; save it with "
            "8 bits"
        )
    made = Image.fromarray((values * (255 / most) + 0.5).astype(np.uint8))
    if (clear := picture.info.get("transparency")) is not None:
        made.putalpha(Image.fromarray((values != clear) * np.uint8(255)))
    return made
