"""The page of a scene: one HTML file with the scene as .spz and the program that draws it, which loads nothing else."""

from __future__ import annotations

import base64
import html
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Final

from ..ops.defaults import EPS2D, MAX_ALPHA
from ..scene.camera import Camera
from ..scene.camera_file import camera_json
from ..scene.edits import scale_scene
from ..scene.file_output import replacing
from ..scene.gaussians import Gaussians, SceneError
from ..scene.names import one_line
from ..scene.near_plane import near_plane, near_plane_of
from ..scene.spz import encode_spz_file
from ..scene.spz_values import LOG_SCALE_STEP, widths
from .parts import policy, source

TEXTURE_SIDE: Final = 4096
"""Pixels a side of the texture that holds the scene: larger ones are not available in every browser."""
_SPZ_VERSION: Final = 3
"""Of what browsers can unpack by themselves, the one with the finest rotations."""
_TEXEL: Final = 16
_USUAL: Final = 8.0
"""How far away scenes are seen whose sizes .spz holds,"""
_WITHIN: Final = 32.0
"""or nearer or farther, up to this factor."""
_WORKER: Final = ("spz.js", "sort.js")
_PROGRAM: Final = ("camera.js", "renderer.js", "main.js")


@dataclass(frozen=True)
class PageView:
    """What the page shows first."""

    camera: Camera
    """Its size decides which part is seen: all of its picture, whatever the shape of the window."""
    up: tuple[float, float, float] | None
    """The direction that stays upright while the page orbits; None: the camera's own."""
    background: tuple[float, float, float]


def in_page_units(scene: Gaussians, view: PageView) -> tuple[Gaussians, PageView]:
    """A scene and its first view in a unit of length in which .spz holds sizes, if theirs is another.

    Both are multiplied by a whole number of steps in which .spz holds sizes, so that those of such a file are not
    rounded a second time. A scene of usual size stays as it is.
    """
    camera = view.camera
    # How far away the scene is: the camera's own near plane may be anywhere, to cut off what is in front.
    wanted = math.log(near_plane(_USUAL) / near_plane_of(camera.viewmat[None], scene.means))
    if abs(wanted) <= math.log(_WITHIN):
        return scene, view
    factor = math.exp(round(wanted / LOG_SCALE_STEP) * LOG_SCALE_STEP)
    viewmat = camera.viewmat.clone()
    viewmat[:3, 3] *= factor
    moved = replace(camera, viewmat=viewmat, near=camera.near * factor)
    return scale_scene(scene, factor), replace(view, camera=moved)


def write_scene_page(path: Path, title: str, scene: Gaussians, view: PageView) -> None:
    """Write the page; it appears complete or not at all. Raises SceneError as `scene_page`."""
    data = scene_page(title, scene, view)
    with replacing(path) as file:
        file.write(data)


def scene_page(title: str, scene: Gaussians, view: PageView) -> bytes:
    """The page, the same bytes for the same arguments.

    Raises SceneError if nothing in the scene is visible, or it is too large for a page or for .spz.
    """
    most = most_gaussians(scene.degree)
    if len(scene) > most:
        raise SceneError(
            f"a page holds at most {most} Gaussians with spherical harmonics of degree {scene.degree}, as many as fit "
            f"into a texture of {TEXTURE_SIDE}x{TEXTURE_SIDE} pixels, found {len(scene)}; choose a lower --sh-degree, "
            "or leave some out: splat convert --prune or --crop"
        )
    program, style = source(*_PROGRAM), source("page.css")
    begin = {
        "camera": json.loads(camera_json(view.camera)),
        "around": scene.middle(),
        "up": view.up,
        "background": view.background,
        "texture": {"side": TEXTURE_SIDE, "texels": _texels(scene.degree)},
    }
    page = Template(source("page.html")).substitute(
        policy=policy(program, style, "worker-src blob:"),
        title=html.escape(one_line(title)),
        style=style,
        view=json.dumps(begin),
        worker=source(*_WORKER),
        vertex=Template(source("gaussians.vert")).substitute(eps2d=EPS2D),
        fragment=Template(source("gaussians.frag")).substitute(max_alpha=MAX_ALPHA),
        program=program,
        scene=base64.b64encode(encode_spz_file(scene, _SPZ_VERSION)).decode("ascii"),
    )
    return page.encode()


def most_gaussians(degree: int) -> int:
    """How many Gaussians with spherical harmonics of this degree a page can hold."""
    return TEXTURE_SIDE**2 // _texels(degree)


def _texels(degree: int) -> int:
    """Texels of each Gaussian: one for its centre and its rotation, the others for its bytes and one that is unused."""
    each = widths(_SPZ_VERSION, degree)
    octets = each["alphas"] + each["scales"] + each["colors"] + 1 + each["sh"]
    return 1 + -(-octets // _TEXEL)
