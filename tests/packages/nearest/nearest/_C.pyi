from torch import Tensor

with_cuda: bool

def distances(points: Tensor) -> Tensor: ...
