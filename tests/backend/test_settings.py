"""Settings: one registry, one order of precedence, and no option that is silently ignored."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import kernelwheel
import pytest
from kernelwheel import settings
from kernelwheel.errors import SettingsError
from kernelwheel.package import split_table
from kernelwheel.settings import REGISTRY

# For each option a value from the table, one from the environment, one from -C, and the default as it is typed.
VALUES: dict[str, tuple[str, str, str, Any]] = {
    "cuda": ("on", "off", "auto", "auto"),
    "archs": ("7.5", "8.0", "9.0", ""),
    "nvcc": ("/a", "/b", "/c", ""),
    "cuda-home": ("/a", "/b", "/c", ""),
    "cxx": ("g++", "clang++", "c++", ""),
    "cxx-flags": ("-g0", "-g1", "-g2", ()),
    "cuda-flags": ("-g0", "-g1", "-g2", ()),
    "link-flags": ("-g0", "-g1", "-g2", ()),
    "jobs": ("1", "2", "3", 0),
    "jit": ("never", "always", "never", "auto"),
    "cache-dir": ("/a", "/b", "/c", ""),
    "cache-path": ("/a", "/b:/c", "/d", ()),
    "source-date-epoch": ("1500000000", "1600000000", "1700000000", 315532800),
}
OPTIONS = [pytest.param(option, id=option.name) for option in REGISTRY]


def value(resolved: settings.Settings, option: settings.Option) -> Any:
    return getattr(resolved, option.name.replace("-", "_"))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_nobody_sets_has_its_default_and_says_so(option: settings.Option) -> None:
    resolved = settings.resolve("tiny", {}, {})

    assert value(resolved, option) == VALUES[option.name][3]
    assert resolved.origin(option.name) == "default"


@pytest.mark.parametrize("option", OPTIONS)
def test_config_settings_win_over_the_environment_and_it_over_the_table(option: settings.Option) -> None:
    in_table, in_environment, in_config, _ = VALUES[option.name]
    table, config = {option.name: in_table}, {option.name: in_config}
    variable = option.variable("tiny")
    environment = {variable: in_environment}

    from_table = settings.resolve("tiny", table, {})
    from_environment = settings.resolve("tiny", table, environment)
    from_config = settings.resolve("tiny", table, environment, config)

    assert value(from_table, option) == option.parse(in_table)
    assert value(from_environment, option) == option.parse(in_environment)
    assert value(from_config, option) == option.parse(in_config)
    assert [s.origin(option.name) for s in (from_table, from_environment, from_config)] == [
        "[tool.kernelwheel]", f"environment variable {variable}", f"-C {option.name}",
    ]  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_an_empty_variable_counts_as_not_set(option: settings.Option) -> None:
    resolved = settings.resolve("tiny", {}, {option.variable("tiny"): "  "})

    assert resolved.origin(option.name) == "default"


def test_every_option_has_a_variable_of_its_own() -> None:
    variables = [option.variable("tiny") for option in REGISTRY]

    assert all(variables)
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize(
    ("package", "variable"), [("splat", "SPLAT_CUDA"), ("my-kernels", "MY_KERNELS_CUDA"), ("a.b", "A_B_CUDA")]
)
def test_the_package_s_own_variables_are_made_from_its_name(package: str, variable: str) -> None:
    assert settings.resolve(package, {}, {variable: "off"}).cuda == "off"


def test_another_package_s_variable_does_not_count() -> None:
    assert settings.resolve("tiny", {}, {"SPLAT_CUDA": "off"}).cuda == "auto"


@pytest.mark.parametrize("key", ["cxx-flags", "cxx_flags"])
def test_an_option_may_be_written_with_a_hyphen_or_an_underscore(key: str) -> None:
    assert settings.resolve("tiny", {}, {}, {key: "-O1"}).cxx_flags == ("-O1",)


@pytest.mark.parametrize("written", ["-DA='x y' -DB", ["-DA=x y", "-DB"]])
def test_flags_may_be_a_shell_line_or_a_list(written: object) -> None:
    assert settings.resolve("tiny", {"cxx-flags": written}, {}).cxx_flags == ("-DA=x y", "-DB")


def test_architectures_may_be_a_list() -> None:
    assert settings.resolve("tiny", {"archs": ["7.5", "8.0+PTX"]}, {}).archs == "7.5;8.0+PTX"


@pytest.mark.parametrize(("written", "means"), [(True, "on"), (False, "off")])
def test_cuda_may_be_a_boolean_in_the_table(written: bool, means: str) -> None:
    assert settings.resolve("tiny", {"cuda": written}, {}).cuda == means


@pytest.mark.parametrize(("misspelled", "nearest"), [("cudda", "cuda"), ("arch", "archs"), ("cxxflags", "cxx-flags")])
@pytest.mark.parametrize("place", ["[tool.kernelwheel]", "-C"])
def test_an_unknown_option_is_refused_and_the_nearest_named(misspelled: str, nearest: str, place: str) -> None:
    given = {misspelled: "on"}

    with pytest.raises(SettingsError) as caught:
        settings.resolve("tiny", given if place != "-C" else {}, {}, given if place == "-C" else {})

    assert repr(misspelled) in caught.value.problem
    assert place in caught.value.found
    assert repr(nearest) in caught.value.remedies[0]


def test_an_option_that_is_near_to_none_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(SettingsError) as caught:
        settings.resolve("tiny", {}, {}, {"zzz": "1"})

    assert all(option.name in caught.value.required for option in REGISTRY)


@pytest.mark.parametrize("variable", ["TINY_CUDDA", "TINY_CUDAS", "TINY_CUD"])
def test_a_misspelled_variable_of_the_package_is_refused_and_the_nearest_named(variable: str) -> None:
    with pytest.raises(SettingsError, match="TINY_CUDA") as caught:
        settings.resolve("tiny", {}, {variable: "off"})

    assert variable in caught.value.problem


def test_variables_of_others_with_the_same_beginning_are_left_alone() -> None:
    settings.resolve("tiny", {}, {"TINY_WINDOW_SIZE": "3", "TINYCUDA": "1", "TINY_": ""})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("cuda", "yes"), ("cuda", "1"), ("jobs", "-1"), ("jobs", "many"), ("jobs", "2.5"), ("jobs", "100000"),
        ("cxx-flags", "'open"), ("link-flags", '"'), ("cuda-flags", "\\"),
    ],
)  # fmt: skip
def test_a_malformed_value_is_refused_with_what_the_option_takes_and_where_it_stood(name: str, bad: str) -> None:
    option = settings.OPTIONS[name]
    variable = option.variable("tiny")

    with pytest.raises(SettingsError) as caught:
        settings.resolve("tiny", {}, {variable: bad})

    assert name in caught.value.problem
    assert caught.value.required == option.takes
    assert variable in caught.value.found


@pytest.mark.parametrize(("bad", "near"), [("onn", "'on'"), ("atuo", "'auto'"), ("of", "'off'")])
def test_a_misspelled_choice_names_the_nearest(bad: str, near: str) -> None:
    with pytest.raises(SettingsError, match=near):
        settings.resolve("tiny", {}, {"TINY_CUDA": bad})


@pytest.mark.parametrize("bad", [3.5, {"a": 1}, ["a", 1], None])
def test_a_value_of_the_wrong_kind_is_refused(bad: object) -> None:
    with pytest.raises(SettingsError, match="archs"):
        settings.resolve("tiny", {"archs": bad}, {})


FACTS = {"package": "tiny", "sources": "native", "torch-target": "2.10"}


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("package", None),
        ("package", "a-b"),
        ("sources", None),
        ("sources", "/abs"),
        ("torch-target", "2"),
        ("torch-target", 2.1),
    ],
)
def test_a_missing_or_malformed_fact_of_the_package_is_refused(key: str, bad: object) -> None:
    with pytest.raises(SettingsError, match=key):
        split_table({**FACTS, key: bad})


def test_the_table_s_facts_are_kept_apart_from_its_options() -> None:
    facts, options = split_table({**FACTS, "cuda": "off"})

    assert (facts.import_name, facts.sources, facts.torch_target) == ("tiny", "native", "2.10")
    assert options == {"cuda": "off"}


# Variables that are no option of a build, by the module that reads them and why.
READ_BY_NAME = {
    "environment.py": {"LD_LIBRARY_PATH"},  # looked at by doctor: what it makes the loader find
    "hooks.py": {"DIST_EXTRA_CONFIG"},  # setuptools' own, put back as it was
    "wheel.py": {"SOURCE_DATE_EPOCH"},  # the standard of reproducible builds: decides times in the wheel
}


def names_read_from_the_environment(source: Path) -> set[str]:
    """The string constants with which a module reads os.environ, a mapping `environ`, or calls os.getenv."""
    mappings = ("os.environ", "environ")
    readers = {"os.getenv", "getenv", *(f"{m}.{method}" for m in mappings for method in ("get", "pop", "setdefault"))}
    read = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in mappings:
            key = node.slice
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in readers:
            key = node.args[0]
        elif isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) in mappings:
            key = node.left
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            read.add(key.value)
    return read


def test_no_module_reads_an_option_from_the_environment_behind_the_registry_s_back() -> None:
    modules = sorted(Path(kernelwheel.__path__[0]).rglob("*.py"))

    found = {module.name: names_read_from_the_environment(module) for module in modules}

    # PATH is where programs are looked for, not an option; the finder takes it from the mapping that it is given.
    behind = {name: read - {"PATH"} - READ_BY_NAME.get(name, set()) for name, read in found.items()}
    assert {name: read for name, read in behind.items() if read} == {}
