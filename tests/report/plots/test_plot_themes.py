"""Colours stand out from their ground, in every theme."""

from __future__ import annotations

import pytest

from cts_async.report.plots.figure import DASHES, SYMBOLS
from cts_async.report.plots.style import COLOURS, N_COLOURS, THEMES, Theme, template


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_series_are_legible(theme: Theme) -> None:
    """4.5 : 1, which text on bars needs as well."""
    colours = COLOURS[theme]
    assert all(contrast(one, colours.ground) >= 4.5 for one in (colours.text, colours.line, *colours.series))
    assert all(contrast(colours.text, one) >= 4.5 for one in colours.scale)


@pytest.mark.parametrize("theme", THEMES)
def test_series_have_as_many_colours_in_every_theme(theme: Theme) -> None:
    assert len(set(COLOURS[theme].series)) == N_COLOURS == len(template(theme)["layout"]["colorway"])


def test_no_two_of_88_series_have_the_same_colour_and_marker() -> None:
    looks = {(i % N_COLOURS, SYMBOLS[i % len(SYMBOLS)]) for i in range(88)}
    assert len(looks) == 88
    assert len({(i % N_COLOURS, DASHES[i % len(DASHES)]) for i in range(40)}) == 40


def test_only_print_paints_its_ground() -> None:
    grounds = {theme: template(theme)["layout"]["paper_bgcolor"] for theme in THEMES}
    assert grounds == {"light": "rgba(0,0,0,0)", "dark": "rgba(0,0,0,0)", "print": "#ffffff"}
