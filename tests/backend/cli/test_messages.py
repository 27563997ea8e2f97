"""No message, page or metadata has a package of ours taken by its name: on an index, that may be somebody else's."""

from __future__ import annotations

import errno
import os
import re
import shlex
from pathlib import Path

import pytest
from folders import REPOSITORY
from kernelwheel.compiler import compile as compile_module
from kernelwheel.compiler import tools
from kernelwheel.compiler.toolchain.cuda import no_nvcc
from kernelwheel.compiler.toolchain.nvcc import NvccSearch
from kernelwheel.compiler.toolchain.torch_files import Torch
from kernelwheel.project.build_settings import BuildSettings
from kernelwheel.project.package import read_toml
from kernelwheel.runtime.artifact import manifest
from kernelwheel.runtime.artifact.compatible import Wanted, check
from kernelwheel.runtime.artifact.manifest import Requires
from kernelwheel.runtime.decision import no_kernels
from kernelwheel.runtime.errors import REINSTALL, KernelWheelError
from kernelwheel.runtime.machine.host import Host
from packaging.requirements import Requirement
from samples import CUDA_MANIFEST, PLAN
from standins import settings_with

# What people read, except of what once was (CHANGELOG.md), and the sources of messages.
WRITTEN = [
    *(
        path
        for folder in ("backend", "splat", "docs", "csrc", "ci")
        for path in sorted((REPOSITORY / folder).rglob("*"))
    ),
    *(REPOSITORY / "tests/packages").rglob("*.toml"),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml")),
    *(REPOSITORY / ".github").rglob("*.yml"),
]
# `pip install`, `uv pip install`, `python -m pip install`, `pip_install`, `uvx`, and the rest of the line.
COMMAND = re.compile(
    r"\b(?:(?:pip3?|pipx|uv)[ _](?:install|add|tool install|tool run|run|sync|download|wheel)|uvx)\b([^\n`]*)"
)
# Requirements that name our packages, or the package that a message is about, and what may stand around them.
OURS = re.compile(
    r"[\"']*(?:splat|tiny|classic|kernelwheel|splat[-_.]kernels|\{[\w.]*(?:package|name|distribution)\}|<package[^>]*>?)"
    r"(?:\[[^]]*\])?(?:[=<>~!].*)?[]\"'.]*$",
    re.IGNORECASE,
)
# The rest of a list of requirements in TOML.
LIST = re.compile(r"\brequires\s*=\s*\[([^]]*(?:\[[^]]*\][^]]*)*)\]")
# One of the two with extras or a version is a requirement wherever it stands, unless it says where from.
REQUIREMENT = re.compile(
    r"(?<![\w$])((?:kernelwheel|splat[-_.]kernels)(?:\[[^]\n\"']+\]|\s*[=~<>!]=\s*[\d{]))(?!\s*@)", re.IGNORECASE
)
FIND_LINKS = re.compile(r"(?:PIP|UV)_FIND_LINKS\b|--find-links\b")


def own_names(text: str) -> list[str]:
    """What a text would have pip or uv take by one of our names from an index.

    Words of commands, unless these leave out the index; requirements that do not say where from. A folder of wheels is
    only one more place beside the index.
    """
    in_code = r"(?<!`)`[^`]+`(?!`)|\\\n"
    text = re.sub(r".* if PUBLISHED else .*", "", text)  # what a release says, which is on an index: test_release.py
    text = re.sub(in_code, lambda found: found[0].replace("\\\n", " ").replace("\n", " "), text)
    in_commands = [
        word
        for command in COMMAND.findall(text)
        if not command.startswith(" --no-index --find-links ")
        for word in re.split(r"[\s,;()]+", command)
        if OURS.match(word)
    ]
    listed = [each for inside in LIST.findall(text) for each in re.findall(r"\"([^\"]*)\"|'([^']*)'", inside)]
    by_name = [one or other for one, other in listed if OURS.match(one or other) and "@" not in (one or other)]
    links = [line for line in text.splitlines() if FIND_LINKS.search(line) and "--no-index" not in line]
    return [*in_commands, *by_name, *REQUIREMENT.findall(text), *links]


@pytest.mark.parametrize(
    "advice",
    [
        "pip install 'splat[jit]'", "pip install --force-reinstall --no-deps splat==0.2.0", "uv pip install splat",
        "pip install {package}", "pip install '{kernels.package}[jit]'", "pip install -U <package or wheel>",
        "pip_install kernelwheel", "pip install --no-deps {manifest.package}=={version}",
        "uvx --from splat-kernels splat", 'remedies=["pip install -U kernelwheel"],', "`pip install\nkernelwheel`",
        "pip install -U \\\n  kernelwheel", 'requires = ["kernelwheel[cuda]", "torch>=2.10"]',
        "requires = [\n  'torch',\n  'kernelwheel']", 'jit = ["kernelwheel[jit]"]',
        "kernelwheel[{EXTRA}]>={VERSION}; extra == 'jit'", "torch and `Splat_Kernels>=0.1`",
        "export PIP_FIND_LINKS=$PWD/wheels", "pip install --find-links FOLDER ./wheels/a.whl",
    ],
)  # fmt: skip
def test_such_advice_would_be_seen(advice: str) -> None:
    assert own_names(advice)


@pytest.mark.parametrize(
    "advice",
    [
        'requires = ["kernelwheel[cuda] @ file:///w/kernelwheel-0.1.0-py3-none-any.whl", "torch"]',
        "pip install './a[jit]'", "pip install --no-index --find-links dist splat-kernels", "kernelwheel_version == 3",
        "pip install /w/kernelwheel-0.1.0-py3-none-any.whl[jit]",
        "kernelwheel = 'a'", 'pip install "$KERNELWHEEL[jit]"', "pip wheel splat/backend",
    ],
)  # fmt: skip
def test_what_says_where_from_would_not(advice: str) -> None:
    assert own_names(advice) == []


def test_no_source_and_no_page_has_the_package_fetched_by_its_name() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in WRITTEN if path.suffix in SUFFIXES and path.is_file()}
    assert len(texts) > 80
    assert sum(len(COMMAND.findall(text)) for text in texts.values()) > 15

    found = {path.name: names for path, text in texts.items() if (names := own_names(text))}

    (links,) = found.pop("release.py")  # which has pip take kernelwheel's wheel by its sha256: lock_with
    assert "folder.as_uri()" in links
    found.pop("rehearsal.sh")  # which refuses any index but that of ci/rehearse: test_rehearsal.py
    assert found == {}


TABLES = sorted(path for path in WRITTEN if path.name == "pyproject.toml")


@pytest.mark.parametrize("path", TABLES, ids=[path.relative_to(REPOSITORY).as_posix() for path in TABLES])
def test_no_table_requires_one_of_our_distributions_by_its_name(path: Path) -> None:
    tables = read_toml(path)
    project = tables["project"]
    lists = [tables["build-system"]["requires"], project.get("dependencies", [])]
    lists += [*project.get("optional-dependencies", {}).values(), *tables.get("dependency-groups", {}).values()]
    required = [Requirement(text) for each in lists for text in each]

    assert required
    assert [each for each in required if each.name in ("kernelwheel", "splat-kernels") and not each.url] == []


SUFFIXES = {"", ".py", ".md", ".toml", ".cmake", ".txt", ".sh", ".yml", ".in"}
MANIFEST = CUDA_MANIFEST._replace(
    version="1.2.2",
    built_with={},
    requires=Requires("2.99", "linux-x86_64", "glibc 9.9", "GLIBCXX_3.4.99", 13, "13.0", "13.2", "cp399"),
    libraries=(),
)
HOSTS = [
    Host("linux-x86_64", "glibc 2.36", "", "2.11.0+cu130", "13.0", "cp312", (12, 0), ((9, 0),)),
    Host("linux-x86_64", "glibc 2.36", "GLIBCXX_3.4.30", "2.11.0+cu128", "12.8", "cp312", (12, 0), ((9, 0),)),
    Host("darwin-arm64", "", "", "2.11.0", None, "cp312"),
]


OTHER = {**PLAN["content"], "sources": {}, "options": {"cxx-flags": ["-g"]}}


def raised() -> list[str]:
    """The remedies of as many kinds of messages as can be produced here."""
    mismatches = [mismatch for host in HOSTS for mismatch in check(MANIFEST, host, Wanted("1.2.3", OTHER))]
    torch = Torch(Path("torch"), "2.11.0+cu130", "13.0", None)
    errors: list[KernelWheelError] = [
        manifest.corrupt("x", "y"),
        manifest.unreadable(Path("x"), OSError(24, "Too many open files")),
        no_kernels.changed_sources("tiny", Path("x"), "5" * 64, "6" * 64, editable=False),
        no_kernels.no_sources("tiny"),
        no_kernels.incompatible("tiny", "cuda", mismatches),
        no_kernels.other_gpu("tiny", Path("x"), mismatches[0]),
        no_nvcc(NvccSearch(settings_with(), torch, {}), []),
    ]
    advice = [no_kernels.no_wheel("tiny", Path("x")), *mismatches]
    return [*(mismatch.remedy for mismatch in advice), *(str(error) for error in errors)]


def test_no_error_advises_to_fetch_the_package_by_its_name() -> None:
    said = raised()

    assert len({text.split()[0] for text in said}) > 5
    assert [names for text in said if (names := own_names(text))] == []
    assert sum(REINSTALL in text for text in said) >= 4


def test_what_a_compile_needs_is_named_by_its_own_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    pip, install, *names = shlex.split(tools.INSTALL_TOOLS)
    monkeypatch.setattr("scikit_build_core.program_search.best_program", lambda *_, **__: None)

    with pytest.raises(KernelWheelError) as caught:
        tools.require_tools()

    assert (pip, install) == ("pip", "install")
    assert names == ["scikit-build-core<2", "pyelftools", "packaging>=24.2", "cmake", "ninja"]
    assert caught.value.remedies[0] == tools.INSTALL_TOOLS
    assert "cmake missing" in caught.value.found


def test_without_nvcc_the_package_s_own_variable_is_a_way_out() -> None:
    torch = Torch(Path("torch"), "2.11.0+cu130", "13.0", None)

    error = no_nvcc(NvccSearch(BuildSettings.resolve("tiny", {}, {}), torch, {}), [])

    assert "TINY_CUDA=off" in error.remedies[-1]
    assert "cuda-toolkit[nvcc" in error.remedies[0]


@pytest.mark.parametrize(
    ("number", "file", "names", "remedy"),
    [
        (errno.ENOSPC, "/cache/build/x.o", "/cache/build", "TINY_CACHE_DIR"),
        (errno.EACCES, "/checkout/native/one.cpp", "/checkout/native/one.cpp", "give this user permission to read it"),
        (errno.EIO, "/cache/build/x.o", "/cache/build/x.o", "check the disk"),
    ],
)
def test_a_file_that_a_compile_cannot_have_is_named_and_not_the_cache_blamed(
    number: int, file: str, names: str, remedy: str
) -> None:
    no_kernels = OSError(number, os.strerror(number), file)

    error = compile_module._refused_by_the_system(no_kernels, Path("/cache/build"), "TINY_CACHE_DIR")

    assert error.required.endswith(names)
    assert remedy in error.remedies[0]
