"""What a wheel says that it is made of: its software bill of materials, and the licences of what is compiled in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builds import Wheel
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from kernelwheel.compiler.component_facts import component_facts
from kernelwheel.packing import sbom
from kernelwheel.packing.sbom import Component, Facts, components_of, licence_texts, without_text
from kernelwheel.project.build_settings import OLDEST_ZIP_TIME
from kernelwheel.project.source_files import file_sha256
from kernelwheel.runtime.artifact.manifest import Manifest
from packageurl import PackageURL
from samples import CPU_LIBRARY, CUDA_LIBRARY, sample
from standins import Machine, make_machine, settings_with

NOTICE = """/***********
 * Copyright somebody
 * Redistribution and use are permitted under this licence.
 ***********/
#pragma once
"""
OF_CUDA = {"cccl", "cuda-crt", "cuda-runtime"}
OF_PYTHON = {"pybind11", "python"}
OF_ALL = {"libstdc++", "torch"}
MODULE = CPU_LIBRARY._replace(file="tiny._C.so", module="tiny._C")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


def facts_of(machine: Machine, **changes: Any) -> Facts:
    """What the compiler tells of this machine, with changes to its nvcc."""
    tools = machine.toolchain(settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}))
    assert tools.cuda.nvcc is not None
    return component_facts(replace(tools, cuda=replace(tools.cuda, nvcc=replace(tools.cuda.nvcc, **changes))))


def drawn(machine: Machine) -> Manifest:
    """A manifest of CPU and CUDA kernels, with what this machine's Plan says of the toolkit and the compiler."""
    planned = machine.draw().to_json()
    tools = planned["tools"]
    return sample(cuda=planned["target"]["cuda"], toolkit=tools["toolkit"], cxx=tools["cxx"])


def made(manifest: Manifest, components: tuple[Component, ...], epoch: int = OLDEST_ZIP_TIME) -> dict[str, Any]:
    document = sbom.document(manifest, components, "tiny-kernels", "1.2.3", "MIT", epoch)
    values: dict[str, Any] = json.loads(document)
    return values


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in document["components"]}


MANIFESTS = {
    "CPU and CUDA": (sample(), OF_ALL | OF_CUDA),
    "CPU only": (sample(CPU_LIBRARY), OF_ALL),
    "CUDA without kernels": (sample(CPU_LIBRARY, CUDA_LIBRARY._replace(sass=(), ptx=())), OF_ALL | {"cuda-runtime"}),
    "a module": (sample(MODULE), OF_ALL | OF_PYTHON),
}


@pytest.mark.parametrize(("manifest", "names"), MANIFESTS.values(), ids=MANIFESTS)
def test_it_names_what_is_in_the_libraries_and_nothing_else(
    machine: Machine, manifest: Manifest, names: set[str]
) -> None:
    document = made(manifest, components_of(manifest, facts_of(machine)))

    files = {f"tiny/_native/{library.file}" for library in manifest.libraries}
    assert set(by_name(document)) == names | files | {"kernelwheel"}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None


def test_each_component_has_its_version_licence_and_package_url(machine: Machine) -> None:
    (machine.toolkit / "include/cuda_runtime_api.h").write_text("#define CUDART_VERSION  13020\n")
    manifest = drawn(machine)

    found = by_name(made(manifest, components_of(manifest, facts_of(machine))))

    said = {
        name: (each["version"], each["licenses"][0]["expression"], each["purl"])
        for name, each in found.items()
        if each["type"] == "library"
    }
    cccl = "Apache-2.0 WITH LLVM-exception AND Apache-2.0 AND BSD-3-Clause AND BSL-1.0"
    nvidia, gcc = "LicenseRef-NVIDIA-Proprietary", "GPL-3.0-or-later WITH GCC-exception-3.1"
    assert said.pop("kernelwheel")[1] == "Apache-2.0"
    assert said == {
        "cccl": ("3.2.0", cccl, "pkg:github/nvidia/cccl@v3.2.0"),
        "cuda-crt": ("99.0.1", nvidia, "pkg:generic/cuda-crt@99.0.1"),
        "cuda-runtime": ("13.2", nvidia, "pkg:generic/cuda-runtime@13.2"),
        "libstdc++": ("12.2.0", gcc, "pkg:generic/gcc@12.2.0"),
        "torch": ("2.13.0+cu132", "BSD-3-Clause", "pkg:pypi/torch@2.13.0%2Bcu132"),
    }


def test_a_hash_is_that_of_one_file(machine: Machine) -> None:
    manifest = drawn(machine)

    found = by_name(made(manifest, components_of(manifest, facts_of(machine))))

    hashes = {name: each["hashes"][0]["content"] for name, each in found.items() if "hashes" in each}
    assert hashes == {
        "cuda-runtime": file_sha256(machine.toolkit / "lib64/libcudart_static.a"),
        **{f"tiny/_native/{library.file}": library.sha256 for library in manifest.libraries},
    }


def test_every_component_can_be_reached_from_the_distribution(machine: Machine) -> None:
    manifest = sample()

    document = made(manifest, components_of(manifest, facts_of(machine)))

    root = document["metadata"]["component"]
    assert (root["name"], root["version"], root["purl"]) == ("tiny-kernels", "1.2.3", "pkg:pypi/tiny-kernels@1.2.3")
    assert root["licenses"] == [{"expression": "MIT"}]
    below = {each["ref"]: each.get("dependsOn", []) for each in document["dependencies"]}
    reached = [root["bom-ref"]]
    for reference in reached:
        reached += [other for other in below[reference] if other not in reached]
    assert sorted(reached[1:]) == sorted(component["bom-ref"] for component in document["components"])
    cpu = below[f"tiny/_native/{CPU_LIBRARY.file}"]
    assert {PackageURL.from_string(reference).name for reference in cpu} == {"gcc", "torch"}


def test_equal_builds_have_equal_documents_wherever_they_were_made(tmp_path: Path) -> None:
    documents = []
    for name in ("here", "there"):
        machine = make_machine(tmp_path / name)
        manifest = drawn(machine)
        components = components_of(manifest, facts_of(machine))
        about = ("tiny", "1.2.3", "", OLDEST_ZIP_TIME)
        documents += [sbom.document(manifest, each, *about) for each in (components, components[::-1])]

    assert len(set(documents)) == 1
    assert b"timestamp" not in documents[0]
    assert str(tmp_path).encode() not in documents[0]


def test_a_time_that_somebody_set_is_its_time(machine: Machine) -> None:
    document = made(sample(), components_of(sample(), facts_of(machine)), epoch=1600000000)

    assert document["metadata"]["timestamp"] == "2020-09-13T12:26:40+00:00"


# Licences


def with_texts(machine: Machine) -> Facts:
    """What the compiler tells of this machine, as if pip had installed torch and the toolkit, with their licences."""
    nvidia = machine.site / "nvidia"
    nvidia.mkdir()
    (nvidia / "cu99").symlink_to(machine.toolkit)
    for name, text in {
        "nvidia_cuda_runtime-99.0.1.dist-info/licenses/License.txt": "the terms of CUDA",
        "torch-2.11.0.dist-info/licenses/LICENSE": "the terms of torch",
        "torch-2.11.0.dist-info/licenses/third_party/pybind11/LICENSE": "the terms of pybind11",
    }.items():
        path = machine.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("cub/version.cuh", "thrust/version.h"):
        path = machine.toolkit / "include/cccl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTICE)
    return facts_of(machine, root=nvidia / "cu99")  # nvcc itself says where it is, through no link


def test_the_texts_of_licences_are_found_where_pip_installed_them(machine: Machine) -> None:
    components = components_of(sample(), with_texts(machine))

    text = licence_texts(components).decode()

    assert list(without_text(components)) == []
    for said in ("the terms of CUDA", "the terms of torch", "Redistribution and use are permitted under this licence."):
        assert text.count(said) == 1
    assert "***" not in text
    assert text.count("licence: LicenseRef-NVIDIA-Proprietary") == 2


def test_the_text_for_pybind11_is_that_of_the_copy_in_torch(machine: Machine) -> None:
    components = components_of(sample(MODULE), with_texts(machine))

    assert "the terms of pybind11" in licence_texts(components).decode()


def test_a_system_s_toolkit_has_its_licence_in_its_folder(machine: Machine) -> None:
    (machine.toolkit / "EULA.txt").write_text("the terms of CUDA")

    components = components_of(sample(), facts_of(machine))

    assert "the terms of CUDA" in licence_texts(components).decode()


def test_a_licence_without_a_text_is_said(machine: Machine) -> None:
    components = components_of(sample(), facts_of(machine))

    said = list(without_text(components))

    assert [line.split(" of the licence of ")[1].split()[0] for line in said] == [
        "cccl", "cuda-crt", "cuda-runtime", "torch",
    ]  # fmt: skip
    assert "libtiny_cuda.so" in said[0]
    assert "license-files" in said[0]
    assert licence_texts(components).decode().count("text: none was found") == 4


# In a real wheel


def test_a_real_wheel_says_what_it_is_made_of(wheel: Wheel) -> None:
    (file,) = wheel.unpacked.glob("*.dist-info/sboms/*")
    text = file.read_text()
    found = by_name(json.loads(text))

    assert file.name == "tiny.cdx.json"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert found["torch"]["version"] == wheel.manifest["built_with"]["torch"]
    assert {"cccl", "cuda-runtime"} <= set(found) or not wheel.manifest["built_with"]["cuda"]["enabled"]
    for library in wheel.manifest["libraries"]:
        assert found[f"tiny/_native/{library['file']}"]["hashes"][0]["content"] == library["sha256"]
        assert file_sha256(wheel.native / library["file"]) == library["sha256"]


def test_a_real_wheel_has_the_licences_and_no_note_of_one_that_is_missing(wheel: Wheel) -> None:
    (text,) = wheel.unpacked.glob("*.dist-info/licenses/compiled-in/LICENSES.txt")

    assert "Copyright" in text.read_text()
    assert "note: no text was found" not in wheel.output
