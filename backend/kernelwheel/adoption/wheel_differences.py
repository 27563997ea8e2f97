"""What the wheel that a setup.py describes has, and the one that pyproject.toml describes has not, or otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from email.message import Message
from email.parser import HeaderParser
from email.utils import getaddresses
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from .project_metadata import comma_separated, parsed_entry_points

# Fields of METADATA that say the same in other words, or say how it was written.
_PEOPLE = ("Author", "Maintainer")
_LISTS = ("Platform", "Provides", "Obsoletes")
_UNNAMED_URLS = ("Homepage", "Download")  # by the names that adopt gives them
_ONCE = ("Name", "Version", "Summary", "Requires-Python")


def wheel_differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """The differences of two wheels (`setup_distribution.contents`), one line for each; none if they are the same.

    Args:
        theirs: the one that setup.py describes.
        ours: the one that pyproject.toml describes.
    """
    yield from _metadata(theirs["about"]["METADATA"], ours["about"]["METADATA"])
    points, top = (
        [wheel["about"].get(name, "") for wheel in (theirs, ours)] for name in ("entry_points.txt", "top_level.txt")
    )
    yield from _only("entry_points.txt", *map(_points, points))
    yield from _only("top_level.txt", *({name.partition("/")[0] for name in text.split()} for text in top))
    yield from _only("licence file", set(theirs["licences"]), set(ours["licences"]))
    files, other = theirs["files"], ours["files"]
    yield from _only("file", _plain(files), _plain(other))
    for name in sorted(files.keys() & other.keys()):
        if files[name] != other[name]:
            yield f"the file {name} has other contents"


def _plain(names: Collection[str]) -> set[str]:
    """Names of files, those of a folder of scripts or data without the project's version."""
    return {re.sub(r"^[^/]*\.data/", "*.data/", name) for name in names}


def _points(text: str) -> set[str]:
    return {
        f"{group}: {name} = {value}"
        for group, all_ in parsed_entry_points(text).items()
        for name, value in all_.items()
    }


def _only(what: str, theirs: set[str], ours: set[str]) -> Iterator[str]:
    for value in sorted(theirs - ours):
        yield f"{what} {value}: in setup.py's wheel alone"
    for value in sorted(ours - theirs):
        yield f"{what} {value}: in kernelwheel's wheel alone"


def _metadata(theirs: str, ours: str) -> Iterator[str]:
    one, other = HeaderParser().parsestr(theirs), HeaderParser().parsestr(ours)
    for field in _ONCE:
        if _normal(field, one) != _normal(field, other):
            yield f"{field}: {one[field]!s:.80} in setup.py's wheel, {other[field]!s:.80} in kernelwheel's"
    kinds = [(message["Description-Content-Type"] or "").lower() for message in (one, other)]
    if kinds[0] and kinds[0] != kinds[1]:  # what names none has its README's in ours
        yield f"Description-Content-Type: {kinds[0]} in setup.py's wheel, {kinds[1]} in kernelwheel's"
    if _text(one) != _text(other):
        yield "the description (readme) is another text"
    for field in _LISTS:
        yield from _only(field, *({*message.get_all(field, [])} for message in (one, other)))
    for field in _PEOPLE:
        yield from _only(field, *(_people(message, field) for message in (one, other)))
    expression = bool(other["License-Expression"])
    yield from _only("Classifier", *(_classifiers(message, expression) for message in (one, other)))
    finders: dict[str, Callable[[Message], set[str]]] = {
        "License": _licence, "Keyword": _keywords, "URL": _urls, "Requires-Dist": _requirements,
        "Provides-Extra": _extras,
    }  # fmt: skip
    for field, find in finders.items():
        yield from _only(field, find(one), find(other))


def _normal(field: str, message: Message) -> object:
    value = message[field] or ""
    if field == "Name":
        return canonicalize_name(value)
    return sorted(value.replace(" ", "").split(",")) if field == "Requires-Python" else value


def _text(message: Message) -> str:
    return "\n".join(
        line.rstrip() for line in str(message.get_payload() or message["Description"] or "").splitlines()
    ).strip()


def _classifiers(message: Message, expression: bool) -> set[str]:
    """Those of licences are gone where an expression says the licence (PEP 639)."""
    found = message.get_all("Classifier", [])
    return {text for text in found if not (expression and text.startswith("License ::"))}


def _people(message: Message, field: str) -> set[str]:
    addresses = getaddresses(message.get_all(f"{field}-email", []))
    names = [name for text in message.get_all(field, []) for name in re.split(r",|\band\b", text)]
    return {word.strip() for word in [*names, *(part for pair in addresses for part in pair)] if word.strip()}


def _licence(message: Message) -> set[str]:
    text = message["License-Expression"] or message["License"] or ""
    words = " ".join(text.split())
    return {words if len(words) < 80 else f"{words[:70]}… ({len(words)} characters)"} if words else set()


def _urls(message: Message) -> set[str]:
    """By name and address; the home page and the download by address alone, unless it has another name as well."""
    pairs = [text.partition(",")[::2] for text in message.get_all("Project-URL", [])]
    own = {(name.strip(), url.strip()) for name, url in pairs if name.strip() not in _UNNAMED_URLS}
    unnamed = {url.strip() for name, url in pairs if name.strip() in _UNNAMED_URLS}
    unnamed |= {url for url in (message["Home-page"], message["Download-URL"]) if url}
    return {f"{name}, {url}" for name, url in own} | (unnamed - {url for _, url in own})


def _keywords(message: Message) -> set[str]:
    return {*comma_separated(message["Keywords"])}


def _requirements(message: Message) -> set[str]:
    return {_requirement(text) for text in message.get_all("Requires-Dist", [])}


def _extras(message: Message) -> set[str]:
    return {str(canonicalize_name(extra)) for extra in message.get_all("Provides-Extra", [])}


def _requirement(text: str) -> str:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return text
    requirement.name = canonicalize_name(requirement.name)
    parts = (
        re.split(r"\band\b", str(requirement.marker).replace("(", "").replace(")", "")) if requirement.marker else []
    )
    requirement.marker = None
    return " and ".join([str(requirement), *sorted(part.strip() for part in parts)])
