"""What all strategies have in common: the calls that a training loop makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .ops import Optimizers, Params


@dataclass
class Strategy:
    """A strategy that does nothing. A training loop calls it before and after `loss.backward()`."""

    needed: ClassVar[tuple[str, ...]] = ()
    """The parameters that there must be."""

    def check_sanity(self, params: Params, optimizers: Optimizers) -> None:
        """Check that each parameter that is trained has an optimizer of its own.

        Raises:
            ValueError: it has none, or one that trains more; or a parameter is missing.
        """
        trained = {name for name, value in params.items() if value.requires_grad}
        if trained != set(optimizers):
            raise ValueError(
                f"each parameter that requires grad needs an optimizer of its name; found optimizers of "
                f"{sorted(optimizers)} for {sorted(trained)}"
            )
        for name, optimizer in optimizers.items():
            if len(optimizer.param_groups) != 1:
                raise ValueError(
                    f"an optimizer must have one group, with one parameter; found {len(optimizer.param_groups)} in "
                    f"that of {name}"
                )
        if missing := set(self.needed) - set(params.keys()):
            raise ValueError(
                f"{type(self).__name__} needs the parameters {sorted(self.needed)}; missing: {sorted(missing)}"
            )

    def step_pre_backward(self, *args: Any, **kwargs: Any) -> None:
        """Between `rasterization` and `loss.backward()`."""

    def step_post_backward(self, *args: Any, **kwargs: Any) -> None:
        """After `loss.backward()`."""
