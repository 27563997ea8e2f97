"""Checks of single values: every message names the argument, what is required and what was found."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.autograd import forward_ad

# The limits of the kernels. A tile's pixels are the threads of one CUDA block.
MAX_TILE_SIZE: Final = 32
MAX_SIDE: Final = 2**20
# Channels, tiles, Gaussians and intersections are numbered with 32 bits. An intersection's key has 32 bits for image
# and tile together, which is enough for MAX_TILES tiles of all images.
MAX_CHANNELS: Final = 2**30
MAX_TILES: Final = 2**30
MAX_COUNT: Final = 2**31 - 1
# From how many bytes on it is tried, before the operators run, whether there is memory for the images.
LARGE_IMAGES: Final = 2**30
# Bytes are numbered with 64 bits.
MAX_VALUES: Final = 2**61 - 1


def check_tensor(name: str, tensor: object, like: Tensor | None = None, dtype: torch.dtype = torch.float32) -> None:
    """Raise TypeError for anything but a dense tensor of `dtype`, ValueError for one on another device than `like`, or
    without values.

    NotImplementedError for forward-mode differentiation (`torch.func.jvp`), whose tangents would be lost, for
    `torch.func`'s reverse mode, which does not take operators whose gradients are registered by name, and for
    `torch.vmap`.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a {_word(dtype)} torch.Tensor, found {type(tensor).__name__}")
    is_traced = torch.compiler.is_compiling()
    if not is_traced:
        _check_dense(name, tensor)
    if tensor.dtype != dtype:
        raise TypeError(f"{name} must be {_word(dtype)}, found {tensor.dtype}; pass {name}.to({dtype})")
    # Within no transform, which is by far the most often, no tensor can be one of its own.
    if not is_traced and (forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None):
        _check_differentiable(name, tensor)
    if like is not None and tensor.device != like.device:
        raise ValueError(
            f"{name} must be on the device of the other tensors, {like.device}, found {tensor.device}; "
            f"pass {name}.to({str(like.device)!r})"
        )


def _check_dense(name: str, tensor: Tensor) -> None:
    if tensor.is_nested:
        raise TypeError(f"{name} must be a dense tensor, found a nested one; pass one scene at a time")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, found {tensor.layout}; pass {name}.to_dense()")
    if tensor.is_meta:
        raise ValueError(f"{name} must have values, found a tensor on the device meta; make it on 'cpu' or 'cuda'")


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_no_tangent(name: str, tensor: Tensor) -> None:
    """Raise NotImplementedError for a tensor with a forward-mode tangent, which would be lost."""
    if forward_ad.unpack_dual(tensor).tangent is not None:
        raise NotImplementedError(
            f"{name} has a forward-mode tangent, and there is no forward-mode derivative; use reverse mode, "
            "torch.autograd.grad"
        )


def _check_differentiable(name: str, tensor: Tensor) -> None:
    check_no_tangent(name, tensor)
    if torch._C._functorch.is_gradtrackingtensor(tensor):
        raise NotImplementedError(
            f"{name} is being differentiated by torch.func (grad, vjp, jacrev), which splat's operators do not take; "
            "use torch.autograd.grad, or backward()"
        )
    if torch._C._functorch.is_batchedtensor(tensor):
        raise NotImplementedError(
            f"{name} is batched by torch.vmap, which splat's operators do not take; pass tensors with a batch "
            "dimension, or call the function in a loop"
        )


def check_shape(name: str, tensor: Tensor, shape: Sequence[int], words: str) -> None:
    """Raise ValueError for a shape other than `shape`; `words` describe it, such as [..., N, 3]."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} must have shape {words} = {list(shape)}, found {shape_of(tensor)}")


def check_backgrounds(backgrounds: Tensor, images: Sequence[int], channels: int) -> None:
    """Raise ValueError unless there is one background for each image, [..., D], or one for all, [D]."""
    if tuple(backgrounds.shape) != (channels,):
        check_shape("backgrounds", backgrounds, (*images, channels), "[D] or [..., D], one for each image,")


def for_images(backgrounds: Tensor, images: Sequence[int], channels: int) -> Tensor:
    """Backgrounds that were checked, one for each of all images, [I, D]."""
    whole = backgrounds if backgrounds.ndim == len(images) + 1 else backgrounds.expand(*images, channels)
    return shaped(whole, math.prod(images), channels)


def check_dimensions(name: str, tensor: Tensor, least: int, words: str) -> None:
    """Raise ValueError for a tensor with fewer than `least` dimensions, TypeError for what is none."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, found {type(tensor).__name__}")
    if tensor.ndim < least:
        raise ValueError(f"{name} must have shape {words}, found {shape_of(tensor)}")


def one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    """Return the value if it is one of `values`; raise ValueError if not."""
    if value not in values:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}, found {value!r}")
    return value


def integer(name: str, value: int) -> int:
    """Return the value as an int; raise TypeError for a float or anything else, ValueError for more than 64 bits."""
    try:
        result = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, found {value!r} ({type(value).__name__})") from None
    if result.bit_length() > 63:
        raise ValueError(f"{name} must be an int of 64 bits, found one of {result.bit_length()}")
    return result


def positive_int(name: str, value: int, most: int | None = None) -> int:
    """Return the value as an int from 1 to `most`; raise TypeError or ValueError if it is not one."""
    number = integer(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be above 0, found {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, found {number}")
    return number


def number(name: str, value: float, allow_infinity: bool = False, most: float = math.inf) -> float:
    """Return the value as a float from 0 to `most`; raise TypeError or ValueError if it is not one."""
    try:
        result = float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a number, found {value!r} ({type(value).__name__})") from None
    except OverflowError:  # Python's integers have no end
        result = math.inf if value > 0 else -math.inf
    if not result >= 0 or (math.isinf(result) and not allow_infinity):
        raise ValueError(f"{name} must be {'' if allow_infinity else 'finite and '}at least 0, found {result}")
    if result > most:
        raise ValueError(f"{name} must be at most {most}, found {result}")
    return result


def checked_alpha(value: float) -> float:
    """A largest alpha; raise TypeError or ValueError if it is none."""
    result = number("max_alpha", value)
    if not 1 / 255 <= result <= 0.9999:
        raise ValueError(f"max_alpha must be from 1/255, the smallest that is drawn, to 0.9999, found {result}")
    return result


def check_ids(name: str, ids: Tensor, count: int) -> None:
    """Raise ValueError if not all are from 0 to count - 1."""
    if ids.numel() and not bool((ids >= 0).all() and (ids < count).all()):
        raise ValueError(f"{name} must be from 0 to {count - 1}, found {int(ids.min())} to {int(ids.max())}")


def check_channels(tensor: Tensor, more: int = 0, name: str = "colors") -> None:
    """Raise ValueError for colours [..., D] without channels, or with too many; `more` channels will follow them."""
    if tensor.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one channel, found {shape_of(tensor)}")
    if tensor.shape[-1] + more > MAX_CHANNELS:
        beside = f" beside {more} of depth or extra signals" if more else ""
        raise ValueError(f"{name} must have at most {MAX_CHANNELS - more} channels{beside}, found {shape_of(tensor)}")


def check_count(what: str, *factors: int, most: int = MAX_COUNT, remedy: str = "render fewer images at once") -> None:
    """Raise ValueError if the product of the factors is more than the kernels can number."""
    # In a graph, sizes that depend on data are unknown; the operators, which produce them, check those themselves.
    if not torch.compiler.is_compiling() and math.prod(factors) > most:
        found = " x ".join(map(str, factors))
        raise ValueError(
            f"there must be at most {most} {what}, which is what the kernels can number; found {found}; {remedy}"
        )


def check_tiles(images: int, columns: int, rows: int) -> None:
    """Raise ValueError for more tiles than the kernels can number."""
    remedy = "render fewer images at once, or with larger tiles"
    check_count("images x columns of tiles x rows of tiles", images, columns, rows, most=MAX_TILES, remedy=remedy)


def check_values(images: int, height: int, width: int, channels: int) -> None:
    """Raise ValueError for images with more values than 64 bits can address."""
    check_count("values of the images", images, height, width, channels, most=MAX_VALUES)


def image_bytes(images: int, height: int, width: int, channels: int) -> int:
    """What images take: colours, opacities and the last Gaussian of each pixel."""
    return images * height * width * (4 * channels + 8)


def check_memory(images: int, height: int, width: int, channels: int, device: torch.device) -> None:
    """Raise torch.OutOfMemoryError if large images do not fit into memory.

    An operator that gets none has torch print C++ stack traces, and raises an error that may not say so.
    """
    size = image_bytes(images, height, width, channels)
    if torch.compiler.is_compiling() or size < LARGE_IMAGES:
        return
    try:
        torch.empty(size, dtype=torch.uint8, device=device)
    except RuntimeError:
        raise torch.OutOfMemoryError(
            f"{images} x {width} x {height} pixels with {channels} channels take {size / 2**30:.1f} GiB, more than "
            f"there is on {device}; render a smaller image, or parts of it (move the principal points in Ks)"
        ) from None


def check_sums(what: str, tensor: Tensor) -> None:
    """Raise RuntimeError on CUDA, where gradients are added up in no fixed order, if torch is to forbid that."""
    forbidden = (
        torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
    )
    if tensor.is_cuda and forbidden:
        raise RuntimeError(
            f"the gradient of {what} is not deterministic on CUDA, and torch.use_deterministic_algorithms "
            "forbids that; pass warn_only=True, or switch it off"
        )


def shaped(tensor: Tensor, *shape: int) -> Tensor:
    """`tensor.reshape(shape)`; the tensor itself if it has that shape, as a view is a step of the backward pass."""
    return tensor if tensor.shape == shape else tensor.reshape(shape)


def shape_of(tensor: Tensor) -> str:
    """A shape, as messages show it."""
    return str(list(tensor.shape))
