"""Views and replies as JSON: what a command or an endpoint is sent, and what any custom role may return.

    request   {"id", "role", "view", "base_url"}; an agent's has "search_url", "visit_url", and "ask_url" if it may ask
    clarifier {"id", "questions": ["...", ...]}
    answerer  {"id", "answer": "..."}
    rewriter  {"id", "query": "..."}
    agent     {"id", "answer": "...", "sources": [{"url", "title", "text"}], "trace": [{"kind", "text", "request"}]}
    judge     {"id", "results": [{"id", "coverage"}]}
    any       {"id", "error": {"kind": "transient" | "permanent", "message": "..."}}

A reply becomes the text that a model would have written, and is then checked by the same rules. Further fields of a
reply are kept under their own names, for people.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from cts_async import foreign_json
from cts_async.custom import RoleName
from cts_async.errors import RejectedError, TransientError, UnusableOutput
from cts_async.foreign_json import NestedTooDeeply
from cts_async.llm.further import further_fields
from cts_async.llm.redact import SECRETS
from cts_async.protocol.views import (
    AnswererView,
    AskingView,
    ClarifierView,
    JudgeView,
    RewriterView,
    SearchView,
)
from cts_async.records import AskLog, Nugget, Source, ToolFailure, ToolUse, Trace, Turn

View = ClarifierView | AnswererView | RewriterView | SearchView | JudgeView

FIELDS: Final[Mapping[RoleName, str]] = {
    "clarifier": "questions",
    "answerer": "answer",
    "rewriter": "query",
    "agent": "answer",
    "judge": "results",
}
"""The field of each role's reply."""
_NOT_FURTHER: Final = frozenset(
    {"id", "error", "role", "view", "base_url", "search_url", "visit_url", "ask_url", "sources", "trace"}
)
"""Fields that have a meaning, and those of a request, which some code sends back: its addresses are secret."""
MAX_TEXT: Final = 200_000
"""Characters of an answer, a source or a trace's text that are kept."""
_ID: Final = re.compile(rb'\s*\{\s*"id"\s*:\s*"?(\d{1,18})"?\s*,')
_ID_BYTES: Final = 100
_NAMES_SHOWN: Final = 8
"""Field names of a wrong reply that its error lists, each cut to `_NAME_CHARS`."""
_NAME_CHARS: Final = 40
_TURN_KINDS: Final = ("think", "search", "visit", "invalid", "repeated", "answer")


def view_json(view: View) -> dict[str, Any]:
    """A view as JSON: exactly what the role may see."""
    match view:
        case ClarifierView():
            fields: dict[str, Any] = {"blurred_query": view.blurred_query, "k": view.k}
            # Only in a conversation is there what was said before.
            if view.pairs is not None:
                fields["pairs"] = _pair_lists(view.pairs)
            return fields
        case AnswererView():
            fields = {"fused_query": view.fused_query, "question": view.question}
            if view.pairs is not None:
                fields["pairs"] = _pair_lists(view.pairs)
            if view.replies != "open":
                fields["replies"] = view.replies
            return fields
        case RewriterView():
            return {"blurred_query": view.blurred_query, "pairs": _pair_lists(view.pairs)}
        case AskingView():
            return {
                "query": view.query,
                "max_asks": view.max_asks,
                "min_asks": view.min_asks,
                "replies": view.replies,
            }
        case SearchView():
            return {"query": view.query}
        case JudgeView():
            nuggets = nuggets_json(view.nuggets)
            return {"query": view.query, "nuggets": nuggets, "candidate_answer": view.candidate_answer}


def nuggets_json(nuggets: Iterable[Nugget]) -> list[dict[str, Any]]:
    """Nuggets as a judge's view has them."""
    return [{"id": nugget.id, "text": nugget.text, "weight": nugget.weight} for nugget in nuggets]


def _pair_lists(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    return [list(pair) for pair in pairs]


def read_reply(data: bytes) -> Any:
    """Parse a reply, also one with NaN or half a surrogate pair, as Python and JavaScript write them; None: no JSON.

    Raises NestedTooDeeply.
    """
    data = SECRETS.body(data, good=True)
    try:
        return foreign_json.loads(data)
    except NestedTooDeeply:
        raise
    except ValueError:
        # Programs print logs between replies: of these lines the slow parser sees none.
        if data[:1] != b"{":
            return None
    try:
        reply = json.loads(data, parse_constant=str)
    except RecursionError:
        raise NestedTooDeeply from None
    except ValueError:
        return None
    # A role's own code may have raised the limit of recursions.
    foreign_json.check_depth(reply)
    text = json.dumps(reply, ensure_ascii=False)
    return foreign_json.loads(text.encode(errors="replace"))


def id_of(data: bytes) -> str | None:
    """Return the id that a reply which cannot be read begins with; None if it does not."""
    opening = _ID.match(data[:_ID_BYTES])
    if opening is None:
        return None
    return opening[1].decode()


def reply_value(role: RoleName, reply: Any, player: str) -> Any:
    """A reply on the wire, checked. Raises the error that it reports, UnusableOutput for another shape."""
    if not isinstance(reply, Mapping):
        raise UnusableOutput(f"{player}: expected a JSON object, got {type(reply).__name__}")
    error = reply.get("error")
    if error is not None:
        # An error may be a text alone: then nothing says that another attempt would help.
        kind: Any = ""
        message: Any = error
        if isinstance(error, Mapping):
            kind, message = error.get("kind"), error.get("message")
        text = f"{player}: {' '.join(str(message).split())[:500]}"
        if kind == "transient":
            raise TransientError(text, status=200)
        raise RejectedError(text)
    field = FIELDS[role]
    if field not in reply:
        names = [repr(name[:_NAME_CHARS]) for name in islice(reply, _NAMES_SHOWN)]
        if len(reply) > _NAMES_SHOWN:
            names.append(f"{len(reply) - _NAMES_SHOWN:,} more")
        raise UnusableOutput(f"{player}: expected the field {field!r}, got {', '.join(names) or 'none'}")
    return reply


def response_of(role: RoleName, value: Any) -> dict[str, Any]:
    """What the journal stores of a reply: its `text` as a model would have written it, and an agent's evidence.

    `value` is the reply itself, or an object that has it under the name of the role's field; what else such an object
    has is stored as `further`. There is no key in it, and no half of a surrogate pair, with which cut texts may end.
    Raises UnusableOutput for a value of the wrong type.
    """
    if role == "judge":
        labels = _usual_labels(value)
        # A text with a key in it is cleaned below, as everything else is.
        if labels is not None and len(labels) <= MAX_TEXT and SECRETS.body(labels, good=True) is labels:
            return {"text": labels.decode()}
    further: dict[str, Any] = {}
    if _is_object(role, value):
        further = further_fields(value, _NOT_FURTHER | {FIELDS[role]})
        # An agent's object has sources and a trace beside its answer.
        if role != "agent":
            value = value[FIELDS[role]]
    try:
        response = _role_response(role, value)
        data = orjson.dumps(response)
    except TypeError:
        # Half a surrogate pair, or a type that only Python's own encoder writes.
        value = orjson.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        response = _role_response(role, value)
        data = orjson.dumps(response)
    if further:
        response["further"] = further
        data = orjson.dumps(response)
    if len(response["text"]) > MAX_TEXT:
        raise UnusableOutput(f"expected at most {MAX_TEXT:,} characters, got {len(response['text']):,}")
    # Code of the user's knows the addresses that it was given, and may repeat them or a key.
    clean = SECRETS.body(data, good=True)
    if clean is data:
        return response
    cleaned: dict[str, Any] = orjson.loads(clean)
    return cleaned


def _is_object(role: RoleName, value: Any) -> bool:
    """True for an object with the role's field. A judge's labels may be one, too, by ids: their values are texts."""
    # Lists and texts, as nearly all are, need no look into the classes of mappings.
    if type(value) is list or type(value) is str:
        return False
    if not isinstance(value, Mapping) or FIELDS[role] not in value:
        return False
    # {"results": "full"} labels a nugget whose id is "results".
    return role != "judge" or not isinstance(value[FIELDS[role]], str)


def _role_response(role: RoleName, value: Any) -> dict[str, Any]:
    match role:
        case "clarifier":
            if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
                raise _wrong_type("a list of questions", value)
            return {"text": orjson.dumps(list(value)).decode()}
        case "answerer" | "rewriter":
            if not isinstance(value, str):
                raise _wrong_type("a text", value)
            return {"text": value}
        case "judge":
            return {"text": orjson.dumps({"results": _labels(value)}).decode()}
        case "agent":
            return _agent_response(value)


MAX_SHOWN: Final = 300
"""Characters of what a role returned, in the message of its failure."""
_SHORT: Final = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 5
_SHORT.maxstring = _SHORT.maxother = 100


def shown_value(value: Any) -> str:
    """Return what a role returned, for a message: on one line, short, escaped, without keys; "" if it has no text."""
    try:
        text = SECRETS.text(_SHORT.repr(value))
    except Exception:
        # A number of more digits than Python prints, or an error of the object's own `repr`.
        return ""
    # Twice as many, since runs of blanks become one.
    line = " ".join(text[: 2 * MAX_SHOWN].split())
    escaped = ""
    for char in line:
        if char.isprintable():
            escaped += char
        else:
            escaped += f"\\x{ord(char):02x}"
    if len(escaped) > MAX_SHOWN:
        escaped = f"{escaped[: MAX_SHOWN - 3]}..."
    return escaped


def _wrong_type(expected: str, value: Any) -> UnusableOutput:
    shown = shown_value(value)
    problem = f"expected {expected}, got {type(value).__name__}"
    if shown:
        problem += f": {shown}"
    return UnusableOutput(problem, text=shown)


def _labels(value: Any) -> list[dict[str, str]]:
    """Labels by id, as a mapping, as pairs, or as objects with `id` and `coverage`."""
    pairs = value
    if type(value) is not list and isinstance(value, Mapping):
        pairs = list(value.items())
    if not isinstance(pairs, list | tuple):
        raise _wrong_type("the label of each nugget by its id", value)
    labels: list[dict[str, str]] = []
    for pair in pairs:
        id = label = None
        # Of dicts, as nearly all are, no look into the classes of mappings is needed.
        if type(pair) is dict or isinstance(pair, Mapping):
            id, label = pair.get("id"), pair.get("coverage")
        elif isinstance(pair, list | tuple) and len(pair) == 2:
            id, label = pair
        if not (isinstance(id, str) and isinstance(label, str)):
            raise _wrong_type("an id and a label", pair)
        labels.append({"id": id, "coverage": label})
    return labels


_USUAL_LABELS: Final = re.compile(rb'\{"results":\[(?:\{"id":"[^"\\]*+","coverage":"[^"\\]*+"\},?)*+\]\}')
"""Labels as objects of two texts in this order, as orjson writes them."""
_PLAIN_TYPES: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Objects that are texts or objects only to orjson are no labels."""


def _usual_labels(value: Any) -> bytes | None:
    """The JSON of a list of objects that have an id and a label alone, as nearly all judges return it; else None.

    Looking at the JSON takes a fraction of the time of looking at each object.
    """
    if type(value) is not list:
        return None
    try:
        labels = orjson.dumps({"results": value}, option=_PLAIN_TYPES)
    except TypeError:
        return None
    if _USUAL_LABELS.fullmatch(labels) is None:
        return None
    return labels


def _agent_response(value: Any) -> dict[str, Any]:
    reply = value
    if isinstance(value, str):
        reply = {"answer": value}
    if not isinstance(reply, Mapping) or not isinstance(reply.get("answer"), str):
        raise _wrong_type("an answer, or a mapping with 'answer'", value)
    response: dict[str, Any] = {"text": reply["answer"][:MAX_TEXT]}
    sources: list[dict[str, str]] = []
    for reported in _list_under(reply, "sources"):
        source = _texts_under(reported, ("url", "title", "text"), "source")
        # Evidence is found again by its address.
        if not source["url"]:
            raise UnusableOutput("a source has no 'url'")
        sources.append(source)
    trace = []
    for reported in _list_under(reply, "trace"):
        event = _texts_under(reported, ("kind", "text", "request"), "event of the trace")
        trace.append(event)
        # Statistics and the viewer count events by these kinds.
        if event["kind"] not in _TURN_KINDS:
            raise UnusableOutput(
                f"unknown kind {event['kind'][:40]!r} in the trace: one of {', '.join(_TURN_KINDS)}"
            )
    if sources:
        response["sources"] = sources
    if trace:
        response["trace"] = trace
    return response


def _list_under(reply: Mapping[str, Any], name: str) -> Sequence[Any]:
    items = reply.get(name) or ()
    if not isinstance(items, list | tuple):
        raise UnusableOutput(f"expected a list under {name!r}, got {type(items).__name__}")
    return items


def _texts_under(value: Any, names: Sequence[str], title: str) -> dict[str, str]:
    """The texts of these names in a mapping, "" for one that is not there. `title` is what it is called in errors."""
    if not isinstance(value, Mapping):
        raise UnusableOutput(
            f"a {title} must be a mapping with {', '.join(names)}, got {type(value).__name__}"
        )
    texts: dict[str, str] = {}
    for name in names:
        text = value.get(name, "")
        if not isinstance(text, str):
            raise UnusableOutput(f"{name!r} of a {title} must be a text, got {type(text).__name__}")
        texts[name] = text[:MAX_TEXT]
    return texts


def trace_of(
    response: Mapping[str, Any], turns: Sequence[Turn], model_calls: int, asked: AskLog | None = None
) -> Trace:
    """The trace of an agent's recorded response; `turns` are the tools that it used through the run."""
    answer = str(response["text"])
    trace = list(turns)
    for event in response.get("trace", ()):
        trace.append(Turn(event["kind"], event["text"], event["request"]))
    sources: list[Source] = []
    for source in response.get("sources", ()):
        sources.append(Source(source["url"], source["title"], source["text"], "page"))
    # Audits and losses look for evidence in the sources of visits, whoever read the pages.
    if sources:
        urls = " ".join(source.url for source in sources)
        trace.append(Turn("visit", "", urls, tuple(sources)))
    trace.append(Turn("answer", answer))
    use = _tool_use(response, turns)
    return Trace(tuple(trace), answer, "tag", model_calls, forced=False, tools=use, asked=asked)


def _tool_use(response: Mapping[str, Any], turns: Sequence[Turn]) -> ToolUse:
    """What a foreign agent asked of the run's tools, and what of that failed."""
    failures: list[ToolFailure] = []
    for tool, host, reason, n in response.get("failed_tools", ()):
        failures += [ToolFailure(tool, host, reason)] * n
    requests = Counter(turn.kind for turn in turns)
    requests.update(failure.tool for failure in failures)
    empty = sum(turn.kind == "search" and not turn.sources for turn in turns)
    return ToolUse(requests, tuple(failures), empty=empty)
