"""The contract between the loader and the compiler: a request of each number, as its loader wrote it, is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwheel.compiler.compile_job import read_job
from kernelwheel.runtime import compiler_process
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.content import without_cuda
from kernelwheel.runtime.compiler_process import CONTRACT
from kernelwheel.runtime.errors import COMPILERS, INSTALL_COMPILER, BuildError
from kernelwheel.version import __version__
from packaging.requirements import Requirement

RECORDED = Path(__file__).parent / "requests"


def recorded(number: int, cache: Path) -> dict[str, Any]:
    """The request of a number, about the sources that lie beside it."""
    request: dict[str, Any] = json.loads((RECORDED / str(number) / "request.json").read_text())
    request["sources"] = str(RECORDED / str(number))
    request["settings"]["values"]["cache-dir"] = str(cache)
    return request


def test_a_request_of_each_number_is_recorded() -> None:
    assert sorted(path.name for path in RECORDED.iterdir()) == [str(number + 1) for number in range(CONTRACT)]
    assert recorded(CONTRACT, Path("/tmp"))["contract"] == CONTRACT


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, CONTRACT + 1))
def test_a_request_is_compiled_and_its_content_is_in_the_manifest_as_it_was_asked_for(
    number: int, tmp_path: Path
) -> None:
    request = recorded(number, tmp_path)

    answer = compiler_process.send({"make": request}, lambda line: None, {})

    manifest = manifests.read(Path(answer["folder"]), request["content"]["package"])
    assert manifest is not None
    assert answer["compiled"]
    assert manifest.content == without_cuda(request["content"])


def test_a_request_of_a_later_number_is_refused_in_one_sentence(tmp_path: Path) -> None:
    request = {**recorded(CONTRACT, tmp_path), "contract": CONTRACT + 1}

    with pytest.raises(BuildError, match="ask for a newer kernelwheel") as caught:
        read_job(request, {})

    assert caught.value.remedies == (f"a newer one: {INSTALL_COMPILER}",)


@pytest.mark.slow
def test_sources_other_than_those_of_the_content_are_refused(tmp_path: Path) -> None:
    request = recorded(CONTRACT, tmp_path)
    request["content"]["sources"]["one.cpp"] = "0" * 64

    with pytest.raises(Exception, match="the native sources of tiny have changed"):
        compiler_process.send({"make": request}, lambda line: None, {})


def test_the_releases_that_a_loader_asks_for_have_its_contract_s_number() -> None:
    assert f">=0.{CONTRACT},<0.{CONTRACT + 1}" == COMPILERS
    assert Requirement(f"kernelwheel{COMPILERS}").specifier.contains(__version__)
