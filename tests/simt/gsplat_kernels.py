"""gsplat 1.5.3's kernels, executed on the CPU: launched as its launchers launch them, one after the other.

What stands for its compiled module has the same functions, so gsplat's own Python code runs with it (`in_place_of`).
Its kernels are given as PTX (benchmarks/gsplat_sources.py), of 3 channels and float32. In place of CUB's radix sort,
which is stable, pairs are sorted by torch's stable sort of the same keys.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from .compile_simt import build

BLOCK = 256  # of all kernels but the rasterizers
# What `build` is to execute.
KERNELS = "|".join((
    "projection_ewa_3dgs_fused_fwd_kernelIfE", "projection_ewa_3dgs_fused_bwd_kernelIfE",
    "spherical_harmonics_fwd_kernelIfE", "spherical_harmonics_bwd_kernelIfE",
    "projection_ut_3dgs_fused_kernelIfE", "intersect_tile_kernelIfE", "intersect_offset_kernelE",
    "rasterize_to_pixels_3dgs_fwd_kernelILj3EfE", "rasterize_to_pixels_3dgs_bwd_kernelILj3EfE",
    "rasterize_to_pixels_from_world_3dgs_fwd_kernelILj3EfE", "rasterize_to_pixels_from_world_3dgs_bwd_kernelILj3EfE",
))  # fmt: skip
STAGED = 28  # bytes of shared memory for a Gaussian: its number, centre, opacity and conic
STAGED_IN_SPACE = 20 + 36, 20 + 28  # its number, centre and opacity; then a matrix, or backwards scales and quaternion
U32, F32, FLAG = np.uint32, np.float32, np.bool_


def build_gsplat(folder: Path, ptx: str, count: bool = False) -> CompiledModule:
    """Compile what executes gsplat's PTX into the folder, or what counts it.

    Raises:
        UnknownInstruction: there is PTX that the translator does not know.
        RuntimeError: CMake or a compiler failed; with its output.
    """
    return CompiledModule(build(folder, "gsplat_counts" if count else "gsplat_ptx", ptx, KERNELS, count))


@contextmanager
def in_place_of(compiled: CompiledModule) -> Iterator[None]:
    """Meanwhile, gsplat's functions use these kernels."""
    backend = ModuleType("gsplat.cuda._backend")
    backend.__dict__["_C"] = compiled
    with mock.patch.dict(sys.modules, {"gsplat.cuda._backend": backend}):
        yield


class CompiledModule:
    """The functions of gsplat's compiled module that `rasterization` uses in a dense layout.

    Tensors are float32 and in the host's memory. What a kernel does not write of its results is NaN.
    """

    # Where gsplat asks for a number of an enumeration, it gets the last of the names from here.
    CameraModelType = ShutterType = FThetaPolynomialType = None
    PINHOLE, ORTHO, FISHEYE, FTHETA = 0, 1, 2, 3
    ROLLING_TOP_TO_BOTTOM, ROLLING_LEFT_TO_RIGHT, ROLLING_BOTTOM_TO_TOP, ROLLING_RIGHT_TO_LEFT, GLOBAL = 0, 1, 2, 3, 4
    PIXELDIST_TO_ANGLE, ANGLE_TO_PIXELDIST = 0, 1
    UnscentedTransformParameters = FThetaCameraDistortionParameters = SimpleNamespace

    def __init__(self, executor: ModuleType) -> None:
        self.executor = executor

    def projection_ewa_3dgs_fused_fwd(
        self,
        means: Tensor,
        covars: Tensor | None,
        quats: Tensor | None,
        scales: Tensor | None,
        opacities: Tensor | None,
        viewmats: Tensor,
        Ks: Tensor,
        width: int,
        height: int,
        eps2d: float,
        near_plane: float,
        far_plane: float,
        radius_clip: float,
        calc_compensations: bool,
        camera_model: int,
    ) -> tuple[Tensor | None, ...]:
        """Radii, means, depths, conics and, if asked for, compensations."""
        sizes = _projection_sizes(means, viewmats)
        shape = (*means.shape[:-2], viewmats.shape[-3], means.shape[-2])
        radii = torch.zeros(*shape, 2, dtype=torch.int32)
        means2d, depths, conics = _unwritten(*shape, 2), _unwritten(*shape), _unwritten(*shape, 3)
        compensations = torch.zeros(shape) if calc_compensations else None
        self._launch_line(
            "projection_ewa_3dgs_fused_fwd_kernel", radii.numel() // 2,
            *sizes, means, covars, quats, scales, opacities, viewmats, Ks, U32(width), U32(height),
            F32(eps2d), F32(near_plane), F32(far_plane), F32(radius_clip), U32(camera_model),
            radii, means2d, depths, conics, compensations,
        )  # fmt: skip
        return radii, means2d, depths, conics, compensations

    def projection_ewa_3dgs_fused_bwd(
        self,
        means: Tensor,
        covars: Tensor | None,
        quats: Tensor | None,
        scales: Tensor | None,
        viewmats: Tensor,
        Ks: Tensor,
        width: int,
        height: int,
        eps2d: float,
        camera_model: int,
        radii: Tensor,
        conics: Tensor,
        compensations: Tensor | None,
        v_means2d: Tensor,
        v_depths: Tensor,
        v_conics: Tensor,
        v_compensations: Tensor | None,
        viewmats_requires_grad: bool,
    ) -> tuple[Tensor | None, ...]:
        """Gradients of means, covariances, quaternions, scales and poses."""
        v_means, v_covars = torch.zeros_like(means), _zeros(covars)
        v_quats, v_scales = (_zeros(value) if covars is None else None for value in (quats, scales))
        v_viewmats = torch.zeros_like(viewmats) if viewmats_requires_grad else None
        self._launch_line(
            "projection_ewa_3dgs_fused_bwd_kernel", radii.numel() // 2,
            *_projection_sizes(means, viewmats), means, covars, quats, scales, viewmats, Ks, U32(width), U32(height),
            F32(eps2d), U32(camera_model), radii, conics, compensations,
            v_means2d, v_depths, v_conics, v_compensations, v_means, v_covars, v_quats, v_scales, v_viewmats,
            # Culled Gaussians' threads end first, and are in the masks of functions of the warp all the same.
            ended_lanes_leave=True,
        )  # fmt: skip
        return v_means, v_covars, v_quats, v_scales, v_viewmats

    def projection_ut_3dgs_fused(
        self,
        means: Tensor,
        quats: Tensor,
        scales: Tensor,
        opacities: Tensor | None,
        viewmats: Tensor,
        viewmats_rs: Tensor | None,
        Ks: Tensor,
        width: int,
        height: int,
        eps2d: float,
        near_plane: float,
        far_plane: float,
        radius_clip: float,
        calc_compensations: bool,
        camera_model: int,
        ut: Any,
        shutter: int,
        radial: Tensor | None,
        tangential: Tensor | None,
        thin_prism: Tensor | None,
        ftheta: Any,
    ) -> tuple[Tensor | None, ...]:
        """Radii, means, depths, conics and, if asked for, compensations."""
        shape = (*means.shape[:-2], viewmats.shape[-3], means.shape[-2])
        radii = torch.zeros(*shape, 2, dtype=torch.int32)
        means2d, depths, conics = _unwritten(*shape, 2), _unwritten(*shape), _unwritten(*shape, 3)
        compensations = torch.zeros(shape) if calc_compensations else None
        self._launch_line(
            "projection_ut_3dgs_fused_kernel", radii.numel() // 2,
            *_projection_sizes(means, viewmats), means, quats, scales, opacities, viewmats, viewmats_rs, Ks,
            U32(width), U32(height), F32(eps2d), F32(near_plane), F32(far_plane), F32(radius_clip), U32(camera_model),
            *_lens(ut, shutter, radial, tangential, thin_prism, ftheta), radii, means2d, depths, conics, compensations,
        )  # fmt: skip
        return radii, means2d, depths, conics, compensations

    def spherical_harmonics_fwd(self, degree: int, dirs: Tensor, coeffs: Tensor, masks: Tensor | None) -> Tensor:
        """Colours."""
        colors, count = _unwritten(*dirs.shape), dirs.numel() // 3
        self._launch_line(
            "spherical_harmonics_fwd_kernel", 3 * count,
            U32(count), U32(coeffs.shape[-2]), U32(degree), dirs, coeffs, masks, colors,
        )  # fmt: skip
        return colors

    def spherical_harmonics_bwd(
        self,
        bases: int,
        degree: int,
        dirs: Tensor,
        coeffs: Tensor,
        masks: Tensor | None,
        v_colors: Tensor,
        compute_v_dirs: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Gradients of coefficients and directions."""
        v_coeffs, count = torch.zeros_like(coeffs), dirs.numel() // 3
        v_dirs = torch.zeros_like(dirs) if compute_v_dirs else None
        self._launch_line(
            "spherical_harmonics_bwd_kernel", 3 * count,
            U32(count), U32(bases), U32(degree), dirs, coeffs, masks, v_colors, v_coeffs, v_dirs,
        )  # fmt: skip
        return v_coeffs, v_dirs

    def intersect_tile(
        self,
        means2d: Tensor,
        radii: Tensor,
        depths: Tensor,
        image_ids: Tensor | None,
        gaussian_ids: Tensor | None,
        images: int,
        tile_size: int,
        tile_width: int,
        tile_height: int,
        sort: bool,
        segmented: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers of tiles, keys, and indices of Gaussians."""
        tiles = torch.zeros(depths.shape, dtype=torch.int32)
        count, packed = depths.numel(), means2d.dim() == 2
        per_image = 0 if packed else means2d.shape[-2]

        def launch(sums: Tensor | None, tiles: Tensor | None, keys: Tensor | None, ids: Tensor | None) -> None:
            self._launch_line(
                "intersect_tile_kernel", count,
                FLAG(packed), U32(images), U32(per_image), U32(count if packed else 0), image_ids, gaussian_ids,
                means2d, radii, depths, sums, U32(tile_size), U32(tile_width), U32(tile_height),
                U32((tile_width * tile_height).bit_length()), U32(images.bit_length()), tiles, keys, ids,
            )  # fmt: skip

        launch(None, tiles, None, None)
        sums = tiles.flatten().cumsum(0)
        pairs = int(sums[-1]) if count else 0
        keys, ids = torch.zeros(pairs, dtype=torch.int64), torch.zeros(pairs, dtype=torch.int32)
        if pairs:
            launch(sums, None, keys, ids)
        if sort:
            keys, order = keys.sort(stable=True)
            ids = ids[order]
        return tiles, keys, ids

    def intersect_offset(self, keys: Tensor, images: int, tile_width: int, tile_height: int) -> Tensor:
        """Where each tile's pairs begin."""
        offsets, tiles = torch.zeros(images, tile_height, tile_width, dtype=torch.int32), tile_width * tile_height
        self._launch_line(
            "intersect_offset_kernel", len(keys),
            U32(len(keys)), keys, U32(images), U32(tiles), U32(tiles.bit_length()), offsets,
        )  # fmt: skip
        return offsets

    def rasterize_to_pixels_3dgs_fwd(
        self,
        means2d: Tensor,
        conics: Tensor,
        colors: Tensor,
        opacities: Tensor,
        backgrounds: Tensor | None,
        masks: Tensor | None,
        width: int,
        height: int,
        tile_size: int,
        offsets: Tensor,
        ids: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Colours, alphas, and the places in the lists of the last Gaussians blended."""
        shape = (*offsets.shape[:-2], height, width)
        pictures, alphas = _unwritten(*shape, colors.shape[-1]), _unwritten(*shape, 1)
        last_ids = torch.full(shape, -1, dtype=torch.int32)
        self._launch_tiles(
            "rasterize_to_pixels_3dgs_fwd_kernel", offsets, tile_size, STAGED,
            *_raster_sizes(means2d, offsets, ids), means2d, conics, colors, opacities, backgrounds, masks,
            U32(width), U32(height), U32(tile_size), U32(offsets.shape[-1]), U32(offsets.shape[-2]), offsets, ids,
            pictures, alphas, last_ids,
        )  # fmt: skip
        return pictures, alphas, last_ids

    def rasterize_to_pixels_3dgs_bwd(
        self,
        means2d: Tensor,
        conics: Tensor,
        colors: Tensor,
        opacities: Tensor,
        backgrounds: Tensor | None,
        masks: Tensor | None,
        width: int,
        height: int,
        tile_size: int,
        offsets: Tensor,
        ids: Tensor,
        alphas: Tensor,
        last_ids: Tensor,
        v_pictures: Tensor,
        v_alphas: Tensor,
        absgrad: bool,
    ) -> tuple[Tensor | None, ...]:
        """Gradients: absolute ones of the means if asked for, then those of means, conics, colours and opacities."""
        v_means2d, v_conics = torch.zeros_like(means2d), torch.zeros_like(conics)
        v_colors, v_opacities = torch.zeros_like(colors), torch.zeros_like(opacities)
        v_absolute = torch.zeros_like(means2d) if absgrad else None
        if len(ids):
            self._launch_tiles(
                "rasterize_to_pixels_3dgs_bwd_kernel", offsets, tile_size, STAGED + 4 * colors.shape[-1],
                *_raster_sizes(means2d, offsets, ids), means2d, conics, colors, opacities, backgrounds, masks,
                U32(width), U32(height), U32(tile_size), U32(offsets.shape[-1]), U32(offsets.shape[-2]), offsets, ids,
                alphas, last_ids, v_pictures, v_alphas, v_absolute, v_means2d, v_conics, v_colors, v_opacities,
            )  # fmt: skip
        return v_absolute, v_means2d, v_conics, v_colors, v_opacities

    def rasterize_to_pixels_from_world_3dgs_fwd(self, *gaussians_and_cameras: Any) -> tuple[Tensor, Tensor, Tensor]:
        """As `rasterize_to_pixels_3dgs_fwd`, of Gaussians in space and their cameras."""
        colors, offsets, (width, height) = (
            gaussians_and_cameras[3],
            gaussians_and_cameras[20],
            gaussians_and_cameras[7:9],
        )
        shape = (*offsets.shape[:-2], height, width)
        pictures, alphas = _unwritten(*shape, colors.shape[-1]), _unwritten(*shape, 1)
        last_ids = torch.full(shape, -1, dtype=torch.int32)
        self._launch_in_space("fwd", STAGED_IN_SPACE[0], gaussians_and_cameras, pictures, alphas, last_ids)
        return pictures, alphas, last_ids

    def rasterize_to_pixels_from_world_3dgs_bwd(self, *given: Any) -> tuple[Tensor, ...]:
        """Gradients of means, quaternions, scales, colours and opacities."""
        gradients = tuple(map(torch.zeros_like, given[:5]))
        staged = STAGED_IN_SPACE[1] + 4 * given[3].shape[-1]
        if len(given[21]):
            self._launch_in_space("bwd", staged, given[:22], *given[22:], *gradients)
        return gradients

    def _launch_in_space(self, way: str, staged: int, given: tuple[Any, ...], *results: Tensor) -> None:
        *gaussians, backgrounds, masks, width, height, tile_size = given[:10]
        viewmats, viewmats_rs, Ks, camera_model, *lens, offsets, ids = given[10:]
        self._launch_tiles(
            f"rasterize_to_pixels_from_world_3dgs_{way}_kernel", offsets, tile_size, staged,
            *_projection_sizes(gaussians[0], viewmats), U32(len(ids)), FLAG(False), *gaussians, backgrounds, masks,
            U32(width), U32(height), U32(tile_size), U32(offsets.shape[-1]), U32(offsets.shape[-2]),
            viewmats, viewmats_rs, Ks, U32(camera_model), *_lens(*lens), offsets, ids, *results,
        )  # fmt: skip

    def _launch_line(self, kernel: str, count: int, *arguments: Any, ended_lanes_leave: bool = False) -> None:
        launch_line(self.executor, kernel, count, *arguments, ended_lanes_leave=ended_lanes_leave)

    def _launch_tiles(self, kernel: str, offsets: Tensor, tile_size: int, staged: int, *arguments: Any) -> None:
        """With a block for each tile and a thread for each of its pixels."""
        grid = (offsets.shape[:-2].numel(), offsets.shape[-2], offsets.shape[-1])
        launch(self.executor, kernel, grid, (tile_size, tile_size, 1), tile_size**2 * staged, *arguments)


def launch_line(
    executor: ModuleType, kernel: str, count: int, *arguments: Any, ended_lanes_leave: bool = False
) -> None:
    """With a thread for each of so many."""
    if count:
        grid = (-(-count // BLOCK), 1, 1)
        launch(executor, kernel, grid, (BLOCK, 1, 1), 0, *arguments, ended_lanes_leave=ended_lanes_leave)


def launch(
    executor: ModuleType,
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    *arguments: Any,
    ended_lanes_leave: bool = False,
) -> None:
    """Of the only kernel whose mangled name has this part."""
    (name,) = (name for name in executor.in_ptx if kernel in name)
    executor.run_ptx(name, grid, block, shared, [_argument(value) for value in arguments], ended_lanes_leave)


def _argument(value: Tensor | np.generic | bytes | None) -> np.ndarray | bytes | None:
    """As run_ptx takes it."""
    if isinstance(value, Tensor):
        assert value.is_contiguous()
        return value.detach().numpy()
    return value if value is None or isinstance(value, bytes) else value.tobytes()


def _lens(
    ut: Any, shutter: int, radial: Tensor | None, tangential: Tensor | None, thin_prism: Tensor | None, ftheta: Any
) -> tuple[Any, ...]:
    """Parameters of the unscented transform, shutter, coefficients and f-theta lens, as a kernel takes them."""
    transform = struct.pack(
        "4f?3x", ut.alpha, ut.beta, ut.kappa, ut.in_image_margin_factor, ut.require_all_sigma_points_valid
    )
    lens = bytes(68)
    if vars(ftheta):
        polynomials = (*ftheta.pixeldist_to_angle_poly, *ftheta.angle_to_pixeldist_poly)
        lens = struct.pack("i16f", ftheta.reference_poly, *polynomials, ftheta.max_angle, *ftheta.linear_cde)
    return transform, U32(shutter), radial, tangential, thin_prism, lens


def _projection_sizes(means: Tensor, viewmats: Tensor) -> tuple[np.generic, ...]:
    """Batches, cameras, Gaussians."""
    n = means.shape[-2]
    return U32(means.numel() // (n * 3)), U32(viewmats.shape[-3]), U32(n)


def _raster_sizes(means2d: Tensor, offsets: Tensor, ids: Tensor) -> tuple[np.generic, ...]:
    """Images, Gaussians, pairs, and whether the layout is packed."""
    packed = means2d.dim() == 2
    return U32(offsets.shape[:-2].numel()), U32(0 if packed else means2d.shape[-2]), U32(len(ids)), FLAG(packed)


def _unwritten(*shape: int) -> Tensor:
    return torch.full(shape, torch.nan)


def _zeros(value: Tensor | None) -> Tensor | None:
    return None if value is None else torch.zeros_like(value)
