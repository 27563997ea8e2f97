"""A float64 renderer written from the definitions, without custom operators, to compare the kernels with.

Sources: Kerbl et al. 2023 (blending, equation 3), Zwicker et al. 2002 (EWA projection), Yu et al. 2024
(compensation).

A float32 renderer cannot agree with it everywhere: alpha < 1/255, the end of a ray at T <= 1e-4, the order of
two Gaussians at nearly the same depth and the culling rules are decisions, and where float32's rounding can
turn one over, the pixel jumps. So every number here carries a first-order bound of what float32 may make of
it: per Gaussian for the position, the covariance, the depth, the opacity and the colour; per pixel and
Gaussian for alpha, which is wholly in doubt where a decision is. From these follows `Rendered.color_bound`.
Tests compare within 1e-4, or within the bound where it is larger, and assert that it is larger almost
nowhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")

# Of float32. Bounds take ROUNDINGS of them for each short chain of operations.
UNIT_ROUNDOFF = 2.0**-24
ROUNDINGS = 2

ALPHA_MIN = 1 / 255
ALPHA_MAX = 0.999
TRANSMITTANCE_MIN = 1e-4
MAX_EXTEND = 3.33
BLOCK = 8

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Projected:
    """N Gaussians seen by one camera, float64, with bounds of float32's errors."""

    visible: Tensor
    """[N] bool."""
    doubtful: Tensor
    """[N] bool: float32 may find otherwise whether it is visible."""
    radii: Tensor
    """[N, 2] int, 0 where not visible."""
    radii_range: tuple[Tensor, Tensor]
    """The least and the largest that float32 may find, were it visible."""
    means2d: Tensor
    depths: Tensor
    conics: Tensor
    """[N, 3] upper triangles."""
    compensations: Tensor
    means2d_error: Tensor
    depths_error: Tensor
    covariance_error: Tensor
    """[N, 2, 2]"""
    conics_error: Tensor
    """Relative, from inverting: [N]."""
    compensations_error: Tensor


@dataclass(frozen=True)
class Rendered:
    """Images of C cameras, float64."""

    colors: Tensor
    """[C, H, W, X]"""
    alphas: Tensor
    """[C, H, W, 1]"""
    color_bound: Tensor
    alpha_bound: Tensor


def rotations(quats: Tensor) -> Tensor:
    """Rotation matrices [N, 3, 3] of quaternions w, x, y, z, which need not be normalised."""
    w, x, y, z = (quats / torch.linalg.norm(quats, dim=1, keepdim=True)).unbind(1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def sh_basis(directions: Tensor, degree: int) -> Tensor:
    """Real spherical harmonics [N, (degree + 1)^2] of directions [N, 3], from Legendre polynomials.

    The order is l, then m from -l to l; signs are those with the Condon-Shortley phase, as 3DGS has them.
    """
    x, y, z = (directions / torch.linalg.norm(directions, dim=1, keepdim=True)).unbind(1)
    # Associated Legendre functions without their factor sin^m, which goes with cos and sin of m phi.
    legendre: dict[tuple[int, int], Tensor] = {(0, 0): torch.ones_like(z)}
    circle = [(torch.ones_like(x), torch.zeros_like(x))]
    for m in range(1, degree + 1):
        legendre[m, m] = -(2 * m - 1) * legendre[m - 1, m - 1]
        c, s = circle[-1]
        circle.append((x * c - y * s, x * s + y * c))
    for m in range(degree + 1):
        for l in range(m + 1, degree + 1):  # noqa: E741
            before = legendre.get((l - 2, m), torch.zeros_like(z))
            legendre[l, m] = ((2 * l - 1) * z * legendre[l - 1, m] - (l + m - 1) * before) / (l - m)
    basis = []
    for l in range(degree + 1):  # noqa: E741
        for m in range(-l, l + 1):
            k = abs(m)
            ratio = torch.lgamma(torch.tensor(l - k + 1.0).double()) - torch.lgamma(torch.tensor(l + k + 1.0).double())
            norm = torch.sqrt((2 * l + 1) / (4 * torch.pi) * torch.exp(ratio)) * (2**0.5 if m else 1)
            basis.append(norm * legendre[l, k] * circle[k][1 if m < 0 else 0])
    return torch.stack(basis, dim=1)


@dataclass(frozen=True)
class Seen:
    """Centres of N Gaussians on an image, and how they move with the centre in space."""

    means2d: Tensor
    """[N, 2]"""
    jacobian: Tensor
    """[N, 2, 3]"""
    means2d_error: Tensor
    jacobian_error: Tensor


def _matrix(rows: list[list[Tensor]]) -> Tensor:
    """[N, 2, 3] of its entries, each [N]."""
    return torch.stack([torch.stack(torch.broadcast_tensors(*row), dim=1) for row in rows], dim=1)


def _pinhole(at: Tensor, at_error: Tensor, K: Tensor, width: int, height: int) -> Seen:
    u = ROUNDINGS * UNIT_ROUNDOFF
    fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]
    x, y, z = at.unbind(1)
    x_error, y_error, z_error = at_error.unbind(1)
    z_relative = z_error / z.abs()
    means2d = torch.stack([fx * x / z + cx, fy * y / z + cy], dim=1)
    means2d_error = torch.stack(
        [
            (fx / z * (x_error + x.abs() * (z_relative + u))).abs() + u * cx.abs(),
            (fy / z * (y_error + y.abs() * (z_relative + u))).abs() + u * cy.abs(),
        ],
        dim=1,
    )

    # The Jacobian is taken at a point that is at most 0.3 tan(fov / 2) beyond the image's borders.
    margin_x, margin_y = 0.3 * 0.5 * width / fx, 0.3 * 0.5 * height / fy
    slope_x = (x / z).clamp(-cx / fx - margin_x, (width - cx) / fx + margin_x)
    slope_y = (y / z).clamp(-cy / fy - margin_y, (height - cy) / fy + margin_y)
    zero = torch.zeros_like(z)
    jacobian = _matrix([[fx / z, zero, -fx * slope_x / z], [zero, fy / z, -fy * slope_y / z]])
    slope_x_error = x_error / z.abs() + slope_x.abs() * z_relative
    slope_y_error = y_error / z.abs() + slope_y.abs() * z_relative
    clamping_error = _matrix(
        [[zero, zero, (fx / z).abs() * slope_x_error], [zero, zero, (fy / z).abs() * slope_y_error]]
    )
    return Seen(means2d, jacobian, means2d_error, jacobian.abs() * z_relative[:, None, None] + clamping_error)


def _ortho(at: Tensor, at_error: Tensor, K: Tensor, width: int, height: int) -> Seen:
    u = ROUNDINGS * UNIT_ROUNDOFF
    focal, center = K[[0, 1], [0, 1]], K[[0, 1], [2, 2]]
    zero = torch.zeros_like(at[:, 0])
    jacobian = _matrix([[focal[0], zero, zero], [zero, focal[1], zero]])
    shift = focal * at[:, :2]
    means2d_error = focal * at_error[:, :2] + u * (shift.abs() + center.abs())
    return Seen(shift + center, jacobian, means2d_error, torch.zeros_like(jacobian))


def _fisheye(at: Tensor, at_error: Tensor, K: Tensor, width: int, height: int) -> Seen:
    """Equidistant: theta away from the axis is theta away from the principal point."""
    u = ROUNDINGS * UNIT_ROUNDOFF
    focal, center = K[[0, 1], [0, 1]], K[[0, 1], [2, 2]]
    x, y, z = at.unbind(1)
    rho2 = x * x + y * y
    length2 = rho2 + z * z
    # theta / rho, and its derivative by rho divided by rho.
    rho = rho2.clamp(min=1e-300).sqrt()
    ratio = torch.atan2(rho, z) / rho
    slope = (z / length2 - ratio) / rho2.clamp(min=1e-300)
    # Near the axis the difference cancels in float64 too: the series of arctan(q) / q.
    q = rho2 / (z * z)
    series = sum((-1) ** (n + 1) * (2 * n + 2) / (2 * n + 3) * q**n for n in range(8)) / z**3
    slope = torch.where((z > 0) & (q < 1e-3), series, slope)
    rows = [
        [ratio + x * x * slope, x * y * slope, -x / length2],
        [x * y * slope, ratio + y * y * slope, -y / length2],
    ]
    unit = _matrix(rows)
    shift = focal * at[:, :2] * ratio[:, None]
    means2d_error = (unit.abs() @ at_error[:, :, None])[..., 0] * focal + u * (shift.abs() + center.abs())
    # Second derivatives are at most a few times 1 / length^2, the Jacobian itself 1 / length.
    relative = 4 * at_error.norm(dim=1) / length2 + 4 * u / length2.sqrt()
    return Seen(
        shift + center, unit * focal[:, None], means2d_error, relative[:, None, None] * focal[:, None].expand(2, 3)
    )


CAMERAS = {"pinhole": _pinhole, "ortho": _ortho, "fisheye": _fisheye}


def project(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    opacities: Tensor,
    viewmat: Tensor,
    K: Tensor,
    width: int,
    height: int,
    eps2d: float = 0.3,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    antialiased: bool = False,
    covars: Tensor | None = None,
    camera_model: str = "pinhole",
) -> Projected:
    """EWA projection of N Gaussians into one camera, with the culling rules.

    Their shapes are quats and scales, or covars, [N, 6]: xx, xy, xz, yy, yz, zz.
    """
    means, opacities, viewmat, K = (value.double() for value in (means, opacities, viewmat, K))
    u = ROUNDINGS * UNIT_ROUNDOFF
    world, shift = viewmat[:3, :3], viewmat[:3, 3]
    at = means @ world.T + shift
    at_error = u * (means.abs() @ world.abs().T + shift.abs())
    z, z_error = at[:, 2], at_error[:, 2]
    seen = CAMERAS[camera_model](at, at_error, K, width, height)
    means2d, means2d_error = seen.means2d, seen.means2d_error
    jacobian, jacobian_error = seen.jacobian, seen.jacobian_error

    if covars is None:
        assert quats is not None
        assert scales is not None
        quats, scales = quats.double(), scales.double()
        # Sigma' = (J W R S) (J W R S)^T. Entries of R have absolute errors, not relative ones.
        axes = rotations(quats) * scales[:, None, :]
        root = jacobian @ world @ axes
        axes_size = (rotations(quats).abs() + 1) * scales.abs()[:, None, :]
        root_size = jacobian.abs() @ world.abs() @ axes_size
        root_error = jacobian_error @ world.abs() @ axes.abs() + u * root_size
        covariance = root @ root.mT
        covariance_error = root_error @ root_size.mT
    else:
        whole = covars.double()[:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)
        frame, frame_error = jacobian @ world, jacobian_error @ world.abs()
        frame_size = jacobian.abs() @ world.abs()
        covariance = frame @ whole @ frame.mT
        covariance_error = (frame_error + u * frame_size) @ whole.abs() @ frame_size.mT
    covariance_error = covariance_error + covariance_error.mT

    blurred = covariance + eps2d * torch.eye(2, dtype=torch.float64)
    covariance_error = covariance_error + u * blurred.abs()
    a, b, c = blurred[:, 0, 0], blurred[:, 0, 1], blurred[:, 1, 1]
    det = a * c - b * b
    det_error = (
        a * covariance_error[:, 1, 1]
        + c * covariance_error[:, 0, 0]
        + 2 * b.abs() * covariance_error[:, 0, 1]
        + u * (a * c + b * b)
    )
    conics = torch.stack([c, -b, a], dim=1) / det[:, None]
    conics_error = u * (a * c + b * b) / det + u

    compensations = torch.ones_like(det)
    compensations_error = torch.zeros_like(det)
    if antialiased:
        sharp = covariance[:, 0, 0] * covariance[:, 1, 1] - covariance[:, 0, 1] ** 2
        ratio = sharp / det
        # 1 - ratio is eps2d (a + c - eps2d) / det, so errors of the covariance do not touch a ratio near 1;
        # the rounding of the two determinants does.
        entries = covariance_error[:, 0, 0] + covariance_error[:, 1, 1]
        ratio_error = (1 - ratio).abs() * det_error / det + (eps2d * entries + 2 * u * (a * c + b * b)) / det + u
        low, high = (_compensation(ratio + sign * ratio_error) for sign in (-1, 1))
        compensations = _compensation(ratio)
        compensations_error = torch.maximum(high - compensations, compensations - low) + u

    # Where alpha is 1/255 along each axis, rounded up to whole pixels.
    opaque = opacities * compensations
    extend = torch.sqrt(2 * torch.log((opaque / ALPHA_MIN).clamp(min=1))).clamp(max=MAX_EXTEND)
    opaque_error = opaque * u + opacities * compensations_error
    extend_error = 2 * opaque_error / opaque.clamp(min=ALPHA_MIN) / extend.clamp(min=1e-3) + 4 * u
    exact = extend[:, None] * torch.stack([a, c], dim=1).sqrt()
    relative = torch.stack([covariance_error[:, 0, 0] / a, covariance_error[:, 1, 1] / c], dim=1)
    exact_error = exact * (relative + u) + extend_error[:, None] * torch.stack([a, c], dim=1).sqrt()
    radii = exact.ceil()
    radii_low, radii_high = (exact - exact_error).ceil(), (exact + exact_error).ceil()

    size = torch.tensor([width, height], dtype=torch.float64)

    def outside(radii: Tensor, margin: Tensor) -> Tensor:
        return ((means2d + radii + margin <= 0) | (means2d - radii - margin >= size)).any(1)

    finite = torch.isfinite(torch.cat([means2d, conics, exact, z[:, None]], dim=1)).all(1)
    visible = finite & (z >= near_plane) & (z <= far_plane) & (det > 0) & (opaque >= ALPHA_MIN)
    visible &= ~((radii <= radius_clip).all(1) | outside(radii, torch.zeros_like(radii)))
    possible = finite & (z + z_error >= near_plane) & (z - z_error <= far_plane) & (opaque + opaque_error >= ALPHA_MIN)
    possible &= ~((radii_high <= radius_clip).all(1) | outside(radii_high, means2d_error))
    certain = visible & (z - z_error >= near_plane) & (z + z_error <= far_plane) & (opaque - opaque_error >= ALPHA_MIN)
    certain &= (det - det_error > 0) & ~((radii_low <= radius_clip).all(1) | outside(radii_low, -means2d_error))

    return Projected(
        visible=visible,
        doubtful=possible & ~certain,
        radii=torch.where(visible[:, None], radii, 0).long(),
        radii_range=(radii_low, radii_high),
        means2d=means2d,
        depths=z,
        conics=conics,
        compensations=compensations,
        means2d_error=means2d_error,
        depths_error=z_error,
        covariance_error=covariance_error,
        conics_error=conics_error,
        compensations_error=compensations_error,
    )


def _compensation(ratio: Tensor) -> Tensor:
    return ratio.clamp(min=0).sqrt()


def shade(means: Tensor, coeffs: Tensor, viewmat: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Colours [N, 3] as one camera sees SH coefficients [N, K, 3], and bounds of their errors."""
    means, coeffs, viewmat = means.double(), coeffs.double(), viewmat.double()
    center = -torch.linalg.solve(viewmat[:3, :3], viewmat[:3, 3])
    directions = means - center
    coeffs = coeffs[:, : (degree + 1) ** 2]
    values = (sh_basis(directions, degree)[..., None] * coeffs).sum(1) + 0.5
    u = ROUNDINGS * UNIT_ROUNDOFF
    # A unit direction off by d moves a harmonic of degree l by at most about 2 l d.
    pose = (viewmat[:3, :3].abs().T @ viewmat[:3, 3].abs()).norm() + center.norm()
    off = u * (means.norm(dim=1) + pose) / directions.norm(dim=1)
    error = (2 * degree * off + u)[:, None] * coeffs.abs().sum(1) + u
    return values.clamp(min=0), error


def _on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Tensors here are small: with more threads, torch spends most of the time on starting them."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_num_threads(threads)

    return call


@_on_one_thread
def render(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    eps2d: float = 0.3,
    sh_degree: int | None = None,
    backgrounds: Tensor | None = None,
    render_mode: str = "RGB",
    rasterize_mode: str = "classic",
    covars: Tensor | None = None,
    camera_model: str = "pinhole",
) -> Rendered:
    """What `splat.rasterization` must render, with the same arguments, but that `covars` are [N, 6]."""
    antialiased = rasterize_mode == "antialiased"
    images = []
    for i, (viewmat, K) in enumerate(zip(viewmats, Ks, strict=True)):
        projected = project(
            means, quats, scales, opacities, viewmat, K, width, height,
            eps2d, near_plane, far_plane, radius_clip, antialiased, covars, camera_model,
        )  # fmt: skip
        here = colors[i] if colors.ndim == (3 if sh_degree is None else 4) else colors
        if sh_degree is None:
            features, features_error = here.double(), torch.zeros_like(here, dtype=torch.float64)
        else:
            features, features_error = shade(means, here, viewmat, sh_degree)
        background = torch.zeros(features.shape[1]).double() if backgrounds is None else backgrounds[i].double()
        if render_mode != "RGB":
            keep = features.shape[1] if render_mode.startswith("RGB") else 0
            features = torch.cat([features[:, :keep], projected.depths[:, None]], dim=1)
            features_error = torch.cat([features_error[:, :keep], projected.depths_error[:, None]], dim=1)
            background = torch.cat([background[:keep], torch.zeros(1).double()])
        expected_depth = render_mode.endswith("ED")
        images.append(
            _blend(
                projected,
                opacities.double(),
                means,
                features,
                features_error,
                background,
                expected_depth,
                width,
                height,
            )
        )
    return Rendered(*(torch.stack(parts) for parts in zip(*images, strict=True)))


def _blend(
    p: Projected,
    opacities: Tensor,
    means: Tensor,
    features: Tensor,
    features_error: Tensor,
    background: Tensor,
    expected_depth: bool,
    width: int,
    height: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One image, block by block so that all pixels of a block times all Gaussians near it fit in memory."""
    channels = features.shape[1]
    colors, colors_bound = (torch.zeros(height, width, channels, dtype=torch.float64) for _ in range(2))
    alphas, alphas_bound = (torch.zeros(height, width, 1, dtype=torch.float64) for _ in range(2))
    drawn = (p.visible | p.doubtful).nonzero().flatten()
    drawn = drawn[torch.argsort(p.depths[drawn], stable=True)]
    reach = p.radii_range[1][drawn] + p.means2d_error[drawn] + 1
    first, last = p.means2d[drawn] - reach, p.means2d[drawn] + reach
    for top in range(0, height, BLOCK):
        for left in range(0, width, BLOCK):
            bottom, right = min(top + BLOCK, height), min(left + BLOCK, width)
            near = (first[:, 0] <= right) & (last[:, 0] >= left) & (first[:, 1] <= bottom) & (last[:, 1] >= top)
            rows = torch.arange(top, bottom, dtype=torch.float64) + 0.5
            columns = torch.arange(left, right, dtype=torch.float64) + 0.5
            pixels = torch.cartesian_prod(columns, rows)
            parts = _blend_pixels(
                p, opacities, means, features, features_error, background, expected_depth, drawn[near], pixels
            )
            for image, part in zip((colors, alphas, colors_bound, alphas_bound), parts, strict=True):
                image[top:bottom, left:right] = part.reshape(right - left, bottom - top, -1).transpose(0, 1)
    return colors, alphas, colors_bound, alphas_bound


def _blend_pixels(
    p: Projected,
    opacities: Tensor,
    means: Tensor,
    features: Tensor,
    features_error: Tensor,
    background: Tensor,
    expected_depth: bool,
    ids: Tensor,
    pixels: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Blend Gaussians `ids` [G], near to far, into `pixels` [P, 2]: colours, alphas and a bound for each."""
    u = ROUNDINGS * UNIT_ROUNDOFF
    alpha, error, jump = _alphas(p, opacities, ids, pixels)
    color, color_error = features[ids], features_error[ids]

    # T is the transmittance after each Gaussian, `upper` the most that it may be in float32.
    after, upper = (1 - alpha).cumprod(1), (1 - alpha + error + jump).cumprod(1)
    lower = (2 * after - upper).clamp(min=0)
    ones = torch.ones(len(pixels), 1, dtype=torch.float64)
    before, upper_before = torch.cat([ones, after], dim=1), torch.cat([ones, upper], dim=1)
    # A ray ends before the Gaussian that takes T to the minimum.
    end = _first(after <= TRANSMITTANCE_MIN)
    weight = torch.where(torch.arange(len(ids)) < end[:, None], alpha * before[:, :-1], 0.0)
    left = before.gather(1, end[:, None])
    image = weight @ color + left * background

    # d image / d alpha_i = T_i (color_i - what is behind), and what is behind is a mean of colours. Rounding errors
    # of different Gaussians are independent; jumps add up.
    share = upper_before[:, :-1]
    in_alpha = (share * error).square().sum(1, keepdim=True).sqrt() + (share * jump).sum(1, keepdim=True)
    in_left = u * left.new_ones(left.shape) * (left < 1)

    # Where the ray ends is in doubt if float32 may end it earlier or later: then all that was left there is.
    earliest = _first(lower * (1 - u) <= TRANSMITTANCE_MIN)
    latest = _first(upper * (1 + u) <= TRANSMITTANCE_MIN)
    in_end = torch.where((earliest < latest)[:, None], upper_before.gather(1, earliest[:, None]), 0.0)
    swapped, swapped_end = _swaps(p, means, ids, alpha, upper_before, color, end)
    in_alpha = in_alpha + torch.maximum(in_end, swapped_end)

    palette = torch.cat([color, background[None], torch.zeros_like(background)[None]])
    bound = in_alpha * (palette.amax(0) - palette.amin(0)) + swapped
    bound = bound + weight @ (color_error + u * color.abs()) + in_left * background.abs()
    if expected_depth:
        image[:, -1:], bound[:, -1:] = _quotient(
            image[:, -1:], 1 - left, color[:, -1], weight, share * (error + jump) > 0, in_alpha, in_left,
            swapped[:, -1:] + weight @ (color_error + u * color.abs())[:, -1:],
        )  # fmt: skip
    return image, 1 - left, bound, in_alpha + in_left


def _quotient(
    depth: Tensor,
    alpha: Tensor,
    depths: Tensor,
    weight: Tensor,
    possible: Tensor,
    in_alpha: Tensor,
    in_left: Tensor,
    in_depth: Tensor,
) -> tuple[Tensor, Tensor]:
    """The expected depth [P, 1] and its bound.

    An error of a weight moves the quotient by its Gaussian's distance from it, so not at all where only one
    Gaussian is seen.
    """
    expected = depth / alpha.clamp(min=1e-10)
    spread = torch.where((weight > 0) | possible, (depths - expected).abs(), 0.0)
    spread = spread.amax(1, keepdim=True) if len(depths) else torch.zeros_like(expected)
    least = (alpha - in_alpha).clamp(min=0)
    error = in_alpha * 2 * spread + in_depth + in_left * expected
    return expected, torch.where(error > 0, error / least, 0.0)


def _alphas(p: Projected, opacities: Tensor, ids: Tensor, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Alphas [P, G], 0 where skipped, and how far float32 may be from them.

    By rounding, and, where it may decide otherwise on skipping, by a jump of all that alpha may be.
    """
    u = ROUNDINGS * UNIT_ROUNDOFF
    opacity = opacities[ids] * p.compensations[ids]
    opacity_error = opacity * u + opacities[ids] * p.compensations_error[ids]
    dx, dy = (p.means2d[ids] - pixels[:, None]).unbind(2)
    a, b, c = p.conics[ids].unbind(1)
    sigma = 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy
    # d sigma = g . d mean - g^T d Sigma' g / 2 with g = conic . d, and what evaluating this very sum adds.
    gx, gy = (a * dx + b * dy).abs(), (b * dx + c * dy).abs()
    e = p.covariance_error[ids]
    terms = 0.5 * (a * dx * dx + c * dy * dy) + (b * dx * dy).abs()
    evaluation = u * terms
    sigma_error = (
        gx * p.means2d_error[ids, 0]
        + gy * p.means2d_error[ids, 1]
        + 0.5 * (gx * gx * e[:, 0, 0] + gy * gy * e[:, 1, 1])
        + gx * gy * e[:, 0, 1]
        + p.conics_error[ids] * terms
        + evaluation
    )
    raw = opacity * torch.exp(-sigma)
    raw_error = raw * torch.expm1(sigma_error.clamp(max=50.0)) + opacity_error * torch.exp(-sigma) + u * raw
    taken = p.visible[ids] & (sigma >= 0) & (raw >= ALPHA_MIN)
    alpha = torch.where(taken, raw.clamp(max=ALPHA_MAX), 0.0)
    most = (raw + raw_error).clamp(max=ALPHA_MAX)
    # Where alpha is clamped for sure it is exact, but 1 - alpha is rounded there too.
    error = torch.where(raw - raw_error > ALPHA_MAX, 0.0, torch.minimum(raw_error, most)) + UNIT_ROUNDOFF
    # Only the mixed term can be negative, so only it can make float32's sum negative.
    positive = (sigma > evaluation) | (b * dx * dy >= 0)
    decided = p.visible[ids] & ~p.doubtful[ids] & (raw - raw_error >= ALPHA_MIN) & positive
    decided |= raw + raw_error < ALPHA_MIN
    return alpha, torch.where(decided & taken, error, 0.0), torch.where(decided, 0.0, most)


@dataclass(frozen=True)
class Blended:
    """P pixels, float64, differentiable."""

    colors: Tensor
    """[P, D]"""
    alphas: Tensor
    """[P, 1]"""
    doubtful: Tensor
    """[P] bool: float32 may find otherwise whether a Gaussian is seen, clamped or the last; then the gradient jumps."""


def blend(
    means2d: Tensor,
    conics: Tensor,
    colors: Tensor,
    opacities: Tensor,
    background: Tensor,
    pixels: Tensor,
    max_alpha: float = ALPHA_MAX,
) -> Blended:
    """Blend projected Gaussians [G, ...], near to far, into pixels [P, 2].

    Each tensor of the Gaussians may have a dimension P in front: copies for each pixel, whose gradients are what that
    pixel adds.
    """
    dx, dy = (means2d - pixels[:, None]).unbind(-1)
    a, b, c = conics.unbind(-1)
    raw = opacities * torch.exp(-(0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy))
    seen = raw >= ALPHA_MIN
    alpha = torch.where(seen, raw.clamp(max=max_alpha), 0.0)
    ones = torch.ones(len(pixels), 1, dtype=torch.float64)
    after = (1 - alpha).cumprod(1)
    before = torch.cat([ones, after], dim=1)
    end = _first(after <= TRANSMITTANCE_MIN)
    blended = torch.arange(raw.shape[1]) < end[:, None]
    weight = torch.where(blended, alpha * before[:, :-1], 0.0)
    left = before.gather(1, end[:, None])
    image = (weight[..., None] * colors).sum(1) + left * background
    near = [(raw / ALPHA_MIN - 1).abs() < 1e-5, (raw / max_alpha - 1).abs() < 1e-5, _near_end(after, seen)]
    return Blended(image, 1 - left, torch.stack(near).any(0).any(1))


def _near_end(after: Tensor, seen: Tensor) -> Tensor:
    """Where [P, G] a ray ends, or not, by a hair."""
    return seen & ((after / TRANSMITTANCE_MIN - 1).abs() < 1e-4)


def _swaps(
    p: Projected, means: Tensor, ids: Tensor, alpha: Tensor, upper_before: Tensor, color: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """What it may change [P, X] that Gaussians of nearly the same depth are blended in the other order.

    Also the transmittance [P, 1] in doubt where one of them ends the ray.
    """
    depth, error = p.depths[ids], p.depths_error[ids]
    change = torch.zeros(len(alpha), color.shape[1], dtype=torch.float64)
    in_doubt = torch.zeros(len(alpha), 1, dtype=torch.float64)
    for step in range(1, len(ids)):
        close = depth[step:] - depth[:-step] <= error[step:] + error[:-step]
        if not close.any():
            break
        # Gaussians with the same mean have the same depth in float32 too, and keep their order.
        k = (close & (means[ids[step:]] != means[ids[:-step]]).any(1)).nonzero().flatten()
        both = alpha[:, k] * alpha[:, k + step] * upper_before[:, k]
        change += both @ (color[k] - color[k + step]).abs()
        at_end = (k <= end[:, None]) & (end[:, None] <= k + step) & (both > 0)
        doubt = torch.where(at_end, upper_before[:, k], 0.0)
        in_doubt = torch.maximum(in_doubt, doubt.amax(1, keepdim=True) if len(k) else in_doubt)
    return change, in_doubt


def _first(condition: Tensor) -> Tensor:
    """Index [P] of the first true value in each row of [P, G], or G."""
    last = torch.ones(len(condition), 1, dtype=torch.bool)
    return torch.cat([condition, last], dim=1).int().argmax(dim=1)
