"""Dataclasses for the hot path: frozen for the type checker only, and cheap to pickle.

A frozen dataclass sets every field through `object.__setattr__`: for the twenty objects of one judged candidate that
took a twelfth of all time. Objects outside the hot path are really frozen. Values are pickled as their class and a
tuple of fields, which takes a quarter of the bytes of a pickle with field names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a slotted dataclass, compared and hashed by its fields; the type checker forbids assignments to it."""
    made = dataclass(slots=True, unsafe_hash=True)(cls)
    made.__reduce__ = _reducer(made)  # type: ignore[method-assign, assignment]
    return made


def _reducer(cls: type[T]) -> Callable[[T], tuple[type[T], tuple[Any, ...]]]:
    """Return the `__reduce__` of a class: its constructor and its fields in order."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    if len(names) < 2:  # attrgetter returns a tuple only for several names
        return lambda one: (cls, tuple(getattr(one, name) for name in names))
    all_of = attrgetter(*names)
    return lambda one: (cls, all_of(one))
