"""The CUDA kernels' own source, executed on the CPU, against the CPU operators and the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from scenes import random_scene
from simt import operators
from torch import Tensor

from splat import _kernels

_kernels.require(torch.device("cpu"))
OPS = torch.ops.splat
CUDA = Path(__file__).resolve().parent.parent / "csrc" / "cuda"

Arguments = dict[str, Any]
