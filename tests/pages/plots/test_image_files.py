"""Figures as files: drawn in a real Chromium where there is one, and refused in one line where none was found."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from made_figures import LINK

from cts_async.errors import UsageError
from cts_async.pages.plots import Figure, check_export, image_files, write_figures
from cts_async.pages.plots.figure import Dot, row_points, rows_figure

NAMES = (LINK, "通义千问-k1")


@pytest.fixture
def figure() -> Figure:
    traces = [row_points(name, [Dot(row, 10.0 * row, name)], series=row) for row, name in enumerate(NAMES)]
    return replace(rows_figure("made", "Made <b>", "A caption.", traces, NAMES), alt="Two points.")


def test_files_are_the_same_each_time_and_text_stays_text(figure: Figure, tmp_path: Path) -> None:
    try:
        check_export(["svg"])
    except UsageError as missing:
        pytest.skip(str(missing))
    written = write_figures([figure, replace(figure, name="again")], tmp_path / "new", ["svg", "pdf"])
    assert [path.name for path in written][:2] == ["made.svg", "made.pdf"]
    svg, pdf, *again = (path.read_bytes() for path in written)
    assert [svg, pdf] == again
    assert pdf.startswith(b"%PDF-")
    root = ET.fromstring(svg)
    content = "".join(root.itertext())
    assert 'href="javascript:' in content
    assert "通义千问" in content
    assert not [one for one in root.iter() if one.tag.endswith("}a") or "script" in one.tag]
    assert not re.search(rb'(href|src)="http', svg)
    assert [one.text for one in root if one.tag.endswith(("}title", "}desc"))] == ["Made <b>", "Two points."]


def test_the_page_that_draws_has_scripts_of_this_machine_only() -> None:
    pytest.importorskip("kaleido")
    page = image_files._page().generate_index()
    scripts = re.findall(r'src="(\w+):', page)
    assert scripts == ["file"] * 3
    assert "default-src 'none'; script-src file:;" in page


@pytest.mark.parametrize("formats", [(), ("svg", "gif")])
def test_format_missing_or_unknown_is_refused(formats: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="svg, png, pdf"):
        check_export(formats)


def test_missing_kaleido_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "find_spec", lambda name: find_spec(name) if name == "plotly" else None)
    with pytest.raises(UsageError, match=r"pip install 'cts-async\[plots\]'.*the HTML report needs neither"):
        check_export(["svg"])


def test_missing_browser_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaleido")
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chrome")
    monkeypatch.setattr("choreographer.browsers.chromium.Chromium.find_browser", lambda **_: None)
    with pytest.raises(
        UsageError, match=r"BROWSER_PATH \(/nowhere/chrome\) is not one.*apt-get install chromium"
    ):
        check_export(["svg"])


def test_a_browser_that_fails_is_one_line_and_writes_nothing(
    figure: Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kaleido")
    monkeypatch.setattr("cts_async.pages.plots.image_files._browser", lambda: "/bin/false")
    with pytest.raises(UsageError) as raised:
        write_figures([figure], tmp_path, ["svg"])
    assert str(raised.value).startswith("/bin/false did not draw the figures: ")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
