"""Writing `manifest.json`, with its own digest, and reading one that may be anybody's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..runtime.artifact.manifest import FILE, ZEROS, Manifest, corrupt, from_bytes, parse
from ..runtime.errors import BuildError
from .manifest_fields import check_manifest

MOST_NESTED = 1000  # objects and lists in total, nested or not: far fewer than Python's own stack can take


def to_bytes(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`, identical for equal manifests.

    Raises:
        BuildError: the manifest does not follow the schema.
    """
    text = signed(manifest.to_json())
    try:
        check_manifest(parse(text, FILE))
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


def from_stranger(text: bytes, where: str) -> Manifest:
    """Parse the bytes of a `manifest.json` that may be anybody's, by the schema; `where` is named in errors."""
    try:
        if text.count(b"{") + text.count(b"[") > MOST_NESTED:
            raise ValueError(f"it has more than {MOST_NESTED} objects and lists")
        check_manifest(parse(text, where))
        json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise corrupt(where, str(error)) from error
    return from_bytes(text, where)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("it has a duplicate key")
    return values
