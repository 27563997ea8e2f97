"""`python -m splat.as_gsplat`: programs that import gsplat, unedited, on splat's functions."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from processes import run, run_fresh
from scenes import random_scene

import splat
from splat import as_gsplat
from splat.compat import at_start, overlay
from splat.compat.cpu_device import OnTheCpu

GSPLAT_14 = os.environ.get("SPLAT_TEST_GSPLAT14", "")
NEEDS_GSPLAT = pytest.mark.skipif(find_spec("gsplat") is None, reason="gsplat is not here; ci/test installs it")
NEEDS_GSPLAT_14 = pytest.mark.skipif(
    not GSPLAT_14,
    reason="SPLAT_TEST_GSPLAT14 does not name a folder with gsplat 1.4.0 (pip install --no-deps --target)",
)
AT_START = str(*at_start.__path__)

# As gsplat's examples: `cli`, a device by name, a strategy, an exporter. It also starts a process and a thread.
PROGRAM = """
import argparse, json, multiprocessing, threading
import torch
import gsplat
from gsplat import export_splats
from gsplat.distributed import cli
from gsplat.optimizers import SelectiveAdam
from gsplat.rendering import rasterization
from gsplat.strategy import MCMCStrategy
from fused_ssim import fused_ssim


def picture(params, device):
    views = torch.eye(4, device=device)[None]
    views[0, 2, 3] = 3
    Ks = torch.tensor([[40.0, 0, 24], [0, 40.0, 18], [0, 0, 1]]).cuda()[None]
    return rasterization(
        params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
        torch.cat([params["sh0"], params["shN"]], 1), views, Ks, 48, 36, sh_degree=1, packed=False,
    )


def train(local_rank, world_rank, world_size, args):
    torch.manual_seed(0)
    torch.cuda.set_device(local_rank)
    device = f"cuda:{torch.cuda.current_device()}"
    sizes = {"means": [3], "quats": [4], "scales": [3], "opacities": [], "sh0": [1, 3], "shN": [3, 3]}
    params = torch.nn.ParameterDict({k: torch.nn.Parameter(torch.randn(40, *v) * 0.4) for k, v in sizes.items()})
    params["scales"].data -= 2
    params["opacities"].data[:5] = -9
    params = params.to(device)
    groups = {name: {"params": value, "lr": 1e-2} for name, value in params.items()}
    optimizers = {name: SelectiveAdam([group], 1e-8, (0.9, 0.999)) for name, group in groups.items()}
    strategy = MCMCStrategy(cap_max=60, refine_start_iter=3, refine_every=4, refine_stop_iter=args.steps)
    strategy.check_sanity(params, optimizers)
    state, losses = strategy.initialize_state(), []
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for step in range(args.steps):
        colors, _, info = picture(params, device)
        loss = (colors - torch.full((3,), 0.7, device="cuda")).square().mean()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step((info["radii"] > 0).all(-1).any(0))
            optimizer.zero_grad(set_to_none=True)
        strategy.step_post_backward(params, optimizers, state, step, info, lr=1e-3)
        losses.append(loss.item())
    end.record()
    torch.cuda.synchronize()
    torch.save(dict(params), args.save)
    params = torch.load(args.save, map_location=device)
    found = {}
    thread = threading.Thread(target=lambda: found.update(drawn=picture(params, "cuda")[0].sum().item()))
    thread.start()
    thread.join()
    queue = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=there, args=(queue,))
    process.start()
    export_splats(**{name: value.data for name, value in params.items()}, save_to=args.save + ".ply")
    found |= {"losses": losses, "count": len(params["means"]), "process": queue.get(), "version": gsplat.__version__}
    found["similarity"] = fused_ssim.__module__
    found["seconds"] = start.elapsed_time(end) / 1e3
    process.join()
    print(json.dumps(found))


def there(queue):
    queue.put(rasterization.__module__)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--steps", type=int)
    parser.add_argument("--device")
    parser.add_argument("save")
    cli(train, parser.parse_args())
"""


@NEEDS_GSPLAT
@pytest.mark.slow
def test_a_program_that_names_cuda_trains_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "fused_ssim.py").write_text("fused_ssim = None")  # though the package is installed
    words = ["-m", "splat.as_gsplat", "--device", "cpu", "program.py", "--device", "3", "-m", "20", "saved.pt"]
    done = run_fresh(words, cwd=tmp_path)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["process"] == "splat.ops.rendering"
    assert found["similarity"] == "splat.ops.image_loss"
    assert found["count"] > 40  # by MCMC, which relocates the dead ones
    assert found["losses"][-1] < 0.9 * found["losses"][0]
    assert 0 < found["seconds"] < 1000
    params = torch.load(tmp_path / "saved.pt")
    view, K = torch.eye(4), torch.tensor([[40.0, 0, 24], [0, 40, 18], [0, 0, 1]])
    view[2, 3] = 3
    picture, _, _ = splat.rasterization(
        params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
        torch.cat([params["sh0"], params["shN"]], 1), view[None], K[None],
        48, 36, sh_degree=1, packed=False,
    )  # fmt: skip
    assert found["drawn"] == pytest.approx(picture.sum().item())
    assert (tmp_path / "saved.pt.ply").stat().st_size > 40 * 4


@NEEDS_GSPLAT
@pytest.mark.slow
def test_the_list_is_what_is_replaced(tmp_path: Path) -> None:
    printed = run_fresh(["-m", "splat.as_gsplat", "--list"], cwd=tmp_path).stdout
    for module, names in overlay.FUNCTIONS.items():
        for name in (each for each in names if "contributing" not in each):  # those are 1.6.0's
            assert f"{module}.{name} " in printed
            assert f" splat.{name}\n" in printed
    assert "gsplat.distributed.cli " in printed
    assert "fused_ssim.fused_ssim " in printed


# The command itself


def started(
    monkeypatch: pytest.MonkeyPatch, *words: str, options: tuple[str, ...] = ()
) -> tuple[list[str], dict[str, str]]:
    """The command that it becomes, and the environment."""
    found: list[list[str]] = []
    monkeypatch.setattr(sys, "orig_argv", ["python", *options, "-m", "splat.as_gsplat", *words])
    monkeypatch.setattr(sys, "argv", ["as_gsplat.py", *words])
    monkeypatch.setattr(as_gsplat, "find_spec", lambda name: object())
    monkeypatch.setattr(os, "execv", lambda path, words: found.append(words))
    monkeypatch.setattr(os, "environ", {"PYTHONPATH": "/before"})
    as_gsplat.main()
    ((python, *command),) = found
    assert python == sys.executable
    return command, dict(os.environ)


def test_it_becomes_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ["a.py", "--device", "cuda", "--list", "--at", "-1", "--", "-m"]
    command, environ = started(monkeypatch, *program, options=("-X", "dev"))
    assert command == ["-X", "dev", *program]
    assert environ == {
        "PYTHONPATH": f"{AT_START}:/before", "SPLAT_AS_GSPLAT": "1", "OMP_WAIT_POLICY": "passive",
    }  # fmt: skip
    command, environ = started(monkeypatch, "--device", "cpu", "-m", "package.module", "--", "x", "--device=cpu")
    assert command == ["-m", "package.module", "--", "x", "--device=cpu"]
    assert environ["SPLAT_AS_GSPLAT"] == "cpu"
    assert environ["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("words", "gsplat", "message"),
    [
        (["a.py"], None, "gsplat is not installed in this Python"),
        ([], object(), "a PROGRAM is required, or -m MODULE, or --list"),
        (["--devise", "cpu", "a.py"], object(), "unrecognized arguments: --devise"),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str], gsplat: object, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(as_gsplat, "find_spec", lambda name: gsplat)
    monkeypatch.setattr(sys, "argv", ["as_gsplat.py", *words])
    with pytest.raises(SystemExit, match="2"):
        as_gsplat.main()
    usage, error = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: python -m splat.as_gsplat")
    assert message in error


def test_an_installation_below_a_folder_with_a_colon_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On PYTHONPATH it would be two: another user could have a `sitecustomize` run in all that the program starts."""
    monkeypatch.setattr(as_gsplat.at_start, "__path__", ["/srv/a:/tmp/b/splat/compat/at_start"])

    with pytest.raises(SystemExit, match="2"):
        started(monkeypatch, "a.py")

    said = capsys.readouterr().err
    assert "required:  folders without : or ; in their names" in said
    assert "found:     /srv/a:/tmp/b/splat/compat/at_start\n" in said
    assert "SPLAT_AS_GSPLAT" not in os.environ


@NEEDS_GSPLAT
@pytest.mark.slow
def test_without_pythonpath_it_does_not_start(tmp_path: Path) -> None:
    done = run_fresh(["-I", "-m", "splat.as_gsplat", "a.py"], cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "PYTHONPATH" in done.stderr


@pytest.mark.slow
def test_python_starts_as_it_would_have(tmp_path: Path) -> None:
    """The module that the folder hides is run, and the folder is not on the path; unset, nothing is replaced."""
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    script = "import sys; print(sys.path, [type(each).__name__ for each in sys.meta_path], 'torch' in sys.modules)"
    for device, finder in (("cpu", True), ("1", True), (None, False)):
        environ = {"PYTHONPATH": f"{AT_START}:{tmp_path}", "SPLAT_AS_GSPLAT": device}
        first, second = run_fresh(["-c", script], cwd=tmp_path, env=environ).stdout.splitlines()
        assert first == "theirs"
        assert AT_START not in second
        assert ("_AfterImport" in second) is finder
        assert second.endswith("False")
    done = run_fresh(["-c", ""], cwd=tmp_path, env={"PYTHONPATH": AT_START, "SPLAT_AS_GSPLAT": "gpu"}, check=False)
    assert done.returncode != 0
    assert "SPLAT_AS_GSPLAT must be 1 or cpu, or unset; found 'gpu'" in done.stderr


# The CPU in place of CUDA


def test_a_cuda_device_is_the_cpu() -> None:
    with OnTheCpu():
        made = [
            torch.zeros(2, device="cuda"),
            torch.arange(2, device=torch.device("cuda:1")),
            torch.tensor([1.0], device=0),
            torch.ones(2).cuda(),
            torch.ones(2).to("cuda:0", torch.float64, non_blocking=True),
            torch.ones(2).to(0),
            torch.ones(2).pin_memory(),
            torch.ones(2).new_zeros(3, device="cuda"),
            torch.nn.Linear(2, 2, device="cuda").cuda().to("cuda").weight,
        ]
        with torch.device("cuda"):
            made.append(torch.zeros(2))
    assert {each.device.type for each in made} == {"cpu"}
    assert made[4].dtype == torch.float64


def test_what_goes_to_the_gpu_can_be_written_to() -> None:
    """A copy on the GPU has memory of its own, of which an expanded tensor has too little."""
    with OnTheCpu():
        row = torch.ones(1, 3)
        for there in (row.expand(2, 3).cuda(), row.expand(2, 3).to("cuda"), row.expand(2, 3).to(torch.zeros(1))):
            there[0] = 2
            assert there.tolist() == [[2] * 3, [1] * 3]
        assert row.cuda() is row
        assert row.to_sparse().cuda().is_sparse


# Earlier releases, whose functions have other parameters and shapes


def gsplat_of(version: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module like `gsplat.cuda._wrapper` of a release before 1.5.3, after the change."""

    def fully_fused_projection(  # type: ignore[no-untyped-def]
        means, covars, quats, scales, viewmats, Ks, width, height, eps2d=0.3, near_plane=0.01, far_plane=1e10,
        radius_clip=0.0, packed=False, sparse_grad=False, calc_compensations=False, camera_model="pinhole",
    ): ...  # fmt: skip

    def isect_tiles(  # type: ignore[no-untyped-def]
        means2d, radii, depths, tile_size, tile_width, tile_height, sort=True, packed=False, n_cameras=None,
        camera_ids=None, gaussian_ids=None,
    ): ...  # fmt: skip

    def isect_offset_encode(isect_ids, n_cameras, tile_width, tile_height): ...  # type: ignore[no-untyped-def]

    module, release = ModuleType("gsplat.cuda._wrapper"), ModuleType("gsplat.version")
    for function in (fully_fused_projection, isect_tiles, isect_offset_encode):
        setattr(module, function.__name__, function)
    release.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gsplat.version", release)
    monkeypatch.setattr(overlay, "replaced", {})
    overlay.change(module)
    return module


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("version", ["1.0.0", "1.4.0", "1.5.2"])
def test_functions_have_the_shapes_of_the_release(version: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gsplat: Any = gsplat_of(version, monkeypatch)
    s = random_scene(7, 60, 48, 36, size="mixed", views=("front", "inside")).arguments
    expected, _, _ = splat.rasterization(**s, packed=packed)
    found = gsplat.fully_fused_projection(
        s["means"], None, s["quats"], s["scales"], s["viewmats"], s["Ks"], 48, 36, packed=packed
    )
    *ids, radii, means2d, depths, conics, _ = found
    assert len(ids) == (2 if packed else 0)
    assert radii.shape == depths.shape + ((2,) if version == "1.5.2" else ())
    named = {"n_cameras": 2, "camera_ids": ids[0], "gaussian_ids": ids[1]} if packed else {}
    _, keys, flatten_ids = gsplat.isect_tiles(means2d, radii, depths, 16, 3, 3, packed=packed, **named)
    offsets = gsplat.isect_offset_encode(keys, n_cameras=2, tile_width=3, tile_height=3)
    colors, opacities = (
        s[name][ids[1]] if packed else s[name].expand(2, *s[name].shape) for name in ("colors", "opacities")
    )
    picture, _ = splat.rasterize_to_pixels(
        means2d, conics, colors, opacities, 48, 36, 16, offsets, flatten_ids, packed=packed
    )
    torch.testing.assert_close(picture, expected, rtol=0, atol=1e-6)


def test_before_1_4_a_camera_is_ortho_or_not() -> None:
    def proj(means, covars, Ks, width, height, ortho=False): ...  # type: ignore[no-untyped-def]

    s = random_scene(7, 60, 48, 36).arguments
    covars, _ = splat.quat_scale_to_covar_preci(s["quats"], s["scales"], compute_preci=False)
    means, covars = splat.world_to_cam(s["means"], covars, s["viewmats"])
    for ortho, model in ((True, "ortho"), (False, "pinhole")):
        found = overlay._fitted(proj, splat.proj, (1, 3, 0))(means, covars, s["Ks"], 48, 36, ortho)
        assert torch.equal(found[1], splat.proj(means, covars, s["Ks"], 48, 36, camera_model=model)[1])


def test_functions_of_1_5_3_are_splat_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gsplat_of("1.5.3+pt24cu124", monkeypatch).isect_tiles is splat.isect_tiles


def test_beside_1_6_arguments_have_its_order_and_nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    gsplat: Any = gsplat_of("1.6.0", monkeypatch)
    assert gsplat.UnscentedTransformParameters is splat.UnscentedTransformParameters
    assert gsplat.FThetaCameraDistortionParameters is splat.FThetaCameraDistortionParameters
    backend: Any = ModuleType("gsplat._lazy_backend")
    backend.cuda_toolkit_available = lambda: True
    overlay.change(backend)
    assert not backend.cuda_toolkit_available()

    def rasterization(means, quats, scales, opacities, global_z_order, colors, viewmats, Ks, width, height): ...  # type: ignore[no-untyped-def]

    s = random_scene(7, 60, 48, 36, opacity="solid").arguments
    fitted = overlay._fitted(rasterization, splat.rasterization, (1, 6, 0))
    found = fitted(*(s[name] for name in ("means", "quats", "scales", "opacities")), True, *list(s.values())[4:])
    assert torch.equal(found[0], splat.rasterization(**s, max_alpha=0.99)[0])
    assert not torch.equal(found[0], splat.rasterization(**s)[0])
    assert found[2]["radii"].shape[-1] == 2


def test_arguments_that_are_left_out_are_what_the_release_takes_for_them() -> None:
    def compute_relocation(opacities, scales, ratios, binoms, min_opacity=0.005): ...  # type: ignore[no-untyped-def]

    given = torch.tensor([0.004]), torch.ones(1, 3), torch.tensor([9]), torch.ones(51, 51)
    fitted = overlay._fitted(compute_relocation, splat.compute_relocation, (1, 6, 0))
    for found, expected in zip(fitted(*given), splat.compute_relocation(*given, 0.005), strict=True):
        assert torch.equal(found, expected)
    assert splat.compute_relocation(*given)[0] < 0.005


@pytest.mark.parametrize("version", ["0.1.8", "1.7.0"])
def test_another_release_is_an_error(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match=f"needs gsplat 0.1.9 to 1.6, .* found {version}: pip install"):
        gsplat_of(version, monkeypatch)


PROGRAM_14 = """
import gsplat, torch
from gsplat.cuda._torch_impl import _rasterize_to_pixels
from gsplat.rendering import _rasterization, rasterization

torch.manual_seed(0)
views, Ks = torch.eye(4)[None], torch.tensor([[[40.0, 0, 24], [0, 40, 18], [0, 0, 1]]])
means = torch.randn(40, 3) * 0.3 + torch.tensor([0.0, 0, 3])
scene = [means, torch.randn(40, 4), torch.rand(40, 3) * 0.2, torch.rand(40), torch.rand(40, 3)]
ours, _, meta = rasterization(*scene, views, Ks, 48, 36, packed=False)
theirs, _, _ = _rasterization(*scene, views, Ks, 48, 36)  # gsplat's own, of torch's functions, by our lists
print(gsplat.__version__, tuple(meta["radii"].shape), (ours - theirs).abs().max().item() < 0.02)
"""


@NEEDS_GSPLAT_14
@pytest.mark.slow
def test_gsplat_1_4_s_own_rasterization_of_torch_s_functions_agrees(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM_14)
    words = [sys.executable, "-m", "splat.as_gsplat", "program.py"]
    done = run(words, cwd=tmp_path, env={"PYTHONPATH": GSPLAT_14})
    assert done.stdout == "1.4.0 (1, 40) True\n"
