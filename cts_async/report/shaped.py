"""Whether a JSON value has the shape of a TypedDict: a file of another version, or of somebody else, may not."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict


def has_shape(value: Any, shape: Any) -> bool:
    """Whether `value` is a `shape`: a TypedDict (with more fields, perhaps), a list, dict or union, or a plain type.

    Fields of a TypedDict that is not total may be absent.
    """
    if is_typeddict(shape):
        hints = get_type_hints(shape)
        return isinstance(value, dict) and all(
            has_shape(value[name], hint) if name in value else name in shape.__optional_keys__
            for name, hint in hints.items()
        )
    if get_origin(shape) is list:
        return isinstance(value, list) and all(has_shape(one, get_args(shape)[0]) for one in value)
    if get_origin(shape) is dict:
        return isinstance(value, dict) and all(has_shape(one, get_args(shape)[1]) for one in value.values())
    if get_origin(shape) is UnionType:
        return any(has_shape(value, one) for one in get_args(shape))
    if shape in (int, float):
        return isinstance(value, int if shape is int else int | float) and not isinstance(value, bool)
    return isinstance(value, NoneType if shape is None else shape)
