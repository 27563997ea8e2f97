"""The installed torch, read from its files: its version and its CUDA."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM
from ...runtime.errors import BuildError
from ...runtime.machine.files import is_file

STABLE_HEADER = "include/torch/csrc/stable/library.h"


@dataclass(frozen=True)
class Torch:
    """An installed torch, known from its files."""

    root: Path  # the package folder, with include/ and lib/
    version: str  # `2.15.0+cu132`
    cuda: str | None  # `torch.version.cuda`, for example `13.2`; None for a build without CUDA
    hip: str | None  # `torch.version.hip`; None for a build without ROCm

    @property
    def cuda_major(self) -> int | None:
        """The major of `cuda`."""
        return int(self.cuda.split(".")[0]) if self.cuda else None


def find_torch() -> Torch:
    """The torch that this Python would import, read from its files, because its import may be slow or broken."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(
            "torch's headers are needed to compile, but this Python has no torch",
            required="torch >= 2.10 in the build environment",
            found="no package torch on sys.path",
            remedies=[
                "build with isolation (the default of pip, uv and build), which installs torch for the build",
                "or, without isolation: pip install torch",
            ],
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    return read_torch(root)


def read_torch(root: Path) -> Torch:
    """Read a torch from its package folder.

    Raises:
        BuildError: files that a compile needs are missing.
    """
    cpu, cuda = (f"lib/{HOST_PLATFORM.shared(stem)}" for stem in ("torch_cpu", "torch_cuda"))
    needed = ["version.py", STABLE_HEADER, cpu]
    missing = [name for name in needed if not (root / name).is_file()]
    values = {} if "version.py" in missing else _assigned_strings(root / "version.py")
    if not missing and values.get("cuda") and not (root / cuda).is_file():
        missing.append(cuda)
    if missing or not values.get("__version__"):
        raise BuildError(
            "the installed torch is incomplete, or older than 2.10",
            required="a torch with its headers, libraries and version.py",
            found="missing in torch's folder: " + (", ".join(missing) or "__version__ in version.py"),
            remedies=["pip install --force-reinstall 'torch>=2.10'"],
        )
    return Torch(root, values["__version__"], values.get("cuda"), values.get("hip"))


def standard_of(*files: Path) -> int:
    """The C++ standard that torch's files ask for, headers by `#error` and cpp_extension.py by its choice; else 17."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if is_file(path)]
    found = re.findall(r"__cplusplus < 20(\d\d)\d\dL\)?\s*#\s*error|_prefix \+ 'c\+\+(\d\d)'", "\n".join(texts))
    return max([17, *(int(header or chosen) for header, chosen in found)])


def torch_libraries(torch: Torch) -> list[str]:
    """The file names of the libraries that torch's wheel and those it depends on bring."""
    site = torch.root.parent
    folders = (torch.root / "lib", *site.glob("nvidia/*/lib"))
    return sorted({path.name for folder in folders for path in folder.glob(f"*{HOST_PLATFORM.suffix}*")})


def _assigned_strings(path: Path) -> dict[str, str]:
    """The module-level `name = 'literal'` of a Python file, annotated or not."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return dict(re.findall(r"""^(\w+)(?: *:[^=\n]*)? *= *['"]([^'"\n]+)['"] *$""", text, re.MULTILINE))
