"""gsplat's CUDA sources, compiled by nvcc with its own options; kept for each release of gsplat and nvcc.

Those of 1.5.3 are in its installed package. 1.6.0's are in a folder with its package, as in its repository.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import torch

GSPLAT = "1.5.3"  # whose launches launches.py and tests/simt/gsplat_kernels.py know
ARCHITECTURE = "sm_90"
# What `rasterization` launches in a dense layout.
EXECUTED = (
    "SphericalHarmonicsCUDA.cu",
    "ProjectionEWA3DGSFused.cu",
    "IntersectTile.cu",
    "RasterizeToPixels3DGSFwd.cu",
    "RasterizeToPixels3DGSBwd.cu",
)
# And through lenses and along rays.
WITH_LENSES = (
    *EXECUTED,
    "ProjectionUT3DGSFused.cu",
    "RasterizeToPixelsFromWorld3DGSFwd.cu",
    "RasterizeToPixelsFromWorld3DGSBwd.cu",
)
CHANNELS = 3
GSPLAT16 = "1.6.0"  # whose launches tests/simt/gsplat16_kernels.py knows
EXECUTED16 = (
    "SphericalHarmonicsCUDA.cu",
    "ProjectionEWA3DGSFused.cu",
    "IntersectTile.cu",
    "RasterizeToPixels3DGSSerialBatchFwd.cu",
    "RasterizeToPixels3DGSSerialBatchBwd.cu",
)
# Numbers for which its launchers have instances, and those that are kept: without depth, with a mask and gradients, of
# degree 3.
INSTANCES16 = {"0, 1, 2, 3, 4": "3", "0, 1, 2, 3": "3", "0, 1, 2": "0", "0, 1": "1"}


def find_sources() -> Path:
    """The folder `cuda` of the installed gsplat.

    Raises:
        SystemExit: there is none, or one of another release.
    """
    spec = importlib.util.find_spec("gsplat")
    version = importlib.metadata.version("gsplat") if spec else "none"
    if spec is None or spec.origin is None or version != GSPLAT:
        raise SystemExit(f"required: gsplat {GSPLAT}; found: {version}; to fix: pip install gsplat=={GSPLAT}")
    return Path(spec.origin).parent / "cuda"


def find_nvcc() -> str:
    """The toolkit's that pip installed, else one on PATH.

    Raises:
        SystemExit: there is none.
    """
    beside = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/nvcc"))
    program = str(beside[-1]) if beside else shutil.which("nvcc")
    if program is None:
        raise SystemExit("required: nvcc; found: none; to fix: pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]'")
    return program


def compile_ptx(folder: Path, files: Sequence[str] = EXECUTED) -> Path:
    """Some of the files in one, without assertions, with the rasterizers for 3 channels only.

    That, and loops that are not unrolled, save most of the time.

    Raises:
        SystemExit: gsplat or nvcc is missing, or nvcc failed; with its output.
    """
    # A file instantiates its kernels at its end, in lines such as __INS__(3).
    others = re.compile(rf"^__INS__\((?!{CHANNELS}\))\d+\)$", re.MULTILINE)
    texts = [(find_sources() / "csrc" / name).read_text(encoding="utf-8") for name in files]
    # Of sigma points and rolling shutters, which would be twenty times as much PTX.
    folder.mkdir(parents=True, exist_ok=True)
    cameras = (find_sources() / "include" / "Cameras.cuh").read_text(encoding="utf-8")
    (folder / "Cameras.cuh").write_text(cameras.replace("#pragma unroll\n", "#pragma unroll 1\n"), encoding="utf-8")
    return _compile([others.sub("", text) for text in texts], folder, find_sources(), GSPLAT, ["-std=c++17"])


def compile_ptx16(folder: Path, package: Path) -> Path:
    """Those of 1.6.0 that `rasterization` launches in a dense layout, for 3 channels and degree 3 only.

    Raises:
        SystemExit: the folder has no gsplat 1.6.0, nvcc is missing, or it failed; with its output.
    """
    file = package / "version.py"
    if not (file.is_file() and f'"{GSPLAT16}"' in file.read_text(encoding="utf-8")):
        raise SystemExit(f"required: the package of gsplat {GSPLAT16}; found: no version.py that says so in {package}")
    texts = [(package / "cuda" / "csrc" / name).read_text(encoding="utf-8") for name in EXECUTED16]
    for numbers, kept in INSTANCES16.items():
        texts = [text.replace(f"IntParam<{numbers}>", f"IntParam<{kept}>") for text in texts]
    options = ["-std=c++20", f"-DGSPLAT_NUM_CHANNELS={CHANNELS}"]
    return _compile(texts, folder, package / "cuda", GSPLAT16, options)


def _compile(texts: Sequence[str], folder: Path, cuda: Path, version: str, options: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"gsplat_{version}_executed.cu"
    source.write_text("\n".join(texts), encoding="utf-8")
    nvcc = find_nvcc()
    release = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
    kept = folder / f"gsplat-{version}-{release.replace('/', '-')}-{ARCHITECTURE}"
    made = kept / f"{source.stem}-{digest}.ptx"
    if not made.exists():
        kept.mkdir(parents=True, exist_ok=True)
        headers = Path(torch.__file__).parent / "include"
        # A clone without submodules has no glm.
        glm = [each / "csrc" / "third_party" / "glm" for each in (cuda, find_sources())]
        places = [cuda / "include", cuda / "csrc", *glm, headers, headers / "torch/csrc/api/include"]
        # As its JIT build does; the option for constexpr is torch's.
        flags = ["-O3", "-use_fast_math", "--expt-relaxed-constexpr", *options, *(f"-I{each}" for each in places)]
        unfinished = made.with_suffix(".part")
        command = [nvcc, "--ptx", "-DNDEBUG", f"-arch={ARCHITECTURE}", *flags, str(source), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        unfinished.rename(made)
    return made
