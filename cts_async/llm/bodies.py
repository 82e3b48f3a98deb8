"""Bodies of successful responses: JSON, what is nearly JSON, and server-sent events.

Strict JSON costs one parse. What a strict parser refuses and other clients read is looked for only when that fails: a
byte order mark, NaN, lone surrogates, bytes that are not UTF-8, control characters in strings, `data: [DONE]` behind it.
Some servers stream although `"stream": false` was sent; their events are put together by the wire format.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from cts_async.foreign_json import NestedTooDeeply, check_depth, loads
from cts_async.llm.redact import SECRETS

if TYPE_CHECKING:
    from cts_async.llm.apis import Api

__all__ = ["BrokenStream", "UnreadableBody", "event_values", "joined_texts", "loads_leniently", "parse_body"]

_MAX_INT: Final = 2**64
"""orjson reads larger integers as floats, and cannot write them."""
_BLANK: Final = "\ufeff\x00 \t\r\n"
"""What may surround the JSON: some gateways send blanks or zero bytes to keep a connection open."""
_EVENT_FIELD: Final = re.compile(r"(?:data|event|id|retry)?:")
_TERMINATOR: Final = re.compile(r"(?:(?:data:)?\s*\[DONE\]|[\s\x00])*", re.IGNORECASE)
_DONE: Final = "[DONE]"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class BrokenStream(ValueError):
    """Server-sent events that end before the reply does."""


class UnreadableBody(ValueError):
    """A complete body in a form that is not read: several JSON values, or events that are none of the wire format's."""


def parse_body(api: Api, data: bytes) -> tuple[Any, bool]:
    """Parse a response body: its JSON value, and True if it was strict JSON.

    Events are put together into the value that the server would have sent without streaming. Raises ValueError
    (NestedTooDeeply, BrokenStream, UnreadableBody) for anything else.
    """
    try:
        return loads(data), True
    except NestedTooDeeply:
        raise
    except ValueError:
        text = _decoded(data)
    if not _EVENT_FIELD.match(text):
        return _lenient(text), False
    from_events = getattr(api, "from_events", None)
    if from_events is None:
        raise UnreadableBody("the server streams its reply although stream = false was sent")
    values, done = event_values(text)
    # A key may be split between events: it is looked for in what was put together.
    return SECRETS.value(from_events(values, done)), False


def loads_leniently(data: bytes) -> Any:
    """Parse JSON that may not be strict. Raises ValueError."""
    try:
        return loads(data)
    except NestedTooDeeply:
        raise
    except ValueError:
        return _lenient(_decoded(data))


def event_values(text: str) -> tuple[list[Any], bool]:
    """The JSON values in the data of server-sent events, in order, and True if `[DONE]` ended them.

    Raises BrokenStream where the last event is cut off, UnreadableBody where another one is not JSON.
    """
    values: list[Any] = []
    # Events are separated by blank lines; the data lines of one event are one text (HTML standard, section 9.2).
    text = text.strip(_BLANK).replace("\r\n", "\n").replace("\r", "\n")
    events = re.split(r"\n{2,}", text)
    for number, event in enumerate(events, 1):
        for payload in _payloads(event):
            if payload == _DONE:
                return values, True
            try:
                values.append(_parsed(payload))
            except NestedTooDeeply:
                raise
            except ValueError:
                if number == len(events):
                    raise BrokenStream("the last event is cut off") from None
                raise UnreadableBody("an event of its stream is not JSON") from None
    return values, False


def joined_texts(texts: Sequence[str], separator: str = "") -> str:
    """Join the parts of a reply; a key that was split between them is taken out."""
    if len(texts) < 2:
        return "".join(texts)
    return SECRETS.text(separator.join(texts))


def _payloads(event: str) -> list[str]:
    """The data of an event: one text, or the text of each line where servers leave out the blank lines between."""
    lines = [line[5:].strip() for line in event.split("\n") if line.startswith("data:")]
    whole = "\n".join(lines)
    if len(lines) > 1:
        try:
            _parsed(whole)
        except ValueError:
            return list(filter(None, lines))
    return list(filter(None, [whole]))


def _parsed(text: str) -> Any:
    try:
        return loads(text)
    except NestedTooDeeply:
        raise
    except ValueError:
        return _lenient(text)


def _decoded(data: bytes) -> str:
    """The text of a body, in UTF-8, -16 or -32; what cannot be decoded is U+FFFD."""
    return data.decode(json.detect_encoding(data), "replace").strip(_BLANK)


def _lenient(text: str) -> Any:
    """The JSON value of a text, with at most a terminator of events behind it. Raises ValueError."""
    text = text.strip(_BLANK)
    try:
        value, end = _DECODER.raw_decode(text)
    except RecursionError:
        raise NestedTooDeeply from None
    if not _TERMINATOR.fullmatch(text, end):
        # What was cut off has no complete value: to ask again and again would only be charged again.
        raise UnreadableBody("there is other text behind its JSON")
    check_depth(value)
    return SECRETS.value(_writable(value))


def _integer(digits: str) -> int | float:
    # Python refuses to convert more than 4,300 digits; as a float, any number of them is at most infinite.
    number = float(digits)
    if -_MAX_INT / 2 <= number < _MAX_INT:
        return int(digits)
    return number


_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_integer)


def _writable(value: Any) -> Any:
    """A value of no more than `MAX_DEPTH` levels as it can be written: no lone surrogates, no NaN, no infinity."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such numbers
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        # Names are texts, too, and may have surrogates.
        return {_writable(name): _writable(item) for name, item in value.items()}
    return value
