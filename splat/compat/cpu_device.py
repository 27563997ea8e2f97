"""The CPU in place of CUDA, for programs that name it: `python -m splat.as_gsplat --device cpu`."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

NOTHING_TO_DO: Final = ("ipc_collect", "reset_peak_memory_stats", "set_device", "synchronize")
"""Functions of torch.cuda that are errors without CUDA, and that programs call in passing."""


class OnTheCpu(TorchFunctionMode):
    """Within it, a CUDA device among the arguments of torch's functions is the CPU, and `Tensor.cuda` does nothing.

    As with `device="cpu"`, what is already there is not copied, unless it is expanded: a program may write to a copy.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Sequence[Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if function is Tensor.cuda or function is Tensor.pin_memory:
            return with_own_memory(args[0])
        if function is Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], "cpu", *args[2:])
        named = {name: on_cpu(value) for name, value in kwargs.items()} if kwargs else {}
        if type(named.get("device")) is int:
            named["device"] = "cpu"
        found = function(*[on_cpu(value) for value in args], **named)
        return with_own_memory(found) if function is Tensor.to else found


def on_cpu(value: Any) -> Any:
    """The CPU for a device of CUDA, or its name; anything else as it is."""
    if isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda":
        return torch.device("cpu")
    return value


def with_own_memory(tensor: Tensor) -> Tensor:
    """The tensor, or a copy of one whose elements share memory."""
    if tensor.layout != torch.strided or 0 not in tensor.stride():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


class Event:
    """In place of `torch.cuda.Event`: the CPU has done what was called before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.recorded = 0.0

    def record(self, stream: Any = None) -> None:
        """Note the time."""
        self.recorded = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until the other was recorded."""
        return (end_event.recorded - self.recorded) * 1e3

    def wait(self, stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Whether all is done."""
        return True


def change(module: Any) -> None:
    """Put the CPU in place of CUDA in `torch`, which has just been imported, for all threads."""
    OnTheCpu().__enter__()
    start, load = threading.Thread.start, module.load

    def start_on_the_cpu(thread: threading.Thread) -> None:
        run = thread.run

        def run_on_the_cpu() -> None:
            with OnTheCpu():  # modes are of one thread
                run()

        thread.run = run_on_the_cpu  # type: ignore[method-assign]
        start(thread)

    @functools.wraps(load)
    def load_to_the_cpu(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(f, "cpu" if map_location is None else on_cpu(map_location), *args, **kwargs)

    threading.Thread.start = start_on_the_cpu  # type: ignore[assignment, method-assign]
    module.load = load_to_the_cpu
    module.cuda.Event = Event
    module.cuda.current_device = lambda: 0
    for name in NOTHING_TO_DO:
        setattr(module.cuda, name, lambda *args, **kwargs: None)
