"""The pictures of the README: pictures.py FOLDER [--steps N] [--only NAME], with the splat that is installed."""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 150_000
WIDTH, HEIGHT = 900, 600


def demo(folder: Path, scratch: Path, steps: int) -> None:
    """demo.jpg: what ci/demo makes, a scene that is fitted to pictures and rendered."""
    scene, picture = scratch / "demo.ply", scratch / "demo.png"
    splat(scratch, "fit", "-o", str(scene), "--steps", str(steps))
    splat(scratch, "render", str(scene), "-o", str(picture))
    with Image.open(picture) as image:
        save(image, folder / "demo.jpg")


def viewer(folder: Path, scratch: Path, steps: int) -> None:
    """viewer.jpg: the viewer's page in a browser, after a drag."""
    sys.path[:0] = [str(ROOT / "tests" / "helpers")]
    import browser

    if browser.find_browser() is None:
        sys.exit("required: a browser, for the picture of the viewer; found: none; to fix: apt-get install chromium")
    with browser.open_browser() as opened, browser.serve(scratch) as url:
        page, wrong = browser.visit(opened, url, WIDTH, HEIGHT)
        page.mouse.move(200, 250)
        page.mouse.down()
        page.mouse.move(140, 250, steps=4)
        page.mouse.up()
        page.wait_for_timeout(1000)
        browser.all_pixels(page, WIDTH, HEIGHT).wait_for(timeout=30000)
        with Image.open(io.BytesIO(page.screenshot())) as image:
            save(image, folder / "viewer.jpg")
    if wrong:
        sys.exit(f"the page has errors: {wrong}")


def doctor(folder: Path, scratch: Path, steps: int) -> None:
    """doctor.svg: what doctor prints, with an empty store, and without the names of this machine's folders."""
    text = splat(scratch, "doctor", fails=True)
    for path, name in ((sys.prefix, ".venv"), (str(scratch), "~"), (str(Path.home()), "~")):
        text = text.replace(path, name)
    width = min(120, max(map(len, text.splitlines())))
    console = Console(record=True, width=width, file=io.StringIO())
    for line in ("$ splat doctor", *text.splitlines()):
        console.print(Text(line, no_wrap=True, overflow="ellipsis"))
    svg = console.export_svg(title="splat doctor")
    # rich's fonts would be loaded from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")
    (folder / "doctor.svg").write_text(svg, encoding="utf-8")


def splat(scratch: Path, *words: str, fails: bool = False) -> str:
    """What a command prints; it has a cache and a home of its own. With `fails`, its findings are no reason to stop."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}
    command = [sys.executable, "-m", "splat", *words]
    done = subprocess.run(command, cwd=scratch, env=environ, capture_output=True, text=True, check=False)
    if done.returncode and not fails:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def save(image: Image.Image, path: Path) -> None:
    """As a JPEG of at most MOST_BYTES."""
    for quality in (90, 80, 70, 50):
        image.convert("RGB").save(path, quality=quality, optimize=True)
        if path.stat().st_size <= MOST_BYTES:
            return
    sys.exit(f"{path} has {path.stat().st_size} bytes, more than {MOST_BYTES}")


PICTURES: dict[str, Callable[[Path, Path, int], None]] = {"demo": demo, "viewer": viewer, "doctor": doctor}


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1000, help="of the fit that demo.jpg shows")
    parser.add_argument("--only", choices=PICTURES, help="one of them")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in [args.only] if args.only else PICTURES:
        with tempfile.TemporaryDirectory() as scratch:
            PICTURES[name](args.folder.resolve(), Path(scratch), args.steps)
        print(f"{name}: {args.folder}", flush=True)


if __name__ == "__main__":
    main()
