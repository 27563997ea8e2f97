"""Errors: all have one layout, and they can cross process boundaries."""

from __future__ import annotations

import pickle

from kernelwheel.runtime.errors import BuildError, IncompatibleArtifactError, KernelWheelError, SettingsError


def make() -> KernelWheelError:
    return SettingsError(
        "no nvcc", required="nvcc 13.x", found="PATH: none\n/usr: none", remedies=["install it", "or do not"]
    )


def test_a_message_has_the_problem_then_required_found_and_every_remedy() -> None:
    assert str(make()) == (
        "no nvcc\n"
        "  required:  nvcc 13.x\n"
        "  found:     PATH: none\n"
        "             /usr: none\n"
        "  to fix:    install it\n"
        "  to fix:    or do not"
    )


def test_an_error_survives_pickling() -> None:
    error = make()

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is SettingsError
    assert again.to_json() == error.to_json()


def test_a_bad_setting_is_a_build_error_and_an_artifact_is_not() -> None:
    assert issubclass(SettingsError, BuildError)
    assert not issubclass(IncompatibleArtifactError, BuildError)
    assert not issubclass(IncompatibleArtifactError, ImportError)
