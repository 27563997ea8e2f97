"""The child process that runs a setup.py and prints as JSON what it gave to setup() and what it asked of the machine.

Run as `python setup_script.py DIR ORIGINAL MODE SCRATCH [WORD ...]`, where SCRATCH is an empty folder. setup.py itself
runs, with the real torch and setuptools, but `setup()` only notes its arguments and has setuptools describe them, and
whatever is asked about hardware is answered alike on every machine. MODE is `cuda`: there is a CUDA toolkit but no GPU;
`gpu`: torch says that there is a GPU too; `cpu`: there is neither. DIR is a copy of ORIGINAL, or of a part of it. It
imports nothing from this package, as cmake_driver.py.
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
from collections.abc import Callable, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# What setuptools.Extension takes; torch's functions take more, for what only their build_ext does.
EXTENSION_FIELDS = (
    "sources", "include_dirs", "define_macros", "undef_macros", "library_dirs", "libraries", "runtime_library_dirs",
    "extra_objects", "extra_compile_args", "extra_link_args", "export_symbols", "optional",
    "py_limited_api",
)  # fmt: skip
HARMLESS_FIELDS = {"name", "depends", "language", "swig_opts"}
# Of torch.cuda, what only a GPU can answer, and what the one that is pretended says.
PRETENDED = {"name": "NVIDIA H100 80GB HBM3", "major": 9, "minor": 0, "total_memory": 80 << 30}
GPU_ANSWERS: dict[str, object] = {
    "current_device": 0, "get_device_capability": (9, 0), "get_device_name": PRETENDED["name"],
    "get_device_properties": SimpleNamespace(**PRETENDED, multi_processor_count=132), "mem_get_info": (80 << 30,) * 2,
}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Of events other than `open`, which of their arguments are paths that change.
WRITTEN = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.symlink": (1,), "os.link": (1,),
    "os.truncate": (0,), "os.chmod": (0,),
}  # fmt: skip
LOCAL_HOSTS = (None, "", "localhost", "127.0.0.1", "::1")
# What torch.version.cuda says if the torch that is installed has none.
ASSUMED_CUDA = "13.0"


class Observer:
    """What a setup.py did, up to now."""

    def __init__(self, mode: str, project: Path, original: Path, scratch: Path) -> None:
        self.mode = mode
        self.project = project
        self.original = original
        self.scratch = scratch
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
        call = {"arguments": arguments, "extensions": extensions, "commands": commands}
        self.calls.append({**call, "described": plain(self.describe(given))})
        return setuptools.Distribution()

    def describe(self, given: dict[str, Any]) -> dict[str, Any]:
        """What setuptools makes of the arguments of setup(), while what it reads is there."""
        describe = part_of_child("setup_distribution.py")["described_distribution"]
        described: dict[str, Any] = describe(given, self.scratch / f"wheel-{len(self.calls)}")
        return described

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:  # noqa: C901
        """An audit hook: no network, no nvidia-smi, and nothing written to the project that this is a copy of."""
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
        elif event == "open":
            if isinstance(arguments[0], (str, bytes)) and int(arguments[2] or 0) & WRITING:
                self.refuse_original(os.path.realpath(os.fsdecode(arguments[0])))
        elif event in WRITTEN:
            for path in (arguments[number] for number in WRITTEN[event]):
                folder, name = os.path.split(os.fsdecode(path))
                self.refuse_original(f"{os.path.realpath(folder)}/{name}")

    def refuse_original(self, place: str) -> None:
        """Do not let setup.py write through a link to the files of the original."""
        if Path(place).is_relative_to(self.original):
            raise PermissionError(errno.EACCES, "setup.py is only read, and may not write here", place)

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
        answers.update(GPU_ANSWERS if live else dict.fromkeys(GPU_ANSWERS, RuntimeError("no GPU")))
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


def part_of_child(name: str) -> dict[str, Any]:
    """The names of another file of this process; it lies beside this one, and is in no package that it could import."""
    return runpy.run_path(str(Path(__file__).with_name(name)))


def note_variables(observer: Observer, words: list[str], forgotten: tuple[str, ...]) -> None:
    """Note what the project's own files look for and do not find: variables, and words of the command line."""
    kind: type[MutableMapping[str, str]] = type(os.environ)
    between = {os.__file__, str(getattr(sys.modules["_collections_abc"], "__file__", None)), __file__}

    def asked_by_project() -> bool:
        frame = sys._getframe(2)
        while frame.f_back and (frame.f_code.co_filename in between or "frozen" in frame.f_code.co_filename):
            frame = frame.f_back
        return Path(frame.f_code.co_filename).is_relative_to(observer.project)

    class Environment(kind):  # type: ignore[misc,valid-type]
        def __getitem__(self, name: str) -> str:
            try:
                return str(super().__getitem__(name))
            except KeyError:
                if name not in forgotten and asked_by_project():
                    observer.note(f"variable: {name}")
                raise

    class Words(list[str]):
        def __contains__(self, word: object) -> bool:
            if not super().__contains__(word) and asked_by_project():
                observer.note(f"word: {word}")
            return super().__contains__(word)

    os.environ.__class__ = Environment
    sys.argv = Words(["setup.py", "bdist_wheel", *words])


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


def observe(project: Path, observer: Observer, scratch: Path, words: list[str]) -> dict[str, Any]:
    """Run a project's setup.py to its end; where it found what, for the one who reads the result."""
    import distutils.core  # what `import setuptools` put there, from Python 3.12 on

    import setuptools
    import torch

    own_cuda = torch.version.cuda
    machine = part_of_child("setup_machine.py")
    toolkit = None if observer.mode == "cpu" else machine["make_toolkit"](scratch / "cuda", own_cuda or ASSUMED_CUDA)
    machine["prepare_environment"](toolkit, scratch)
    observer.patch_torch(toolkit)
    for module in (setuptools, distutils.core):
        vars(module)["setup"] = observer.setup
    sys.addaudithook(observer.watch)
    os.chdir(project)
    sys.path.insert(0, str(project))
    note_variables(observer, words, machine["FORGOTTEN"])
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


def main(project: str, original: str, mode: str, scratch: str, *words: str) -> None:
    """Print what was observed to what was standard output; setup.py prints to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # in the order in which it was printed, also if this process is killed
        del sys.path[0]  # this file's own folder, where `wheel` is something else
        sys.dont_write_bytecode = True
        observer = Observer(mode, Path(project), Path(original), Path(scratch))
        json.dump(observe(Path(project), observer, Path(scratch), [*words]), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
