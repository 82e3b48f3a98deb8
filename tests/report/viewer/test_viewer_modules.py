"""What the page's modules make of text and addresses, asked of the modules themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cts_async.report import viewer

STATIC = Path(viewer.__file__).parent / "static"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="no node; the browser's tests see the same in Chromium")

HREFS = [
    "#/run?run=a",
    "api/download?run=a",
    "https://a.example/b",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,x",
    "//evil.example",
    "/etc/passwd",
    "vbscript:x",
    "file:///etc/passwd",
]
ADDRESSES = [
    "https://a.example/b?c=<d>",
    "http://a.example/冬",
    "see https://a.example",
    "https://",
    "ftp://a.example",
    'https://a.example/"x',
    "HTTPS://A.example/B",
]
TEXTS = {
    "plain": "two\nlines\tand a tab",
    "windows": "two\r\nlines",
    "return alone": "over\rwritten",
    "nul and escape": "a\u0000b\u001b[31m",
    "delete": "a\u007f",
    "turned": "\u202egnp.exe\u2066x\u2069",
    "widthless": "zero\u200bwidth\ufeff",
    "soft and filled": "a\u00adb\u3164",
    "for machines": "ok\U000e0069",
    "name": "葛\U000e0100",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "persian": "می\u200cخواهم",
}
QUERIES = [{"run": "a/b&c=d#e", "id": "../../etc?x=%2e"}, {"text": "飞艇 100%", "sort": "-score"}]

SCRIPT = """
globalThis.localStorage = { getItem: () => "en" };
globalThis.ResizeObserver = class {};
const names = ["said", "dom", "route", "format", "nuggets"];
const [said, dom, route, format, nuggets] = await Promise.all(names.map((name) => import(`${base}/${name}.js`)));
const asked = JSON.parse(process.argv[1]);
console.log(JSON.stringify({
  hrefs: asked.hrefs.map(dom.safeHref),
  addresses: asked.addresses.map(dom.webAddress),
  texts: Object.fromEntries(Object.entries(asked.texts).map(([name, text]) => [name, said.visible(text)])),
  languages: asked.languages.map(said.languageOf),
  routes: asked.queries.map((query) => route.readRoute(route.href("/run", { ...query, none: null, empty: "" }))),
  numbers: [1234567, -5, 1e300, null].map(format.count),
  moment: format.moment("\\u202elater"),
  worths: ["partial", "constructor", undefined].map((label) => String(nuggets.worth(label))),
  nowhere: route.readRoute(""),
}));
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    copy = tmp_path_factory.mktemp("page")
    for module in STATIC.glob("*.js"):
        shutil.copy(module, copy)
    (copy / "package.json").write_text('{"type": "module"}')  # what a browser knows by itself
    asked = {
        "hrefs": HREFS,
        "addresses": ADDRESSES,
        "texts": TEXTS,
        "queries": QUERIES,
        "languages": ["渡轮 timetable", "ferry", "フェリーの時刻", "", "x" * 3000 + "渡"],
    }
    script = f"const base = {json.dumps(copy.as_uri())};{SCRIPT}"
    command = [str(NODE), "--input-type=module", "-e", script, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_only_addresses_of_the_page_its_server_and_the_web_are_followed(told: dict[str, Any]) -> None:
    followed = dict(zip(HREFS, told["hrefs"], strict=True))
    assert {href for href, address in followed.items() if address is not None} == set(HREFS[:3])


def test_a_source_is_a_link_only_if_all_of_it_is_an_address(told: dict[str, Any]) -> None:
    links = dict(zip(ADDRESSES, told["addresses"], strict=True))
    assert links == {
        "https://a.example/b?c=<d>": None,
        "http://a.example/冬": "http://a.example/%E5%86%AC",
        "see https://a.example": None,
        "https://": None,
        "ftp://a.example": None,
        'https://a.example/"x': None,
        "HTTPS://A.example/B": "https://a.example/B",
    }


def test_what_is_hidden_in_a_text_is_written_out(told: dict[str, Any]) -> None:
    assert told["texts"] == {
        "plain": "two\nlines\tand a tab",
        "windows": "two\nlines",
        "return alone": "over⟨U+000D⟩written",
        "nul and escape": "a⟨U+0000⟩b⟨U+001B⟩[31m",
        "delete": "a⟨U+007F⟩",
        "turned": "⟨U+202E⟩gnp.exe⟨U+2066⟩x⟨U+2069⟩",
        "widthless": "zero⟨U+200B⟩width⟨U+FEFF⟩",
        "soft and filled": "a⟨U+00AD⟩b⟨U+3164⟩",
        "for machines": "ok⟨U+E0069⟩",
        "name": TEXTS["name"],
        "family": TEXTS["family"],
        "persian": TEXTS["persian"],
    }


def test_chinese_is_told_from_japanese_and_from_what_is_neither(told: dict[str, Any]) -> None:
    assert told["languages"] == ["zh", None, None, None, None]


def test_a_route_survives_its_address(told: dict[str, Any]) -> None:
    assert told["routes"] == [{"path": "/run", "query": query} for query in QUERIES]
    assert told["nowhere"] == {"path": "/", "query": {}}


def test_a_number_without_end_and_a_moment_that_is_none_stay_in_their_places(told: dict[str, Any]) -> None:
    assert told["numbers"] == ["1,234,567", "-5", "1E300", "–"]
    assert told["moment"] == "⟨U+202E⟩later"


def test_a_label_is_one_of_three_and_no_word_of_the_language(told: dict[str, Any]) -> None:
    assert told["worths"] == ["0.5", "null", "null"]
