"""How a reply ended, in all the spellings there are: whole, cut off, refused, or broken off by the server.

OpenAI's words, Anthropic's, Gemini's (which its OpenAI-style address passes on in capitals), and those of
DeepSeek, Mistral, Zhipu, vLLM, SGLang and TGI.
"""

from __future__ import annotations

from typing import Final

STOP: Final = "stop"
LENGTH: Final = "length"
REFUSED: Final = "refused"
ABORTED: Final = "aborted"

_SPELLINGS: Final = {
    STOP: ("stop", "end_turn", "stop_sequence", "eos", "eos_token"),
    LENGTH: ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    REFUSED: (
        "content_filter",
        "refusal",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "sensitive",
    ),
    ABORTED: ("abort", "aborted", "error", "network_error", "insufficient_system_resource", "pause_turn"),
}
_MEANING: Final = {spelling: meaning for meaning, words in _SPELLINGS.items() for spelling in words}


def ending(reason: object) -> str:
    """STOP, LENGTH, REFUSED or ABORTED; nothing said is STOP, and an unknown word is given back as it is."""
    if reason is None or reason == "":
        return STOP
    word = str(reason)
    # "content_filter: PROHIBITED_CONTENT" says the same as its first half.
    return _MEANING.get(word.partition(":")[0].strip().lower(), word)
