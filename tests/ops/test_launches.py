"""ci/bench counts: what it says of launches."""

from __future__ import annotations

import importlib.util

import launches
import pytest

pytestmark = [pytest.mark.slow]


def test_every_operator_of_a_default_call_is_known_by_its_launches() -> None:
    ours = launches.of_splat()

    assert ours.forward.own > 0 < ours.backward.own
    assert ours.forward.waits >= 1
    assert ours.backward.waits == 0


@pytest.mark.skipif(importlib.util.find_spec("gsplat") is None, reason="gsplat is not installed")
def test_gsplat_waits_for_two_sizes_and_an_inverse() -> None:
    assert launches.of_gsplat().forward.waits == 3
