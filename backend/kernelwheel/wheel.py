"""What happens to the wheel after setuptools made it: the Artifact and its sources go in, the tag says what it is."""

from __future__ import annotations

import os
import re
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipInfo

from wheel.wheelfile import WheelFile

from .compile import Artifact
from .plan import Plan


def platform_tag() -> str:
    """This platform as a wheel tag (PyPA, platform compatibility tags): `linux_x86_64`."""
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def add_artifact(pure: Path, destination: Path, native: str, artifact: Artifact, plan: Plan, sources: Path) -> str:
    """Write the platform wheel: everything of the pure one, plus the Artifact and the sources that it came from.

    Args:
        pure: the wheel that setuptools made.
        destination: the folder for the new wheel.
        native: the Artifact's folder in the wheel, `splat/_native`.
        artifact: what goes there.
        plan: names the source files, which go to `src/` beside the Artifact for a later compile.
        sources: the folder that holds them.

    Returns:
        The new wheel's file name. Its tag is py3-none-<platform>: the libraries use no symbol of Python, and which
        torch and CUDA they need is the manifest's to say.
    """
    tag = f"py3-none-{platform_tag()}"
    with WheelFile(pure) as source:
        name = f"{source.parsed_filename['namever']}-{tag}.whl"
        with WheelFile(destination / name, "w", compression=ZIP_DEFLATED) as target:
            for info in source.infolist():
                if info.filename == f"{source.dist_info_path}/RECORD":
                    continue  # WheelFile writes it anew
                data = source.read(info.filename)
                if info.filename == f"{source.dist_info_path}/WHEEL":
                    data = _retagged(data.decode("utf-8"), tag).encode("utf-8")
                target.writestr(info, data)
            for path, member in _native_members(native, artifact, plan, sources):
                target.writestr(_zip_info(member, executable=member.endswith(".so")), path.read_bytes())
    return name


def _native_members(native: str, artifact: Artifact, plan: Plan, sources: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(artifact.folder.iterdir()):
        yield path, f"{native}/{path.name}"
    for name in sorted(plan.sources):
        yield sources / name, f"{native}/src/{name}"


def _retagged(text: str, tag: str) -> str:
    """The WHEEL file with our tag, and as a platform wheel (binary distribution format, "File contents")."""
    kept = [line for line in text.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    return "\n".join([*kept, "Root-Is-Purelib: false", f"Tag: {tag}", ""])


def _zip_info(member: str, *, executable: bool) -> ZipInfo:
    """A member whose time is SOURCE_DATE_EPOCH's or the oldest that zip knows: no clock of the builder."""
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # 1980-01-01
    info = ZipInfo(member, time.gmtime(epoch)[:6])
    info.compress_type = ZIP_DEFLATED
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    return info
