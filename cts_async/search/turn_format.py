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
from cts_async.search.backends import Hit
from cts_async.tagged_text import TAG_NAMES, AnswerFrom, find_answer, split_parts

MAX_QUERIES: Final = 3
MAX_QUERY_CHARS: Final = 500
MAX_URLS: Final = 10
MAX_CALL_CHARS: Final = 5_000
MESSAGE_CHARS: Final = 300
"""Characters of an error message that the agent gets; it may quote a server."""
SEPARATOR: Final = "\n=======\n"
_RAW_CHARS: Final = 500

# --- Turns


@dataclass(frozen=True, slots=True)
class SearchCall:
    """One to three distinct queries, none empty, none longer than 500 characters."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VisitCall:
    """One to ten distinct URLs to read for a goal, which may be empty."""

    urls: tuple[str, ...]
    goal: str


@dataclass(frozen=True, slots=True)
class InvalidCall:
    """A call that cannot be made: the reason, and its first 500 characters."""

    reason: str
    raw: str


ToolCall = SearchCall | VisitCall | InvalidCall


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A parsed turn. `made_up` is the text from a first `<tool_response>` on, "" if there is none; `own` the rest."""

    thoughts: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    own: str
    made_up: str = ""


def parse_turn(text: str) -> ParsedTurn:
    """Parse a turn, up to the first `<tool_response>` outside its thoughts."""
    parts = split_parts(text)
    made_up = next((n for n, part in enumerate(parts) if part.kind == "tool_response"), len(parts))
    thoughts = tuple(part.body for part in parts[:made_up] if part.kind == "think" and part.body)
    bodies = [part.body for part in parts[:made_up] if part.kind == "tool_call"]
    calls = tuple(call for body in bodies for call in read_calls(body))
    if made_up == len(parts):
        return ParsedTurn(thoughts, calls, text)
    start = parts[made_up].start
    return ParsedTurn(thoughts, calls, text[:start].rstrip(), text[start:])


def final_answer(text: str) -> tuple[str, AnswerFrom]:
    """Return the answer of a last turn and where it was found (see `find_answer`), ignoring what the model made up."""
    return find_answer(parse_turn(text).own)


# --- Tool calls

_FENCE: Final = re.compile(r"\A```[\w-]*\s*|\s*```\Z")
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
_NAME_KEYS: Final = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "params", "input", "action_input")
_QUERY_KEYS: Final = ("query", "queries", "q")
_URL_KEYS: Final = ("url", "urls", "link", "links")
_GOAL_KEYS: Final = ("goal", "purpose", "objective")
_SEARCH_NAMES: Final = frozenset({"search", "web_search", "google_search", "google"})
_VISIT_NAMES: Final = frozenset({"visit", "visit_page", "browse", "open", "fetch"})


def read_calls(body: str) -> list[ToolCall]:
    """Parse the text between `<tool_call>` tags: a call or a list of calls, in more or less proper JSON."""
    if len(body) > MAX_CALL_CHARS:
        return [InvalidCall(f"longer than {MAX_CALL_CHARS} characters", body[:_RAW_CHARS])]
    value = _loads(_FENCE.sub("", body.strip()))
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [_call(item, body) for item in value]
    if isinstance(value, dict):
        return [_call(value, body)]
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


def _call(record: Mapping[str, Any], body: str) -> ToolCall:
    name, raw = _first(record, _NAME_KEYS), body[:_RAW_CHARS]
    if isinstance(name, dict):  # {"function": {"name": ...}}
        record = {**record, **name}
        name = _first(record, _NAME_KEYS)
    given = _arguments(record)
    arguments = given if isinstance(given, dict) else {"query": given, "url": given}
    tool = name.strip().lower() if isinstance(name, str) else ""
    if tool in _SEARCH_NAMES:
        queries = _strings(_first(arguments, _QUERY_KEYS), MAX_QUERY_CHARS)[:MAX_QUERIES]
        return SearchCall(queries) if queries else InvalidCall("search needs a query", raw)
    if tool in _VISIT_NAMES:
        urls = _strings(_first(arguments, _URL_KEYS), None)[:MAX_URLS]
        goals = _strings(_first(arguments, _GOAL_KEYS), MAX_QUERY_CHARS)
        return VisitCall(urls, " ".join(goals)) if urls else InvalidCall("visit needs a url", raw)
    reason = f"there is no tool {_clean(tool)[:40]!r}; the tools are search and visit"
    return InvalidCall(reason if tool else "the name of the tool is missing", raw)


def _arguments(record: Mapping[str, Any]) -> Any:
    """Return the arguments, parsed if they are a JSON string; the call itself if it holds them flat."""
    arguments = _first(record, _ARGUMENT_KEYS)
    if arguments is None:
        return record
    if isinstance(arguments, str) and arguments.lstrip().startswith(("{", "[", '"')):
        return _loads(arguments)
    return arguments


def _first(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _strings(value: Any, max_chars: int | None) -> tuple[str, ...]:
    """Return the distinct non-empty strings of a list, or of the one string that stands for a list."""
    items = value if isinstance(value, list) else [value]
    words = (_clean(str(item))[:max_chars].strip() for item in items if isinstance(item, str | int | float))
    return tuple(dict.fromkeys(word for word in words if word))


def _clean(text: str) -> str:
    """Return `text` as one line that can be encoded as UTF-8."""
    return _BLANKS.sub(" ", text.encode(errors="replace").decode()).strip()


# --- Tool responses

_OWN_TAGS: Final = frozenset({*TAG_NAMES, "tools"})


def format_tool_response(text: str) -> str:
    """Wrap a tool's text for the agent."""
    return f"<tool_response>\n{escape_marks(text).strip()}\n</tool_response>"


def escape_marks(text: str) -> str:
    """Make foreign text harmless inside the conversation: it can end neither a tag nor a turn.

    The bracket of anything that could be a tag of this format, or a chat template's mark of a turn, is replaced.
    """
    return harmless(text, _OWN_TAGS, "‹")


def format_search(query: str, hits: Sequence[Hit], engine: str = "") -> str:
    """Format the results of one query; `engine` is the search engine's name, "" for a plain search."""
    if not hits:
        return f"No results found for '{_line(query)}'. Try a more general query."
    kind = f"A {engine} search" if engine else "A search"
    head = f"{kind} for '{_line(query)}' found {len(hits)} results:\n\n## Web Results\n"
    return head + "\n\n".join(_entry(number, hit) for number, hit in enumerate(hits, 1))


def _entry(number: int, hit: Hit) -> str:
    url = hit.url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    lines = [f"{number}. [{_line(hit.title)}]({url})"]
    lines += [f"Date published: {_line(hit.date)}"] if hit.date else []
    lines += [f"Source: {_line(hit.source)}"] if hit.source else []
    lines += [_line(hit.snippet)] if hit.snippet else []
    return "\n".join(lines)


def format_visit(url: str, goal: str, evidence: str, summary: str) -> str:
    """Format what one page says about the goal."""
    return (
        f"The useful information in {_line(url)} for user goal {_line(goal)} as follows:\n\n"
        f"Evidence in page:\n{evidence}\n\nSummary:\n{summary}\n"
    )


def format_failure(what: str, message: str) -> str:
    """Format the failure of `what` ("the visit to https://x"), with its reason."""
    return f"Error: {_line(what)} failed: {_line(message)[:MESSAGE_CHARS].rstrip('.')}."


def _line(text: str) -> str:
    return " ".join(text.split())


# --- Grammar of a constrained model

_CHUNK: Final = 50
_ASCII_MARKS: Final = r"\x00-\x2F\x3A-\x40\x5B-\x60\x7B-\x7F"
_WIDE_BLANKS: Final = r"\x80-\xA0\u1680\u2000-\u200F\u2028-\u202F\u205F\u3000"
_TEXT_RULES: Final = f"""
any ::= [^<]
first ::= [^<\\x00-\\x20\\x7F{_WIDE_BLANKS}]
chunk ::= any{{{_CHUNK}}}
"""
_SEARCH_RULES: Final = rf"""
search ::= "{{\"name\": \"search\", \"arguments\": {{\"query\": [" string (", " string){{0,2}} "]}}}}"
string ::= "\"" initial letter{{0,119}} "\""
initial ::= [^{_ASCII_MARKS}{_WIDE_BLANKS}]
letter ::= [^<>"\\\x00-\x1F\x7F]
"""
_VISIT_RULE: Final = r"""
visit ::= "{\"name\": \"visit\", \"arguments\": {\"url\": " url ", \"goal\": " string "}}"
"""


def turn_grammar(
    max_think_chars: int,
    max_answer_chars: int,
    must_answer: bool,
    may_visit_urls: Sequence[str],
    *,
    must_call: bool = False,
) -> str:
    """Return a GBNF grammar (llama.cpp) of turns that begin within a thought; `parse_turn` reads them all.

    A turn is a thought, then a search, a visit to one of `may_visit_urls` (none: no visits) or an answer; only an
    answer if `must_answer`, only a call if `must_call`. Thought and answer have 1 to `max_..._chars` characters,
    none of them `<`.
    """
    action = "answer" if must_answer else "call" if must_call else "(call | answer)"
    rules = [
        f"root ::= think {action}",
        f'think ::= {_text_of(max_think_chars)} "\\n</think>\\n"',
        f'answer ::= "<answer>\\n" {_text_of(max_answer_chars)} "\\n</answer>"',
        _TEXT_RULES.strip(),
    ]
    if not must_answer:
        tools = "(search | visit)" if may_visit_urls else "search"
        rules += [f'call ::= "<tool_call>\\n" {tools} "\\n</tool_call>"', _SEARCH_RULES.strip()]
    if may_visit_urls and not must_answer:
        # The JSON string of each address, with `<` escaped so that it opens no tag.
        urls = [orjson.dumps(_clean(url)).decode().replace("<", "\\u003c") for url in may_visit_urls]
        rules += [_VISIT_RULE.strip(), f"url ::= {' | '.join(map(literal, dict.fromkeys(urls)))}"]
    return "\n".join(rules) + "\n"


def _text_of(max_chars: int) -> str:
    """Return an expression for 1 to `max_chars` characters, in chunks: llama.cpp is slow with one long {m,n}."""
    size = max(0, max_chars - 1)
    if size < 2 * _CHUNK:
        return f"first any{{0,{size}}}" if size else "first"
    chunks, rest = divmod(size - _CHUNK, _CHUNK)
    return f"first chunk{{0,{chunks}}} any{{0,{_CHUNK + rest}}}"
