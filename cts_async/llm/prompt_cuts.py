"""Servers that cut prompts without a word: their `usage` counts far fewer tokens than were sent.

Tokens per byte differ between tokenizers, languages and texts by more than a factor of three, and some servers report no
usage, a constant, or leave cached tokens out. So no single number is a sign. Two patterns are: prompts of clearly
different lengths that are all counted as exactly the largest number seen, and much longer prompts that are counted as
fewer tokens than a shorter one was.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MIN_CALLS", "PromptCuts", "cut_prompt_text"]

MIN_CALLS: Final = 3
"""Calls that have to show the pattern: two prompts of a few hundred tokens may be counted the same by chance."""
MIN_TOKENS: Final = 256
"""Fewer tokens than the least context that servers are run with (512) leaves for a prompt."""
GROWTH: Final = 1.25
"""How much longer than the shortest, and than what was counted, the longest prompt has to be."""
MUCH_LONGER: Final = 1.5
THIN: Final = 0.1
"""Tokens per byte of a prompt that cannot be whole; English and Chinese have 0.2 to 0.35, code 0.25 to 0.4."""


class PromptCuts:
    """Finds out, call by call, whether the server of one model cuts prompts."""

    def __init__(self) -> None:
        self._most = 0
        """The largest number of tokens that a prompt was counted as; below, the calls that were counted so."""
        self._n_at_most = 0
        self._bytes_at_most = 0
        self._shortest_at_most = self._longest_at_most = 0
        self._tokens_below = self._bytes_below = 0
        """Sums over the calls that were counted as fewer."""
        self._n_thin = 0

    def add(self, n_bytes: int, tokens: int) -> int | None:
        """Add a call: UTF-8 bytes of its prompt, and the tokens that were counted.

        Returns about how many tokens were sent if the prompt was cut; None if nothing says so.
        """
        if n_bytes <= 0 or tokens <= 0:
            return None  # no usage
        if tokens > self._most:
            # What was the largest number so far was no limit: those prompts were read in full, too.
            self._tokens_below += self._n_at_most * self._most
            self._bytes_below += self._bytes_at_most
            self._most, self._n_at_most, self._bytes_at_most = tokens, 1, n_bytes
            self._shortest_at_most = self._longest_at_most = n_bytes
            self._n_thin = 0
            return None
        if tokens < self._most:
            return self._add_below(n_bytes, tokens)
        self._n_at_most += 1
        self._bytes_at_most += n_bytes
        if n_bytes < self._shortest_at_most:
            self._shortest_at_most = n_bytes
        elif n_bytes > self._longest_at_most:
            self._longest_at_most = n_bytes
        if self._n_at_most < MIN_CALLS or tokens < MIN_TOKENS:
            return None
        if self._longest_at_most < GROWTH * self._shortest_at_most or not self._bytes_below:
            # Equal prompts; or a server that reports the same number whatever it is sent.
            return None
        # By what the shorter prompts, which were read in full, have in tokens per byte.
        sent = self._tokens_below / self._bytes_below * n_bytes
        if sent < GROWTH * tokens:
            return None
        return round(sent)

    def _add_below(self, n_bytes: int, tokens: int) -> int | None:
        """Add a call that was counted as fewer tokens than another was.

        A server that leaves out whole messages, as Ollama does, counts a longer prompt as less than its context.
        """
        longer = n_bytes >= MUCH_LONGER * self._shortest_at_most
        if tokens >= MIN_TOKENS and longer and tokens < THIN * n_bytes:
            self._n_thin += 1
            if self._n_thin >= MIN_CALLS:
                return round(self._most / self._shortest_at_most * n_bytes)
            return None
        self._tokens_below += tokens
        self._bytes_below += n_bytes
        return None


def cut_prompt_text(model: str, counted: int, sent: int) -> str:
    """The line that says that a model's server cuts prompts; both numbers are tokens."""
    return (
        f"{model}: the server counted {counted:,} of about {_rounded(sent):,} tokens and cuts prompts; "
        "set its context or context_tokens"
    )


def _rounded(tokens: int) -> int:
    """An estimate without digits that it does not have."""
    if tokens >= 1000:
        return round(tokens, -2)
    return round(tokens, -1)
