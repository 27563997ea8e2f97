"""Cameras, and how to place one so that it sees a whole scene.

Cameras follow the convention of COLMAP and OpenCV: x to the right, y down, z forward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import torch
from torch import Tensor

from .coordinates import NO_OFFSET, Offset
from .gaussians import Gaussians, SceneError
from .near_plane import far_plane, near_plane

_Number = TypeVar("_Number", float, Tensor)

# The up direction, and the side from which azimuth 0 looks: the front in the conventions of glTF (y) and of Blender
# (z), and the same upside down.
_FRAMES: Final[dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]]] = {
    "x": ((1, 0, 0), (0, 0, 1)),
    "-x": ((-1, 0, 0), (0, 0, 1)),
    "y": ((0, 1, 0), (0, 0, 1)),
    "-y": ((0, -1, 0), (0, 0, -1)),
    "z": ((0, 0, 1), (0, -1, 0)),
    "-z": ((0, 0, -1), (0, 1, 0)),
}
_NEAREST, _FARTHEST = 1e-13, 1e15
"""Distances of cameras: squares of such numbers, and of the near plane's, are those of float32."""
_AT_ONCE: Final = 2**16
"""Gaussians, which bounds the memory of `hidden_share`."""
UP_AXES: Final = tuple(_FRAMES)
UP: Final[Mapping[str, tuple[float, float, float]]] = {axis: above for axis, (above, _) in _FRAMES.items()}
"""The directions of the options --up."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera."""

    viewmat: Tensor
    """[4, 4] world-to-camera, float32."""
    K: Tensor
    """[3, 3] intrinsics in pixels, float32."""
    width: int
    height: int
    near: float
    """The near plane (`near_plane.py`)."""

    @property
    def far(self) -> float:
        """The far plane."""
        return far_plane(self.near)

    def of_size(self, width: int, height: int) -> Camera:
        """The camera for pictures of another size: they show all of this one's, as large as it can be.

        What else draws at a size of its own, pages too, does as this does.
        """
        scale = min(width / self.width, height / self.height)
        K = self.K * torch.tensor([[scale], [scale], [1.0]])
        K[0, 2] += (width - self.width * scale) / 2
        K[1, 2] += (height - self.height * scale) / 2
        return Camera(self.viewmat, K, width, height, self.near)

    def pose(self, offset: Offset = NO_OFFSET) -> tuple[Tensor, Tensor]:
        """Where it is, [3], and the rotation [3, 3] from its axes to the world's, float64; a scene's offset added."""
        turn, shift = self.viewmat[:3, :3].double(), self.viewmat[:3, 3].double()
        return torch.tensor(offset, dtype=torch.float64) - turn.T @ shift, turn.T

    def sees(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Depths [N] of points [N, 3], float64 on the CPU, and which are in the picture, if nothing hides them."""
        K, viewmat = self.K.double(), self.viewmat.double()
        places = (K @ viewmat[:3, :3]) @ points.T + (K @ viewmat[:3, 3])[:, None]
        depths = places[2]
        across, down = places[:2] / depths
        inside = (across >= 0) & (across < self.width) & (down >= 0) & (down < self.height)
        return depths, inside & (depths > self.near)


def seen_share(camera: Camera, scene: Gaussians) -> float:
    """How much of a scene a camera shows: the share of its Gaussians, by opacity, whose centres are in the picture."""
    weights = scene.opacities.double().cpu()
    seen = camera.sees(scene.means.double().cpu())[1]
    return float(weights[seen].sum() / weights.sum().clamp(min=1e-30))


def hidden_share(camera: Camera, scene: Gaussians) -> float:
    """How much of the middle half of a scene is hidden by Gaussians that stand far in front of it.

    These are nearer than half the way to its middle, or than four of its radii in front of that. Each counts as a ball,
    on lines to a grid of points in the box of the middle half.
    """
    lower, upper = (corner.double().cpu() for corner in scene.bounds(0.25))
    turn, shift = camera.viewmat[:3, :3].double(), camera.viewmat[:3, 3].double()
    depth = float(turn[2] @ (lower + upper) / 2 + shift[2])
    limit = max(depth / 2, depth - 2 * float(torch.linalg.norm(upper - lower)))
    depths = scene.means.double().cpu() @ turn[2] + shift[2]
    before = (depths > camera.near) & (depths < limit)
    places = scene.means.cpu()[before].double() @ turn.T + shift
    sizes, opacities = scene.scales.cpu()[before].double().median(dim=1)[0], scene.opacities.cpu()[before].double()
    grid = lower + torch.cartesian_prod(*[torch.linspace(0, 1, 5, dtype=torch.float64)] * 3) * (upper - lower)
    lines = torch.nn.functional.normalize(grid @ turn.T + shift, dim=1).T
    left = torch.zeros(lines.shape[1], dtype=torch.float64)
    for start in range(0, len(places), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        aside = (places[part].square().sum(dim=1, keepdim=True) - (places[part] @ lines).square()).clamp(min=0)
        covered = opacities[part, None] * torch.exp(-0.5 * aside / sizes[part, None].square().clamp(min=1e-60))
        left += torch.log1p(-covered.clamp(max=0.999)).sum(dim=0)
    return 1 - float(left.exp().mean())


class FirstView(NamedTuple):
    """How a scene is first seen."""

    camera: Camera
    up: tuple[float, float, float] | None
    """x, y, z of the direction that stays upright while it is turned; None: the camera's own."""


def _axes_of(up: str) -> Tensor:
    """The axes [3, 3] of a scene whose axis `up` points up: to the side, above, and to the front."""
    above, front = (torch.tensor(axis, dtype=torch.float64) for axis in _FRAMES[up])
    return torch.stack([torch.linalg.cross(above, front), above, front])


def upright_rotation(up: str) -> Tensor:
    """The rotation matrix [3, 3] of a scene whose axis `up` points up, after which -y does, as in COLMAP's axes."""
    return _axes_of("-y").T @ _axes_of(up)


def rotation_rows(quaternion: Sequence[_Number]) -> list[list[_Number]]:
    """The rows of the rotation matrix of a quaternion w, x, y, z of length 1, or of many."""
    w, x, y, z = quaternion
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]


def orbit(
    scene: Gaussians,
    width: int,
    height: int,
    *,
    azimuth: float = 0.0,
    elevation: float = 0.0,
    fov: float = 50.0,
    distance: float = 1.0,
    up: str = "y",
    outside: float = 0.02,
) -> Camera:
    """A camera that looks at the middle of `scene` from a distance at which the scene fills the image.

    Args:
        scene: what to look at; `Gaussians.bounds` says where it is.
        width: image width in pixels.
        height: image height in pixels.
        azimuth: degrees, counter-clockwise as seen from above.
        elevation: degrees above the horizon, -90 to 90.
        fov: degrees that the shorter side of the image covers, between 0 and 180.
        distance: factor on the distance at which the scene just fills the image.
        up: the axis of the world that points up in the image, one of `UP_AXES`.
        outside: the share of the Gaussians, at each end of each axis, that is not looked at.

    Raises:
        ValueError: if a value is out of range.
        SceneError: if nothing in the scene is visible, or it is too large or too small to be drawn.
    """
    if min(width, height) < 1:
        raise ValueError(f"width and height must be at least 1, found {width} and {height}")
    if not 0 < fov < 180:
        raise ValueError(f"fov must be between 0 and 180 degrees, found {fov}")
    if not -90 <= elevation <= 90:
        raise ValueError(f"elevation must be between -90 and 90 degrees, found {elevation}")
    if not math.isfinite(azimuth):
        raise ValueError(f"azimuth must be finite, found {azimuth}")
    if not (0 < distance < math.inf):
        raise ValueError(f"distance must be above 0 and finite, found {distance}")
    if up not in _FRAMES:
        raise ValueError(f"up must be one of {', '.join(UP_AXES)}, found {up!r}")

    lower, upper = (corner.double().cpu() for corner in scene.bounds(outside))
    center = (lower + upper) / 2
    # A single point has no extent: use its standard deviation, so that the camera is not inside it.
    radius = float(torch.linalg.norm(upper - lower)) / 2 or 3 * float(scene.scales.max()) or 1.0
    back = radius / math.sin(math.radians(fov) / 2) * distance

    if not _NEAREST <= back <= _FARTHEST:
        raise SceneError(
            f"a scene that fills the picture from {_NEAREST:g} to {_FARTHEST:g} away is required, found one that does "
            f"from {back:.3g}, beyond what float32 can compute; `splat convert --scale` makes it another size"
        )

    # The camera's axes are rotated rather than aimed, so that they are defined at the poles too.
    side, above, front = _axes_of(up)
    a, e = math.radians(azimuth), math.radians(elevation)
    right = math.cos(a) * side - math.sin(a) * front
    outward = math.cos(a) * front + math.sin(a) * side
    forward = -(math.cos(e) * outward + math.sin(e) * above)
    down = torch.linalg.cross(forward, right)

    viewmat = torch.eye(4, dtype=torch.float64)
    viewmat[:3, :3] = torch.stack([right, down, forward])
    viewmat[:3, 3] = -viewmat[:3, :3] @ (center - back * forward)
    focal = 0.5 * min(width, height) / math.tan(math.radians(fov) / 2)
    K = torch.tensor([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    return Camera(viewmat=viewmat.float(), K=K, width=width, height=height, near=near_plane(back))
