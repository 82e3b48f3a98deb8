"""Counts the tokens of a conversation with a model's own tokenizer: the `tokenizer.json` that its authors publish."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from cts_async.errors import InputError, UsageError, cut_end, install_command
from cts_async.llm.apis import Message
from cts_async.safe_files import read_file

MAX_BYTES: Final = 128 << 20
"""Of a tokenizer's file: those of large vocabularies have 10 to 35 MB."""
PER_MESSAGE: Final = 5
"""Tokens that the chat template puts around a message: the marks of its beginning and its end, its role and two line
breaks, as the templates of Qwen's models have them, of which WebDancer and Tongyi DeepResearch are made."""
_ERROR_CHARS: Final = 200


class TokenCounter:
    """A tokenizer, and the digest of its file."""

    def __init__(self, path: Path) -> None:
        """Read a tokenizer's file. Raises UsageError where the package `tokenizers` is missing; InputError."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise UsageError(
                f"{path}: a tokenizer needs a package that is not installed: {install_command('tokenizer')} ({error})"
            ) from None
        try:
            data = read_file(path, MAX_BYTES)
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror or error}") from None
        try:
            self._tokenizer = Tokenizer.from_str(data.decode("utf-8"))
            # Such a file may ask to cut texts, which would count too few.
            self._tokenizer.no_truncation()
        except Exception as error:  # the package raises Exception itself
            reason = cut_end(" ".join(str(error).split()), _ERROR_CHARS)
            raise InputError(path, f"is no tokenizer (tokenizer.json): {reason}") from None
        self.sha256 = hashlib.sha256(data).hexdigest()
        # A conversation is counted anew for each turn, and its messages stay the same.
        self._tokens = lru_cache(maxsize=1024)(self._count)

    def count(self, messages: Sequence[Message]) -> float:
        """Tokens of a conversation, with those of the chat template."""
        n_tokens = 0
        for message in messages:
            n_tokens += PER_MESSAGE + self._tokens(message["content"])
        return n_tokens

    def _count(self, text: str) -> int:
        # Half a surrogate pair, which a reply's JSON may have, is no text to the tokenizer.
        text = text.encode(errors="replace").decode()
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


@lru_cache
def open_counter(path: Path) -> TokenCounter:
    """The tokenizer in a file, read once. Raises UsageError, InputError."""
    return TokenCounter(path)
