"""What one rank of test_fit_processes.py does.

Arguments: a folder of photographs, a folder for what is found and the name of options, for one step; or what happens to
rank 1 at a step, its number, and a command of splat.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import torch

from splat import cli
from splat.commands.process_group import joined_processes
from splat.fit.photograph_views import photograph_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.photos.folders import read_capture

OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "grow": {"steps": 40, "gaussians": 90, "sh_degree": 1},
    "default": {
        "steps": 40, "gaussians": 90, "sh_degree": 1, "strategy": "default", "refine_cameras": True,
        "appearance": "affine",
    },
    "mcmc": {"steps": 40, "gaussians": 90, "sh_degree": 1, "strategy": "mcmc"},
}  # fmt: skip
STEPS: Final = range(1, 4)


def views(folder: Path) -> Views:
    """The photographs."""
    return photograph_views(read_capture(folder), 90, 0)


def take_step(folder: Path, out: Path, name: str) -> None:
    """Take one step with the others, and write what there is then."""
    torch.set_num_threads(1)
    with joined_processes() as shards:
        trainer = Trainer(views(folder), FitOptions(**OPTIONS[name]), shards)
        parameters = dict(trainer.table.parameters)
        loss = trainer.step(STEPS)
        values = trainer.picture_parameters
        found = {
            "loss": loss,
            "gradients": {name: value.grad for name, value in parameters.items()},
            "counts": trainer.strategy.counts,
            "pictures": {name: part.values.tolist() for name, part in values.items()},
        }
        torch.save(found, out / f"{shards.rank}.pt")


def end_early(how: str, at: int) -> None:
    """Interrupt rank 1 in a step, or end it."""
    step = Trainer.step

    def ending(self: Trainer, steps: range) -> float:
        if self.shards.rank == 1 and at in steps:
            if how == "dead":
                os._exit(9)
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, steps)

    Trainer.step = ending  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1] in ("interrupted", "dead"):
        end_early(sys.argv[1], int(sys.argv[2]))
        sys.exit(cli.main(sys.argv[3:]))
    take_step(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
