"""Settings: one registry, one order of precedence, and no option that is silently ignored."""

from __future__ import annotations

import os
from typing import Any

import pytest
from kernelwheel.project import build_settings as settings
from kernelwheel.project.build_settings import REGISTRY, BuildSettings
from kernelwheel.project.package import split_table
from kernelwheel.runtime.errors import SettingsError
from kernelwheel.runtime.settings import Option, Settings

# For each option a value from the table, one from the environment, one from -C, and the default as it is typed.
VALUES: dict[str, tuple[str, str, str, Any]] = {
    "cuda": ("on", "off", "auto", "auto"),
    "archs": ("7.5", "8.0", "9.0", ""),
    "nvcc": ("/a", "/b", "/c", ""),
    "cuda-home": ("/a", "/b", "/c", ""),
    "cxx": ("g++", "clang++", "c++", ""),
    "compiler-launcher": ("ccache", "sccache", "/a/distcc ccache", ()),
    "cxx-flags": ("-g0", "-g1", "-g2", ()),
    "cuda-flags": ("-g0", "-g1", "-g2", ()),
    "link-flags": ("-g0", "-g1", "-g2", ()),
    "cxx-standard": ("as-written", "raised", "as-written", "raised"),
    "jobs": ("1", "2", "3", 0),
    "jit": ("never", "always", "never", "auto"),
    "cache-dir": ("/a", "/b", "/c", ""),
    "cache-path": ("/a", "/b:/c", "/d", ()),
    "trusted-owners": ("54320", "1000,54320", "everyone", ()),
    "torch-tag": ("local", "none", "local", "build"),
    "platform": ("linux-x86_64", "linux-aarch64", "linux-x86_64", "native"),
    "target-packages": ("/a", "/b", "/c", ""),
    "glibc": ("2.31", "2.34", "2.35", "2.28"),
    "cpu": ("x86-64-v2", "x86-64-v3", "x86-64-v4 armv8.2-a", ()),
    "manylinux": ("required", "auto", "required", "auto"),
    "drivers": ("12.0", "12.4", "13.0", ""),
    "source-date-epoch": ("1500000000", "1600000000", "1700000000", 315532800),
}
OPTIONS = [pytest.param(option, id=option.name) for option in REGISTRY]


def value(resolved: settings.BuildSettings, option: Option) -> Any:
    return getattr(resolved, option.name.replace("-", "_"))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_nobody_sets_has_its_default_and_says_so(option: Option) -> None:
    for environ in ({}, {option.variable("tiny"): "  "}):  # an empty variable counts as unset
        resolved = settings.BuildSettings.resolve("tiny", {}, environ)

        assert value(resolved, option) == VALUES[option.name][3]
        assert str(resolved.origin(option.name)) == "default"


@pytest.mark.parametrize("option", OPTIONS)
def test_config_settings_win_over_the_environment_and_it_over_the_table(option: Option) -> None:
    in_table, in_environment, in_config, _ = VALUES[option.name]
    table, config = {option.name: in_table}, {option.name: in_config}
    variable = option.variable("tiny")
    environment = {variable: in_environment}

    from_table = settings.BuildSettings.resolve("tiny", table, {})
    from_environment = settings.BuildSettings.resolve("tiny", table, environment)
    from_config = settings.BuildSettings.resolve("tiny", table, environment, config)

    assert value(from_table, option) == option.parse(in_table)
    assert value(from_environment, option) == option.parse(in_environment)
    assert value(from_config, option) == option.parse(in_config)
    assert [str(s.origin(option.name)) for s in (from_table, from_environment, from_config)] == [
        "[tool.kernelwheel]", f"environment variable {variable}", f"-C {option.name}",
    ]  # fmt: skip


def test_every_option_has_a_variable_of_its_own() -> None:
    variables = [option.variable("tiny") for option in REGISTRY]

    assert all(variables)
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize(
    ("package", "variable"), [("splat", "SPLAT_CUDA"), ("my-kernels", "MY_KERNELS_CUDA"), ("a.b", "A_B_CUDA")]
)
def test_the_package_s_own_variables_are_made_from_its_name(package: str, variable: str) -> None:
    assert settings.BuildSettings.resolve(package, {}, {variable: "off"}).cuda == "off"


@pytest.mark.parametrize("key", ["cxx-flags", "cxx_flags"])
def test_an_option_may_be_written_with_a_hyphen_or_an_underscore(key: str) -> None:
    assert settings.BuildSettings.resolve("tiny", {}, {}, {key: "-O1"}).cxx_flags == ("-O1",)


@pytest.mark.parametrize(("written", "means"), [(True, "on"), (False, "off")])
def test_cuda_may_be_a_boolean_in_the_table(written: bool, means: str) -> None:
    assert settings.BuildSettings.resolve("tiny", {"cuda": written}, {}).cuda == means


@pytest.mark.parametrize(
    ("misspelled", "remedy"),
    [("cudda", "write 'cuda'"), ("arch", "write 'archs'"), ("cxxflags", "write 'cxx-flags'"), ("zzz", "remove it")],
)
@pytest.mark.parametrize("place", ["[tool.kernelwheel]", "-C"])
def test_an_unknown_option_is_refused_and_the_nearest_named(misspelled: str, remedy: str, place: str) -> None:
    given = {misspelled: "on"}

    with pytest.raises(SettingsError) as caught:
        settings.BuildSettings.resolve("tiny", given if place != "-C" else {}, {}, given if place == "-C" else {})

    assert repr(misspelled) in caught.value.problem
    assert place in caught.value.found
    assert remedy in caught.value.remedies[0]
    assert all(option.name in caught.value.required for option in REGISTRY)


@pytest.mark.parametrize("variable", ["TINY_CUDDA", "TINY_CUDAS", "TINY_CUD"])
def test_a_misspelled_variable_of_the_package_is_refused_and_the_nearest_named(variable: str) -> None:
    with pytest.raises(SettingsError, match="TINY_CUDA") as caught:
        settings.BuildSettings.resolve("tiny", {}, {variable: "off"})

    assert variable in caught.value.problem


@pytest.mark.parametrize(
    "variable",
    ["TINY_WINDOW_SIZE", "TINYCUDA", "TINY_", "SPLAT_CUDA", "TINY_X_CUDA", "TINY_MY_CACHE_DIR", "TINY_EXTRA_JIT"],
)
def test_variables_of_others_are_left_alone(variable: str) -> None:
    assert settings.BuildSettings.resolve("tiny", {}, {variable: "off"}).cuda == "auto"


def test_the_length_of_a_package_s_name_makes_no_variable_look_misspelled() -> None:
    others = {"GAUSSIAN_SPLATTING_HOME": "/x", "GAUSSIAN_SPLATTING_CPU": "native"}  # the latter is the compiler's

    assert Settings.resolve("gaussian_splatting", {}, others).cuda == "auto"


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("cuda", "yes"), ("cuda", "1"), ("cuda", "onn"), ("cpu", "-march=native"),
        ("jobs", "-1"), ("jobs", "2.5"), ("jobs", "100000"), ("drivers", "525"), ("drivers", "12.0.1"),
        ("source-date-epoch", "1700000000000"), ("source-date-epoch", "now"),
        ("cxx-flags", "'open"), ("link-flags", '"'), ("cuda-flags", "\\"), ("trusted-owners", "hpc"),
    ],
)  # fmt: skip
def test_a_malformed_value_is_refused_with_what_the_option_takes_and_where_it_stood(name: str, bad: str) -> None:
    option = BuildSettings.OPTIONS[name]
    variable = option.variable("tiny")

    with pytest.raises(SettingsError) as caught:
        settings.BuildSettings.resolve("tiny", {}, {variable: bad})

    assert name in caught.value.problem
    assert caught.value.required == option.takes
    assert variable in caught.value.found


@pytest.mark.parametrize("bad", [3.5, {"a": 1}, ["a", 1], None])
def test_a_value_of_the_wrong_kind_is_refused(bad: object) -> None:
    with pytest.raises(SettingsError, match="archs"):
        settings.BuildSettings.resolve("tiny", {"archs": bad}, {})


FACTS = {"package": "tiny", "sources": "native", "torch-target": "2.10"}


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("package", None), ("package", "a-b"), ("sources", None), ("sources", "/abs"), ("torch-target", "2"),
        ("torch-target", 2.1), ("dependencies", ["a b"]),
        *(("abi", bad) for bad in ("", "Torch", "stable ", "cp312", 1, True, None)),
    ],
)  # fmt: skip
def test_a_missing_or_malformed_fact_of_the_package_is_refused(key: str, bad: object) -> None:
    with pytest.raises(SettingsError, match=key):
        split_table({**FACTS, key: bad})


def test_the_table_s_facts_are_kept_apart_from_its_options() -> None:
    facts, options = split_table({**FACTS, "cuda": "off"})

    assert facts[:4] == ("tiny", "native", "2.10", "stable")
    assert split_table({**FACTS, "abi": "torch"})[0].abi == "torch"
    assert options == {"cuda": "off"}


# Several values, and one twice


@pytest.mark.parametrize(("table", "joined"), [
    ({"cxx-flags": ["-DA=x y", "-DB"]}, ("-DA=x y", "-DB")),
    ({"cxx-flags": "-DA='x y' -DB"}, ("-DA=x y", "-DB")),
])  # fmt: skip
def test_an_item_of_a_list_in_the_table_is_one_word(table: dict[str, Any], joined: tuple[str, ...]) -> None:
    assert settings.BuildSettings.resolve("tiny", table, {}).cxx_flags == joined


def test_each_config_setting_that_is_given_again_is_a_line_of_its_own() -> None:
    """pip and uv make a list of them."""
    config = {
        "cxx-flags": ["-O1 -g", "-DA='x y'"],
        "archs": ["8.0", "9.0+PTX"],
        "cache-path": ["/a", f"/b{os.pathsep}/c"],
        "trusted-owners": ["1000", "54320, 1000"],
    }

    resolved = settings.BuildSettings.resolve("tiny", {}, {}, config)

    assert resolved.cxx_flags == ("-O1", "-g", "-DA=x y")
    assert resolved.archs == "8.0;9.0+PTX"
    assert resolved.cache_path == ("/a", "/b", "/c")


@pytest.mark.parametrize("name", [option.name for option in REGISTRY if option.separator is None])
def test_several_values_for_an_option_of_one_are_refused(name: str) -> None:
    one = VALUES[name][0]

    with pytest.raises(SettingsError, match="takes one value") as caught:
        settings.BuildSettings.resolve("tiny", {}, {}, {name: [one, one]})

    assert name in caught.value.problem
    assert "in -C" in caught.value.found


@pytest.mark.parametrize("place", ["[tool.kernelwheel]", "-C"])
def test_one_option_in_two_spellings_is_refused(place: str) -> None:
    given = {"cuda-home": "/a", "cuda_home": "/b"}

    with pytest.raises(SettingsError, match="set twice") as caught:
        settings.BuildSettings.resolve("tiny", given if place != "-C" else {}, {}, given if place == "-C" else {})

    assert all(word in caught.value.found for word in ("'cuda-home'", "'cuda_home'", place))


# What contradicts, and what does not

FOR_CUDA_ALONE = [option for option in REGISTRY if option.cuda_only]


@pytest.mark.parametrize("option", [pytest.param(option, id=option.name) for option in FOR_CUDA_ALONE])
@pytest.mark.parametrize("off", ["-C", "variable", "table"])
def test_an_option_for_cuda_by_config_and_cuda_off_is_a_contradiction(option: Option, off: str) -> None:
    table = {"cuda": "off"} if off == "table" else {}
    environ = {"TINY_CUDA": "off"} if off == "variable" else {}
    config = {option.name: VALUES[option.name][0], **({"cuda": "off"} if off == "-C" else {})}

    with pytest.raises(SettingsError) as caught:
        settings.BuildSettings.resolve("tiny", table, environ, config)

    assert f"-C {option.name}" in caught.value.problem
    assert {"-C": "-C cuda", "variable": "TINY_CUDA", "table": "[tool.kernelwheel]"}[off] in caught.value.found
    assert (
        settings.BuildSettings.resolve("tiny", table, environ, {**config, "cuda": "on"}).cuda == "on"
    )  # as the remedy says


@pytest.mark.parametrize("option", [pytest.param(option, id=option.name) for option in FOR_CUDA_ALONE])
def test_variables_and_the_table_may_stand_beside_cuda_off(option: Option) -> None:
    given = VALUES[option.name][0]

    settings.BuildSettings.resolve("tiny", {option.name: given, "cuda": "off"}, {})
    settings.BuildSettings.resolve("tiny", {option.name: given}, {}, {"cuda": "off"})
    settings.BuildSettings.resolve("tiny", {}, {option.variable("tiny"): given, "TINY_CUDA": "off"}, {"cuda": "off"})


def test_a_malformed_list_of_architectures_is_refused_where_it_is_meant_for_this_package() -> None:
    for table, config in (({"archs": "Amper"}, {}), ({}, {"archs": "Amper"})):
        with pytest.raises(SettingsError, match="did you mean Ampere"):
            settings.BuildSettings.resolve("tiny", table, {}, config)
    # As a standard variable it may be meant for others, and a build without CUDA kernels does not need it.
    assert settings.BuildSettings.resolve("tiny", {}, {"TORCH_CUDA_ARCH_LIST": "Amper"}).archs == "Amper"


@pytest.mark.parametrize("option", [pytest.param(o, id=o.name) for o in REGISTRY if o.environment])
def test_a_variable_with_the_package_s_name_for_an_option_of_a_standard_one_is_refused(option: Option) -> None:
    guessed = "TINY_" + option.name.upper().replace("-", "_")

    with pytest.raises(SettingsError, match=guessed) as caught:
        settings.BuildSettings.resolve("tiny", {}, {guessed: VALUES[option.name][0]})

    assert str(option.environment) in caught.value.remedies[0]


# What the manifest says


def test_the_record_has_the_options_for_another_platform_if_there_is_one() -> None:
    packages = {"TINY_TARGET_PACKAGES": "/x"}

    assert {"platform", "target-packages"} & set(
        settings.BuildSettings.resolve("tiny", {}, packages).record(None)
    ) == set()
    assert (
        settings.BuildSettings.resolve("tiny", {}, packages, {"platform": "linux-aarch64"}).record(None).items()
        >= {
            "platform": {"value": "linux-aarch64", "origin": "-C platform"},
            "target-packages": {"value": None, "origin": "environment variable TINY_TARGET_PACKAGES"},
        }.items()
    )


def test_the_record_has_what_decides_the_artifact_with_where_it_was_said() -> None:
    resolved = settings.BuildSettings.resolve(
        "tiny",
        {"link-flags": "-s"},
        {"CXX": "/home/me/bin/g++", "MAX_JOBS": "3", "CUDA_HOME": "/x"},
        {"archs": "9.0 8.0"},
    )

    assert resolved.record("8.0;9.0") == {
        "cuda": {"value": "auto", "origin": "default"},
        "archs": {"value": "8.0;9.0", "origin": "-C archs"},
        "nvcc": {"value": None, "origin": "default"},
        "cuda-home": {"value": None, "origin": "environment variable CUDA_HOME"},
        "drivers": {"value": None, "origin": "default"},
        "cxx": {"value": None, "origin": "environment variable CXX"},
        "cxx-flags": {"value": (), "origin": "default"},
        "cuda-flags": {"value": (), "origin": "default"},
        "link-flags": {"value": ("-s",), "origin": "[tool.kernelwheel]"},
        "glibc": {"value": "2.28", "origin": "default"},
        "cpu": {"value": (), "origin": "default"},
        "cxx-standard": {"value": "raised", "origin": "default"},
    }


def test_without_cuda_kernels_options_for_them_alone_are_not_in_the_record() -> None:
    resolved = settings.BuildSettings.resolve(
        "tiny", {}, {option.variable("tiny"): VALUES[option.name][0] for option in FOR_CUDA_ALONE}
    )

    assert resolved.record(None) == settings.BuildSettings.resolve("tiny", {}, {}).record(None)
    assert set(resolved.record("9.0")) - set(resolved.record(None)) == {option.name for option in FOR_CUDA_ALONE}


def test_what_the_table_says_of_cuda_kernels_is_in_the_record_for_a_compile_at_run_time() -> None:
    resolved = settings.BuildSettings.resolve("tiny", {"cuda-flags": ["-lineinfo"]}, {})

    assert resolved.record(None)["cuda-flags"] == {"value": ("-lineinfo",), "origin": "[tool.kernelwheel]"}


@pytest.mark.parametrize("option", [pytest.param(o, id=o.name) for o in REGISTRY if o.decides in ("tools", "work")])
def test_no_value_is_recorded_that_does_not_decide_the_binary(option: Option) -> None:
    told = str(VALUES[option.name][1])
    resolved = settings.BuildSettings.resolve(
        "tiny", {}, {option.variable("tiny"): told}, {"platform": "linux-aarch64"}
    )

    record = resolved.record("9.0")

    assert record.get(option.name, {"value": None})["value"] is None
    assert (option.name in record) == (option.decides == "tools")
