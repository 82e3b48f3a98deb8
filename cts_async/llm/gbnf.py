"""GBNF, the grammar notation of llama.cpp: the pieces that several forms need."""

from __future__ import annotations

import orjson


def literal(text: str) -> str:
    """The literal of a text of one line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def json_string(text: str) -> str:
    """The literal of `text` as JSON writes it."""
    return literal(orjson.dumps(text).decode())
