"""The words of the viewer's page: each of them in every language, and none that nobody says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cts_async.report import viewer

STATIC = Path(viewer.__file__).parent / "static"
LANGUAGES = ("en", "zh")

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


def test_no_key_stands_twice() -> None:
    for language in LANGUAGES:
        lines = (STATIC / f"words.{language}.js").read_text().splitlines()
        assert len(words_of(language)) == sum(bool(line) for line in lines) - 2


def test_every_language_has_the_same_words_in_the_same_order() -> None:
    assert list(words_of("zh")) == list(words_of("en"))


def test_translations_leave_the_same_gaps() -> None:
    def gaps(words: dict[str, str]) -> dict[str, list[str]]:
        return {key: sorted(re.findall(r"\{(\w+)\}", text)) for key, text in words.items()}

    assert gaps(words_of("zh")) == gaps(words_of("en"))


def test_chinese_words_are_chinese() -> None:
    # Names of files and formats, and what is only a gap, are the same everywhere.
    chinese = words_of("zh")
    same = {key for key, text in words_of("en").items() if chinese[key] == text}
    assert same <= {"of"}
    assert all(re.search(r"[\u4e00-\u9fff]", text) for key, text in chinese.items() if key != "of")


def test_every_word_that_is_said_exists() -> None:
    known = words_of("en")
    assert set(_SAID.findall(spoken())) - {"key"} <= set(known)
    for beginning in _BEGUN.findall(spoken()):
        assert any(key.startswith(beginning) for key in known), beginning


def test_every_word_is_said_somewhere() -> None:
    code = spoken()
    begun = tuple(_BEGUN.findall(code))
    named = set(re.findall(r'"(\w+)"', code))
    assert [key for key in words_of("en") if key not in named and not key.startswith(begun)] == []


@pytest.mark.parametrize(
    "kind", ["think", "search", "visit", "invalid", "repeated", "dropped", "forced", "answer"]
)
def test_every_kind_of_turn_has_a_name(kind: str) -> None:
    assert f"turn_{kind}" in words_of("en")
