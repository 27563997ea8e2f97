"""Densification for training loops: gsplat 1.5.3's `gsplat.strategy`, which is not needed::

    from splat.strategy import DefaultStrategy  # was: from gsplat.strategy import DefaultStrategy

What a strategy calls is in `splat.strategy.ops`.
"""

from __future__ import annotations

from .base import Strategy
from .default import DefaultStrategy
from .mcmc import MCMCStrategy

__all__ = ["DefaultStrategy", "MCMCStrategy", "Strategy"]
