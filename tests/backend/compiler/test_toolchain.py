"""The Toolchain: read from files and --version output, without importing torch, querying GPUs or silent fallbacks."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernelwheel
import pytest
from folders import BACKEND, HELPERS
from kernelwheel.compiler.find_toolchain import find_toolchain
from kernelwheel.compiler.toolchain.cuda import CudaDecision, decide_cuda
from kernelwheel.compiler.toolchain.cxx import find_cxx, host_limits
from kernelwheel.compiler.toolchain.nvcc import NvccSearch, find_cuobjdump
from kernelwheel.compiler.toolchain.toolkit import Nvcc
from kernelwheel.compiler.toolchain.toolkit_identity import toolkit_identity
from kernelwheel.compiler.toolchain.torch_files import find_torch, read_torch
from kernelwheel.runtime.errors import BuildError
from processes import RunPython
from standins import (
    GPU_CODES,
    HOST_LIMITS,
    NOWHERE,
    make_cxx,
    make_machine,
    make_program,
    make_toolkit,
    make_torch,
    settings_with,
)


def decide(
    torch_root: Path, *, path: Path | str = "", shell: Mapping[str, str] | None = None, **options: str
) -> CudaDecision:
    """The decision with no nvcc on PATH except in `path`, and with the variables in `shell`."""
    environ = {"PATH": str(path), **(shell or {})}
    return decide_cuda(NvccSearch(settings_with(environ, **options), read_torch(torch_root), environ))


def taken(torch_root: Path, **options: Any) -> Nvcc:
    """The nvcc that is taken."""
    nvcc = decide(torch_root, **options).nvcc
    assert nvcc is not None
    return nvcc


def refusal(
    torch_root: Path, *, path: Path | str = "", shell: Mapping[str, str] | None = None, **options: str
) -> BuildError:
    with pytest.raises(BuildError) as caught:
        decide(torch_root, path=path, shell=shell, **options)
    return caught.value


@pytest.fixture
def cuda_torch(tmp_path: Path) -> Path:
    return make_torch(tmp_path / "site", "2.11.0+cu990", NOWHERE)


# torch


@pytest.mark.parametrize(
    ("version", "cuda", "hip"), [("2.15.0+cu132", "13.2", None), ("2.12.0+rocm6.4", None, "6.4.43482")]
)
def test_torch_is_known_from_its_files(tmp_path: Path, version: str, cuda: str | None, hip: str | None) -> None:
    root = make_torch(tmp_path, version, cuda, hip)

    read = read_torch(root)

    assert (read.root, read.version, read.cuda, read.hip) == (root, version, cuda, hip)


def test_the_torch_at_hand_is_read_as_it_calls_itself(run_with_torch: RunPython) -> None:
    said = json.loads(
        run_with_torch("import torch, json; print(json.dumps([torch.__version__, torch.version.cuda]))").stdout
    )

    read = find_torch()

    assert [read.version, read.cuda] == said


def test_finding_a_toolchain_and_drawing_a_plan_imports_no_torch(tmp_path: Path, run_python: RunPython) -> None:
    machine = make_machine(tmp_path / "machine")
    script = """
import sys
from pathlib import Path
from standins import Machine
machine = Machine(Path(sys.argv[1]))
from kernelwheel import hooks
from kernelwheel.compiler.toolchain.torch_files import find_torch
assert find_torch().root == machine.torch
machine.draw()
assert "torch" not in sys.modules
"""

    run_python(script, machine.folder, path=[machine.site, HELPERS, BACKEND])


def test_no_torch_at_all_is_an_error_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(BuildError) as caught:
        find_torch()

    assert "isolation" in caught.value.remedies[0]
    assert "pip install torch" in caught.value.remedies[1]


@pytest.mark.parametrize("missing", ["version.py", "include/torch/csrc/stable/library.h", "lib/libtorch_cuda.so"])
def test_a_torch_that_lacks_a_file_is_refused_by_that_file_s_name(tmp_path: Path, missing: str) -> None:
    root = make_torch(tmp_path, "2.11.0", "13.0")
    (root / missing).unlink()

    with pytest.raises(BuildError, match=missing):
        read_torch(root)


@pytest.mark.parametrize("text", ["", "__version__ = open('x').read()\n", "__version__ = '2.11"])
def test_a_version_file_without_a_version_is_refused(tmp_path: Path, text: str) -> None:
    root = make_torch(tmp_path)
    (root / "version.py").write_text(text)

    with pytest.raises(BuildError, match=r"version\.py"):
        read_torch(root)


# Whether CUDA kernels are built


@pytest.mark.parametrize(("hip", "word"), [(None, "without CUDA"), ("6.4", "ROCm 6.4")])
def test_where_torch_has_no_cuda_auto_builds_none_and_on_is_an_error(
    tmp_path: Path, hip: str | None, word: str
) -> None:
    torch = make_torch(tmp_path, "2.13.0", None, hip)

    decision = decide(torch, cuda_home=str(make_toolkit(tmp_path / "toolkit")))
    error = refusal(torch, cuda="on")

    assert decision.nvcc is None
    assert word in decision.reason
    assert "torch.version.cuda is None" in decision.reason
    assert word in error.found
    assert "-C cuda" in error.required


def test_off_builds_none_even_where_everything_is_there_and_asks_no_nvcc(tmp_path: Path, cuda_torch: Path) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit")

    decision = decide(cuda_torch, cuda="off", shell={"CUDA_HOME": str(toolkit)})

    assert decision.nvcc is None
    assert "off (-C cuda)" in decision.reason
    assert not (toolkit / "calls").exists()


# Which nvcc


def places(tmp_path: Path, cuda_torch: Path) -> dict[str, Path]:
    """A matching toolkit in each place that is searched, in order of precedence."""
    return {
        "nvcc": make_toolkit(tmp_path / "setting"),
        "cuda_home": make_toolkit(tmp_path / "home"),
        "pip": make_toolkit(cuda_torch.parent / "nvidia" / "cu99"),
        "PATH": make_toolkit(tmp_path / "path"),
    }


@pytest.mark.parametrize("first", ["nvcc", "cuda_home", "pip", "PATH"])
def test_the_places_count_in_their_order(tmp_path: Path, cuda_torch: Path, first: str) -> None:
    toolkits = places(tmp_path, cuda_torch)
    order = list(toolkits)
    for earlier in order[: order.index(first)]:
        (toolkits[earlier] / "bin/nvcc").unlink()

    nvcc = taken(
        cuda_torch,
        path=toolkits["PATH"] / "bin",
        nvcc=str(toolkits["nvcc"] / "bin/nvcc"),
        shell={"CUDA_HOME": str(toolkits["cuda_home"])},
    )

    assert nvcc.root == toolkits[first]


@pytest.mark.parametrize("fits", ["CUDACXX", "CUDA_HOME"])
def test_of_two_variables_the_toolkit_that_fits_torch_is_meant(tmp_path: Path, cuda_torch: Path, fits: str) -> None:
    right, wrong = make_toolkit(tmp_path / "right"), make_toolkit(tmp_path / "wrong", "12.8.93")
    one, other = (right, wrong) if fits == "CUDACXX" else (wrong, right)

    nvcc = taken(cuda_torch, shell={"CUDACXX": str(one / "bin/nvcc"), "CUDA_HOME": str(other)})

    assert (nvcc.root, nvcc.origin) == (right, f"environment variable {fits}")


def test_an_nvcc_of_another_minor_fits_and_the_report_says_so(tmp_path: Path, cuda_torch: Path) -> None:
    (candidate,) = decide(cuda_torch, cuda_home=str(make_toolkit(tmp_path / "toolkit", "99.7.1"))).candidates

    assert candidate.nvcc is not None
    assert candidate.outcome == "CUDA 99.7.1, another release of torch's major (99.0)"


@pytest.mark.parametrize("release", GPU_CODES)
def test_every_release_of_nvcc_serves_a_torch_of_its_major(tmp_path: Path, release: str) -> None:
    torch = make_torch(tmp_path / "site", "2.12.0", release)
    toolkit = make_toolkit(tmp_path / "toolkit", f"{release}.88", GPU_CODES[release])

    nvcc = taken(torch, cuda_home=str(toolkit))

    assert nvcc.version == f"{release}.88"
    assert {f"sm_{str(arch).replace('.', '')}" for arch in nvcc.supported} == set(GPU_CODES[release].split())
    assert tuple(host_limits(nvcc).values()) == HOST_LIMITS[release]


def test_of_many_the_right_one_is_chosen_and_the_report_says_why_each_other_was_not(
    tmp_path: Path, cuda_torch: Path
) -> None:
    make_toolkit(cuda_torch.parent / "nvidia/cu12", "12.8.93")
    half = make_toolkit(cuda_torch.parent / "nvidia/cu99")
    (half / "include/cuda_runtime.h").unlink()
    (tmp_path / "nvcc").symlink_to(tmp_path / "removed")
    good = make_toolkit(tmp_path / "good")

    decision = decide(
        cuda_torch,
        path=good / "bin",
        nvcc=str(tmp_path / "nvcc"),
        cuda_home=str(make_toolkit(tmp_path / "11", "11.8.89")),
    )

    assert decision.nvcc is not None
    assert decision.nvcc.root == good
    assert [(c.origin, c.outcome) for c in decision.candidates] == [
        ("-C nvcc", "a broken link"),
        ("-C cuda_home", "is for CUDA 11.8.89, torch is for CUDA 99.0"),
        ("pip's cuda-toolkit beside torch", f"its toolkit {half} lacks cuda_runtime.h (of cudart)"),
        ("pip's cuda-toolkit beside torch", "is for CUDA 12.8.93, torch is for CUDA 99.0"),
        ("PATH", f"CUDA {NOWHERE}.1"),
    ]


# ccache, called by the name of a compiler, runs the next one of that name on PATH.
CCACHE = """name="$(basename "$0")"; here="$(cd "$(dirname "$0")" && pwd)"
for folder in $(echo "$PATH" | tr : ' '); do
  test "$folder" != "$here" && test -x "$folder/$name" && exec "$folder/$name" "$@"
done
echo "ccache: error: Could not find compiler \\"$name\\" in PATH" >&2; exit 1"""


@pytest.mark.parametrize("kind", ["a link", "a link to ccache", "a script with ccache"])
def test_what_stands_before_an_nvcc_leads_to_the_toolkit_that_it_names_itself(
    tmp_path: Path, cuda_torch: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    toolkit, shim = make_toolkit(tmp_path / "toolkit"), tmp_path / "shims/nvcc"
    shim.parent.mkdir()
    if kind == "a link":
        (tmp_path / "linked").symlink_to(toolkit)
        shim = tmp_path / "linked/bin/nvcc"
    elif kind == "a link to ccache":
        shim.symlink_to(make_program(tmp_path / "bin/ccache", CCACHE))
    else:
        make_program(tmp_path / "bin/ccache", 'exec "$@"')
        make_program(shim, f'exec ccache {toolkit}/bin/nvcc "$@"')
    path = f"{shim.parent}:{tmp_path}/bin:{toolkit}/bin:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)

    decision = decide(cuda_torch, path=path)

    assert decision.nvcc is not None
    assert decision.candidates[-1].place == str(shim)
    assert (decision.nvcc.root, decision.nvcc.path) == (toolkit, toolkit / "bin/nvcc")


@pytest.mark.parametrize("named", [True, False])
def test_an_nvcc_is_told_of_a_compiler_that_is_not_called_gcc(tmp_path: Path, cuda_torch: Path, named: bool) -> None:
    """Without one, it does not even say where its toolkit is."""
    toolkit, cxx = make_toolkit(tmp_path / "toolkit"), make_cxx(tmp_path / "bin" / ("conda-c++" if named else "g++-15"))

    decision = decide(cuda_torch, path=cxx.parent, cuda_home=str(toolkit), **({"cxx": str(cxx)} if named else {}))

    assert decision.nvcc is not None
    assert f"--dryrun -ccbin {cxx} -E" in (toolkit / "calls").read_text()


def test_only_the_path_of_the_given_environment_is_searched(
    tmp_path: Path, cuda_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit")
    monkeypatch.setenv("PATH", f"{toolkit}/bin:/usr/bin:/bin")

    refusal(cuda_torch, path="")


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("link", "a broken link"),
        ("directory", "not executable"),
        ("other program", "does not answer --version as nvcc does (hello from a stranger)"),
        ("no top", "does not say where its toolkit is"),
        ("wrong", "is for CUDA 12.8.93, torch is for CUDA 99.0"),
    ],
)
def test_an_nvcc_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, cuda_torch: Path, how: str, outcome: str
) -> None:
    nvcc = tmp_path / "home/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    if how == "link":
        nvcc.symlink_to(tmp_path / "nowhere")
    elif how == "directory":
        nvcc.mkdir()
    elif how == "wrong":
        make_toolkit(tmp_path / "home", "12.8.93")
    else:
        make_program(
            nvcc, "echo hello from a stranger" if "other" in how else f"echo 'release {NOWHERE}, V{NOWHERE}.1'"
        )

    error = refusal(cuda_torch, cuda_home=str(tmp_path / "home"))

    line = next(line for line in error.found.splitlines() if str(nvcc) in line)
    assert outcome in line
    assert "-C cuda_home" in line


CONDA = "targets/x86_64-linux/include"
LAYOUTS = {"include": "lib64", CONDA: f"{CONDA}/../lib"}


@pytest.mark.parametrize("headers", LAYOUTS, ids=["plain", "conda"])
@pytest.mark.parametrize("part", ["cuda_runtime.h", "crt/host_config.h", "nv/target", "cicc", "libcudart_static.a"])
def test_a_toolkit_that_lacks_a_part_is_refused_by_that_part_s_name(
    tmp_path: Path, cuda_torch: Path, part: str, headers: str
) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit", headers=headers)
    inside = {
        "nv/target": f"{headers}/cccl/{part}",
        "cicc": "nvvm/bin/cicc",
        "libcudart_static.a": f"{LAYOUTS[headers]}/{part}",
    }
    (toolkit / inside.get(part, f"{headers}/{part}")).unlink()
    if headers == CONDA:  # from another package, and for a compiler other than nvcc, which does not search there
        (toolkit / "include").mkdir()
        (toolkit / "include/cuda_runtime.h").touch()

    assert f"its toolkit {toolkit} lacks {part} (of " in refusal(cuda_torch, cuda_home=str(toolkit)).found


@pytest.mark.parametrize("folder", ["lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"])
def test_the_static_runtime_is_found_in_every_layout(tmp_path: Path, cuda_torch: Path, folder: str) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit")
    (toolkit / folder).mkdir(parents=True)
    (toolkit / "lib64/libcudart_static.a").rename(toolkit / folder / "libcudart_static.a")

    assert taken(cuda_torch, cuda_home=str(toolkit)).root == toolkit


def test_the_error_without_a_fitting_nvcc_has_three_ways_out(cuda_torch: Path) -> None:
    error = refusal(cuda_torch)

    install, point, leave_out = error.remedies
    assert f"pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]=={NOWHERE}.*'" in install
    assert (
        f"conda install -c conda-forge cuda-nvcc cuda-cudart-dev cuda-cudart-static cuda-cccl cuda-version={NOWHERE}"
        in point
    )
    assert "CUDA_HOME" in point
    assert "CUDACXX" in point
    assert "cuda=off" in leave_out
    assert "CUDA 99.x" in error.required


# A toolkit in several folders


def test_headers_have_one_identity_wherever_they_lie(tmp_path: Path, cuda_torch: Path) -> None:
    def identity(home: Path) -> dict[str, str]:
        identity = toolkit_identity(taken(cuda_torch, cuda_home=str(home)))
        del identity["nvcc"]  # the stand-in's says in its own text where its headers are
        return identity

    plain, conda = make_toolkit(tmp_path / "plain"), make_toolkit(tmp_path / "conda", headers=CONDA)
    assert identity(plain) == identity(conda)

    (conda / CONDA / "cccl/cub/cub.cuh").write_text("another CCCL\n")
    assert {name for name, digest in identity(conda).items() if digest != identity(plain)[name]} == {"cccl"}


def test_a_toolkit_that_pip_put_into_two_folders_is_refused_with_what_each_lacks(
    tmp_path: Path, cuda_torch: Path
) -> None:
    """As in an isolated build that requires nvcc after torch is installed: nvcc goes to an overlay."""
    normal = make_toolkit(cuda_torch.parent / "nvidia/cu99")
    overlay = make_toolkit(tmp_path / "overlay/nvidia/cu99")
    for part in ("bin/nvcc", "nvvm/bin/cicc", "include/crt/host_config.h"):
        (normal / part).unlink()
    for part in ("include/cuda_runtime.h", "include/cccl/nv/target", "lib64/libcudart_static.a"):
        (overlay / part).unlink()

    with pytest.raises(BuildError) as caught:
        decide_cuda(
            NvccSearch(
                settings_with(), read_torch(cuda_torch), {"PATH": ""}, [str(tmp_path / "overlay"), "", "/nowhere"]
            )
        )

    line = next(line for line in caught.value.found.splitlines() if line.startswith("pip's cuda-toolkit on sys.path"))
    assert line == (
        f"pip's cuda-toolkit on sys.path: {overlay}/bin/nvcc: its toolkit {overlay} lacks "
        "cuda_runtime.h (of cudart), nv/target (of cccl), libcudart_static.a (of cudart)"
    )


def test_a_whole_toolkit_in_another_folder_of_sys_path_than_torch_is_used(tmp_path: Path, cuda_torch: Path) -> None:
    overlay = make_toolkit(tmp_path / "overlay/nvidia/cu99")

    decision = decide_cuda(
        NvccSearch(settings_with(), read_torch(cuda_torch), {"PATH": ""}, [str(tmp_path / "overlay")])
    )

    assert decision.nvcc is not None
    assert decision.nvcc.root == overlay
    assert decision.nvcc.origin == "pip's cuda-toolkit on sys.path"


# Hardware


def test_hardware_is_never_asked(tmp_path: Path, cuda_torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(tmp_path / "bin/nvidia-smi", f"touch {tmp_path}/asked")
    toolkit = make_toolkit(tmp_path / "toolkit")
    make_program(toolkit / "bin/__nvcc_device_query", f"touch {tmp_path}/asked")
    make_cxx(tmp_path / "bin/c++")
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    monkeypatch.setenv("PATH", environ["PATH"])
    monkeypatch.syspath_prepend(cuda_torch.parent)
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # another test may have imported the real one

    found = find_toolchain(settings_with(cuda_home=str(toolkit)), environ)

    assert found.cuda.nvcc is not None
    asked = {line.split()[0] for line in (toolkit / "calls").read_text().splitlines()}
    assert asked == {"--version", "--dryrun", "--list-gpu-code", "--list-gpu-arch"}
    assert not (tmp_path / "asked").exists()


# These run where the kernels run, and may ask.
LOOK_AS_NOBODY = """
import os, sys
from pathlib import Path
from kernelwheel.compiler.toolchain.nvcc import NvccSearch, inspect_nvcc
from kernelwheel.compiler.toolchain.torch_files import Torch
from kernelwheel.project.build_settings import BuildSettings
torch, settings = Torch(Path("/nowhere/torch"), "2.13.0", "13.0", None), BuildSettings.resolve("tiny", {}, {})
os.setgid(65534)
os.setuid(65534)
print(inspect_nvcc("X", sys.argv[1], NvccSearch(settings, torch, {})).outcome)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_nvcc_in_a_folder_that_may_not_be_entered_is_passed_over(run_python: RunPython, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as secret:  # which is its owner's alone
        done = run_python(LOOK_AS_NOBODY, f"{secret}/cuda/bin/nvcc", path=[Path(kernelwheel.__path__[0]).parent])

    assert done.stdout == "cannot be accessed: Permission denied\n"


# cuobjdump and the C++ compiler


def test_cuobjdump_is_taken_from_the_toolkit_then_triton_then_path(tmp_path: Path, cuda_torch: Path) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit")
    in_triton = make_program(tmp_path / "site/triton/backends/nvidia/bin/cuobjdump", "")
    on_path = make_program(tmp_path / "bin/cuobjdump", "")
    nvcc = taken(cuda_torch, cuda_home=str(toolkit))

    def found() -> Path:
        return find_cuobjdump(nvcc, cuda_torch.parent, {"PATH": str(tmp_path / "bin")})

    for place in (toolkit / "bin/cuobjdump", in_triton, on_path):
        assert found() == place
        place.unlink()
    with pytest.raises(BuildError, match="cuobjdump"):
        found()


@pytest.mark.parametrize(("name", "kind"), [("c++", "clang"), ("g++", "gcc")])
def test_a_compiler_is_known_by_kind_version_and_target(tmp_path: Path, name: str, kind: str) -> None:
    path = make_cxx(tmp_path / "bin" / name, "14.2.1", "aarch64-linux-gnu", kind)

    found = find_cxx(settings_with(), {"PATH": str(tmp_path / "bin")})

    assert (found.path, found.kind, found.version, found.target) == (path, kind, "14.2.1", "aarch64-linux-gnu")


def test_the_compiler_that_is_asked_for_is_taken_or_nothing(tmp_path: Path) -> None:
    make_cxx(tmp_path / "bin/c++")
    environ = {"PATH": str(tmp_path / "bin")}
    mine = make_cxx(tmp_path / "mine/g++-15", "15.1.0")

    assert find_cxx(settings_with(cxx=str(mine)), environ).path == mine
    with pytest.raises(BuildError, match=r"g\+\+-16"):
        find_cxx(settings_with(cxx="g++-16"), environ)


def test_no_compiler_is_an_error_that_names_what_was_looked_for_and_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        find_cxx(settings_with(), {"PATH": str(tmp_path)})

    assert caught.value.found == "c++, g++, clang++: not on PATH"
    assert "apt-get install g++" in caught.value.remedies[0]


def test_a_program_that_is_no_compiler_is_refused_with_what_it_says(tmp_path: Path) -> None:
    make_program(tmp_path / "bin/c++", "echo I am a teapot")

    with pytest.raises(BuildError, match="I am a teapot"):
        find_cxx(settings_with(), {"PATH": str(tmp_path / "bin")})


# A C++ compiler that nvcc does not support


@pytest.fixture
def nvcc(tmp_path: Path, cuda_torch: Path) -> Nvcc:
    """An nvcc that supports gcc up to 15 and clang up to 20."""
    return taken(cuda_torch, cuda_home=str(make_toolkit(tmp_path / "toolkit")))


def test_a_compiler_at_the_limit_is_taken_and_one_above_is_passed_over_for_the_newest_that_fits(
    tmp_path: Path, nvcc: Nvcc
) -> None:
    environ = {"PATH": str(tmp_path / "bin")}
    for name, version in {"c++": "16.1.0", "g++": "16.1.0", "g++-13": "13.3.0", "g++-12": "12.2.0"}.items():
        make_cxx(tmp_path / "bin" / name, version)

    found = find_cxx(settings_with(), environ, nvcc)

    assert found.path == tmp_path / "bin/g++-13"
    too_new = "gcc 16.1.0, newer than gcc 15, the newest that nvcc supports"
    assert found.passed_over == (f"{tmp_path}/bin/c++: {too_new}", f"{tmp_path}/bin/g++: {too_new}")
    assert find_cxx(settings_with(), environ).path == tmp_path / "bin/c++"  # without CUDA, any compiler will do

    make_cxx(tmp_path / "bin/c++", "15.2.0")
    assert find_cxx(settings_with(), environ, nvcc).path == tmp_path / "bin/c++"


def test_a_name_with_a_number_is_not_believed(tmp_path: Path, nvcc: Nvcc) -> None:
    for name, version in {"c++": "16.1.0", "g++-14": "16.1.0", "g++-11": "11.4.0"}.items():
        make_cxx(tmp_path / "bin" / name, version)

    assert find_cxx(settings_with(), {"PATH": str(tmp_path / "bin")}, nvcc).version == "11.4.0"


def test_a_clang_that_fits_stands_in_for_a_gcc_that_does_not(tmp_path: Path, nvcc: Nvcc) -> None:
    make_cxx(tmp_path / "bin/c++", "16.1.0")
    make_cxx(tmp_path / "bin/clang++", "21.1.0", kind="clang")
    make_cxx(tmp_path / "bin/clang++-20", "20.1.0", kind="clang")

    found = find_cxx(settings_with(), {"PATH": str(tmp_path / "bin")}, nvcc)

    assert (found.kind, found.version) == ("clang", "20.1.0")
    assert "clang 21.1.0, newer than clang 20" in found.passed_over[1]


@pytest.mark.parametrize(("kind", "version", "asked"), [("gcc", "16.1.0", False), ("clang", "21.0.1", True)])
def test_where_none_fits_the_error_comes_before_any_compile_and_names_the_limit_and_the_ways_out(
    tmp_path: Path, nvcc: Nvcc, kind: str, version: str, asked: bool
) -> None:
    path = make_cxx(tmp_path / "bin/c++", version, kind=kind)
    make_cxx(tmp_path / "bin/g++-14", "14.1.0" if asked else "17.0.0")  # what is asked for is taken or nothing

    with pytest.raises(BuildError) as caught:
        find_cxx(settings_with(**({"cxx": str(path)} if asked else {})), {"PATH": str(tmp_path / "bin")}, nvcc)

    error = caught.value
    assert f"too new for nvcc {NOWHERE}.1: {kind} {version}" in error.problem
    assert ("-C cxx" in error.problem) is asked
    assert error.required == "gcc <= 15 or clang <= 20, according to crt/host_config.h in that CUDA toolkit"
    assert f"{path}: {kind} {version}, newer than {kind} {15 if kind == 'gcc' else 20}" in error.found
    assert "CXX=g++-15" in error.remedies[0]
    assert "allow-unsupported" not in str(error)  # gcc 16's headers do not compile with nvcc 13.0


def test_whoever_tells_nvcc_to_take_any_compiler_gets_any(tmp_path: Path, nvcc: Nvcc) -> None:
    path = make_cxx(tmp_path / "bin/c++", "16.1.0")
    chosen = settings_with(cuda_flags="-lineinfo --allow-unsupported-compiler")

    assert find_cxx(chosen, {"PATH": str(tmp_path / "bin")}, nvcc).path == path


def test_a_whole_toolchain_has_a_compiler_that_its_nvcc_takes(
    tmp_path: Path, cuda_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit")
    make_cxx(tmp_path / "bin/c++", "16.1.0")
    make_cxx(tmp_path / "bin/g++-14", "14.1.0")
    environ = {"PATH": f"{tmp_path}/bin"}
    monkeypatch.syspath_prepend(cuda_torch.parent)
    monkeypatch.delitem(sys.modules, "torch", raising=False)

    assert find_toolchain(settings_with(cuda_home=str(toolkit)), environ).cxx.version == "14.1.0"
    assert find_toolchain(settings_with(cuda="off"), environ).cxx.version == "16.1.0"
