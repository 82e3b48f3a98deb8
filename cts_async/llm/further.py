"""Further fields of a reply: what a role said beyond the form that its step expects, such as the reasons of a Clarifier.

They are kept under their own names, for people: in the journal, in the results and wherever these are shown. No role is
ever sent them. They come from strangers, so their number and size are limited.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson

from cts_async.errors import UnusableOutput
from cts_async.foreign_json import as_object
from cts_async.llm.json_text import find_json

MAX_FIELDS: Final = 20
"""Fields of one reply that are kept."""
MAX_NAME_CHARS: Final = 60
MAX_VALUE_CHARS: Final = 4_000
"""Of a text, or of another value as JSON; of a longer one the beginning is kept, as text."""


def further_fields(reply: Mapping[Any, Any], form: Collection[str]) -> dict[str, Any]:
    """The fields of a reply that are not of its form and not empty, as plain JSON values, in its order."""
    fields: dict[str, Any] = {}
    for name, value in reply.items():
        if not isinstance(name, str) or name in form:
            continue
        if value is None or (isinstance(value, str | list | dict) and not value):
            continue
        if len(fields) == MAX_FIELDS:
            break
        printable = "".join(char for char in name if char.isprintable())
        fields[printable[:MAX_NAME_CHARS]] = _limited(value)
    return fields


def further_in_list(text: str, list_name: str, item_name: str) -> dict[str, Any]:
    """What a model's reply has beyond its list of texts: fields beside the list, and those of its items.

    A field of items is a list with a value for each item, None where an item has none.
    """
    # Most replies are a bare array of texts: they are not parsed a second time.
    if "{" not in text:
        return {}
    try:
        value = find_json(text).value
    except UnusableOutput:
        return {}
    fields: dict[str, Any] = {}
    items: Any = value
    if isinstance(value, dict):
        name = _name_of_list(value, list_name)
        items = value.get(name)
        fields = further_fields(value, (name,))
    if isinstance(items, list):
        # A field beside the list is about all of them, and goes before one of the same name in the items.
        fields |= further_fields(_by_name(items, item_name), fields)
    return fields


def _name_of_list(value: Mapping[str, Any], usual: str) -> str:
    """The field that was read as the list: the usual one, or else the only list there is."""
    if usual in value:
        return usual
    for name, part in value.items():
        if isinstance(part, list):
            return name
    return usual


def _by_name(items: Sequence[Any], item_name: str) -> dict[str, list[Any]]:
    """The values of each field that any item has, in the order of the items."""
    names: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict) and item_name in item:
            names.update(dict.fromkeys(item))
    names.pop(item_name, None)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for item in items:
        for name, column in columns.items():
            value = None
            if isinstance(item, dict):
                value = item.get(name)
            column.append(value)
    return columns


def _limited(value: Any) -> Any:
    """A value as plain JSON of limited size."""
    if not isinstance(value, str):
        try:
            data = orjson.dumps(value)
            if len(data) <= MAX_VALUE_CHARS:
                return orjson.loads(data)
            value = data.decode()
        except TypeError:  # an object of a function's own, or a text that is cut in the middle of a character
            value = reprlib.repr(value)
    text: str = value.encode(errors="replace").decode()
    if len(text) > MAX_VALUE_CHARS:
        text = f"{text[:MAX_VALUE_CHARS]}…"
    return text


# --- Further fields of recorded replies

MAX_FURTHER: Final = 200
"""Further fields of one line that are read: what code of the user's may write into a file has no limit."""


def further_of(line: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the replies of an instance had beyond their forms: by step, values by name."""
    further: dict[str, dict[str, Any]] = {}
    n_fields = 0
    for step, fields in as_object(line.get("further")).items():
        for name, value in as_object(fields).items():
            if n_fields == MAX_FURTHER:
                return further
            further.setdefault(step, {})[name] = value
            n_fields += 1
    return further


def further_texts(further: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Further fields as (step, name, text): a text as it is, a list of texts one a line, any other value as JSON."""
    rows: list[tuple[str, str, str]] = []
    for step, fields in further.items():
        for name, value in fields.items():
            if isinstance(value, str):
                text = value
            elif isinstance(value, list) and all(isinstance(item, str) for item in value):
                text = "\n".join(value)
            else:
                text = orjson.dumps(value).decode()
            rows.append((step, name, text))
    return rows
