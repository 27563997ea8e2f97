"""A setup.py that gives up without a GPU, and else builds for the one that it finds."""

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

if not torch.cuda.is_available() or CUDA_HOME is None:
    raise NotImplementedError("Cuda is not available")
major, minor = torch.cuda.get_device_capability()
properties = torch.cuda.get_device_properties(torch.cuda.current_device())

setup(
    name="gpu_asker",
    version="1.0",
    packages=["gpu_asker"],
    ext_modules=[
        CUDAExtension(
            "gpu_asker._C",
            ["ext.cpp"],
            extra_compile_args={
                "cxx": [f"-DMIN_ARCH={major}{minor}"],
                "nvcc": [f"-gencode=arch=compute_{major}{minor},code=sm_{properties.major}{properties.minor}"],
            },
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
