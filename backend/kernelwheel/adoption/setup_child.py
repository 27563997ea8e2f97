"""The child process that runs a setup.py and prints as JSON what it gives to setup().

Run as `python setup_child.py DIR [cuda] [importable]` with the text of setup.py on standard input. The real torch and
setuptools are used, but `setup()` only notes its arguments, and torch answers for a machine that is the same
everywhere: with `cuda`, there are a GPU and a CUDA toolkit, otherwise neither. With `importable`, the modules in DIR
can be imported, as in a build by setuptools' older backend, but not in one by kernelwheel, for which pip takes a
setuptools without pkg_resources. It imports nothing from this package.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# What setuptools.Extension takes and a compile depends on.
EXTENSION_FIELDS = (
    "sources", "include_dirs", "define_macros", "undef_macros", "library_dirs", "libraries", "runtime_library_dirs",
    "extra_objects", "extra_compile_args", "extra_link_args", "export_symbols",
)  # fmt: skip
# The variables with which a caller's shell would answer for the project, on what is compiled for and how. Of flags, a
# build has its own, which would then count twice.
CALLER_S = (
    "CUDA_HOME", "CUDA_PATH", "FORCE_CUDA", "TORCH_CUDA_ARCH_LIST", "CUDAARCHS", "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS", "CUDAFLAGS", "CXXFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS",
)  # fmt: skip
ARCH_LIST = "TORCH_CUDA_ARCH_LIST"
LIBRARIES = ("torch", "setuptools", "distutils", "builtins")  # whose classes no setup.py wrote
# What torch.version.cuda is said to be if the torch that is installed has none.
ASSUMED_CUDA = "13.0"
GPU, MEMORY = "9.0", 80 << 30  # the compute capability and the bytes of the GPU that it is told of


class Recorder:
    """What a setup.py did, up to now."""

    def __init__(self) -> None:
        self.call: dict[str, Any] = {}
        self.calls = 0
        self.asked_capability = False

    def setup(self, **given: Any) -> object:
        """Stands for setuptools.setup: notes the arguments of its first call, and builds nothing."""
        import setuptools

        listed = {name: given[name] for name in ("name", "packages", "py_modules") if name in given}
        distribution = setuptools.Distribution(listed)
        distribution.parse_config_files()
        self.calls += 1
        if self.calls == 1:
            self.call = {
                "arguments": {name: plain(given[name]) for name in given if name not in ("ext_modules", "cmdclass")},
                "extensions": [described(extension) for extension in given.get("ext_modules") or ()],
                "commands": {name: own_command(kind) for name, kind in (given.get("cmdclass") or {}).items()},
                "name": distribution.metadata.name,
                "packages": plain(distribution.packages),
                "lists_modules": distribution.packages is not None or distribution.py_modules is not None,
            }
        return distribution

    def capability(self, device: object = None) -> tuple[int, int]:
        """Stands for torch.cuda.get_device_capability."""
        properties = self.properties()
        return properties.major, properties.minor

    def properties(self, device: object = None) -> SimpleNamespace:
        """Stands for torch.cuda.get_device_properties."""
        self.asked_capability = True
        major, minor = map(int, GPU.split("."))
        return SimpleNamespace(
            name="NVIDIA H100 80GB HBM3", major=major, minor=minor, total_memory=MEMORY, multi_processor_count=132
        )


def pretend(recorder: Recorder, toolkit: Path | None) -> None:
    """Answer for the machine in torch's name, and in that of setuptools for the recorder."""
    import distutils.core  # what `import setuptools` put there, from Python 3.12 on

    import setuptools
    import torch
    import torch.backends.cuda
    from torch.utils import cpp_extension

    answers: dict[str, Callable[..., object]] = {
        "is_available": lambda: bool(toolkit),
        "device_count": lambda: int(bool(toolkit)),
        "get_arch_list": lambda: [],
    }
    if toolkit:
        answers |= {
            "get_device_capability": recorder.capability, "get_device_properties": recorder.properties,
            "get_device_name": lambda device=None: recorder.properties(device).name, "current_device": lambda: 0,
            "mem_get_info": lambda *_: (MEMORY, MEMORY),
        }  # fmt: skip
    replaced: list[tuple[object, dict[str, object]]] = [
        (torch.cuda, {**answers}),
        (torch.version, {"cuda": (torch.version.cuda or ASSUMED_CUDA) if toolkit else None, "hip": None}),
        (torch.backends.cuda, {"is_built": lambda: bool(toolkit)}),
        (
            cpp_extension,
            {
                "CUDA_HOME": str(toolkit) if toolkit else None, "CUDNN_HOME": None, "ROCM_HOME": None,
                "IS_HIP_EXTENSION": False, "CppExtension": tagged(cpp_extension.CppExtension),
                "CUDAExtension": tagged(cpp_extension.CUDAExtension),
            },
        ),
        (setuptools, {"setup": recorder.setup}),
        (distutils.core, {"setup": recorder.setup}),
    ]  # fmt: skip
    for owner, values in replaced:
        for name, value in values.items():
            setattr(owner, name, value)
    for name in CALLER_S:
        os.environ.pop(name, None)
    if toolkit:
        os.environ.update(CUDA_HOME=str(toolkit), CUDA_PATH=str(toolkit), FORCE_CUDA="1")
        os.environ["PATH"] = f"{toolkit / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def make_toolkit(root: Path) -> Path:
    """A folder that looks like a CUDA toolkit to a setup.py: its nvcc can say its version and nothing else."""
    import torch

    release = torch.version.cuda or ASSUMED_CUDA
    for name in ("bin", "include", "lib64"):
        (root / name).mkdir(parents=True)
    lines = f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {release}, V{release}.0\n"
    (root / "bin/nvcc").write_text(f"#!/bin/sh\ncat <<end\n{lines}end\n", encoding="utf-8")
    (root / "bin/nvcc").chmod(0o755)
    return root


def tagged(make: Callable[..., Any]) -> Callable[..., Any]:
    """torch's function for an extension, which leaves its own name on what it makes."""

    @functools.wraps(make)
    def made(*given: Any, **named: Any) -> Any:
        extension = make(*given, **named)
        extension.made_by = make.__name__
        return extension

    return made


def plain(value: Any) -> Any:
    """A value as JSON can have it; paths become strings."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def described(extension: Any) -> dict[str, Any]:
    """An extension's name, its fields, and who made it: torch's function, or its class."""
    fields = {name: plain(getattr(extension, name, None)) for name in EXTENSION_FIELDS}
    made_by = getattr(extension, "made_by", type(extension).__name__)
    return {"name": str(extension.name), "made_by": made_by, "fields": fields}


def own_command(kind: Any) -> str | None:
    """The name of a command's class; None for torch's BuildExtension, with or without options.

    torch itself makes the class that has options, of whatever class is given them.
    """
    kind = getattr(kind, "func", kind)  # of functools.partial
    made_by = {each: str(each.__module__).partition(".")[0] for each in getattr(kind, "__mro__", ())}
    own = next((each for each, module in made_by.items() if module not in LIBRARIES), None)
    if own is None and "torch" in made_by.values():
        return None
    return str(getattr(own or kind, "__qualname__", kind))


def record(project: Path, source: bytes, toolkit: Path | None, importable: bool) -> dict[str, Any]:
    """Run the text of a project's setup.py to its end."""
    import torch

    recorder = Recorder()
    pretend(recorder, toolkit)
    os.chdir(project)
    sys.argv = ["setup.py", "bdist_wheel"]
    if importable:
        sys.path.insert(0, str(project))
    else:
        sys.modules["pkg_resources"] = None  # type: ignore[assignment]
    script = str(project / "setup.py")
    ended = "it never called setup()"
    try:
        exec(compile(source, script, "exec"), {"__name__": "__main__", "__file__": script})
    except SystemExit as leaving:
        ended = f"it called sys.exit({leaving.code!r})"
    except BaseException as error:
        traceback.print_exc()
        ended = raised(error, script, source)
    prefixes = [str(Path(prefix) / "include") for prefix in (sys.prefix, sys.base_prefix)]
    run = {
        **recorder.call,
        "calls": recorder.calls,
        "cuda": torch.version.cuda,
        "archs_set": os.environ.get(ARCH_LIST, ""),
        "asked_capability": recorder.asked_capability,
        "known_folders": [str(Path(torch.__file__).parent), *([str(toolkit)] if toolkit else [])],
        "searched_folders": [*(sysconfig.get_path(name) for name in ("include", "platinclude")), *prefixes],
    }
    return {"run": run, "failure": "" if recorder.calls else ended}


def raised(error: BaseException, script: str, source: bytes) -> str:
    """What an error was, and which line of a setup.py led to it, such as an import."""
    said = f"it raised {type(error).__name__}: {error}".partition("\n")[0]
    numbers = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    if not numbers or not numbers[-1]:
        return said
    line = source.splitlines()[numbers[-1] - 1].decode("utf-8", "replace").strip()
    return f"{said} (line {numbers[-1]}: {line})"


def main(project: str, *options: str) -> None:
    """Print what was observed to what was standard output; setup.py prints to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out, tempfile.TemporaryDirectory() as scratch:
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # in the order in which it was printed
        del sys.path[0]  # this file's own folder
        sys.dont_write_bytecode = True
        toolkit = make_toolkit(Path(scratch).resolve() / "cuda") if "cuda" in options else None
        json.dump(record(Path(project), sys.stdin.buffer.read(), toolkit, "importable" in options), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
