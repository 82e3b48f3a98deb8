"""A cache of prompts' beginnings, as providers keep them: from 1,024 tokens on, for five minutes after the last use.

A token is four bytes. Without marks every prefix of whole grains is kept (OpenAI, DeepSeek, Gemini, Qwen); with them
only the prefixes that end at a mark, and a request reads the longest one that was kept before (Anthropic).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

BYTES_PER_TOKEN = 4


class PrefixCache:
    """Call `find` when a request arrives, and `keep` once its prompt has been read."""

    def __init__(self, min_tokens: int = 1024, grain_tokens: int = 128, keep_s: float = 300.0) -> None:
        self.min_tokens, self._grain_tokens, self._keep_s = min_tokens, grain_tokens, keep_s
        self._used_at: dict[bytes, float] = {}
        """When each prefix was last used, by its digest."""
        self._marks: set[int] = set()
        """Lengths in tokens of all that was marked."""

    def find(self, text: bytes, now: float, mark: int | None = None) -> tuple[int, int]:
        """Tokens of `text` that are read from the cache, and those that are written to it because of a mark.

        `mark` is the byte at which the text is marked; None: this cache needs no marks.
        """
        n_read = 0
        for end, digest in self._prefixes(text, mark):
            if now - self._used_at.get(digest, -self._keep_s) < self._keep_s:
                n_read = end
                self._used_at[digest] = now
        if mark is None or mark // BYTES_PER_TOKEN < self.min_tokens:
            return n_read, 0
        return n_read, mark // BYTES_PER_TOKEN - n_read

    def keep(self, text: bytes, now: float, mark: int | None = None) -> None:
        """Keep the prefixes of a text, or with a mark only the one that ends there."""
        if mark is not None:
            self._marks.add(mark // BYTES_PER_TOKEN)
        for end, digest in self._prefixes(text, mark):
            if mark is None or end == mark // BYTES_PER_TOKEN:
                self._used_at[digest] = now

    def _prefixes(self, text: bytes, mark: int | None) -> Iterator[tuple[int, bytes]]:
        """Length in tokens and digest of each prefix that may have been kept, the shortest first."""
        ends: Iterable[int] = range(self.min_tokens, len(text) // BYTES_PER_TOKEN + 1, self._grain_tokens)
        if mark is not None:
            marked = mark // BYTES_PER_TOKEN
            ends = sorted(end for end in self._marks | {marked} if self.min_tokens <= end <= marked)
        begin, hashed = 0, blake2b(digest_size=16)
        for end in ends:
            hashed.update(text[begin * BYTES_PER_TOKEN : end * BYTES_PER_TOKEN])
            begin = end
            yield end, hashed.digest()
