"""The child process that runs a setup.py and prints as JSON what it gave to setup() and what it asked of the machine.

Run as `python setup_script.py DIR MODE SCRATCH`, where SCRATCH is an empty folder. setup.py itself runs, with the real
torch and setuptools, but `setup()` only notes its arguments, and whatever is asked about hardware is answered alike on
every machine. MODE is `cuda`: there is a CUDA toolkit but no GPU; `gpu`: torch says that there is a GPU too; `cpu`:
there is neither. It imports nothing from this package, as cmake_driver.py.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import runpy
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What setuptools.Extension takes; torch's functions take more, for what only their build_ext does.
EXTENSION_FIELDS = (
    "sources", "include_dirs", "define_macros", "undef_macros", "library_dirs", "libraries", "runtime_library_dirs",
    "extra_objects", "extra_compile_args", "extra_link_args", "export_symbols", "optional",
    "py_limited_api",
)  # fmt: skip
HARMLESS_FIELDS = {"name", "depends", "language", "swig_opts"}
# Of torch.cuda, what only a GPU can answer.
GPU_QUESTIONS = ("current_device", "get_device_capability", "get_device_name", "get_device_properties", "mem_get_info")
# Variables with tools and flags of this machine, which have nothing to do with the project.
FORGOTTEN = (
    "CC", "CFLAGS", "CPPFLAGS", "CUDACXX", "CUDAFLAGS", "CUDA_HOME", "CUDA_INC_PATH", "CUDA_PATH", "CUDNN_HOME",
    "CUDNN_PATH", "CXX", "CXXFLAGS", "FORCE_CUDA", "LDFLAGS", "NVCC_APPEND_FLAGS", "NVCC_FLAGS", "NVCC_PREPEND_FLAGS",
)  # fmt: skip
# An address where nobody answers: programs that would download fail at once.
NO_PROXY, NOWHERE = ("no_proxy", "NO_PROXY"), "http://127.0.0.1:9"
LOCAL_HOSTS = (None, "", "localhost", "127.0.0.1", "::1")
# What torch.version.cuda says if the torch that is installed has none.
ASSUMED_CUDA = "13.0"


class Observer:
    """What a setup.py did, up to now."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.calls: list[dict[str, Any]] = []
        self.asked: list[str] = []

    def note(self, question: str) -> None:
        """Note a question, once."""
        if question not in self.asked:
            self.asked.append(question)

    def setup(self, **given: Any) -> object:
        """Stands for setuptools.setup: notes what it is given and builds nothing."""
        import setuptools

        arguments = {name: plain(value) for name, value in given.items() if name not in ("ext_modules", "cmdclass")}
        extensions = [described(extension) for extension in given.get("ext_modules") or ()]
        commands = {name: own_command(kind) for name, kind in (given.get("cmdclass") or {}).items()}
        self.calls.append({"arguments": arguments, "extensions": extensions, "commands": commands})
        return setuptools.Distribution()

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook: no network, no nvidia-smi."""
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            self.refuse_network(str(arguments[1][0]))
        elif event == "socket.getaddrinfo":
            if arguments[0] not in LOCAL_HOSTS:
                self.refuse_network(str(arguments[0]))
        elif event == "urllib.Request":
            if not str(arguments[0]).startswith("file:"):
                self.refuse_network(str(arguments[0]))
        elif event in ("subprocess.Popen", "os.system") and "nvidia-smi" in str(arguments[:2]):
            self.note("nvidia-smi")
            if event == "subprocess.Popen" and Path(os.fsdecode(arguments[0])).name == "nvidia-smi":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "nvidia-smi")

    def refuse_network(self, place: str) -> None:
        """Note a download, and do not let it happen."""
        self.note(f"download: {place}")
        raise OSError(errno.ENETUNREACH, f"setup.py is only read, and may not download: {place}")

    def answer(self, name: str, value: object) -> Callable[..., object]:
        """A function of torch.cuda that notes that it was asked, and returns or raises `value`."""

        def answered(*_: object, **__: object) -> object:
            self.note(f"torch.cuda.{name}")
            if isinstance(value, Exception):
                raise value
            return value

        return answered

    def tagged(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """torch's function for an extension, which leaves its own name on what it makes."""

        @functools.wraps(make)
        def made(*given: Any, **named: Any) -> Any:
            extension = make(*given, **named)
            extension.made_by = make.__name__
            extension.beyond = sorted(set(named) - set(EXTENSION_FIELDS) - HARMLESS_FIELDS)
            return extension

        return made

    def patch_torch(self, toolkit: Path | None) -> None:
        """Answer for the machine in torch's name."""
        import torch
        import torch.backends.cuda
        from torch.utils import cpp_extension

        live = self.mode == "gpu"
        answers: dict[str, object] = {"is_available": live, "device_count": int(live), "get_arch_list": []}
        answers.update(dict.fromkeys(GPU_QUESTIONS, RuntimeError("no GPU")))
        for name, value in answers.items():
            setattr(torch.cuda, name, self.answer(name, value))
        replaced: list[tuple[object, str, object]] = [
            (torch.version, "cuda", (torch.version.cuda or ASSUMED_CUDA) if toolkit else None),
            (torch.version, "hip", None),
            (torch.backends.cuda, "is_built", lambda: bool(toolkit)),
            (cpp_extension, "CUDA_HOME", str(toolkit) if toolkit else None),
            (cpp_extension, "CUDNN_HOME", None),
            (cpp_extension, "ROCM_HOME", None),
            (cpp_extension, "IS_HIP_EXTENSION", False),
        ]
        for name in ("CppExtension", "CUDAExtension", "SyclExtension"):
            if hasattr(cpp_extension, name):
                replaced.append((cpp_extension, name, self.tagged(getattr(cpp_extension, name))))
        for owner, name, new in replaced:
            setattr(owner, name, new)


def plain(value: Any) -> Any:
    """A value as JSON can have it; paths become strings."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def described(extension: Any) -> dict[str, Any]:
    """An extension's fields; `made_by` is torch's function, or the class if it was none of torch's."""
    fields = {name: plain(getattr(extension, name, None)) for name in EXTENSION_FIELDS}
    made_by = getattr(extension, "made_by", type(extension).__name__)
    return {"name": str(extension.name), "made_by": made_by, "beyond": getattr(extension, "beyond", []), **fields}


def own_command(kind: Any) -> str | None:
    """The name of a command's class; None for torch's BuildExtension, with or without options."""
    is_torch_s = str(getattr(kind, "__module__", "")).startswith("torch.")
    return None if is_torch_s else str(getattr(kind, "__qualname__", kind))


def without_programs(path: str, names: set[str], scratch: Path) -> str:
    """PATH as if some programs were not installed: a folder that has one becomes a folder of links to the others."""
    folders = []
    for number, folder in enumerate(path.split(os.pathsep)):
        if folder and any((Path(folder) / name).exists() for name in names):
            copy = scratch / f"path-{number}"
            copy.mkdir()
            for entry in Path(folder).absolute().iterdir():
                if entry.name not in names:
                    (copy / entry.name).symlink_to(entry)
            folder = str(copy)
        folders.append(folder)
    return os.pathsep.join(folders)


def make_toolkit(root: Path, release: str) -> Path:
    """A folder that looks like a CUDA toolkit to a setup.py: its nvcc can say its version and nothing else."""
    for name in ("bin", "include", "lib64"):
        (root / name).mkdir(parents=True)
    lines = f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {release}, V{release}.0\n"
    (root / "bin/nvcc").write_text(f"#!/bin/sh\ncat <<end\n{lines}end\n", encoding="utf-8")
    (root / "bin/nvcc").chmod(0o755)
    return root


def prepare_environment(toolkit: Path | None, scratch: Path) -> None:
    """Set what setup.py sees in its environment."""
    for name in (*FORGOTTEN, *NO_PROXY):
        os.environ.pop(name, None)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = NOWHERE
    os.environ["GIT_ALLOW_PROTOCOL"] = "file"  # git's submodules, if they are there already, are no download
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    path = without_programs(os.environ.get("PATH", os.defpath), {"nvcc", "nvidia-smi"}, scratch)
    if toolkit:
        os.environ["CUDA_HOME"] = os.environ["CUDA_PATH"] = str(toolkit)
        os.environ["FORCE_CUDA"] = "1"
        path = f"{toolkit / 'bin'}{os.pathsep}{path}"
    os.environ["PATH"] = path


def observe(project: Path, observer: Observer, scratch: Path) -> dict[str, Any]:
    """Run a project's setup.py to its end; where it found what, for the one who reads the result."""
    import distutils.core  # what `import setuptools` put there, from Python 3.12 on

    import setuptools
    import torch

    own_cuda = torch.version.cuda
    toolkit = None if observer.mode == "cpu" else make_toolkit(scratch / "cuda", own_cuda or ASSUMED_CUDA)
    prepare_environment(toolkit, scratch)
    observer.patch_torch(toolkit)
    for module in (setuptools, distutils.core):
        vars(module)["setup"] = observer.setup
    sys.addaudithook(observer.watch)
    os.chdir(project)
    sys.path.insert(0, str(project))
    sys.argv = ["setup.py", "bdist_wheel"]
    failure = None
    try:
        runpy.run_path(str(project / "setup.py"), run_name="__main__")
    except SystemExit as leaving:
        print(leaving.code if isinstance(leaving.code, str) else "", file=sys.stderr, end="")
        failure = f"it called sys.exit({leaving.code!r})"
    except BaseException as error:
        traceback.print_exc()
        failure = f"it raised {type(error).__name__}"
    python = [sysconfig.get_path(name) for name in ("include", "platinclude")]
    python += [str(Path(prefix) / "include") for prefix in (sys.prefix, sys.base_prefix)]
    return {
        "failure": failure or "it never called setup()",
        "calls": observer.calls,
        "asked": observer.asked,
        "assumed_cuda": ASSUMED_CUDA if toolkit and own_cuda is None else None,
        "below": [str(Path(torch.__file__).parent), *([str(toolkit)] if toolkit else [])],
        "exactly": python,
    }


def main(project: str, mode: str, scratch: str) -> None:
    """Print what was observed to what was standard output; setup.py prints to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # in the order in which it was printed, also if this process is killed
        del sys.path[0]  # this file's own folder, where `wheel` is something else
        sys.dont_write_bytecode = True
        json.dump(observe(Path(project), Observer(mode), Path(scratch)), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
