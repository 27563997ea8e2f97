"""Pictures as phones and other programs write them: turned, of 16 bits, as HEIC, transparent, with masks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import photographs
import pytest
import torch
from PIL import Image

from splat.fit.losses import psnr, ssim, training_loss
from splat.fit.photograph_views import Preparation, photograph_views
from splat.fit.picture_quality import judge
from splat.fit.picture_views import read_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.photos.folders import read_capture
from splat.photos.pictures import read_mask, read_resized
from splat.scene.gaussians import SceneError

COLORS = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)


def read(folder: Path, **options: Any) -> Views:
    return photograph_views(read_capture(folder), 50, 0, **options)


# Turned


def turned_exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def test_a_photograph_that_its_camera_does_not_fit_is_turned(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = folder / "images" / "03.png"
    upright = np.asarray(Image.open(path))
    # 6: what is stored must be turned clockwise by 90 degrees.
    stored = Image.fromarray(np.rot90(upright, 1).copy())
    assert stored.size == (30, 40)
    stored.save(path, exif=turned_exif(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        views = read(folder)
    assert np.array_equal(views.images[3].numpy(), upright)
    smaller = read(folder, preparation=Preparation(downscale=2)).images[3].numpy().astype(float)
    assert np.abs(smaller - upright.reshape(15, 2, 20, 2, 3).mean(axis=(1, 3))).max() <= 1
    stored.save(path)
    with pytest.raises(SceneError, match=r"03\.png: a picture of its camera's proportions, 40x30, .* found 30x40"):
        read(folder)


@pytest.mark.parametrize(("orientation", "said"), [(6, False), (3, True)])
def test_a_photograph_that_its_camera_fits_as_stored_is_not_turned(
    tmp_path: Path, orientation: int, said: bool
) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = folder / "images" / "03.png"
    before = read(folder).images[3]
    Image.open(path).save(path, exif=turned_exif(orientation))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(read(folder).images[3], before)
    words = [str(warning.message) for warning in caught]
    assert len(words) == said
    assert not said or "1 of 10 photographs would be turned, says their EXIF; their cameras are" in words[0]


def test_a_single_photograph_is_turned_as_people_see_it(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.rot90(COLORS, 1).copy()).save(path, exif=turned_exif(6))
    assert np.array_equal((read_views([path], 10, 0).images[0] * 255).round().numpy(), COLORS)


# Numbers of other sizes


def test_grey_of_16_bits_keeps_its_values(tmp_path: Path) -> None:
    values = np.arange(1200, dtype=np.uint16).reshape(30, 40) * 54
    for name in ("a.png", "a.tiff"):
        Image.fromarray(values).save(tmp_path / name)
        found = read_resized(tmp_path / name, (40, 30)).colors
        assert np.abs(found.astype(float) - values[..., None] / 257).max() <= 0.5
    Image.fromarray(values).save(tmp_path / "a.png", transparency=int(values[3, 4]))
    found, transparent = read_resized(tmp_path / "a.png", (40, 30), background=(9, 8, 7))
    assert transparent
    assert (found == (9, 8, 7)).all(axis=2).nonzero() == ([3], [4])


def test_numbers_from_0_to_1_keep_their_values(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 1200, dtype=np.float32).reshape(30, 40)
    Image.fromarray(values).save(tmp_path / "a.tiff")
    found = read_resized(tmp_path / "a.tiff", (40, 30)).colors
    assert np.abs(found.astype(float) - 255 * values[..., None]).max() <= 0.51


@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.5, float("inf")])
def test_other_numbers_are_refused(tmp_path: Path, value: float) -> None:
    values = np.full((30, 40), 0.5, np.float32)
    values[3, 4] = value
    Image.fromarray(values).save(tmp_path / "a.tiff")
    with pytest.raises(SceneError, match=r"a\.tiff: a grey picture of values from 0 to 1 is required, found .*8 bits"):
        read_resized(tmp_path / "a.tiff", (40, 30))


# HEIC


def test_heic_is_read(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    smooth = np.add.outer(np.arange(30) * 3, np.arange(40) * 2).astype(np.uint8)
    path = tmp_path / "a.heic"
    Image.fromarray(np.stack([smooth, 255 - smooth, smooth], axis=-1)).save(path, "HEIF", quality=95)
    found = read_resized(path, (40, 30)).colors.astype(float)
    assert np.abs(found[..., 0] - smooth).mean() < 3


def test_heic_without_its_package_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    path = tmp_path / "a.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    with pytest.raises(
        SceneError, match=r"a\.heic: pillow-heif is required .* pip install 'pillow-heif>=0\.18', or save"
    ):
        read_resized(path, (40, 30))


def test_half_of_a_heic_picture_is_one_error(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif")
    path = tmp_path / "a.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    with pytest.raises(SceneError, match=r"a\.heic: a picture \(PNG, JPEG, \.\.\.\) is required, found"):
        read_resized(path, (40, 30))


# What is transparent


def test_the_background_is_behind_what_is_transparent_and_behind_the_scene(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    for path in (folder / "images").iterdir():
        picture = Image.open(path).convert("RGB")
        opacity = np.zeros((30, 40), np.uint8)
        opacity[8:22, 10:30] = 255
        picture.putalpha(Image.fromarray(opacity))
        picture.save(path)
    message = r"10 of 10 photographs are transparent in places; the colour 255,128,0 is behind them and behind the sc"
    with pytest.warns(UserWarning, match=message):
        views = read(folder, preparation=Preparation(background=(255, 128, 0)))
    assert views.images[0][0, 0].tolist() == [255, 128, 0]
    trainer = Trainer(views, FitOptions(1, 50, 0))
    nothing = trainer.gaussians()
    nothing.opacities.zero_()
    assert judge(nothing, views.select([0])).psnrs[0] > 10
    assert (views.target(0)[0, 0] - torch.tensor(views.background)).abs().max() < 1e-6


def test_black_is_behind_a_single_picture(tmp_path: Path) -> None:
    picture = Image.fromarray(COLORS)
    picture.putalpha(0)
    picture.save(tmp_path / "a.png")
    with pytest.warns(UserWarning, match=r"a\.png: transparent in places; black is behind it and behind the scene"):
        assert not read_views([tmp_path / "a.png"], 10, 0).images[0].any()


def test_a_picture_with_an_alpha_that_is_opaque_is_not_called_transparent(tmp_path: Path) -> None:
    Image.fromarray(COLORS).convert("RGBA").save(tmp_path / "a.png")
    assert not read_resized(tmp_path / "a.png", (40, 30)).transparent


# Masks


def with_masks(folder: Path, names: str = "{}.png", count: int = 10) -> Path:
    """Masks that leave the left half of the photographs' pixels out."""
    masks = folder / "masks"
    masks.mkdir()
    used = np.zeros((30, 40), np.uint8)
    used[:, 20:] = 255
    for path in sorted((folder / "images").iterdir())[:count]:
        Image.fromarray(used).save(masks / names.format(path.name, path.stem))
    return masks


@pytest.mark.parametrize("names", ["{}.png", "{1}.png"])
def test_masks_beside_the_photographs_are_used(tmp_path: Path, names: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    with_masks(folder, names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        views = read(folder)
    for view in range(10):
        mask = views.mask(view)
        assert mask is not None
        assert mask.shape == (30, 40)
        assert not mask[:, :20].any()
        assert mask[:, 20:].all()


def test_masks_of_transforms_json_and_of_an_option(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    masks = with_masks(folder).rename(tmp_path / "elsewhere")
    capture = read_capture(folder, masks=masks)
    assert {photograph.mask for photograph in capture.photographs} == set(masks.iterdir())
    said = photographs.transforms(photographs.cameras(10))
    (folder / "own").mkdir()
    (masks / "04.png.png").rename(folder / "own" / "mask.png")
    said["frames"][4]["mask_path"] = "own/mask.png"
    photographs.write_transforms(folder, said)
    photograph = read_capture(folder).photographs[4]
    assert photograph.mask == folder / "own" / "mask.png"
    assert read_capture(folder).photographs[5].mask is None
    assert read_capture(folder, masks=masks).photographs[4].mask == folder / "own" / "mask.png"


def test_masks_that_do_not_belong_to_the_photographs(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    masks = with_masks(folder, count=7)
    with pytest.warns(
        UserWarning, match=r"masks: no masks for 3 of 10 photographs; they are used whole: .*07\.png, .*0"
    ):
        read_capture(folder)
    for path in masks.iterdir():
        path.rename(path.with_name(f"other {path.name}"))
    with pytest.warns(UserWarning, match=r"masks: masks with the names of photographs, like 00\.png\.png, would be"):
        read_capture(folder)
    with pytest.raises(SceneError, match=r"like 00\.png\.png, are required for --masks, found none"):
        read_capture(folder, masks=masks)
    with pytest.raises(SceneError, match="a folder of pictures is required for --masks, found none"):
        read_capture(folder, masks=tmp_path / "none")
    (masks / "00.png.png").symlink_to("/etc/passwd")
    with pytest.raises(SceneError, match=r"a file inside .* is required, found a link"):
        read_capture(folder, masks=masks)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((30, 40), np.uint8), "a mask that leaves some of its photograph is required, found black"),
        (np.full((40, 30), 255, np.uint8), "a mask of its photograph's proportions, 40x30, is required, found 30x40"),
    ],
)
def test_masks_of_no_use(tmp_path: Path, mask: Any, message: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    Image.fromarray(mask).save(with_masks(folder) / "03.png.png")
    with pytest.raises(SceneError, match=rf"03\.png\.png: {message}"):
        read(folder)


def test_a_capture_with_masks_for_some_says_for_which(tmp_path: Path) -> None:
    """Wherever they are named."""
    said = photographs.transforms(photographs.cameras(10))
    folder = photographs.transforms_folder(tmp_path / "a")
    with_masks(folder).rename(folder / "own")
    for index, frame in enumerate(said["frames"]):
        frame |= {"mask_path": f"own/{index:02}.png.png"} if index not in (2, 5, 7) else {}
    said["frames"][5]["mask_path"] = None
    said["frames"][7]["mask_path"] = ""
    photographs.write_transforms(folder, said)
    words = r"transforms\.json: no masks for 3 of 10 photographs; they are used whole: .*02\.png, .*05\.png, .*07\.png$"
    with pytest.warns(UserWarning, match=words) as caught:
        assert sum(photograph.mask is not None for photograph in read_capture(folder).photographs) == 7
    assert len(caught) == 1


def test_masks_of_a_folder_that_is_called_images(tmp_path: Path) -> None:
    """The capture itself is, and what is beside it is somebody else's."""
    folder = photographs.colmap_folder(tmp_path / "images")
    with_masks(folder).rename(tmp_path / "masks")
    for kind in ("sparse", "images"):
        for path in (folder / kind / "0" if kind == "sparse" else folder / kind).iterdir():
            path.rename(folder / path.name)
    (folder / "images").rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(photograph.mask is None for photograph in read_capture(folder).photographs)
        (tmp_path / "masks").rename(folder / "masks")
        assert all(photograph.mask for photograph in read_capture(folder).photographs)
    (folder / "masks").rename(tmp_path / "masks")
    (folder / "00.png").rename(tmp_path / "secret.png")
    (folder / "00.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(SceneError, match=r"a file inside .*images is required, found a link"):
        read_capture(folder)


MASKS: dict[str, Callable[[Any], Image.Image]] = {
    "0 and 1": lambda used: Image.fromarray(used.astype(np.uint8)),
    "0 and 1 of 16 bits": lambda used: Image.fromarray(used.astype(np.uint16)),
    "two values": lambda used: Image.fromarray(used),
    "classes": lambda used: Image.fromarray(np.where(used, np.arange(40) % 7 + 1, 0).astype(np.uint8)),
    "one dark colour": lambda used: Image.fromarray(np.where(used[..., None], (0, 0, 1), 0).astype(np.uint8)),
    "palette": lambda used: paletted(used.astype(np.uint8)),
}


def paletted(indices: Any) -> Image.Image:
    picture = Image.fromarray(indices).convert("P")
    picture.putpalette([0, 0, 0, 0, 0, 90])
    return picture


@pytest.mark.parametrize("kind", MASKS)
def test_anything_but_0_of_a_mask_keeps(tmp_path: Path, kind: str) -> None:
    used = np.broadcast_to(np.arange(40) >= 20, (30, 40))
    MASKS[kind](used).save(tmp_path / "a.png")
    assert np.array_equal(read_mask(tmp_path / "a.png", (40, 30)), used)


def test_a_mask_of_a_format_that_loses_details(tmp_path: Path) -> None:
    used = np.broadcast_to(np.arange(40) >= 19, (30, 40))
    Image.fromarray(used.astype(np.uint8) * 255).save(tmp_path / "a.jpg", quality=70)
    assert np.asarray(Image.open(tmp_path / "a.jpg"))[:, :19].any()
    assert np.array_equal(read_mask(tmp_path / "a.jpg", (40, 30)), used)


def test_a_mask_is_made_smaller_to_what_it_is_mostly(tmp_path: Path) -> None:
    used = np.zeros((30, 40), np.uint8)
    used[:, 19:] = 255
    used[0, 0] = 255
    Image.fromarray(used).save(tmp_path / "a.png")
    found = read_mask(tmp_path / "a.png", (20, 15))
    assert found[:, 9:].all()  # half of the tenth column is white
    assert not found[:, :9].any()


def test_a_mask_is_straightened_with_its_photograph(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"k1": -0.4})
    masks = folder / "masks"
    masks.mkdir()
    for path in sorted((folder / "images").iterdir()):
        picture = np.asarray(Image.open(path).convert("L"))
        Image.fromarray(np.where(picture > 20, 255, 0).astype(np.uint8)).save(masks / f"{path.name}.png")
        Image.fromarray(np.where(picture > 20, 255, 0).astype(np.uint8)).convert("RGB").save(path)
    with pytest.warns(UserWarning, match="1 of 1 are straightened"):
        views = read(folder)
    for view in range(10):
        mask, white = views.mask(view), views.images[view][..., 0] > 127
        assert mask is not None
        assert mask.any()
        assert torch.equal(mask, white)


def test_what_a_mask_leaves_out_has_no_gradient_and_no_say() -> None:
    generator = torch.Generator().manual_seed(0)
    image, target = (torch.rand(30, 40, 3, generator=generator) for _ in range(2))
    mask = torch.arange(40).expand(30, 40) >= 20
    image.requires_grad_()
    training_loss(image, target, mask).backward()
    assert image.grad is not None
    assert (image.grad[:, :20] == 0).all()
    assert (image.grad[:, 20:] != 0).any()
    with torch.no_grad():
        other = torch.where(mask[..., None], image, torch.rand(30, 40, 3, generator=generator))
        assert training_loss(other, target, mask) == training_loss(image, target, mask)
        assert psnr(other, target, mask) == psnr(image, target, mask) == psnr(image[:, 20:], target[:, 20:])
        assert ssim(target, target, mask) == pytest.approx(1)


def test_a_fit_with_masks_does_not_see_what_they_leave_out(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    with_masks(folder)
    whole = read(folder)
    spoilt = [image.clone() for image in whole.images]
    for image in spoilt:
        image[:, :20] = 255
    options = FitOptions(30, 200, 0)
    scenes = []
    for images in (whole.images, tuple(spoilt)):
        trainer = Trainer(Views(**{**vars(whole), "images": images}), options)
        trainer.fit(lambda step, loss: None)
        scenes.append((trainer.gaussians(), trainer.quality(trainer.views).psnrs))
    assert torch.equal(scenes[0][0].sh, scenes[1][0].sh)
    assert scenes[0][1] == scenes[1][1]
