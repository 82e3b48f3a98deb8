"""A report as one HTML file that needs nothing else. Here are its elements, whose contents are always escaped.

No text of a model, a page or a file becomes markup:

element("p", "Fish & ", element("b", "chips"), class_="menu")    ->    <p class="menu">Fish &amp; <b>chips</b></p>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

from cts_async.records import language_of
from cts_async.tables.output import visible


class Markup(str):
    """HTML. Whatever is made of it by methods of str is text again, and escaped."""

    __slots__ = ()


Node: TypeAlias = "str | Iterable[Node] | None"
"""Markup, text, several of both, or nothing."""

_ENDS_EARLY: Final = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_VOID: Final = frozenset({"meta", "br", "hr", "input", "link"})
"""Elements without contents, which have no closing tag."""
_OWN_LINKS: Final = ("#", "http://127.0.0.1:")
"""Allowed link targets: the page itself, and the viewer on this machine."""


def element(tag: str, *children: Node, **attributes: str | int | None) -> Markup:
    """An element. `class_` and `for_` lose their underscore, others have it as a hyphen (`aria_label`).

    True is an attribute without a value; None and False are left out. Raises ValueError for an invalid name, for what
    the page's policy forbids (handlers, inline style), and for links to anywhere else.
    """
    if not _NAME.fullmatch(tag):
        raise ValueError(f"{tag!r} is not an element")
    opening = f"<{tag}"
    for keyword, setting in attributes.items():
        if setting is None or setting is False:
            continue
        name = keyword.rstrip("_").replace("_", "-")
        value = str(setting)
        if setting is True:
            value = ""
        if not _NAME.fullmatch(name) or name.startswith("on") or name == "style":
            raise ValueError(f"a report cannot have the attribute {name}")
        if name in ("href", "src") and not value.startswith(_OWN_LINKS):
            raise ValueError(f"a report cannot link to {value[:80]!r}")
        opening += f' {name}="{escape(visible(value))}"'
    if tag in _VOID:
        return Markup(f"{opening}>")
    return Markup(f"{opening}>{rendered(children)}</{tag}>")


def program(text: str) -> Markup:
    """The text of a script or style sheet, which HTML does not escape. Raises ValueError if it would end the element."""
    if _ENDS_EARLY.search(text):
        raise ValueError("this text would end its element")
    return Markup(text)


def untrusted(text: str, tag: str = "bdi", **attributes: str | int | None) -> Markup:
    """Text of unknown origin: its direction is isolated from what surrounds it, and Chinese is marked as such."""
    return element(tag, text, dir="auto", lang=language_attribute(text), **attributes)


def language_attribute(text: str) -> str | None:
    """The value of `lang` for Chinese: a browser then takes its shapes of characters that Japanese has, too."""
    if language_of(text) == "zh":
        return "zh"
    return None


def rendered(node: Node) -> Markup:
    """The HTML of anything."""
    # Before str, of which it is one: escaping it again would show its tags.
    if isinstance(node, Markup):
        return node
    if isinstance(node, str):
        return Markup(escape(visible(node), quote=False))
    return Markup("".join(map(rendered, node or ())))
