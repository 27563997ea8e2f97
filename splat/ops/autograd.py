"""Gradients of the compiled operators, registered with less work in each call than torch's own way takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, library
from torch.autograd import forward_ad

from .checks import check_no_tangent


@functools.cache
def _registered() -> library.Library:
    """What is registered lasts as long as this."""
    return library.Library("splat", "IMPL")


def register_autograd(name: str, keep: Callable[..., None], differentiate: Callable[..., tuple[Any, ...]]) -> None:
    """What torch's register_autograd does, for an operator without keyword arguments and defaults.

    That looks for defaults in each call, which takes longer than the kernels of a small scene.
    """
    operator = getattr(torch.ops.splat, name).default

    def run(keys: Any, arguments: tuple[Any, ...]) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            *inputs, keys = arguments
            output = run(keys, tuple(inputs))
            keep(ctx, tuple(inputs), output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return *differentiate(ctx, *gradients), None

    def call(keys: Any, *arguments: Any) -> Any:
        if forward_ad._current_level >= 0:  # in a graph too, in which `check_tensor` does not look
            for argument in arguments:
                if isinstance(argument, Tensor):
                    check_no_tangent(f"an argument of splat::{name}", argument)
        differentiable = any(isinstance(argument, Tensor) and argument.requires_grad for argument in arguments)
        if differentiable and torch.is_grad_enabled():
            return Differentiable.apply(*arguments, keys)
        return run(keys, arguments)

    _registered().impl(name, call, "Autograd", with_keyset=True)


def keep_call(ctx: Any, inputs: tuple[Any, ...], *outputs: Tensor) -> None:
    """Keep an operator's inputs and some of its outputs for its gradient, to which none is passed as zeros."""
    ctx.set_materialize_grads(False)
    ctx.others = [None if isinstance(each, Tensor) else each for each in inputs]
    ctx.save_for_backward(*(each if isinstance(each, Tensor) else None for each in inputs), *outputs)


def kept_call(ctx: Any) -> tuple[list[Any], tuple[Tensor, ...]]:
    """What `keep_call` kept: the inputs, and the outputs."""
    saved, count = ctx.saved_tensors, len(ctx.others)
    return [other if tensor is None else tensor for tensor, other in zip(saved, ctx.others, strict=False)], saved[
        count:
    ]


def refuse_derivatives() -> None:
    """Register, for every operator of splat for which nothing is registered, that its derivative is an error.

    So what has no second derivative raises, whichever operator it is: without this, torch takes what an operator gives
    for a constant, and a derivative of it for 0.
    """
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, operator = name.partition("::")
        if namespace == "splat" and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd"):
            register_autograd(operator, lambda *_: None, functools.partial(_refuse, operator))


def _refuse(operator: str, ctx: Any, *gradients: Tensor) -> NoReturn:
    name = operator.removesuffix("_backward")
    which, remedy = "", "detach what it is given"
    if name != operator:
        which, remedy = "second ", "detach its gradients before you differentiate what follows from them"
    raise NotImplementedError(f"splat::{name} has no {which}derivative: {remedy}")
