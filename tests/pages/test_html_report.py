"""The report as one HTML file: elements, data of figures, contrast."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

import cts_async.pages
from cts_async.pages.markup import element, program, untrusted
from cts_async.pages.plots import Figure
from cts_async.pages.report import MAX_POINTS, numbers_of, script_json
from cts_async.tables.output import visible

PLOTLYS_LINE_BREAK = "<br>"


def test_elements_escape_text_once_and_mark_what_is_untrusted() -> None:
    found = element("p", "Fish & ", element("b", "chips"), [" or", None, " peas"], class_="menu", hidden=True)
    assert found == '<p class="menu" hidden="">Fish &amp; <b>chips</b> or peas</p>'
    assert element("p", found.upper()).startswith("<p>&lt;P")
    assert untrusted("查询") == '<bdi dir="auto" lang="zh">查询</bdi>'
    assert untrusted("query", "p") == '<p dir="auto">query</p>'
    assert element("p", "\x1b[2J", title="\u202e") == '<p title="[U+202E]">[U+001B][2J</p>'


@pytest.mark.parametrize(
    "attributes",
    [
        {"onclick": "x()"},
        {"style": "color:red"},
        {"href": "javascript:alert(1)"},
        {"href": "https://example.org/"},
        {"src": "data:text/html,x"},
        {"x y": "1"},
    ],
)
def test_attributes_that_a_report_must_not_have_are_refused(attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        element("a", "x", **attributes)


@pytest.mark.parametrize("text", ["</script>", "a</STYLE >", "<!-- x"])
def test_a_program_cannot_end_its_element(text: str) -> None:
    with pytest.raises(ValueError, match="would end its element"):
        program(text)


@given(st.text(), st.text())
def test_a_parser_finds_the_text_and_the_attribute_that_were_put_in(text: str, title: str) -> None:
    parsed = html.fromstring(element("pre", "x", text, title=title))
    assert (parsed.text_content(), parsed.get("title"), len(parsed)) == (
        "x" + visible(text),
        visible(title),
        0,
    )


def test_no_string_in_the_package_makes_markup_of_its_own() -> None:
    """A tag in a string outside the elements would be a way around the escaping."""
    for path in Path(cts_async.pages.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        docstrings = {ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, _DOCUMENTED)}
        markup = {text for text in texts if re.search(r"<[\w!/]", text) and text not in docstrings}
        assert path.name == "markup.py" or markup <= {PLOTLYS_LINE_BREAK}, (
            path,
            markup,
        )


_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef


def figure(*traces: dict[str, Any], **layout: Any) -> Figure:
    return Figure("scores", "Scores", "", "", {"data": list(traces), "layout": layout})


def test_point_row_follows_its_hover_text() -> None:
    trace = {
        "name": "k = 1",
        "x": [1],
        "y": [0],
        "hovertext": ["a&lt;br&gt;b<br>64.8 [63, 66]<br>n = 3<br>x"],
    }
    assert numbers_of(figure(trace)).rows == [
        {"series": "k = 1", "point": "a<br>b", "value": "64.8 [63, 66]", "details": "n = 3; x"}
    ]


def test_long_data_table_is_sampled_as_its_caption_says() -> None:
    trace = {"name": "gain", "hovertext": [f"q{i}<br>{i}" for i in range(1_000)]}
    found = numbers_of(figure(trace))
    assert (found.shown, found.caption) == (
        MAX_POINTS,
        f"Scores: {MAX_POINTS} of 1,000 points, evenly taken",
    )


def test_nothing_in_the_data_of_a_script_ends_the_script() -> None:
    assert script_json({"a": "</script>&\u2028"}) == r'{"a":"\u003c/script\u003e\u0026\u2028"}'
