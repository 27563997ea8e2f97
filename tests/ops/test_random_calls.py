"""Gradients of random calls are those of finite differences (`random_calls` tries more)."""

from __future__ import annotations

import pytest
from random_calls import described, disagreement

pytestmark = [pytest.mark.usefixtures("one_thread")]


@pytest.mark.parametrize("seed", range(10))
def test_gradients_of_a_random_call_are_finite_differences(seed: int) -> None:
    assert disagreement(seed) is None, described(seed)
