"""Packages whose libraries for one device do without those for the other: a call has what it needs compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builds import needs_cuda_torch
from editables import Editable, for_each_device, make_editable, one_gpu
from kernelwheel.project.package import split_table
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.artifact.compatible import Wanted
from kernelwheel.runtime.decision.carry_out import compile_request
from kernelwheel.runtime.decision.decision import Request, decide
from kernelwheel.runtime.decision.snapshot import Snapshot, Sources
from kernelwheel.runtime.errors import SettingsError
from kernelwheel.runtime.settings import Settings
from kernelwheel.runtime.store.store import Store
from samples import CUDA_MANIFEST, HOST

SOURCES = {
    "CMakeLists.txt": for_each_device("two.cu"),
    "one.cpp": 'extern "C" int tiny_one() { return 1; }\n',
    "two.cu": '__global__ void two(float* x) { *x = 2; }\nextern "C" void tiny_two(float* x) { two<<<1, 1>>>(x); }\n',
}


@pytest.mark.parametrize("value", ["alone", True, ["apart"]])
def test_what_devices_may_be(value: object) -> None:
    with pytest.raises(SettingsError, match="devices is missing or malformed"):
        split_table({"package": "t", "sources": "n", "torch-target": "2.10", "devices": value})


def test_how_extensions_are_loaded_is_their_kinds_matter() -> None:
    with pytest.raises(SettingsError, match="extensions are declared beside devices"):
        split_table({"extension": [{"name": "t._C", "sources": ["a.cpp"]}], "devices": "apart"})


# The decision

CONTENT = {**CUDA_MANIFEST.content, "devices": "apart"}
STORE = Store(Path("/cache"), "tiny", "1.2.3")
TARGET = CUDA_MANIFEST.plan["target"]
CUDA_ALONE = Artifact(
    STORE.root / "cuda",
    CUDA_MANIFEST._replace(
        plan={**CUDA_MANIFEST.plan, "content": CONTENT, "target": {**TARGET, "cpu_kernels": False}},
        libraries=CUDA_MANIFEST.libraries_for("cuda"),
    ),
    STORE.guard,
)


def at(*entries: Artifact, devices: str = "apart") -> Snapshot:
    content = {**CONTENT, "devices": devices}
    return Snapshot(
        "tiny", "1.2.3", Path("/site/tiny/_native"), HOST, None, None, None, "auto", Settings.resolve("tiny", {}, {}),
        Sources(content, Path("/src"), {}), Wanted("1.2.3", content), (STORE,), entries,
    )  # fmt: skip


def test_an_entry_for_cuda_alone_serves_no_call_on_the_cpu() -> None:
    assert decide(at(CUDA_ALONE), Request("cuda")).artifact == CUDA_ALONE
    assert decide(at(CUDA_ALONE), Request("cpu")).outcome == "compile"


@pytest.mark.parametrize(
    ("devices", "device", "cpu_kernels"),
    [("apart", "cuda", False), ("together", "cuda", True), ("apart", "cpu", True), ("together", "cpu", True)],
)
def test_a_call_has_kernels_for_the_cpu_compiled_where_it_needs_them(
    devices: str, device: str, cpu_kernels: bool
) -> None:
    snapshot = at(devices=devices)
    assert snapshot.settings is not None

    asked = compile_request(snapshot, Request(device), snapshot.settings)

    assert (asked.settings.cuda, asked.cpu_kernels) == ("on" if device == "cuda" else "off", cpu_kernels)


# By a compiler

CALLS = """
import json
for device in DEVICES:
    tiny.KERNELS.require(device, 0 if device == "cuda" else None)
print(json.dumps(tiny.KERNELS.info()["loaded"]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Editable:
    (tmp_path / "project").mkdir()
    return make_editable(tmp_path / "project", SOURCES)


def files_loaded(project: Editable, *devices: str) -> dict[str, list[str]]:
    """The libraries in the Artifact that each device's kernels are loaded from."""
    loaded = json.loads(project.python(one_gpu(7, 5) + CALLS.replace("DEVICES", repr(devices))).stdout)
    return {device: sorted(path.name for path in Path(folder).glob("*.so")) for device, folder in loaded.items()}


@needs_cuda_torch
@pytest.mark.slow
def test_a_call_compiles_and_loads_for_its_own_device_alone(project: Editable) -> None:
    project.change("pyproject.toml", 'package = "tiny"', 'package = "tiny"\ndevices = "apart"')
    cuda, cpu = ["libtiny_cuda.so"], ["libtiny_cpu.so"]

    assert files_loaded(project, "cuda") == {"cuda": cuda}
    assert project.compiled() == []  # by the compiler of C++
    assert files_loaded(project, "cpu", "cuda") == {"cpu": cpu, "cuda": cuda}
    assert project.compiled() == ["one.cpp"]


@needs_cuda_torch
@pytest.mark.slow
def test_where_they_belong_together_one_compile_serves_both(project: Editable) -> None:
    both = ["libtiny_cpu.so", "libtiny_cuda.so"]

    assert files_loaded(project, "cuda") == {"cpu": both, "cuda": both}
    assert files_loaded(project, "cpu") == {"cpu": both}
    assert project.compiled() == ["one.cpp"]
