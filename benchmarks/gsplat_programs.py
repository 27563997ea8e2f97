"""Public programs that import gsplat, run unedited by `python -m splat.as_gsplat --device cpu`: what becomes of each.

Usage: gsplat_programs.py FOLDER [--capture CAPTURE] [NAME...], by a Python that has splat, and a torch that torchvision
of PyPI is made for. Repositories are in FOLDER/OWNER/NAME; what is not there is cloned with git, at the commit below.
Environments are made once, in FOLDER/environments, with this Python's torch and gsplat as a package. Programs train for
a few steps on CAPTURE, photographs with a COLMAP model and a transforms.json, or on pictures of the built-in scene. Of
those that need weights, `gsplat_calls.py` calls the renderer; LPIPS gets random weights. The table is printed at the
end; what was said is in FOLDER/work. This downloads gigabytes, takes half an hour and is not a part of CI.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import NamedTuple

from measure import table

HERE = Path(__file__).resolve().parent
LIMIT = 900
WEIGHTS = """
import sys, torch, torchvision
torch.save(torchvision.models.alexnet().state_dict(), sys.argv[1])
"""
# Of Nerfstudio. open3d is 400 MB, and not imported by a training; nor is the rest that is left out.
STUDIO_NEEDS = """
    numpy<2 torchvision torchmetrics[image] tyro<1 nerfview plyfile nerfacc==0.5.2 viser==0.2.7 timm==0.6.7
    opencv-python-headless==4.10.0.84 splines==0.3.0 protobuf<=3.20.3 tensorboard tensorly appdirs av cryptography h5py
    imageio[ffmpeg] jaxtyping matplotlib mediapy msgpack msgpack-numpy plotly pyquaternion rich scikit-image wandb
    comet_ml pandas<3 trimesh pytorch-msssim pathos fpsample rawpy newrawpy ninja requests scikit-learn pyngrok
    python-socketio pillow<12
"""
ENVIRONMENTS = {
    "1.5": (
        """
        gsplat==1.5.3 numpy<2 torchvision torchmetrics[image] tyro nerfview plyfile einops matplotlib
        scikit-learn viser tensorboard tensorly pyyaml imageio[ffmpeg] opencv-python-headless<4.11 kornia roma
        timm omegaconf easydict kiui videoio mediapy e3nn addict moviepy==1.0.3 evo natsort lpips diffusers
        transformers colorspacious small_gicp tifffile scikit-image optree astor loguru splines
        warp-lang<1.10
        """,
    ),
    "1.4": (f"gsplat==1.4.0 {STUDIO_NEEDS}", "--no-deps nerfstudio==1.1.5"),
    "1.3": (
        """
        gsplat==1.3.0 numpy<2 torchvision torchmetrics[image] nerfview omegaconf kornia viser pytorch-msssim
        opencv-python-headless<4.11 scikit-learn matplotlib splines
        """,
    ),
    "1.0": (f"gsplat==1.0.0 {STUDIO_NEEDS}", "--no-deps nerfstudio==1.1.3"),
    "0.1": (f"gsplat==0.1.11 pypose {STUDIO_NEEDS}", "--no-deps nerfstudio==1.0.3"),
}


class Row(NamedTuple):
    """A program.

    Attributes:
        repository: OWNER/NAME.
        commit: the one that was tried.
        what: what is run, or what it lacks here.
        environment: one of ENVIRONMENTS; none, if it is not run.
        words: the program and its arguments, or one word, a function of `gsplat_calls.py`.
        folder: where in the repository it is run.
        shows: what matches this shows that it worked, and what: its first group.
        beside: repositories on PYTHONPATH.
        methods: Nerfstudio's variable that names methods of extensions.
    """

    repository: str
    commit: str
    what: str
    environment: str = ""
    words: str = ""
    folder: str = "."
    shows: str = r"(differs by at most \S+)"
    beside: tuple[str, ...] = ()
    methods: str = ""


def renders(repository: str, commit: str, function: str, environment: str = "1.5", folder: str = ".") -> Row:
    """A program of which a function of `gsplat_calls.py` calls the renderer."""
    return Row(repository, commit, "renders", environment, function, folder)


def example(repository: str, commit: str, what: str, words: str, shows: str, environment: str = "1.5") -> Row:
    """One of gsplat's examples, or a program made from it."""
    return Row(repository, commit, what, environment, words, "examples", shows, ("rmbrualla/pycolmap",))


def studio(repository: str, commit: str, method: str, where: str = "") -> Row:
    """A method of Nerfstudio, and where an extension defines it."""
    methods = f"{method}={where}" if where else ""
    return Row(repository, commit, method, "1.4", STUDIO.format(method=method), ".", FINISHED, (repository,), methods)


GSPLAT = ("nerfstudio-project/gsplat", "937e29912")
TRAINER = "simple_trainer.py"
COMMON = "--data_dir {data} --data_factor 1 --max_steps 60 --eval_steps 60 --save_steps 60 --disable_viewer"
STEPS = f"{COMMON} --result_dir {{work}}"
PSNR, LOSS = r"(PSNR: [\d.]+)", r"(Loss: \S+)"
FITTING = "image_fitting.py --height 64 --width 64 --iterations 30"
STUDIO = (
    "-m nerfstudio.scripts.train {method} --machine.device-type cpu --vis tensorboard --output-dir {{work}} "
    "--max-num-iterations 20 --pipeline.datamanager.cache-images cpu --data {{data}} nerfstudio-data "
    "--downscale-factor 1"
)
FINISHED = "(Training Finished)"
LIGHT = "splatfactow.splatfactow_config:splatfactow_light_config"
FORK = "gsplat with kernels of its own"
ROWS = (
    example(*GSPLAT, "simple_trainer default", f"{TRAINER} default --disable_video {STEPS}", PSNR),
    example(*GSPLAT, "simple_trainer mcmc", f"{TRAINER} mcmc --disable_video {STEPS}", PSNR),
    example(*GSPLAT, "simple_trainer_2dgs", f"simple_trainer_2dgs.py {STEPS}", PSNR),
    example(*GSPLAT, "image_fitting 3dgs", FITTING, LOSS),
    example(*GSPLAT, "image_fitting 2dgs", f"{FITTING} --model_type 2dgs", LOSS),
    studio("nerfstudio-project/nerfstudio", "50e0e3c70", "splatfacto"),
    studio("KevinXu02/splatfacto-w", "119a3bfb3", "splatfacto-w-light", LIGHT),
    example("nerfstudio-project/nerfview", "bd802d765", "trains", f"04_gsplat_training.py {STEPS}", PSNR, "1.4"),
    example("jonstephens85/gsplat_3dgut", "6e9c7cb02", "trains", f"{TRAINER} default --disable_video {STEPS}", PSNR),
    renders("vye16/shape-of-motion", "697d462fd", "shape_of_motion"),
    renders("apple/ml-sharp", "1eaa04683", "ml_sharp"),
    renders("ByteDance-Seed/Depth-Anything-3", "2c21ea849", "depth_anything_3"),
    renders("InternRobotics/AnySplat", "57937e4e2", "anysplat"),
    renders("QitaoZhao/E-RayZer", "060c132b6", "e_rayzer"),
    renders("imlixinyang/FlashWorld", "424db4487", "flash_world"),
    renders("arthurhero/Long-LRM", "d92dd5166", "long_lrm"),
    renders("facebookresearch/sam-3d-objects", "cf0667617", "sam_3d_objects"),
    renders("facebookresearch/4DGT", "7844e005d", "four_dgt"),
    renders("Tencent-Hunyuan/HunyuanWorld-Mirror", "c61300e47", "hunyuan_world_mirror"),
    renders("nv-tlabs/lyra", "9fffc9adc", "lyra", folder="Lyra-1"),
    renders("Jianghanxiao/PhysTwin", "44f17cc2d", "inria_on_gsplat"),
    renders("liruilong940607/gaussian-splatting", "258123ab8", "inria_on_gsplat"),
    renders("yindaheng98/gaussian-splatting", "819cda1e1", "inria_as_package"),
    renders("OpenRobotLab/HorizonGS", "56f9c82a4", "horizon_gs"),
    renders("city-super/Octree-AnyGS", "eab692141", "octree_anygs", "1.4"),
    renders("Atticuszz/GsplatLoc", "bf6aebf75", "gsplat_loc"),
    renders("ziyc/drivestudio", "e59bda4fa", "drivestudio", "1.3"),
    renders("maturk/dn-splatter", "97588b429", "dn_splatter", "1.0"),
    renders("WU-CVGL/BAD-Gaussians", "bdd8b3e2b", "bad_gaussians", "0.1"),
    renders("facebookresearch/goliath", "13095ad11", "goliath", "0.1"),
    renders("vuer-ai/feature-splatting", "ae46f37a5", "feature_splatting", "1.4"),
    renders("uynitsuj/dig", "8b2280070", "dig", "1.4"),
    renders("bdaiinstitute/embodied_gaussians", "9f8d1ff63", "embodied_gaussians"),
    renders("borglab/gtsfm", "b8f24c757", "gtsfm"),
    Row("lilygoli/SpotLessSplats", "98c782368", FORK),
    Row("RongLiu-Leo/beta-splatting", "25d2db34d", FORK),
    Row("carlinds/splatad", "1d51b72e9", FORK),
    Row("yzslab/gaussian-splatting-lightning", "ee022aa82", FORK),
    Row("BasisResearch/collab-splats", "966ed460e", FORK),
)
OTHERS = {"rmbrualla/pycolmap": "cc7ea4b73"}


def main() -> None:
    """Print a line for each program when it has run, and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--capture", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names of repositories; by default, all")
    args = parser.parse_args()
    folder = args.folder.resolve()
    data = args.capture.resolve() if args.capture else made_capture(folder / "capture")
    found = []
    for row in ROWS:
        if not args.names or any(name in f"{row.repository} {row.what}" for name in args.names):
            result = ran(row, folder, data) if row.environment else "not run"
            found.append([row.repository, row.commit, row.what, result])
            print(" | ".join(found[-1]), flush=True)
    table(["repository", "commit", "what", "result"], found)


def made_capture(folder: Path) -> Path:
    """Sixteen pictures of the built-in scene, as COLMAP and Nerfstudio's tools leave them."""
    if not folder.is_dir():
        sys.path.append(str(HERE.parent / "tests" / "helpers"))
        import photographs

        photographs.WIDTH, photographs.HEIGHT = 160, 120
        photographs.colmap_folder(folder, 16)
        photographs.write_transforms(folder, photographs.transforms(photographs.cameras(16)))
    return folder


def ran(row: Row, folder: Path, data: Path) -> str:
    """What the program said that shows that it worked, or its last line."""
    python = environment(row.environment, folder)
    for name, commit in (row[:2], *((name, OTHERS.get(name, row.commit)) for name in row.beside)):
        git = ("git", "-C", str(folder / name))
        if not (folder / name).is_dir():
            subprocess.run(["git", "clone", "-q", f"https://github.com/{name}", folder / name], check=True)
            subprocess.run([*git, "checkout", "-q", commit], check=True)
        if subprocess.run([*git, "diff", "--quiet", "--diff-filter=M", commit, "--", "*.py"]).returncode:
            return f"fails: the files of {name} are not those of {commit}"
    work = folder / "work" / re.sub(r"\W+", "-", f"{row.repository} {row.what}")
    work.mkdir(parents=True, exist_ok=True)
    words = row.words.format(data=data, work=work).split()
    if len(words) == 1:
        words = [str(HERE / "gsplat_calls.py"), *words]
    command = [str(python), "-m", "splat.as_gsplat", "--device", "cpu", *words]
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(folder / name) for name in row.beside),
        "TORCH_HOME": str(folder / "torch"),
        "COLUMNS": "200",
        "NERFSTUDIO_METHOD_CONFIGS": row.methods,
    }
    with (work / "said.txt").open("w+") as said:
        try:
            done = subprocess.run(
                command, cwd=folder / row.repository / row.folder, env=environ, stdout=said, stderr=said, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return f"fails: not done after {LIMIT} s"
        said.seek(0)
        lines = said.read().replace("\r", "\n").strip().splitlines()
    shown = re.findall(row.shows, "\n".join(lines))
    return str(shown[-1]) if shown and not done.returncode else f"fails: {lines[-1] if lines else done.returncode}"


def environment(name: str, folder: Path) -> Path:
    """The Python of an environment, which is made if it is not there."""
    place = folder / "environments" / name
    python = place / "bin/python"
    if not (place / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", place], check=True)
        packages = next(place.glob("lib/python*/site-packages"))
        (packages / "base.pth").write_text("\n".join(each for each in sys.path if each.endswith("site-packages")))
        import torch

        (place / "pinned.txt").write_text(f"torch=={torch.__version__.partition('+')[0]}\n")
        for words in ENVIRONMENTS[name]:
            pip = [str(python), "-m", "pip", "install", "-q", "-c", str(place / "pinned.txt")]
            subprocess.run([*pip, *words.split()], check=True)
        weights = folder / "torch/hub/checkpoints/alexnet-owt-7be5be79.pth"
        weights.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, "-c", WEIGHTS, weights], check=True)
        (place / "made").touch()
    return python


if __name__ == "__main__":
    main()
