"""The option `--device` of commands."""

from __future__ import annotations

import argparse

import torch


class DeviceError(RuntimeError):
    """The requested device is not available."""


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where to compute; auto means cuda if torch finds a GPU, otherwise cpu; default: auto",
    )


def find_device(name: str) -> torch.device:
    """The requested device; DeviceError if it is not available."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    elif name == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            f"--device cuda needs a GPU that torch can use, found none (torch {torch.__version__}, CUDA "
            f"{torch.version.cuda or 'not built in'}); use --device cpu"
        )
    return torch.device(name)
