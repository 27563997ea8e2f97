"""What programs import from gsplat beside its functions: the exporter and two helpers, beside gsplat's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import splat
from splat.compat.gsplat_helpers import _eval_sh_bases_fast, load_test_data
from splat.scene.formats import read_scene

exporter = pytest.importorskip("gsplat.exporter", reason="gsplat is what is compared with; ci/test installs it")

ENDINGS = {"ply": ".ply", "splat": ".splat", "ply_compressed": ".compressed.ply"}


def trained(degree: int = 3, count: int = 300) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=generator).requires_grad_()

    return {
        "means": random(3), "scales": random(3) - 3, "quats": random(4), "opacities": random() + 1,
        "sh0": random(1, 3) * 0.3, "shN": random((degree + 1) ** 2 - 1, 3) * 0.2,
    }  # fmt: skip


def read(data: bytes, format: str, folder: Path) -> list[Tensor]:
    """The Gaussians, in the order of `trained`: each writer has its own."""
    path = folder / f"scene{ENDINGS[format]}"
    path.write_bytes(data)
    scene = read_scene(path)
    order = torch.cdist(trained()["means"].detach(), scene.means).argmin(1)
    assert len(order.unique()) == len(scene)
    quats = torch.nn.functional.normalize(scene.quats, dim=1)
    quats = quats * quats[torch.arange(len(scene)), quats.abs().argmax(1), None].sign()
    return [each[order] for each in (scene.means, quats, scene.scales, scene.opacities, scene.sh)]


@pytest.mark.parametrize("format", ENDINGS)
@pytest.mark.parametrize("degree", [0, 3])
def test_exported_files_hold_what_gsplat_s_hold(format: Any, degree: int, tmp_path: Path) -> None:
    given = trained(degree)
    saved = tmp_path / "any name"
    data = splat.export_splats(**given, format=format, save_to=str(saved))
    assert saved.read_bytes() == data
    found = read(data, format, tmp_path)
    expected = read(exporter.export_splats(**given, format=format), format, tmp_path)
    # A step of a byte in colours and rotations, as roundings differ; of a compressed file in chunks, which differ too.
    steps = {
        "ply": (1e-5,) * 5,
        "splat": (1e-6, 0.02, 1e-6, 0.005, 0.016),
        "ply_compressed": (0.01, 0.01, 0.02, 0.005, 0.05),
    }
    for one, other, step in zip(found, expected, steps[format], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=step)
    if format == "ply":
        assert splat.export_splats(**given) == data


def test_gaussians_that_are_not_finite_are_left_out() -> None:
    given = {name: value.detach().clone() for name, value in trained(0, 9).items()}
    given["opacities"][2] = torch.nan
    given["quats"][4] = 0
    with pytest.warns(UserWarning, match="2 of 9"):
        data = splat.export_splats(**given, format="splat")
    assert len(data) == 7 * 32


def test_a_wrong_export_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format must be one of 'ply', 'splat', 'ply_compressed', found 'spz'"):
        splat.export_splats(**trained(), format="spz")  # type: ignore[arg-type]
    for wrong in ({"shN": torch.zeros(9, 2, 3)}, {"sh0": torch.zeros(9, 4, 3)}):
        with pytest.raises(ValueError, match=r"sh0 and shN must have .* with N = 9 and K = 0, 3, 8, 15 or 24, found"):
            splat.export_splats(**trained(0, 9) | wrong)
    for name, value in trained(0, 9).items():
        for other in (value.tolist(), None, value.detach().numpy()):
            with pytest.raises(TypeError, match=f"^{name} must be a torch.Tensor, found {type(other).__name__}"):
                splat.export_splats(**trained(0, 9) | {name: other})
        with pytest.raises(ValueError, match=r" must have shape"):
            splat.export_splats(**trained(0, 9) | {name: value[..., None]})
    with pytest.raises(FileNotFoundError):
        splat.export_splats(**trained(), save_to=str(tmp_path / "none" / "x.ply"))


@pytest.mark.parametrize("bases", [1, 4, 9, 16, 25])
def test_bases_are_gsplat_s(bases: int) -> None:
    from gsplat.cuda._torch_impl import _eval_sh_bases_fast as theirs

    dirs = torch.nn.functional.normalize(torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(1)), dim=-1)
    torch.testing.assert_close(_eval_sh_bases_fast(bases, dirs), theirs(bases, dirs), rtol=1e-5, atol=1e-5)


def test_points_of_a_file_become_gsplat_s_gaussians(tmp_path: Path) -> None:
    from gsplat._helper import load_test_data as theirs

    rng = np.random.default_rng(1)
    path = str(tmp_path / "points.npz")
    arrays = {
        "height": np.array(30), "width": np.array(40),
        "viewmats": np.stack([np.eye(4)] * 2), "Ks": np.stack([np.eye(3)] * 2),
        "means3d": rng.normal(size=(50, 3)), "colors": rng.integers(0, 256, (50, 3), dtype=np.uint8),
    }  # fmt: skip
    np.savez(path, **arrays)
    for options in ({}, {"scene_grid": 3, "scene_crop": (-1, -1, -2, 1, 0.5, 2)}):
        torch.manual_seed(7)
        found = load_test_data(path, device="cpu", **options)
        torch.manual_seed(7)
        for one, other in zip(found, theirs(path, device="cpu", **options), strict=True):
            assert torch.equal(one, other) if isinstance(one, Tensor) else one == other
    with pytest.raises(FileNotFoundError, match=r"assets/test_garden\.npz"):
        load_test_data(device="cpu")
    with pytest.raises(ValueError, match="scene_grid must be odd, found 2"):
        load_test_data(path, scene_grid=2)
    np.savez(path, **{name: array for name, array in arrays.items() if name != "Ks"})
    with pytest.raises(ValueError, match=r"missing: \['Ks'\]; found height, "):
        load_test_data(path, device="cpu")
