"""The viewer's page: its modules, words, colours and files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
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


def test_invisible_characters_are_written_out(told: dict[str, Any]) -> None:
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


def test_a_route_survives_its_address(told: dict[str, Any]) -> None:
    assert told["routes"] == [{"path": "/run", "query": query} for query in QUERIES]
    assert told["nowhere"] == {"path": "/", "query": {}}


_WORD = re.compile(r'^  (\w+): "(.+)",$')
_SAID = re.compile(r'\bt\("(\w+)"')
_BEGUN = re.compile(r"\bt\(`(\w+_)\$\{")


def words_of(language: str) -> dict[str, str]:
    """The words by key; every line of the file between its braces has to be one, or empty."""
    lines = (STATIC / f"words.{language}.js").read_text().splitlines()
    assert lines[0] == f"export const {language} = {{"
    assert lines[-1] == "};"
    found = [_WORD.match(line) for line in lines[1:-1] if line]
    assert all(found)
    return {match[1]: match[2] for match in found if match}


def spoken() -> str:
    """All of the page's code but its words."""
    return "\n".join(path.read_text() for path in STATIC.glob("*.js") if not path.name.startswith("words."))


def test_every_language_has_the_same_words_in_the_same_order() -> None:
    assert list(words_of("zh")) == list(words_of("en"))


def test_translations_leave_the_same_gaps() -> None:
    def gaps(words: dict[str, str]) -> dict[str, list[str]]:
        return {key: sorted(re.findall(r"\{(\w+)\}", text)) for key, text in words.items()}

    assert gaps(words_of("zh")) == gaps(words_of("en"))


def test_every_used_word_exists() -> None:
    known = words_of("en")
    assert set(_SAID.findall(spoken())) - {"key"} <= set(known)
    for beginning in _BEGUN.findall(spoken()):
        assert any(key.startswith(beginning) for key in known), beginning


def test_every_word_is_used() -> None:
    code = spoken()
    begun = tuple(_BEGUN.findall(code))
    named = set(re.findall(r'"(\w+)"', code))
    assert [key for key in words_of("en") if key not in named and not key.startswith(begun)] == []


SCRIPTS = sorted(STATIC.glob("*.js"))
STYLES = sorted(STATIC.glob("*.css"))

MARKUP_OF_TEXT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|setHTML|\beval\b"
    r"|new Function|javascript:|cssText|setTimeout\(\s*[\"'`]|import\("
)
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)[\w.]|//cdn|@import|url\(")


def named(path: Path) -> str:
    return path.name


class Elements(HTMLParser):
    """Every element with its attributes, and the text that stands in scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style"):
            self.inline += data.strip()


def index() -> Elements:
    elements = Elements()
    elements.feed((STATIC / "index.html").read_text())
    return elements


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_no_script_makes_markup_of_text(script: Path) -> None:
    assert MARKUP_OF_TEXT.findall(script.read_text()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_elements_are_made_in_one_place_only(script: Path) -> None:
    made = re.findall(r"createElement(?:NS)?\(|setAttribute\(\s*name", script.read_text())
    assert bool(made) == (script.name == "dom.js")


@pytest.mark.parametrize("file", [*SCRIPTS, *STYLES, STATIC / "index.html"], ids=named)
def test_nothing_is_loaded_from_elsewhere(file: Path) -> None:
    assert ELSEWHERE.findall(file.read_text()) == []


def test_the_page_has_no_inline_script_style_or_handler() -> None:
    page = index()
    assert page.inline == ""
    assert [
        name
        for _, attributes in page.found
        for name in attributes
        if name == "style" or name.startswith("on")
    ] == []
