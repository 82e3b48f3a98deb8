"""Tokens counted by a model's own tokenizer, with a stand-in for the optional package."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from cts_async.errors import InputError, UsageError
from cts_async.llm.tokenizer import TokenCounter


class Words:
    """A tokenizer of words as the package has it: it may cut texts, unless it is told not to."""

    def __init__(self, max_words: int) -> None:
        self.max_words: int | None = max_words
        self.encoded: list[str] = []

    @classmethod
    def from_str(cls, text: str) -> Words:
        try:
            return cls(json.loads(text)["max_words"])
        except (ValueError, KeyError) as error:
            # The package raises this class itself.
            raise Exception(f"no\ntokenizer: {error}") from None

    def no_truncation(self) -> None:
        self.max_words = None

    def encode(self, text: str, *, add_special_tokens: bool) -> SimpleNamespace:
        assert not add_special_tokens
        self.encoded.append(text)
        return SimpleNamespace(ids=text.split()[: self.max_words])


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("tokenizers")
    package.Tokenizer = Words  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tokenizers", package)


def written(folder: Path, text: str) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(text)
    return path


@pytest.mark.usefixtures("words")
def test_tokens_are_those_of_the_texts_and_five_a_message(tmp_path: Path) -> None:
    counter = TokenCounter(written(tmp_path, '{"max_words": 2}'))
    messages = [{"role": "user", "content": "one two three"}, {"role": "assistant", "content": "four"}]
    assert counter.count(messages) == 3 + 1 + 2 * 5
    assert counter.count([*messages, {"role": "user", "content": "five \ud800"}]) == 14 + 2 + 5
    # Each message is encoded once, however often the conversation is counted.
    assert counter._tokenizer.encoded == ["one two three", "four", "five ?"]
    assert counter.sha256 == hashlib.sha256(b'{"max_words": 2}').hexdigest()


@pytest.mark.usefixtures("words")
def test_file_that_is_no_tokenizer_is_one_error_that_names_it(tmp_path: Path) -> None:
    path = written(tmp_path, "{}")
    with pytest.raises(
        InputError, match=r"tokenizer\.json: is no tokenizer \(tokenizer\.json\): no tokenizer: 'max"
    ):
        TokenCounter(path)
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        TokenCounter(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        TokenCounter(tmp_path)


def test_missing_package_is_said_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=r"pip install 'cts-async\[tokenizer\]'"):
        TokenCounter(written(tmp_path, "{}"))
