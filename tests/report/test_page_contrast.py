"""Every colour of text stands out from what it lies on by 4.5 : 1 (WCAG 2.2, 1.4.3), on light, on dark and on paper."""

from __future__ import annotations

import re
from itertools import product

import pytest

from cts_async.report.html.report import own_text

THEMES = [
    dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in own_text("page.css").split(":root")[1:]
]
PAIRS = [
    *product(("text", "soft", "accent", "full", "partial", "none"), ("ground", "raised")),
    ("text", "mark"),
    ("text", "warn"),
]


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_reckoned_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "print"])
def test_text_stands_out_from_its_ground(theme: dict[str, str]) -> None:
    assert [(of, on) for of, on in PAIRS if contrast(theme[of], theme[on]) < 4.5] == []
