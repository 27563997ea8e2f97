"""A toolkit that a distribution has spread over the system's folders, put together again in one folder of links.

Debian's nvcc finds its programs on PATH, its headers where every compiler looks, and libcudart among the system's
libraries; its profile names no root.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from ...runtime.machine.files import is_file
from .programs import output_of
from .toolkit import CUDART, linked_folder
from .toolkit_identity import PARTS

PROGRAMS = ("cicc", "cudafe++", "cuobjdump", "fatbinary", "nvlink", "ptxas")
# The toolkit's own among the system's headers, which would come in the wrong order if they were reached through a link.
HEADERS = {pattern.split("/")[1] for part in PARTS.values() for pattern in part if pattern.startswith("include/")}
# nvcc's own configuration, beside it, for this layout (nvcc manual, "NVCC Configuration": nvcc.profile). The headers
# stay the system's: only in those does cudafe++ let pass that glibc 2.41 declares functions of CUDA 12.4 differently.
PROFILE = """TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-isystem" "$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
"""


def distro_toolkit(nvcc: str) -> Path | str:
    """A folder of links in the usual layout, made from the parts that this nvcc uses; or, in words, what is missing."""
    dry_run = output_of(nvcc, "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull)
    here = _first_match(dry_run, r"^#\$ _HERE_=(.+)$")
    if not here:
        return "does not say where its toolkit is (--dryrun prints neither TOP nor _HERE_)"
    parts: dict[str, Path] = {"bin/nvcc": Path(here) / "nvcc"}
    # Not on all of PATH, where nvcc itself looks: another toolkit's may be there.
    beside = os.pathsep.join([here, str(Path(nvcc).parent)])
    for name in PROGRAMS:
        if found := shutil.which(name, path=beside):
            parts[f"nvvm/bin/{name}" if name == "cicc" else f"bin/{name}"] = Path(found)
    if libdevice := _first_match(dry_run, r"^#\$ NVVMIR_LIBRARY_DIR=(.+)$"):
        parts["nvvm/libdevice"] = Path(libdevice)
    dependencies = output_of(nvcc, "-M", "-x", "cu", os.devnull)
    if folder := _first_match(dependencies, r"(/\S+)/cuda_runtime\.h\b"):
        parts |= {f"include/{path.name}": path for name in HEADERS for path in Path(folder).glob(name)}
    folders = [Path(folder) for folder in re.findall(r'-L"?([^"\s]+)', _first_match(dry_run, r"^#\$ LIBRARIES=(.+)$"))]
    if library := next((folder / CUDART for folder in folders if is_file(folder / CUDART)), None):
        parts[f"lib64/{CUDART}"] = library
    licence = Path(nvcc).parents[1] / "share/doc/nvidia-cuda-toolkit/copyright"
    if is_file(licence):
        parts["EULA.txt"] = licence
    if (Path(here) / "crt").is_dir():
        parts["bin/crt"] = Path(here) / "crt"
    if "nvvm/bin/cicc" in parts:
        parts["bin/cicc"] = parts["nvvm/bin/cicc"]
    return linked_folder(parts, {"bin/nvcc.profile": PROFILE})


def _first_match(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else ""
