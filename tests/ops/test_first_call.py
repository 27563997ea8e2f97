"""The first call in a process, whatever it is: only if it is differentiated or traced are the operators registered for
that, which takes longer than loading the kernels."""

from __future__ import annotations

import pytest
from processes import RunPython

SCENE = """
import sys, torch, splat

def scene(gradients=False):
    torch.manual_seed(0)
    tensors = [torch.randn(20, 3) * 0.3 + torch.tensor([0.0, 0.0, 3.0]), torch.randn(20, 4), torch.rand(20, 3) * 0.2,
               torch.rand(20), torch.rand(20, 3)]
    return [tensor.requires_grad_(gradients) for tensor in tensors]

def render(*tensors):
    views, Ks = torch.eye(4)[None], torch.tensor([[[30.0, 0, 16], [0, 30, 16], [0, 0, 1]]])
    return splat.rasterization(*tensors, views, Ks, 32, 32)[0]

def registered():
    module = sys.modules.get("splat.ops.registration")  # imported only to register
    return module is not None and module.register.cache_info().currsize == 1

plain = scene()
"""
DIFFERENTIATED = """
tensors = scene(gradients=True)
render(*tensors).square().sum().backward()
assert registered()
assert all(tensor.grad.abs().sum() > 0 for tensor in tensors)
"""
FIRST_CALLS = {
    "without gradients": """
assert render(*plain).sum() > 0
assert "splat.ops.registration" not in sys.modules
with torch.no_grad():
    assert not render(*scene(gradients=True)).requires_grad
assert not registered()
""",
    "compiled": """
compiled = torch.compile(render, fullgraph=True, backend="aot_eager")
assert torch.equal(compiled(*plain), render(*plain))
assert registered()
""",
    "fake": """
from torch._subclasses import FakeTensorMode
with FakeTensorMode(allow_non_fake_inputs=True) as mode:
    means2d, conics, colors, opacities, offsets, ids = (
        mode.from_tensor(each) for each in (torch.zeros(1, 5, 2), torch.zeros(1, 5, 3), torch.zeros(1, 5, 3),
                                            torch.zeros(1, 5), torch.zeros(1, 2, 2, dtype=torch.int32),
                                            torch.zeros(7, dtype=torch.int32)))
    image, _ = splat.rasterize_to_pixels(means2d, conics, colors, opacities, 32, 32, 16, offsets, ids)
assert image.shape == (1, 32, 32, 3)
assert registered()
""",
}


@pytest.mark.parametrize("first", FIRST_CALLS.values(), ids=FIRST_CALLS)
def test_gradients_flow_after_any_first_call(first: str, run_with_torch: RunPython) -> None:
    run_with_torch(SCENE + first + DIFFERENTIATED)
