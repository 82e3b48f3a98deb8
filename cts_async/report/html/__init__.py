"""A report as one HTML file that needs nothing else; here its elements, whose contents are always escaped.

No text of a model, a page or a file becomes markup:

element("p", "Fish & ", element("b", "chips"), class_="menu")    ->    <p class="menu">Fish &amp; <b>chips</b></p>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

from cts_async.records import language_of
from cts_async.report.output import visible


@dataclass(frozen=True, slots=True)
class Element:
    """A tag with its attributes and children."""

    tag: str
    attributes: Mapping[str, str]
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The text of a script or style sheet, which HTML does not escape. Raises ValueError if it would end the element."""

    text: str

    def __post_init__(self) -> None:
        if _ENDS_EARLY.search(self.text):
            raise ValueError("this text would end its element")


Node: TypeAlias = "str | Element | Program | Iterable[Node] | None"
Value: TypeAlias = str | int | bool | None

_ENDS_EARLY: Final = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_VOID: Final = frozenset({"meta", "br", "hr", "input", "link"})
_OWN_LINKS: Final = ("#", "http://127.0.0.1:")
"""Allowed link targets: the page itself, and the viewer on this machine."""


def element(tag: str, *children: Node, **attributes: Value) -> Element:
    """An element. `class_` and `for_` lose their underscore, others have it as a hyphen (`aria_label`).

    True is an attribute without a value; None and False are left out. Raises ValueError for an invalid name, for what
    the page's policy forbids (handlers, inline style), and for links to anywhere else.
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    written = {
        name: "" if value is True else str(value)
        for name, value in named.items()
        if value is not None and value is not False
    }
    for name, value in written.items():
        if not _NAME.fullmatch(name) or name.startswith("on") or name == "style":
            raise ValueError(f"a report cannot have the attribute {name}")
        if name in ("href", "src") and not value.startswith(_OWN_LINKS):
            raise ValueError(f"a report cannot link to {value[:80]!r}")
    if not _NAME.fullmatch(tag):
        raise ValueError(f"{tag!r} is not an element")
    return Element(tag, written, tuple(_made(child) for child in children))


def said(text: str, tag: str = "bdi", **attributes: Value) -> Element:
    """Text of unknown origin: its direction is isolated from what surrounds it, and Chinese is marked as such."""
    language = "zh" if language_of(text) == "zh" else None
    return element(tag, text, dir="auto", lang=language, **attributes)


def rendered(node: Node) -> Iterator[str]:
    """The HTML, in pieces."""
    if node is None:
        return
    if isinstance(node, str):
        yield escape(visible(node), quote=False)
    elif isinstance(node, Program):
        yield node.text
    elif isinstance(node, Element):
        written = "".join(f' {name}="{_quoted(value)}"' for name, value in node.attributes.items())
        yield f"<{node.tag}{written}>"
        if node.tag not in _VOID:
            for child in node.children:
                yield from rendered(child)
            yield f"</{node.tag}>"
    else:
        for one in node:
            yield from rendered(one)


def _made(child: Node) -> Node:
    """Children with generators evaluated at once: these may refer to variables that change."""
    return child if child is None or isinstance(child, str | Element | Program) else tuple(map(_made, child))


def _quoted(value: str) -> str:
    return escape(visible(value), quote=True)
