"""WebDancer's text format: thoughts, tool calls and the answer of a turn, and the tool responses to it.

A completion continues after `<think>` and a newline, so a turn may lack that tag: text before a first `</think>` is
a thought. Calls inside a thought do not count, nor does anything from the first `<tool_response>` on: only tools
write those, and a model that continues alone makes up whole searches. No function here raises, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from cts_async.llm.escaping import harmless
from cts_async.llm.json_text import repairable
from cts_async.llm.parsing import literal
from cts_async.tagged_text import TAG_NAMES, AnswerFrom, find_answer, split_parts

MAX_CALL_CHARS: Final = 5_000
MESSAGE_CHARS: Final = 300
"""Characters of an error message that the agent gets; it may quote a server."""
SEPARATOR: Final = "\n=======\n"
_RAW_CHARS: Final = 500

# --- Turns


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call as the agent wrote it: the tool's name in lower case, its arguments, and its first 500 characters.

    `arguments` are an object by name, or what stands in the place of one: the only argument, perhaps.
    """

    tool: str
    arguments: Any
    raw: str


@dataclass(frozen=True, slots=True)
class InvalidCall:
    """A call that cannot be made: the reason, and its first 500 characters."""

    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A parsed turn: `own_text` stays in the conversation, `made_up` are tool responses that the model invented.

    `made_up` is the text from a first `<tool_response>` on, "" without one, and `own_text` the rest. As published,
    `made_up` are the invented responses alone, which may be in `own_text`, too.
    """

    thoughts: tuple[str, ...]
    calls: tuple[RequestedCall | InvalidCall, ...]
    own_text: str
    made_up: str = ""


_END_OF_THOUGHT: Final = re.compile(r"</think\s*>", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"<think\s*>", re.IGNORECASE)


def parse_turn(text: str, *, after_thoughts: bool = False) -> ParsedTurn:
    """Parse a turn, up to the first `<tool_response>` outside its thoughts.

    With `after_thoughts` as the published demo does it: the calls that count are those after the last `</think>`, or
    all of them in a turn without thoughts. What follows a call, but for further calls, is dropped.
    """
    if after_thoughts:
        return _parse_after_thoughts(text)
    thoughts: list[str] = []
    calls: list[RequestedCall | InvalidCall] = []
    for part in split_parts(text):
        # A model that continues alone invents the results that it hopes for, and then cites them.
        if part.kind == "tool_response":
            before, made_up = text[: part.start].rstrip(), text[part.start :]
            return ParsedTurn(tuple(thoughts), tuple(calls), before, made_up)
        if part.kind == "think" and part.body:
            thoughts.append(part.body)
        elif part.kind == "tool_call":
            calls += read_calls(part.body)
    return ParsedTurn(tuple(thoughts), tuple(calls), text)


def _parse_after_thoughts(text: str) -> ParsedTurn:
    thoughts: list[str] = []
    made_up: list[str] = []
    for part in split_parts(text):
        if part.kind == "think" and part.body:
            thoughts.append(part.body)
        elif part.kind == "tool_response":
            made_up.append(part.raw)
    start = 0
    for end in _END_OF_THOUGHT.finditer(text):
        start = end.end()
    if not start and _THOUGHT.search(text):
        start = len(text)  # a thought that never ends
    calls: list[RequestedCall | InvalidCall] = []
    own_texts = [text[:start]]
    for part in split_parts(text[start:]):
        if part.kind == "tool_call":
            calls += read_calls(part.body)
            own_texts.append(part.raw)
        elif not calls:
            own_texts.append(part.raw)
    own_text = "".join(own_texts)
    if not calls:
        own_text = text
    return ParsedTurn(tuple(thoughts), tuple(calls), own_text, "\n".join(made_up))


def final_answer(text: str, *, after_thoughts: bool = False) -> tuple[str, AnswerFrom]:
    """Return the answer of a last turn and where it was found (see `find_answer`), ignoring what the model made up.

    `after_thoughts` as in `parse_turn`: then a later thought may follow what was made up, and the answer that.
    """
    return find_answer(parse_turn(text, after_thoughts=after_thoughts).own_text)


# --- Tool calls

_FENCE: Final = re.compile(r"\A```[\w-]*\s*|\s*```\Z")
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
# WebDancer writes `name` and `arguments`; other models keep the names of the format that they were trained with.
_NAME_KEYS: Final = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "params", "input", "action_input")


def read_calls(body: str) -> list[RequestedCall | InvalidCall]:
    """Parse the text between `<tool_call>` tags: a call or a list of calls, in more or less proper JSON."""
    if len(body) > MAX_CALL_CHARS:
        return [InvalidCall(f"longer than {MAX_CALL_CHARS} characters", body[:_RAW_CHARS])]
    value = _loads(_FENCE.sub("", body.strip()))
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [_requested(item, body) for item in value]
    if isinstance(value, dict):
        return [_requested(value, body)]
    return [InvalidCall("not a JSON object", body[:_RAW_CHARS])]


def _loads(text: str) -> Any:
    """Return the JSON value in `text`, repaired if necessary; None if there is none."""
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    if not repairable(text):
        return None
    import json_repair

    try:
        return json_repair.loads(text)
    except Exception:  # a heuristic parser: whatever it raises, the text was not JSON
        return None


def _requested(record: Mapping[str, Any], body: str) -> RequestedCall | InvalidCall:
    name, raw = first_value(record, _NAME_KEYS), body[:_RAW_CHARS]
    # OpenAI's form: {"function": {"name": ..., "arguments": ...}}.
    if isinstance(name, dict):
        record = dict(record) | name
        name = first_value(record, _NAME_KEYS)
    tool = ""
    if isinstance(name, str):
        tool = name.strip().lower()
    if not tool:
        return InvalidCall("the name of the tool is missing", raw)
    return RequestedCall(tool, _arguments(record), raw)


def _arguments(record: Mapping[str, Any]) -> Any:
    """Return the arguments, parsed if they are a JSON string; the call itself if it holds them flat."""
    arguments = first_value(record, _ARGUMENT_KEYS)
    if arguments is None:
        return record
    # OpenAI's function calls have their arguments as JSON in a string.
    if isinstance(arguments, str) and arguments.lstrip().startswith(("{", "[", '"')):
        return _loads(arguments)
    return arguments


def first_value(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the value of the first of `keys` that has one; None without any."""
    for key in keys:
        value = record.get(key)
        if value is not None:
            return value
    return None


def distinct_texts(value: Any, max_chars: int | None = None) -> tuple[str, ...]:
    """Return the distinct non-empty texts of a list, or of the one text that stands for a list, each as one line."""
    # The demo cuts a lone text to its first three characters, as if it were a list of three ("tower": "tow").
    items = value
    if not isinstance(items, list):
        items = [value]
    texts: dict[str, None] = {}
    for item in items:
        if isinstance(item, str | int | float):
            text = one_line(str(item))[:max_chars].strip()
            if text:
                texts.setdefault(text)
    return tuple(texts)


def one_line(text: str) -> str:
    """Return `text` as one line that can be encoded as UTF-8."""
    return _BLANKS.sub(" ", text.encode(errors="replace").decode()).strip()


# --- Tool responses

# `<tools>` encloses the list of tools in the prompt.
_OWN_TAGS: Final = frozenset(TAG_NAMES) | {"tools"}


def format_tool_response(text: str) -> str:
    """Wrap a tool's text for the agent."""
    return f"<tool_response>\n{escape_marks(text).strip()}\n</tool_response>"


def escape_marks(text: str) -> str:
    """Make foreign text harmless inside the conversation: it can end neither a tag nor a turn.

    The bracket of anything that could be a tag of this format, or a chat template's mark of a turn, is replaced.
    """
    return harmless(text, _OWN_TAGS, "‹")


def format_failure(subject: str, message: str) -> str:
    """Format the failure of `subject` ("the visit to https://x"), with its reason."""
    return f"Error: {without_breaks(subject)} failed: {without_breaks(message)[:MESSAGE_CHARS].rstrip('.')}."


def without_breaks(text: str) -> str:
    """Return `text` with every run of white space as one blank."""
    return " ".join(text.split())


# --- Grammar of a constrained model

_CHUNK: Final = 50
_ASCII_MARKS: Final = r"\x00-\x2F\x3A-\x40\x5B-\x60\x7B-\x7F"
# What `str.strip` removes beyond ASCII, and marks without width: a text of these alone would be empty.
_WIDE_BLANKS: Final = r"\x80-\xA0\u1680\u2000-\u200F\u2028-\u202F\u205F\u3000"
_TEXT_RULES: Final = f"""
any ::= [^<]
first ::= [^<\\x00-\\x20\\x7F{_WIDE_BLANKS}]
chunk ::= any{{{_CHUNK}}}
"""
_STRING_RULES: Final = rf"""
string ::= "\"" initial letter{{0,119}} "\""
initial ::= [^{_ASCII_MARKS}{_WIDE_BLANKS}]
letter ::= [^<>"\\\x00-\x1F\x7F]
"""
"""A JSON string of 1 to 120 characters, for the rules of tools."""


def turn_grammar(
    max_think_chars: int,
    max_answer_chars: int,
    must_answer: bool,
    call_rules: Mapping[str, str],
    *,
    must_call: bool = False,
) -> str:
    """Return a GBNF grammar (llama.cpp) of turns that begin within a thought; `parse_turn` reads them all.

    A turn is a thought, then a call of one of `call_rules` (by tool: the rule of that name, and those that it needs)
    or an answer; only an answer if `must_answer` or without rules, only a call if `must_call`. Thought and answer have
    1 to `max_..._chars` characters, none of them `<`.
    """
    if must_answer or not call_rules:
        action = "answer"
    elif must_call:
        action = "call"
    else:
        action = "(call | answer)"
    rules = [
        f"root ::= think {action}",
        f'think ::= {_text_of(max_think_chars)} "\\n</think>\\n"',
        f'answer ::= "<answer>\\n" {_text_of(max_answer_chars)} "\\n</answer>"',
        _TEXT_RULES.strip(),
    ]
    if action != "answer":
        tools = " | ".join(call_rules)
        if len(call_rules) > 1:
            tools = f"({tools})"
        rules.append(f'call ::= "<tool_call>\\n" {tools} "\\n</tool_call>"')
        rules += call_rules.values()
        # The grammar is part of a step's key: the rules of strings stand where they always did, after the first tool's.
        rules.insert(len(rules) - len(call_rules) + 1, _STRING_RULES.strip())
    return "\n".join(rules) + "\n"


def json_literal(text: str) -> str:
    """Return the expression for exactly the JSON string of `text`, with `<` escaped so that it opens no tag."""
    return literal(orjson.dumps(one_line(text)).decode().replace("<", "\\u003c"))


def _text_of(max_chars: int) -> str:
    """Return an expression for 1 to `max_chars` characters, in chunks: llama.cpp is slow with one long {m,n}."""
    size = max(0, max_chars - 1)
    if not size:
        return "first"
    if size < 2 * _CHUNK:
        return f"first any{{0,{size}}}"
    chunks, remainder = divmod(size - _CHUNK, _CHUNK)
    return f"first chunk{{0,{chunks}}} any{{0,{_CHUNK + remainder}}}"
