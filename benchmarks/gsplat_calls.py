"""What of a public program calls gsplat, called with made-up Gaussians: `gsplat_calls.py FUNCTION`, in its checkout.

For programs that need weights or data of gigabytes. Each function imports the program's own module, unedited, and
returns the picture that its renderer draws; that is compared with the one that splat draws of the same Gaussians.
`gsplat_programs.py` runs this by `python -m splat.as_gsplat`.
"""
# mypy: disable-error-code="import-not-found, no-any-return"

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

WIDTH, HEIGHT, FOCAL = 96, 64, 80.0
MOST = 1e-5

MADE = torch.Generator().manual_seed(0)
G = SimpleNamespace(
    means=torch.randn(500, 3, generator=MADE) * 0.4 + torch.tensor([0.0, 0.0, 3.0]),
    quats=torch.nn.functional.normalize(torch.randn(500, 4, generator=MADE), dim=1),
    scales=torch.rand(500, 3, generator=MADE) * 0.1 + 0.01,
    opacities=torch.rand(500, generator=MADE) * 0.8 + 0.1,
    colors=torch.rand(500, 3, generator=MADE),
)
"""The Gaussians, before the camera."""
SH0 = (G.colors - 0.5) / 0.28209479177387814
VIEW = torch.eye(4)
K = torch.tensor([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1]])
LENS = torch.tensor([FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2])
UNIT_K = K / torch.tensor([[WIDTH], [HEIGHT], [1.0]])


def instead(name: str, *names: str) -> None:
    """Put a module, and those that it is in, in the place of what is not here, and not called."""
    for each in accumulate(name.split("."), lambda outer, inner: f"{outer}.{inner}"):
        if each not in sys.modules and ("." in each or find_spec(each) is None):
            sys.modules[each] = ModuleType(each)
    vars(sys.modules[name]).update(dict.fromkeys(names))


def without_init(package: str, folder: str) -> None:
    """Let modules of a package be imported without all that the package itself imports."""
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [folder]


def inria_camera() -> Any:
    """A camera as in the first 3D Gaussian splatting program, and programs made from it."""
    fov = [2 * torch.atan(torch.tensor(size / 2 / FOCAL)).item() for size in (WIDTH, HEIGHT)]
    return SimpleNamespace(
        FoVx=fov[0], FoVy=fov[1], K=None, fx=FOCAL, fy=FOCAL, cx=WIDTH / 2, cy=HEIGHT / 2, image_width=WIDTH,
        image_height=HEIGHT, world_view_transform=VIEW.T, camera_center=torch.zeros(3), bg_color=torch.zeros(3),
        postprocess=lambda camera, picture: picture, resolution_scale=1.0,
    )  # fmt: skip


def inria_model(**more: Any) -> Any:
    """Gaussians with the properties of that program's model."""
    return SimpleNamespace(
        get_xyz=G.means, get_opacity=G.opacities[:, None], get_scaling=G.scales, get_rotation=G.quats,
        get_features=SH0[:, None], active_sh_degree=0, max_sh_degree=0, **more,
    )  # fmt: skip


def shape_of_motion() -> Tensor:
    """Its scene of moving and still Gaussians, with tracks and depths."""
    from flow3d.params import GaussianParams, MotionBases
    from flow3d.scene_model import SceneModel

    parameters = (G.means, G.quats, G.scales.log(), G.colors.logit(), G.opacities.logit())
    front, back = (GaussianParams(*(each[part] for each in parameters), *more) for part, more in (
        (slice(0, 200), (torch.zeros(200, 2),)), (slice(200, None), ())
    ))  # fmt: skip
    still = torch.tensor([1.0, 0, 0, 0, 1, 0]).expand(2, 3, 6)
    scene = SceneModel(K[None], VIEW[None], front, MotionBases(still, torch.zeros(2, 3, 3)), back)
    found = scene.render(
        1, VIEW[None], K[None], (WIDTH, HEIGHT), target_ts=torch.tensor([0, 2]), bg_color=0.0, return_depth=True,
        return_mask=True,
    )  # fmt: skip
    found["tracks_3d"].sum().backward()
    return found["img"][0]


def ml_sharp() -> Tensor:
    """The renderer of its predicted Gaussians."""
    from sharp.utils.gaussians import Gaussians3D
    from sharp.utils.gsplat import GSplatRenderer

    scene = Gaussians3D(*(each[None] for each in (G.means, G.scales, G.quats, G.colors, G.opacities)))
    drawn = GSplatRenderer(low_pass_filter_eps=0.3)(scene, VIEW[None], K[None], WIDTH, HEIGHT)
    return drawn.color[0].permute(1, 2, 0)


def depth_anything_3() -> Tensor:
    """Its renderer of two views, which are the same."""
    from depth_anything_3.model.utils.gs_renderer import render_3dgs
    from depth_anything_3.specs import Gaussians

    scene = Gaussians(*(each[None] for each in (G.means, G.scales, G.quats, SH0[..., None], G.opacities)))
    views, Ks = VIEW.expand(2, 4, 4), UNIT_K.expand(2, 3, 3)
    return render_3dgs(views, Ks, (HEIGHT, WIDTH), scene, num_view=2)[0][1].permute(1, 2, 0)


def anysplat() -> Tensor:
    """Its decoder."""
    from src.model.decoder.decoder_splatting_cuda import DecoderSplattingCUDA, DecoderSplattingCUDACfg
    from src.model.types import Gaussians

    import splat

    covars, _ = splat.quat_scale_to_covar_preci(G.quats, G.scales, compute_preci=False)
    parts = {"means": G.means, "covariances": covars, "harmonics": SH0[..., None], "opacities": G.opacities}
    parts |= {"scales": G.scales, "rotations": G.quats}
    scene = Gaussians(**{name: each[None] for name, each in parts.items()})
    decoder = DecoderSplattingCUDA(DecoderSplattingCUDACfg("splatting_cuda", [0.0, 0.0, 0.0], False))
    drawn = decoder(scene, VIEW[None, None], UNIT_K[None, None], None, None, (HEIGHT, WIDTH))
    return drawn.color[0, 0].permute(1, 2, 0)


def e_rayzer() -> Tensor:
    """Its renderer for cameras of OpenCV."""
    from erayzer_core.model import gaussians_renderer

    found = gaussians_renderer.render_opencv_cam_gsplat(
        inria_model(), HEIGHT, WIDTH, VIEW[None], LENS[None], sh_degree=0, bg_color=(0, 0, 0), render_depth=True
    )
    return found["render"][0].permute(1, 2, 0)


def flash_world() -> Tensor:
    """Its renderer, with the forward pass repeated for gradients."""
    from models.render import gaussian_render

    scene = torch.cat([G.means, G.opacities[:, None], G.scales, G.quats, SH0], dim=1).requires_grad_()
    flipped = VIEW * torch.tensor([1.0, -1, -1, 1])
    colors, _ = gaussian_render(
        scene[None], flipped[None, None], LENS[None, None], WIDTH, HEIGHT, use_checkpoint=True, bg_mode="black"
    )
    colors.sum().backward()
    return (colors[0, 0].permute(1, 2, 0) + 1) / 2


def long_lrm() -> Tensor:
    """Its renderer, with the forward pass repeated for gradients; its layers are not called."""
    instead("xformers.ops")
    instead("mamba_ssm.ops.triton.layernorm_gated", "RMSNorm", "LayerNorm")
    instead("mamba_ssm.ops.triton.layer_norm", "RMSNorm")
    instead("mamba_ssm.ops.triton.ssd_combined", "mamba_split_conv1d_scan_combined")
    from model.llrm import GaussianRenderer

    parts = (G.means, SH0[:, None], G.scales.log(), G.quats, G.opacities.logit()[:, None])
    scene = [each[None].requires_grad_() for each in parts]
    picture = GaussianRenderer.apply(*scene, VIEW[None, None], LENS[None, None], WIDTH, HEIGHT, 0, 0.01, 100.0)
    picture.sum().backward()
    return picture[0, 0]


def sam_3d_objects() -> Tensor:
    """The renderer of its Gaussians, with gsplat as the backend; sparse convolutions are not called."""
    instead("sam3d_objects.init")
    instead("spconv.pytorch", "SparseConvTensor")
    instead("kaolin.utils.testing", "check_tensor")
    from sam3d_objects.model.backbone.tdfy_dit.renderers import gaussian_render

    camera, pipe = inria_camera(), SimpleNamespace(convert_SHs_python=False, kernel_size=0.1)
    camera.intrinsics, camera.image_width, camera.image_height = UNIT_K, WIDTH, HEIGHT
    found = gaussian_render.render(camera, inria_model(), pipe, torch.zeros(3), backend="gsplat")
    return found["render"].permute(1, 2, 0)


def hunyuan_world_mirror() -> Tensor:
    """Its rasterizer of batches."""
    from src.models.models.rasterization import Rasterizer

    parts = (G.means, G.quats, G.scales, G.opacities, SH0[:, None])
    colors, _, _ = Rasterizer().rasterize_batches(
        *([each] for each in parts), VIEW[None, None], K[None, None], WIDTH, HEIGHT, sh_degree=0
    )
    return colors[0, 0]


def four_dgt() -> Tensor:
    """Its two rasterizers."""
    from tlod.renderers.tlod_renderer import threedgs_rasterizer, twodgs_rasterizer

    scene = (G.means, G.quats, G.scales, G.opacities, G.colors, VIEW[None], K[None], HEIGHT, WIDTH)
    surfels = twodgs_rasterizer(*scene)
    assert surfels[0].isfinite().all()
    return threedgs_rasterizer(*scene)[0][0]


def lyra() -> Tensor:
    """Its renderer of predicted Gaussians."""
    from src.rendering.gs import GaussianRenderer

    options = SimpleNamespace(img_size=(HEIGHT, WIDTH), znear=0.01, zfar=100.0, get=lambda name, default: default)
    scene = torch.cat([G.means, G.opacities[:, None], G.scales, G.quats, G.colors], dim=1)
    found = GaussianRenderer(options).render(scene[None], VIEW.T[None, None], torch.zeros(3), LENS[None, None])
    return found["images_pred"][0, 0].permute(1, 2, 0)


def inria_on_gsplat() -> Tensor:
    """The first 3D Gaussian splatting program on gsplat, alone or in a package; CUDA extensions are not called."""
    instead("open3d")
    instead("diff_gaussian_rasterization", "GaussianRasterizationSettings", "GaussianRasterizer")
    instead("simple_knn._C", "distCUDA2")
    package = "gaussian_splatting." if Path("gaussian_splatting").is_dir() else ""
    render = import_module(f"{package}gaussian_renderer").render
    return render(inria_camera(), inria_model(), None, torch.zeros(3))["render"][:3].permute(1, 2, 0)


def inria_as_package() -> Tensor:
    """Its models of 3D and 2D Gaussians; rasterizers and nearest neighbours in CUDA are not called."""
    instead("gaussian_splatting.diff_gaussian_rasterization", "GaussianRasterizationSettings", "GaussianRasterizer")
    instead("gaussian_splatting.simple_knn._C", "distCUDA2")
    from gaussian_splatting.models.gsplat import GsplatGaussianModel
    from gaussian_splatting.models.gsplat_2dgs import Gsplat2DGSGaussianModel

    pictures = []
    for made in (Gsplat2DGSGaussianModel, GsplatGaussianModel):
        model, camera = made(0), inria_camera()
        camera.K = K
        opacities = G.opacities.clone().requires_grad_()
        found = model.render(camera, G.means, opacities, G.scales, G.quats, SH0[:, None])
        found["render"].sum().backward()
        assert found["get_viewspace_grad"](found).isfinite().all()
        pictures.append(found["render"].permute(1, 2, 0))
    return pictures[1]


def drivestudio() -> Tensor:
    """The renderer of its trainers; what pytorch3d has is not called."""
    instead("pytorch3d.transforms", "matrix_to_quaternion")
    instead("pytorch3d.ops", "knn_points")
    instead("nvdiffrast.torch")
    instead("open3d")
    from models.gaussians.basics import dataclass_camera, dataclass_gs
    from models.trainers.base import BasicTrainer

    options = SimpleNamespace(packed=False, absgrad=True, sparse_grad=False, antialiased=False, batch_size=1)
    scene = dataclass_gs(
        _means=G.means, _scales=G.scales, _quats=G.quats, _rgbs=G.colors, _opacities=G.opacities[:, None],
        detach_keys=[], extras=None,
    )  # fmt: skip
    camera = dataclass_camera(VIEW, VIEW, K, HEIGHT, WIDTH)
    trainer: Any = SimpleNamespace(render_cfg=options, training=False)
    found, _ = BasicTrainer.render_gaussians(trainer, scene, camera, render_mode="RGB+ED")
    return found["rgb_gaussians"]


def horizon_gs() -> Tensor:
    """Its renderer of explicit Gaussians."""
    from gaussian_renderer.render import render

    model = SimpleNamespace(explicit_gs=True, gs_attr="3D", render_mode="RGB+ED", set_gs_mask=print, _gs_mask=None)
    explicit = (G.means, SH0[:, None], G.opacities[:, None], G.scales, G.quats, 0, None)
    model.generate_explicit_gaussians = lambda mask: explicit
    return render(inria_camera(), model, None, torch.zeros(3))["render"].permute(1, 2, 0)


def octree_anygs() -> Tensor:
    """Its renderer, after it projected the anchors by the low-level functions."""
    from gaussian_renderer.render import render

    model = inria_model(get_anchor=G.means, set_anchor_mask=print, _anchor_mask=torch.ones(500, dtype=torch.bool))
    model.generate_neural_gaussians = lambda camera, seen, code: (
        G.means[seen], SH0[seen, None], G.opacities[seen, None], G.scales[seen], G.quats[seen], 0, None,
    )  # fmt: skip
    return render(inria_camera(), model, None, torch.zeros(3), 0, "RGB+ED")["render"].permute(1, 2, 0)


def gsplat_loc() -> Tensor:
    """Its model, for a camera that is found."""
    from src.my_gsplat.model import GSModel

    model = GSModel(G.means, G.colors)
    model.scales, model.quats, model.opacities = G.scales, G.quats, G.opacities.logit()
    camera = VIEW.clone().requires_grad_()
    colors, _, _ = model(camera[None], K[None], WIDTH, HEIGHT)
    colors.sum().backward()
    assert camera.grad is not None
    return colors[0, ..., :3]


def studio_camera() -> Any:
    """A camera of Nerfstudio, whose axes are OpenGL's."""
    from nerfstudio.cameras.cameras import Cameras

    pose = VIEW[None, :3] * torch.tensor([1.0, -1, -1, 1])
    return Cameras(pose, FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, width=WIDTH, height=HEIGHT)


def studio_model(colors: Tensor, config: dict[str, Any], **more: Any) -> Any:
    """What `get_outputs` of a model made from Nerfstudio's splatfacto reads of it."""
    options = SimpleNamespace(rasterize_mode="classic", output_depth_during_training=True, **config)
    return SimpleNamespace(
        means=G.means, scales=G.scales.log(), quats=G.quats, opacities=G.opacities.logit()[:, None],
        features_dc=colors, features_rest=torch.zeros(500, 0, 3), config=options, training=False, step=0, device="cpu",
        crop_box=None, background_color=torch.zeros(3), _get_background_color=lambda: torch.zeros(3),
        _get_downscale_factor=lambda: 1, **more,
    )  # fmt: skip


def feature_splatting() -> Tensor:
    """Its model, of colours and features; networks of others are not called."""
    instead("maskclip_onnx")
    instead("torchtyping")
    sys.modules["torchtyping"].TensorType = tuple  # type: ignore[attr-defined]
    sys.modules["feature_splatting.utils.mpm_engine.mpm_solver"] = solver = ModuleType("mpm_solver")
    solver.MPMSolver = None  # type: ignore[attr-defined]
    from feature_splatting.model import FeatureSplattingModel

    model = studio_model(G.colors.logit(), {"sh_degree": 0, "feat_latent_dim": 13})
    model.distill_features = torch.rand(500, 13)
    return FeatureSplattingModel.get_outputs(model, studio_camera())["rgb"]


def dig() -> Tensor:
    """Its model, of colours and DINO's features."""
    from dig.dig import DiGModel

    model = studio_model(
        SH0, {"sh_degree": 3, "sh_degree_interval": 1000, "gaussian_dim": 64, "dino_rescale_factor": 5}
    )
    model.camera_optimizer = SimpleNamespace(apply_to_camera=lambda camera: camera.camera_to_worlds)
    model.gauss_params, model.nn = {"dino_feats": torch.rand(500, 64)}, torch.nn.Linear(64, 96)
    return DiGModel.get_outputs(model, studio_camera())["rgb"]


def dn_splatter() -> Tensor:
    """Its model, of colours, depths and normals."""
    without_init("dn_splatter", "dn_splatter")
    from dn_splatter.dn_model import DNSplatterModel

    config = {"sh_degree": 3, "sh_degree_interval": 1000, "predict_normals": True, "use_binary_opacities": False}
    model = studio_model(SH0, config, gauss_params={})
    found = DNSplatterModel.get_outputs(model, studio_camera())
    assert found["normal"].isfinite().all()
    return found["rgb"]


def bad_gaussians() -> Tensor:
    """Its model, of the cameras that a blurred picture is made of."""
    from bad_gaussians.bad_gaussians import BadGaussiansModel

    cameras = SimpleNamespace(apply_to_camera=lambda camera, mode: [studio_camera(), studio_camera()])
    model = studio_model(SH0, {"sh_degree": 3, "sh_degree_interval": 1000}, camera_optimizer=cameras)
    return BadGaussiansModel.get_outputs(model, studio_camera())["rgb"]


def goliath() -> Tensor:
    """The renderer of its avatars."""
    from ca_code.utils.render_gsplat import render

    scene = (G.means, G.quats, G.scales, G.opacities, G.colors)
    found = render(WIDTH, HEIGHT, FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, VIEW, *scene)
    return found["render"].permute(1, 2, 0)


def embodied_gaussians() -> Tensor:
    """The renderer of its simulator, without the physics."""
    instead("pysegreduce")
    instead("open3d")
    without_init("embodied_gaussians", "src/embodied_gaussians")
    from embodied_gaussians.embodied_simulator.simulator import render_gaussians

    found = render_gaussians(G, VIEW[None], K[None], WIDTH, HEIGHT, torch.zeros(3), far_plane=100.0)
    return found[0][0]


def gtsfm() -> Tensor:
    """Its trainer's renderer; what gtsam has is not called."""
    instead("gtsam")
    instead("dask", "distributed")
    instead("custom_dataloader", "DataParser", "Dataset")
    sys.path.insert(0, "scripts/gaussian_splatting")
    runner = import_module("custom_trainer").Runner
    scene = {"means": G.means, "quats": G.quats, "scales": G.scales.log(), "opacities": G.opacities.logit()[:, None]}
    scene |= {"sh0": SH0[:, None], "shN": torch.zeros(500, 0, 3)}
    config = SimpleNamespace(antialiased=False, packed=False)
    trainer = SimpleNamespace(splats=scene, cfg=config, strategy=SimpleNamespace(absgrad=True))
    return runner.rasterize_splats(trainer, VIEW[None], K[None], WIDTH, HEIGHT, "RGB", sh_degree=0)[0][0]


def main(name: str) -> None:
    """Draw by a program's renderer, and say how far that is from splat's picture."""
    sys.path[:0] = [".", "src"]
    drawn = globals()[name]().detach()
    import splat

    scene = (G.means, G.quats, G.scales, G.opacities, G.colors)
    others: dict[str, dict[str, Any]] = {
        "long_lrm": {"backgrounds": torch.ones(1, 3)},
        "goliath": {"rasterize_mode": "antialiased"},
    }
    picture = splat.rasterization(*scene, VIEW[None], K[None], WIDTH, HEIGHT, **others.get(name, {}))[0][0]
    difference = (drawn - picture).abs().max().item()
    print(f"differs by at most {difference:.1e}")
    if not difference <= MOST:
        sys.exit(f"splat's picture differs by more than {MOST}")


if __name__ == "__main__":
    main(sys.argv[1])
