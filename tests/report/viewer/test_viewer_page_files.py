"""The viewer's page as files: nothing in it makes markup of text, and nothing comes from anywhere else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cts_async.report import viewer

STATIC = Path(viewer.__file__).parent / "static"
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


def test_everything_the_page_names_is_there() -> None:
    names = {
        value
        for _, attributes in index().found
        for key, value in attributes.items()
        if key in ("src", "href")
    }
    assert names == {f"static/{path.name}" for path in [*STYLES, STATIC / "main.js", STATIC / "icon.svg"]}


def test_scripts_import_each_other_and_nothing_else() -> None:
    imported: set[str] = set()
    for script in SCRIPTS:
        names = re.findall(r'^import .* from "(.+)";$', script.read_text(), re.MULTILINE)
        assert len(names) == len(re.findall(r"^import ", script.read_text(), re.MULTILINE))
        assert all(name.startswith("./") for name in names)
        imported |= {name[2:] for name in names}
    assert imported | {"main.js"} == {script.name for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_what_a_script_imports_it_uses_and_the_other_one_exports(script: Path) -> None:
    text = script.read_text()
    for names, other in re.findall(r'^import \{ (.+) \} from "\./(.+)";$', text, re.MULTILINE):
        exported = set(
            re.findall(
                r"^export (?:async )?(?:function\*?|const|class) (\w+)", (STATIC / other).read_text(), re.M
            )
        )
        for name in names.split(", "):
            assert name in exported, f"{other} exports no {name}"
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is not used"


@pytest.mark.parametrize("file", [*SCRIPTS, *STYLES], ids=named)
def test_files_are_small_and_say_what_they_are_for(file: Path) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= 260
    assert max(len(line) for line in text.splitlines()) <= 121
    assert text.startswith(("// ", "/* ", "export const"))


def test_every_class_that_styles_speak_of_is_given_somewhere() -> None:
    code = "\n".join(script.read_text() for script in SCRIPTS)
    styles = re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", "\n".join(style.read_text() for style in STYLES), flags=re.S)
    classes = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", styles))
    assert [name for name in sorted(classes) if not re.search(rf"(?<![\w.]){name}(?![\w])", code)] == []


def test_a_drawing_has_nothing_active() -> None:
    assert re.findall(r"<script|\bon\w+=|href", (STATIC / "icon.svg").read_text()) == []
