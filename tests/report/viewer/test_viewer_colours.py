"""Contrast of the viewer's colours by WCAG 2.2: 4.5 to 1 for text, 3 to 1 for what shows where a control is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cts_async.report import viewer

THEME = (Path(viewer.__file__).parent / "static" / "theme.css").read_text()
PAIRS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", THEME)
}
GROUNDS = ("paper", "surface", "sunk")
TEXT = [
    *[(ink, ground) for ink in ("ink", "muted", "accent", "bad") for ground in GROUNDS],
    ("on-accent", "accent"),
    ("accent", "accent-soft"),
    *[(ink, ground) for ink in ("ink", "muted") for ground in ("accent-soft", "fair-soft", "bad-soft")],
    ("ink", "added"),
    *[(kind, f"{kind}-soft") for kind in ("good", "fair", "bad")],
]
SHAPES = [(shape, ground) for shape in ("edge", "accent", "good", "fair", "bad") for ground in GROUNDS]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of "#rrggbb"."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_every_colour_has_a_light_and_a_dark_side() -> None:
    used = set(
        re.findall(
            r"var\(--([\w-]+)",
            "".join(path.read_text() for path in Path(viewer.__file__).parent.glob("static/*.css")),
        )
    )
    assert used - {"text", "code", "radius", "share", "weight"} <= set(PAIRS)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_can_be_read(theme: int, ink: str, ground: str) -> None:
    assert contrast(PAIRS[ink][theme], PAIRS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("shape", "ground"), SHAPES)
def test_controls_and_drawings_can_be_seen(theme: int, shape: str, ground: str) -> None:
    assert contrast(PAIRS[shape][theme], PAIRS[ground][theme]) >= 3
