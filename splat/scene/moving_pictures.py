"""Writing moving pictures: H.264 in an MP4 file, by PyAV, or a folder of PNG files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from .file_output import check_new_folder, check_writable, replacing
from .gaussians import SceneError
from .image import to_8_bit, write_png

WriteFrame = Callable[[Tensor], None]
"""Takes the next picture, [H, W, 3] of values from 0 to 1."""
_SUFFIX: Final = ".mp4"
_REQUIRED: Final = "av>=12"
_ENCODER: Final = "libx264"
_BT709: Final = 1
_SRGB: Final = 13
_VIDEO_RANGE: Final = 1
"""How the colours are encoded, by the numbers of ITU-T H.273; FFmpeg's, for the range."""


def check_moving_pictures(path: str | Path) -> Path:
    """Raise ValueError or OSError if `moving_pictures` cannot write to this file or folder."""
    return check_writable(path, _SUFFIX, "moving pictures") if is_video(path) else check_new_folder(path)


def is_video(path: str | Path) -> bool:
    """Whether the name is that of a file for moving pictures, not of a folder."""
    return Path(path).name.lower().endswith(_SUFFIX)


def require_encoder() -> Any:
    """PyAV, the module; SceneError if it, or its encoder, is not there."""
    try:
        av = import_module("av")
        av.codec.Codec(_ENCODER, "w")
    except (ImportError, ValueError) as error:  # ValueError: FFmpeg was built without it
        raise SceneError(
            f"PyAV with {_ENCODER} is required to write an {_SUFFIX} file, found none ({error}); to fix: pip install "
            f"'{_REQUIRED}', or name a folder, which gets the frames as PNG files"
        ) from None
    return av


def moving_pictures(path: Path, width: int, height: int, fps: float) -> AbstractContextManager[WriteFrame]:
    """What writes pictures of a size, one after the other.

    A video appears complete when the block ends without an error, or not at all; its sides must be even. In a folder,
    each picture appears complete, and those of a block that ends with an error stay.

    Raises SceneError if PyAV is required and missing, OSError if something cannot be written.
    """
    return _video(path, width, height, fps) if is_video(path) else _pictures(path)


@contextmanager
def _pictures(folder: Path) -> Iterator[WriteFrame]:
    folder.mkdir(exist_ok=True)
    number = 0

    def write(image: Tensor) -> None:
        nonlocal number
        write_png(folder / f"{number:05}.png", image)
        number += 1

    yield write


@contextmanager
def _video(path: Path, width: int, height: int, fps: float) -> Iterator[WriteFrame]:
    av = require_encoder()
    with replacing(path) as file, _errors_of(av, path):
        # By its name, since FFmpeg opens it again to put the index first; an absolute one is no URL.
        name = str(Path(file.name).absolute())
        with av.open(name, "w", format="mp4", options={"movflags": "+faststart"}) as container:
            stream = container.add_stream(_ENCODER, Fraction(fps).limit_denominator(1001), options={"crf": "18"})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            encoder = stream.codec_context
            encoder.colorspace = encoder.color_primaries = _BT709
            encoder.color_trc, encoder.color_range = _SRGB, _VIDEO_RANGE

            def write(image: Tensor) -> None:
                frame = av.VideoFrame.from_ndarray(to_8_bit(image), format="rgb24")
                frame = frame.reformat(format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
                container.mux(stream.encode(frame))

            yield write
            container.mux(stream.encode())


@contextmanager
def _errors_of(av: Any, path: Path) -> Iterator[None]:
    """An error of FFmpeg becomes an OSError about this file, unless it is of memory."""
    try:
        yield
    except av.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
