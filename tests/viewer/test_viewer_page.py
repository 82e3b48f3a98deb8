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

from cts_async import viewer

STATIC = Path(viewer.__file__).parent / "static"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="no node; the browser's tests see the same in Chromium")

HREFS = {
    "#/run?run=a": True,
    "api/download?run=a": True,
    "https://a.example/b": True,
    "javascript:alert(1)": False,
    "JavaScript:alert(1)": False,
    " javascript:alert(1)": False,
    "java\nscript:alert(1)": False,
    "data:text/html,x": False,
    "//evil.example": False,
    "/etc/passwd": False,
    "vbscript:x": False,
    "file:///etc/passwd": False,
}
"""Addresses, and whether they are followed."""
ADDRESSES = {
    "https://a.example/b?c=<d>": None,
    "http://a.example/冬": "http://a.example/%E5%86%AC",
    "see https://a.example": None,
    "https://": None,
    "ftp://a.example": None,
    'https://a.example/"x': None,
    "HTTPS://A.example/B": "https://a.example/B",
}
"""Sources of unknown origin, and what they link to."""
TEXTS = {
    "two\nlines\tand a tab": "two\nlines\tand a tab",
    "two\r\nlines": "two\nlines",
    "over\rwritten": "over⟨U+000D⟩written",
    "a\u0000b\u001b[31m": "a⟨U+0000⟩b⟨U+001B⟩[31m",
    "a\u007f": "a⟨U+007F⟩",
    "\u202egnp.exe\u2066x\u2069": "⟨U+202E⟩gnp.exe⟨U+2066⟩x⟨U+2069⟩",
    "zero\u200bwidth\ufeff": "zero⟨U+200B⟩width⟨U+FEFF⟩",
    "a\u00adb\u3164": "a⟨U+00AD⟩b⟨U+3164⟩",
    "ok\U000e0069": "ok⟨U+E0069⟩",
    "葛\U000e0100": "葛\U000e0100",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "می\u200cخواهم": "می\u200cخواهم",
}
"""Texts, and how they are shown."""
LANGUAGES = {"渡轮 timetable": "zh", "ferry": None, "フェリーの時刻": None, "": None, "x" * 3000 + "渡": None}
QUERIES = [{"run": "a/b&c=d#e", "id": "../../etc?x=%2e"}, {"text": "飞艇 100%", "sort": "-score"}]

SCRIPT = """
globalThis.localStorage = { getItem: () => "en" };
globalThis.ResizeObserver = class {};
const names = ["dom", "route", "format", "nuggets"];
const [dom, route, format, nuggets] = await Promise.all(names.map((name) => import(`${base}/${name}.js`)));
const asked = JSON.parse(process.argv[1]);
console.log(JSON.stringify({
  hrefs: asked.hrefs.map(dom.safeHref),
  addresses: asked.addresses.map(dom.webAddress),
  texts: asked.texts.map(dom.visible),
  languages: asked.languages.map(dom.languageOf),
  routes: asked.queries.map((query) => route.readRoute(route.href("/run", { ...query, none: null, empty: "" }))),
  nowhere: route.readRoute(""),
  numbers: [1234567, -5, 1e300, null].map(format.count),
  moment: format.moment("\\u202elater"),
  worths: ["partial", "constructor", undefined].map((label) => String(nuggets.worth(label))),
}));
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page's modules make of the values above."""
    copy = tmp_path_factory.mktemp("page")
    for module in STATIC.glob("*.js"):
        shutil.copy(module, copy)
    (copy / "package.json").write_text('{"type": "module"}')  # what a browser knows by itself
    tables = {"hrefs": HREFS, "addresses": ADDRESSES, "texts": TEXTS, "languages": LANGUAGES}
    asked = {"queries": QUERIES, **{name: list(table) for name, table in tables.items()}}
    script = f"const base = {json.dumps(copy.as_uri())};{SCRIPT}"
    command = [str(NODE), "--input-type=module", "-e", script, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_only_addresses_of_the_page_its_server_and_the_web_are_followed(computed: dict[str, Any]) -> None:
    followed = [address is not None for address in computed["hrefs"]]
    assert dict(zip(HREFS, followed, strict=True)) == HREFS
    assert dict(zip(ADDRESSES, computed["addresses"], strict=True)) == ADDRESSES


def test_invisible_characters_are_written_out_and_chinese_is_marked(computed: dict[str, Any]) -> None:
    assert dict(zip(TEXTS, computed["texts"], strict=True)) == TEXTS
    assert dict(zip(LANGUAGES, computed["languages"], strict=True)) == LANGUAGES
    assert computed["moment"] == "⟨U+202E⟩later"


def test_routes_survive_their_address_and_numbers_are_short(computed: dict[str, Any]) -> None:
    assert computed["routes"] == [{"path": "/run", "query": query} for query in QUERIES]
    assert computed["nowhere"] == {"path": "/", "query": {}}
    assert computed["numbers"] == ["1,234,567", "-5", "1E300", "–"]
    assert computed["worths"] == ["0.5", "null", "null"]


_WORD = re.compile(r'^  (\w+): "(.+)",$')
_TRANSLATED = re.compile(r'\bt\("(\w+)"')
_BEGUN = re.compile(r"\bt\(`(\w+_)\$\{")


def words_of(language: str) -> dict[str, str]:
    """The words by key; every line of the file between its braces has to be one, or empty, and no key comes twice."""
    lines = (STATIC / f"words.{language}.js").read_text().splitlines()
    assert lines[0] == f"export const {language} = {{"
    assert lines[-1] == "};"
    found = [_WORD.match(line) for line in lines[1:-1] if line]
    assert all(found)
    words = {match[1]: match[2] for match in found if match}
    # JavaScript takes the last of two without a word.
    assert len(words) == len(found)
    return words


def spoken() -> str:
    """All of the page's code but its words."""
    return "\n".join(path.read_text() for path in STATIC.glob("*.js") if not path.name.startswith("words."))


def test_languages_have_the_same_words_in_the_same_order_with_the_same_gaps() -> None:
    english, chinese = words_of("en"), words_of("zh")
    assert list(chinese) == list(english)
    for key, text in english.items():
        assert sorted(re.findall(r"\{(\w+)\}", text)) == sorted(re.findall(r"\{(\w+)\}", chinese[key])), key


def test_every_used_word_exists_and_every_word_is_used() -> None:
    known, code = words_of("en"), spoken()
    begun = tuple(_BEGUN.findall(code))
    assert set(_TRANSLATED.findall(code)) - {"key"} <= set(known)
    assert [start for start in begun if not any(key.startswith(start) for key in known)] == []
    named = set(re.findall(r'"(\w+)"', code))
    assert [key for key in known if key not in named and not key.startswith(begun)] == []


SCRIPTS = sorted(STATIC.glob("*.js"))
STYLES = sorted(STATIC.glob("*.css"))

MARKUP_OF_TEXT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|setHTML|\beval\b"
    r"|new Function|javascript:|cssText|setTimeout\(\s*[\"'`]|import\("
)
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)[\w.]|//cdn|@import|url\(")


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


def test_no_script_makes_markup_of_text_and_elements_are_made_in_one_place() -> None:
    for script in SCRIPTS:
        assert MARKUP_OF_TEXT.findall(script.read_text()) == [], script.name
        made = re.findall(r"createElement(?:NS)?\(|setAttribute\(\s*name", script.read_text())
        assert bool(made) == (script.name == "dom.js"), script.name


def test_nothing_is_loaded_from_elsewhere() -> None:
    for file in (*SCRIPTS, *STYLES, STATIC / "index.html"):
        assert ELSEWHERE.findall(file.read_text()) == [], file.name


def test_page_has_no_inline_script_style_or_handler() -> None:
    page = Elements()
    page.feed((STATIC / "index.html").read_text())
    names = [name for _, attributes in page.found for name in attributes]
    assert page.inline == ""
    assert [name for name in names if name == "style" or name.startswith("on")] == []
