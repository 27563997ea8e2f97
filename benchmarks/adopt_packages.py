"""Well-known packages, converted by `adopt` from their setup.py, built for one architecture, and imported.

Usage: adopt_packages.py [--convert] BACKEND FOLDER [NAME...], by a Python with torch for CUDA, nvcc, pytest,
expecttest, SciPy, and what detectron2 and mamba import (fvcore, einops, huggingface_hub, transformers); with --convert,
nothing is compiled.
The sources are in FOLDER/sources, by the names below; what is not there is cloned with git, at the commit below. This
compiles for two hours and RUNS their setup.py and their code; it is not a part of CI. One row is printed when a package
is done: what `adopt` said first of its sources as they are, what was done by hand because adopt said so, what pip and
its children took after `adopt --write`, and what an import of the wheel said.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from measure import table

LINES = 160


class Package(NamedTuple):
    """A package as it is published.

    Attributes:
        name: what it is called here.
        address: its repository, without `https://`.
        commit: the one that was tried.
        folder: the folder of setup.py in it.
        imports: what is imported of its wheel: the compiled part alone, if the rest needs more than torch.
        submodules: those that are compiled, as folder and address.
        variables: of the environment, as its page says.
        before: what adopt says to do first, or what today's torch wants of old sources: a line for the shell.
        tests: a line for the shell that runs its own tests.
        beside: what it imports of this list, which must be there, built before.
        is_built: it is compiled, too; that takes others too long for this.
    """

    name: str
    address: str
    commit: str
    folder: str
    imports: str
    submodules: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    before: str = ""
    tests: str = ""
    beside: tuple[str, ...] = ()
    is_built: bool = True


GITHUB = "github.com"
# Tensor::type() is no type of elements any more.
SCALAR_TYPE = r"find {} -name '*.cu' | xargs sed -i 's/TYPES(value.type()/TYPES(value.scalar_type()/'"
GLM = (("third_party/glm", f"{GITHUB}/g-truc/glm"),)
PHMAP = (("third_party/parallel-hashmap", f"{GITHUB}/greg7mdp/parallel-hashmap"),)
NGP, NGP_COMMIT = f"{GITHUB}/ashawkey/torch-ngp", "b6e0804689"
PACKAGES = (
    Package("simple-knn", f"{GITHUB}/camenduru/simple-knn", "60f461f4a5", ".", "simple_knn._C"),
    Package(
        "diff-gaussian-rasterization", f"{GITHUB}/graphdeco-inria/diff-gaussian-rasterization", "59f5f77e3d", ".",
        "diff_gaussian_rasterization", GLM,
    ),
    Package(
        "diff-surfel-rasterization", f"{GITHUB}/hbb1/diff-surfel-rasterization", "e0ed0207b3", ".",
        "diff_surfel_rasterization", GLM,
    ),
    Package("chamfer3D", f"{GITHUB}/ThibaultGROUEIX/ChamferDistancePytorch", "364c03c4ec", "chamfer3D", "chamfer_3D"),
    Package("fused-ssim", f"{GITHUB}/rahul-goel/fused-ssim", "0ac916a05f", ".", "fused_ssim"),
    Package(
        "extension-cpp", f"{GITHUB}/pytorch/extension-cpp", "0ec4969c7b", ".", "extension_cpp",
        tests="python -m pytest -q test",
    ),
    Package("nvdiffrast", f"{GITHUB}/NVlabs/nvdiffrast", "253ac4fcea", ".", "_nvdiffrast_c"),
    *(
        Package(f"torch-ngp {name}", NGP, NGP_COMMIT, name, f"_{name}")
        for name in ("freqencoder", "shencoder", "gridencoder", "raymarching")
    ),
    Package("torch_scatter", f"{GITHUB}/rusty1s/pytorch_scatter", "648dda3cf9", ".", "torch_scatter"),
    Package("torch_cluster", f"{GITHUB}/rusty1s/pytorch_cluster", "3d1d9e3967", ".", "torch_cluster"),
    Package(
        "torch_sparse", f"{GITHUB}/rusty1s/pytorch_sparse", "91feaa5e28", ".", "torch_sparse", PHMAP,
        beside=("torch_scatter",),
    ),
    Package(
        "torch_spline_conv", f"{GITHUB}/rusty1s/pytorch_spline_conv", "050f58a430", ".", "torch_spline_conv",
        before="sed -i '/<Python.h>/d; s|torch/extension.h|torch/torch.h|' csrc/*.cpp csrc/*/*.*h",
    ),
    Package(
        "nerfacc", f"{GITHUB}/nerfstudio-project/nerfacc", "57ccfa14fe", ".", "nerfacc.csrc",
        before="sed -i 's/cub::Equality()/::cuda::std::equal_to<>{}/' nerfacc/cuda/csrc/scan_cub.cu",
    ),
    Package(
        "pointnet2_ops", f"{GITHUB}/erikwijmans/Pointnet2_PyTorch", "b5ceb6d9ca", "pointnet2_ops_lib",
        "pointnet2_ops._ext",
    ),
    Package(
        "causal-conv1d", f"{GITHUB}/Dao-AILab/causal-conv1d", "0d2252d161", ".", "causal_conv1d_cuda",
        variables=(("CAUSAL_CONV1D_FORCE_BUILD", "TRUE"),),
    ),
    Package(
        "mamba", f"{GITHUB}/state-spaces/mamba", "e9594ce1c7", ".", "selective_scan_cuda",
        variables=(("MAMBA_FORCE_BUILD", "TRUE"), ("MAMBA_KEEP_CUDA_BUILD", "TRUE")),
    ),
    Package(
        "Deformable-DETR", f"{GITHUB}/fundamentalvision/Deformable-DETR", "11169a60c3", "models/ops",
        "MultiScaleDeformableAttention", before=SCALAR_TYPE.format("src"),
    ),
    Package(
        "GroundingDINO", f"{GITHUB}/IDEA-Research/GroundingDINO", "856dde20ae", ".", "groundingdino._C",
        before="echo \"__version__ = '0.1.0'\" > groundingdino/version.py; "
        + SCALAR_TYPE.format("groundingdino/models/GroundingDINO/csrc"),
    ),
    Package(
        "detectron2", f"{GITHUB}/facebookresearch/detectron2", "02b5c4e295", ".", "detectron2._C",
        before="ln -s ../../configs detectron2/model_zoo/configs",
    ),
    Package(
        "gsplat", f"{GITHUB}/nerfstudio-project/gsplat", "90d7b4b349", ".", "gsplat.csrc",
        (("gsplat/cuda/csrc/third_party/glm", f"{GITHUB}/g-truc/glm"),), is_built=False,
    ),
    Package("mmcv", f"{GITHUB}/open-mmlab/mmcv", "a8073c74bf", ".", "mmcv._ext", is_built=False),
    Package(
        "apex", f"{GITHUB}/NVIDIA/apex", "6424da3b4f", ".", "apex",
        variables=(("APEX_CPP_EXT", "1"), ("APEX_CUDA_EXT", "1")), is_built=False,
    ),
    Package(
        "tiny-cuda-nn", f"{GITHUB}/NVlabs/tiny-cuda-nn", "6ee3546bda", "bindings/torch", "tinycudann", is_built=False
    ),
)  # fmt: skip


class Row(NamedTuple):
    """What became of one package."""

    name: str
    said: str
    by_hand: str
    seconds: str
    outcome: str


def main(backend: Path, folder: Path, names: Sequence[str], is_built: bool) -> int:
    """Try the packages, and print a row for each as it is done, and then the table."""
    unknown = set(names) - {package.name for package in PACKAGES}
    if unknown:
        print(f"no package {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in PACKAGES)}")
        return 2
    rows = []
    for package in PACKAGES:
        if not names or package.name in names:
            package = package._replace(is_built=package.is_built and is_built)
            row = tried(package, backend.resolve(), folder.resolve())
            print(" | ".join(row), flush=True)
            rows.append(row)
    table(["package", "adopt", "by hand", "CPU s", "outcome"], rows)
    return int(any(row.outcome not in ("imported", "tests pass", "not compiled here") for row in rows))


def tried(package: Package, backend: Path, folder: Path) -> Row:
    """Convert, build and import one package."""
    work = folder / "work" / package.name.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    whole = work / package.address.rpartition("/")[2]
    shutil.copytree(sources(package, folder / "sources"), whole, symlinks=True)
    project = whole / package.folder
    environ = {
        **os.environ, **dict(package.variables), "PYTHONPATH": str(backend), "TORCH_CUDA_ARCH_LIST": "9.0",
        "XDG_CACHE_HOME": str(work / "cache"), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    adopt = [sys.executable, "-m", "kernelwheel", "adopt"]
    said = verdict(run([*adopt, project], work, environ))
    run(["sh", "-ec", package.before], project, environ)
    written = run([*adopt, "--write", project], work, environ)
    (work / "adopt.log").write_text(written.stdout + written.stderr)
    if not (project / "setup.py.old").exists():
        return Row(package.name, said, package.before, "", f"not written: {verdict(written)}")
    if not package.is_built:
        return Row(package.name, said, package.before, "", "not compiled here")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words: list[str | Path] = ["-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", work / "wheel", project]
    built = run([sys.executable, *words], work, environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f}"
    (work / "build.log").write_text(built.stdout + built.stderr)
    wheels = list((work / "wheel").glob("*.whl"))
    if built.returncode or len(wheels) != 1:
        return Row(package.name, said, package.before, seconds, f"not built: {why(built.stdout + built.stderr)}")
    with ZipFile(wheels[0]) as archive:
        archive.extractall(work / "site")
    # Beside the project, as people do, with no GPU to compile for.
    sites = [work / "site", *(folder / "work" / name / "site" for name in package.beside)]
    path = [*map(str, sites), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environ |= {"PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": ""}
    imported = run([sys.executable, "-c", f"import torch, {package.imports}"], project.parent, environ)
    if imported.returncode:
        last = imported.stderr.strip().splitlines()[-1:] or [f"status {imported.returncode}"]
        return Row(package.name, said, package.before, seconds, last[0][:LINES])
    if not package.tests:
        return Row(package.name, said, package.before, seconds, "imported")
    tested = run(["sh", "-ec", package.tests], project, environ | {"PYTHONSAFEPATH": "1"})
    (work / "tests.log").write_text(tested.stdout + tested.stderr)
    return Row(package.name, said, package.before, seconds, "tests fail" if tested.returncode else "tests pass")


def sources(package: Package, folder: Path) -> Path:
    """The folder of a package's sources, cloned if it is not there."""
    place = folder / package.address.rpartition("/")[2]
    submodules = ((place / path, address, "HEAD") for path, address in package.submodules)
    for path, address, commit in ((place, package.address, package.commit), *submodules):
        if not path.is_dir() or not any(path.iterdir()):
            subprocess.run(["git", "clone", "-q", f"https://{address}", path], check=True)
            subprocess.run(["git", "-C", path, "checkout", "-q", commit], check=True)
    return place


def run(words: Sequence[str | Path], folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever comes of it."""
    return subprocess.run(list(map(str, words)), cwd=folder, env=environ, text=True, capture_output=True, check=False)


def verdict(adopted: subprocess.CompletedProcess[str]) -> str:
    """What adopt said, in a sentence: the first thing that it does not translate, or the error with what it found."""
    if not adopted.returncode:
        return "whole"
    lines = adopted.stderr.splitlines()
    lost = [line for line in lines if line.startswith("not translated: ")]
    other = [line.strip() for line in lines if line.startswith("kernelwheel: ") or line.strip().startswith("found:")]
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    text = lost[0].removeprefix("not translated: ") + more if lost else " ".join(other)
    return text[:LINES]


def why(said: str) -> str:
    """What a failed build found, from its error."""
    found = [line.split("found:", 1)[1].strip() for line in said.splitlines() if "found:" in line]
    errors = [line.strip() for line in said.splitlines() if "error:" in line and "subprocess-exited" not in line]
    return " ".join((*found[:1], *errors[:1]))[:LINES]


if __name__ == "__main__":
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(words) < 2 or options not in ([], ["--convert"]):
        sys.exit(__doc__)
    sys.exit(main(Path(words[0]), Path(words[1]), words[2:], is_built=not options))
