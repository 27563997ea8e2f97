"""`splat render --path`: videos and folders of frames, their options, and what is left after an early end."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from cameras import middle_of, place, some_cameras
from PIL import Image
from render_runs import failure, parse, render
from scene_files import some_scene

from splat.commands import frame_writing, render_command
from splat.commands.memory import NotEnoughMemory
from splat.commands.path_arguments import find_motion
from splat.commands.progress_bar import progress_bar
from splat.scene import moving_pictures
from splat.scene.camera import Camera, orbit
from splat.scene.camera_file import write_camera
from splat.scene.camera_list import cameras_path, write_cameras
from splat.scene.camera_path import CameraPath, write_path
from splat.scene.formats import read_scene, write_scene


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    path = tmp_path / "scene.ply"
    write_scene(path, some_scene(200))
    return path


def keyframes(scene: Path, size: tuple[int, int] = (40, 30)) -> tuple[Camera, ...]:
    found = read_scene(scene)
    return tuple(orbit(found, *size, azimuth=60 * n, elevation=10 * n, fov=40 + 5 * n) for n in range(3))


def path_file(scene: Path, **values: object) -> Path:
    path = scene.with_name("path.json")
    write_path(path, CameraPath(keyframes(scene), **values))  # type: ignore[arg-type]
    return path


def frames(out: Path, *arguments: str | Path) -> list[np.ndarray]:
    """The frames of a folder, float, [H, W, 3] each."""
    assert render_command.run(parse("-o", out, "--device", "cpu", *arguments)) == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == [f"{number:05}.png" for number in range(len(names))]
    return [np.asarray(Image.open(out / name), dtype=float) for name in names]


def decoded(path: Path) -> list[np.ndarray]:
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24").astype(float) for frame in container.decode(video=0)]


def test_frames_at_keyframes_are_what_render_draws_there(tmp_path: Path, scene: Path) -> None:
    found = frames(tmp_path / "frames", scene, "--path", path_file(scene), "--seconds", "0.5", "--fps", "10")
    assert len(found) == 5
    for number, camera in enumerate(keyframes(scene)):
        write_camera(tmp_path / "camera.json", camera)
        render(tmp_path / "a.png", scene, "--camera", tmp_path / "camera.json")
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "frames" / f"{2 * number:05}.png").read_bytes()
    assert not any(np.array_equal(found[1], found[number]) for number in (0, 2))


def test_the_file_says_how_long_and_options_say_otherwise(tmp_path: Path, scene: Path) -> None:
    path = path_file(scene, seconds=0.4, fps=10)
    numbers = count()

    def how_many(*options: str) -> int:
        return len(frames(tmp_path / f"frames{next(numbers)}", scene, "--path", path, "--size", "8x6", *options))

    assert [how_many(), how_many("--fps", "5"), how_many("--seconds", "0.1"), how_many("--seconds", "0.01")] == [
        4, 2, 1, 1
    ]  # fmt: skip


def test_without_a_word_a_path_takes_six_seconds_of_thirty_frames(scene: Path) -> None:
    for words in (("--path", "orbit"), ("--path", path_file(scene))):
        motion = find_motion(parse(scene, "-o", "frames", *words), read_scene(scene))
        assert (motion.frames, motion.fps) == (180, 30)
        assert len(list(motion.cameras)) == 180


def test_frames_have_the_size_that_is_asked_for(tmp_path: Path, scene: Path) -> None:
    path = path_file(scene, seconds=0.1, fps=20)
    assert [frame.shape for frame in frames(tmp_path / "a", scene, "--path", path)] == [(30, 40, 3)] * 2
    assert [frame.shape for frame in frames(tmp_path / "b", scene, "--path", path, "--size", "33x21")] == [
        (21, 33, 3)
    ] * 2


@pytest.mark.parametrize("options", [(), ("--azimuth", "10", "--up", "y", "--elevation", "-30")])
def test_an_orbit_starts_at_the_picture_that_render_gives(
    tmp_path: Path, scene: Path, options: tuple[str, ...]
) -> None:
    words = (scene, "--size", "40x30", *options)
    found = frames(tmp_path / "frames", *words, "--path", "orbit", "--seconds", "0.4", "--fps", "20")
    assert len(found) == 8
    plain = render(tmp_path / "a.png", *words)
    assert np.array_equal(found[0], plain)
    azimuth = 55 if options else 90
    quarter = render(tmp_path / "a.png", *words, f"--azimuth={azimuth}")
    assert np.abs(found[1] - quarter).mean() < 0.5
    assert np.abs(found[7] - quarter).mean() > 5, "it turns the other way"


def test_an_orbit_turns_about_what_the_first_camera_looks_at(tmp_path: Path, scene: Path) -> None:
    """In a scene with cameras, about their upwards axis, though the first one is tilted."""
    found = read_scene(scene)
    cameras = [orbit(found, 40, 30, azimuth=90 * n, elevation=e, up="z") for n, e in enumerate((50, 0, 50, 0))]
    level = [orbit(found, 40, 30, azimuth=90 * n, up="z") for n in range(4)]
    write_camera(tmp_path / "camera.json", cameras[0])
    write_cameras(cameras_path(scene), [cameras[0], *level], list("abcde"))
    up = -torch.stack([camera.viewmat[1, :3] for camera in [cameras[0], *level]]).double().mean(dim=0)
    up /= up.norm()
    assert up[2] < 1 - 1e-4, "it is not just an axis"

    for words in ((), ("--camera", tmp_path / "camera.json")):
        args = parse(scene, "-o", "frames", "--path", "orbit", "--fps", "4", "--seconds", "1", *words)
        around = list(find_motion(args, found).cameras)
        assert torch.equal(around[0].viewmat, cameras[0].viewmat)
        places = torch.stack([place(camera) for camera in around])
        assert torch.allclose(places @ up, (places @ up).mean().expand(4), atol=1e-5)
        point = torch.cat([middle_of(found), torch.ones(1)]).double()
        for camera in around:
            x, y, z, _ = (camera.viewmat.double() @ point).tolist()
            assert (x, y) == (pytest.approx(0, abs=1e-4), pytest.approx(0, abs=1e-4))
            assert z > 0
    upwards = parse(scene, "-o", "f", "--path", "orbit", "--camera", tmp_path / "camera.json", "--up", "x")
    assert torch.stack([place(camera) for camera in find_motion(upwards, found).cameras])[:, 0].std() < 1e-5


def test_a_video(tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.mp4"
    out.write_bytes(b"old")
    words = (scene, "--size", "64x48", "--background", "white")
    assert render_command.run(parse("-o", out, *words, "--path", "orbit", "--seconds", "0.5", "--fps", "25")) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    assert printed.startswith("200 Gaussians, 12 frames of 64x48, ")
    assert printed.endswith(f" s: {out}\n")
    found = decoded(out)
    assert [frame.shape for frame in found] == [(48, 64, 3)] * 12
    expected = frames(tmp_path / "frames", *words, "--path", "orbit", "--seconds", "0.5", "--fps", "25")
    for frame, image in zip(found, expected, strict=True):
        # Colours have half the resolution.
        assert np.abs(frame - image).mean() < 8
        assert np.abs(frame.mean(axis=(0, 1)) - image.mean(axis=(0, 1))).max() < 3
    content = out.read_bytes()
    assert 0 < content.find(b"moov") < content.find(b"mdat"), "it can be shown before all of it is there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frames", "out.mp4", "scene.ply"]


def test_a_video_s_rate_and_colours_are_said_in_it(tmp_path: Path, scene: Path) -> None:
    av = pytest.importorskip("av")
    out = tmp_path / "OUT.MP4"
    words = ("--path", path_file(scene), "--seconds", "0.2", "--fps", "29.97")
    assert render_command.run(parse("-o", out, scene, *words)) == 0
    with av.open(str(out)) as container:
        video = container.streams.video[0]
        assert float(video.average_rate) == pytest.approx(29.97)
        assert float(video.duration * video.time_base) == pytest.approx(6 / 29.97, rel=0.01)
        assert (video.codec_context.name, video.codec_context.pix_fmt) == ("h264", "yuv420p")
        context = video.codec_context
        assert (context.colorspace, context.color_primaries, context.color_trc, context.color_range) == (1, 1, 13, 1)


def test_odd_sides_of_a_video_are_cut(tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--path", "orbit", "--seconds", "0.1", "--fps", "10")
    assert render_command.run(parse("-o", tmp_path / "a.mp4", scene, "--size", "41x31", *words)) == 0
    _, err = capsys.readouterr()
    assert "a video has even sides, so 41x31 pixels are cut to 40x30; a folder takes them all" in err
    whole = render(tmp_path / "a.png", scene, "--size", "41x31")
    (frame,) = decoded(tmp_path / "a.mp4")
    assert np.abs(frame - whole[:30, :40]).mean() < 8
    capsys.readouterr()
    message = failure(capsys, "-o", tmp_path / "b.mp4", scene, "--size", "1x30", *words)
    assert "a video has at least 2x2 pixels, found 1x30" in message
    assert not (tmp_path / "b.mp4").exists()


def test_without_pyav_there_are_folders(
    tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("-o", tmp_path / "a.mp4", tmp_path / "not-read.ply", "--path", "orbit")
    with monkeypatch.context() as patched:
        pytest.importorskip("av")
        patched.setattr(moving_pictures, "_ENCODER", "h999")
        assert "PyAV with h999 is required to write an .mp4 file, found none (" in failure(capsys, *words)
    monkeypatch.setitem(sys.modules, "av", None)
    message = failure(capsys, *words)
    assert "PyAV with libx264 is required to write an .mp4 file, found none" in message
    assert "pip install 'av>=12', or name a folder, which gets the frames as PNG files" in message
    assert len(frames(tmp_path / "a", scene, "--path", path_file(scene, seconds=0.1, fps=20))) == 2


def test_an_empty_folder_is_used(tmp_path: Path, scene: Path) -> None:
    path = path_file(scene, seconds=0.1, fps=10)
    for name in ("empty", "with.dot"):
        (tmp_path / name).mkdir()
        assert len(frames(tmp_path / name, scene, "--path", path)) == 1
    assert render_command.run(parse("-o", f"{tmp_path}/another.dot/", scene, "--path", path)) == 0
    assert (tmp_path / "another.dot" / "00000.png").exists()


@contextmanager
def interrupted_after(frames: int) -> Iterator[object]:
    numbers = count()
    yield lambda: next(numbers) >= frames


@pytest.mark.parametrize("done", [0, 3])
def test_ctrl_c(
    tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    out, folder = tmp_path / "out.mp4", tmp_path / "frames"
    out.write_bytes(b"old")
    for output, left in ((out, "nothing was written"), (folder, f"they are in {folder}")):
        monkeypatch.setattr(frame_writing, "catch_interrupt", lambda: interrupted_after(done))
        words = (scene, "--path", path_file(scene, seconds=1, fps=10))
        assert render_command.run(parse("-o", output, *words)) == 130
        printed, err = capsys.readouterr()
        assert printed == ""
        assert err == f"splat: interrupted after {done} of 10 frames; {left if done else 'nothing was written'}\n"
    assert out.read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == [f"{number:05}.png" for number in range(done)]
    assert {path.name for path in tmp_path.iterdir()} == {"out.mp4", "frames", "path.json", "scene.ply"}


def test_a_lack_of_memory_on_the_way(
    tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    draw = render_command.rasterized

    def fail(*arguments: object, **options: object) -> object:
        if next(numbers) == 2:
            raise MemoryError
        return draw(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(render_command, "rasterized", fail)
    out = tmp_path / "out.mp4"
    out.write_bytes(b"old")
    with pytest.raises(NotEnoughMemory, match=r"rendering 10 frames of 40x30, 200 Gaussians, needs more memory"):
        render_command.run(parse("-o", out, scene, "--path", path_file(scene, seconds=1, fps=10)))
    assert capsys.readouterr().err == "splat: 2 of 10 frames were rendered; nothing was written\n"
    assert out.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"out.mp4", "path.json", "scene.ply"}


def test_a_full_disk(tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("av")
    args = parse("-o", tmp_path / "out.mp4", scene, "--path", path_file(scene, seconds=1, fps=10))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        status = render_command.run(args)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status == 1
    err = capsys.readouterr().err
    assert err.endswith(f"splat: [Errno 27] File too large: {str(tmp_path / 'out.mp4')!r}\n")
    assert {path.name for path in tmp_path.iterdir()} == {"path.json", "scene.ply"}


def test_progress_is_said_now_and_then(
    tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    monkeypatch.setattr(frame_writing.time, "monotonic", lambda: 4 * next(numbers))
    frames(tmp_path / "frames", scene, "--path", path_file(scene, seconds=0.8, fps=10))
    assert capsys.readouterr().err == "frame 3 of 8; 20 s left\nframe 6 of 8; 8 s left\n"


def test_the_cameras_of_a_fit_are_a_path(tmp_path: Path, scene: Path) -> None:
    write_cameras(tmp_path / "cameras.json", some_cameras(4), list("abcd"))
    words = ("--path", tmp_path / "cameras.json", "--seconds", "0.2", "--fps", "20")
    assert len(frames(tmp_path / "frames", scene, *words)) == 4


def test_what_is_not_used_of_a_path_is_said(tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = {"camera_to_world": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 9, 0, 0, 0, 1], "fov": 50}
    values = {"camera_path": [frame], "render_width": 8, "render_height": 6, "seconds": 1, "crop": 1}
    (tmp_path / "path.json").write_text(json.dumps(values))
    assert len(frames(tmp_path / "frames", scene, "--path", tmp_path / "path.json")) == 1
    assert capsys.readouterr().err == f"splat: warning: {tmp_path / 'path.json'}: not used: crop\n"


def test_a_path_that_is_wrong_is_one_line(tmp_path: Path, scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "frames"
    assert "No such file" in failure(capsys, "-o", out, scene, "--path", tmp_path / "none.json")
    write_camera(tmp_path / "camera.json", keyframes(scene)[0])
    message = failure(capsys, "-o", out, scene, "--path", tmp_path / "camera.json")
    assert "a camera path, an object with keyframes, is required, found one with K, height" in message
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "a.png", "--path", "orbit"], "--path makes many pictures: name an .mp4 file or a folder, not 'a.png'"),
        (["-o", "a.mp4"], "so the name must end in .png, found 'a.mp4'; --path makes moving pictures"),
        (["-o", "folder"], "so the name must end in .png, found 'folder'"),
        (["-o", "a.png", "--fps", "9", "--seconds", "1"], "--seconds and --fps need --path"),
        (["-o", "a", "--path", "orbit", "--fps", "0"], "a number from 1 to 120 is required, found '0'"),
        (["-o", "a", "--path", "orbit", "--seconds", "nan"], "a number from 0.01 to 600 is required, found 'nan'"),
        (["-o", "a", "--path", "f.json", "--camera", "c.json"], "--path FILE already says where the camera is; leave"),
        (["-o", "a", "--path", "f.json", "--up", "z", "--fov", "9"], "leave out --fov, --up"),
        (["-o", "a", "--path", "orbit", "--camera", "c.json", "--size", "9x9"], "--camera already says where the came"),
        (["-o", "full", "--path", "orbit"], "a new folder or an empty one is required, found 'full', which has files"),
        (["-o", "full.mp4", "--path", "orbit"], "a file name is required, found the folder 'full.mp4'"),
        (["-o", "file", "--path", "orbit"], "a folder is required, found the file 'file'"),
        (["-o", "none/a", "--path", "orbit"], "the folder 'none' for 'a' must exist; make it first"),
        (["-o", "none/a.mp4", "--path", "orbit"], "the folder 'none' for 'a.mp4' must exist; make it first"),
        (
            ["-o", "a.gif", "--path", "orbit"],
            "or with --path in .mp4, or be a folder's, without an ending, found 'a.gif",
        ),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("full", "full.mp4"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").touch()
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as raised:
        render_command.run(parse(*arguments))
    assert raised.value.code == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"full", "full.mp4", "file"}


def test_words_of_a_bar_are_shown_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: as if standard error were a terminal
    with progress_bar("fit", 2) as show:
        assert show(1, "PSNR on a[/x].png")
    assert "[/x]" in capsys.readouterr().err
