"""The short names of kernels, of those that compilers and profilers give them."""

from __future__ import annotations

import re

LONGEST = 60


def short_name(name: str) -> str:
    """`rasterize<3>` of `void splat::kernels::rasterize<3>(float const*, ...)`; of long templates, the name alone."""
    text = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    if "::" not in text and "<" not in text:
        return text  # a fill or a copy: "Memcpy DtoH (Device -> Pinned)"
    text = without_arguments(text)
    if len(text) > LONGEST:
        text = without_template(text)
    head, bracket, rest = text.partition("<")
    return head.rpartition("::")[2] + bracket + rest


def without_arguments(text: str) -> str:
    """Up to the parenthesis that opens outside of all brackets."""
    depth = 0
    for place, letter in enumerate(text):
        if letter == "(" and depth == 0:
            return text[:place]
        depth += (letter == "<") - (letter == ">")
    return text


def without_template(text: str) -> str:
    """The name alone."""
    return re.sub(r"<.*", "", text, flags=re.DOTALL)
