"""What is asked of every page, measured on the page as Chromium renders it: faults as lines, none where all is well."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

_MEASURES: Final = (Path(__file__).parent / "checks.js").read_text(encoding="utf-8")
_CONTROLS: Final = re.compile(
    "button|checkbox|combobox|DisclosureTriangle|image|img|link|listbox|menuitem|option|radio|searchbox|slider|"
    "spinbutton|switch|tab|textbox"
)

READABLE: Final = ("contrast", "unlabelled", "tables", "languages")
"""Holds at any width and in any theme."""
PATIENCE_S: Final = 30.0  # on a busy machine a figure takes seconds to change its colours
FITTING: Final = ("wide", "overlaps", "small")
"""How it lies on the screen."""


def measured(page: Page, name: str) -> Any:
    """One of the functions of checks.js."""
    return page.evaluate(f"{_MEASURES.strip().removesuffix(';')}.{name}()")


def faults(page: Page, names: Sequence[str]) -> Mapping[str, Any]:
    """By measure what it found; empty where nothing is wrong."""
    faults_by_measure = {}
    for name in names:
        if lines := measured(page, name):
            faults_by_measure[name] = lines
    return faults_by_measure


def lasting_faults(page: Page, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the faults that remain once the page has had `PATIENCE_S` to redraw itself."""
    end = time.monotonic() + PATIENCE_S
    while (found := faults(page, names)) and time.monotonic() < end:
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
    return found


def structure_faults(page: Page) -> list[str]:
    """What is wrong with names, headings and landmarks, in the tree that Chromium gives to screen readers."""
    nodes = accessibility_tree(page)
    unnamed = []
    for node in nodes:
        if _CONTROLS.fullmatch(node["role"]) and not node["name"]:
            unnamed.append(f"no name: {node['role']}")
    return unnamed + _heading_faults(nodes) + _landmark_faults(nodes)


def accessibility_tree(page: Page) -> list[dict[str, Any]]:
    """All nodes that are read: `{role, name, level}`, in document order. What an image is made of is not."""
    session = page.context.new_cdp_session(page)
    try:
        tree = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    drawn: set[str] = set()
    nodes = []
    for node in tree:
        if node.get("parentId") in drawn:
            drawn.add(node["nodeId"])
        elif not node["ignored"]:
            nodes.append(_node(node))
            if nodes[-1]["role"] == "image":
                drawn.add(node["nodeId"])
    return nodes


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    level = 0
    for entry in node.get("properties", ()):
        if entry["name"] == "level":
            level = entry["value"].get("value")
    name = node.get("name", {}).get("value", "").strip()
    return {"role": node["role"]["value"], "name": name, "level": level}


def _heading_faults(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    headings = [node for node in nodes if node["role"] == "heading"]
    titles = [node["name"] for node in headings if node["level"] == 1]
    lines = []
    if len(titles) != 1:
        lines.append(f"not one first heading: {titles}")
    level = 0
    for node in headings:
        if not node["name"]:
            lines.append(f"empty heading of level {node['level']}")
        if node["level"] > level + 1:
            lines.append(f"heading {node['name']!r} of level {node['level']} after one of level {level}")
        level = node["level"]
    return lines


def _landmark_faults(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    roles = [node["role"] for node in nodes]
    lines = []
    for role in ("main", "banner"):
        if roles.count(role) != 1:
            lines.append(f"{roles.count(role)} landmarks {role}")
    return lines
