"""The checks themselves, on pages whose faults are known: a wrong ruler measures nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from browser.checks import FITTING, READABLE, faults, measured, structure_faults

WELL = """<!doctype html><html lang="en"><title>t</title><style>a { display: inline-block; padding: 6px }</style>
<header>head</header><main><h1>Title</h1><h2>Part</h2><p style="color: #595959">Grey enough.</p>
<p lang="zh">中文字符</p><label>Name <input style="height: 24px"></label><a href="#x">A link</a>
<table><caption>Scores</caption><thead><tr><th scope="col">n</th></tr></thead></table></main>"""


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 360, "height": 640})
    yield context.new_page()
    context.close()


def test_a_page_without_faults_has_none(blank: Page) -> None:
    blank.set_content(WELL)
    assert faults(blank, READABLE + FITTING) == {}
    assert structure_faults(blank) == []


@pytest.mark.parametrize(
    ("measure", "html", "found"),
    [
        # (0.05 + 1) / (0.05 + 0.3185), #999 on white; of half black (0.05 + 1) / (0.05 + 0.2140).
        ("contrast", '<p style="color: #999">grey</p>', ['2.85 < 4.5: <p> "grey"']),
        ("contrast", '<p style="opacity: .5">half</p>', ['3.98 < 4.5: <p> "half"']),
        ("contrast", '<p style="color: #999; font-size: 24px; background: #222">large</p>', []),
        ("wide", '<div style="width: 500px">w</div>', ["500 > 360", '<div> "w"']),
        ("wide", '<div style="overflow: auto"><p style="width: 500px">scrolls</p></div>', []),
        ("overlaps", '<p>one</p><p style="margin-top: -34px">other</p>', ['<p> "one" over <p> "other"']),
        ("small", '<button style="width: 20px; height: 30px">b</button>', ['20x30: <button> "b"']),
        ("unlabelled", '<input placeholder="name">', ['<input> ""']),
        ("tables", "<table><thead><tr><th>n</th></tr></thead></table>", ["no caption", "no scope"]),
        ("languages", "<p>考试季图书馆</p>", ['<p> "考试季图书馆"']),
    ],
)
def test_each_fault_is_found(blank: Page, measure: str, html: str, found: list[str]) -> None:
    blank.set_content(f'<!doctype html><html lang="en"><body style="margin: 0">{html}')
    lines = measured(blank, measure)
    assert len(lines) == len(found), lines
    assert all(line.startswith(start) for line, start in zip(lines, found, strict=True)), lines
