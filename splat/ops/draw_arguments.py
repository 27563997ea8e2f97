"""What `rasterization` and `rasterization_2dgs` draw, by which cameras and how: their arguments, as they are given.

`rasterization` documents each. Defaults are those of arguments that `rasterization_2dgs` has not.
"""

# Annotations are not postponed here: a NamedTuple compiles each that is a text, which takes 2 ms of an import.
from typing import Any, Final, NamedTuple

from torch import Tensor

from .arguments import LensArguments

_NO_LENS: Final = LensArguments()


class Scene(NamedTuple):
    """The Gaussians, and what is behind them. Either quats and scales are given or covars."""

    means: Tensor
    quats: Tensor | None
    scales: Tensor | None
    opacities: Tensor
    colors: Tensor | None
    sh_degree: int | None
    backgrounds: Tensor | None
    covars: Tensor | None = None
    extra_signals: Tensor | None = None
    extra_signals_sh_degree: int | None = None


class Cameras(NamedTuple):
    """Where images are taken from, their size, and which depths they show."""

    viewmats: Tensor
    Ks: Tensor
    width: int
    height: int
    near_plane: float
    far_plane: float
    model: str = "pinhole"
    lens: LensArguments = _NO_LENS
    rays: Tensor | None = None


class Options(NamedTuple):
    """What is drawn of the Gaussians, how, and the layout of `meta`."""

    render_mode: str
    radius_clip: float
    eps2d: float
    packed: bool
    tile_size: int
    sparse_grad: bool
    absgrad: bool
    max_alpha: float
    rasterize_mode: str = "classic"
    capacity: int | None = None
    distributed: bool = False
    with_ut: bool = False
    with_eval3d: bool = False
    ut_params: Any = None
    return_normals: bool = False
    global_z_order: bool = True
