"""Writing `manifest.json`, with its own digest; runtime/artifact/manifest.py reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..runtime.artifact.manifest import FILE, ZEROS, Manifest, parse
from ..runtime.errors import BuildError


def to_bytes(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`, identical for equal manifests.

    Raises:
        BuildError: the manifest has a value that `read` would reject.
    """
    text = signed(manifest.to_json())
    try:
        parse(text, FILE)
    except ValueError as error:
        raise BuildError(
            f"the manifest of {manifest.package} cannot be written",
            required="a manifest that can be read back",
            found=str(error),
            remedies=["correct what the message names: a name, a version or an option of the package"],
        ) from error
    return text


def signed(values: Mapping[str, Any]) -> bytes:
    """JSON values as written to the file, with their digest."""
    text = json.dumps({**values, "digest": ZEROS}, indent=1, sort_keys=True, ensure_ascii=True) + "\n"
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return text.replace(f'\n "digest": "{ZEROS}"', f'\n "digest": "{digest}"').encode("ascii")
