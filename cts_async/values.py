"""Values made by the million: frozen for the type checker, without what freezing costs at run time.

A frozen dataclass sets every field through `object.__setattr__`; of the twenty made for one judged candidate
that was a twelfth of all time. What is not made in the hot path stays really frozen. Many also travel between
processes by the hundred: they are pickled as their class with a tuple, a quarter of what names of fields cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A slotted dataclass, compared and hashed by its fields; a type checker refuses to change one."""
    made = dataclass(slots=True, unsafe_hash=True)(cls)
    made.__reduce__ = _reducer(made)  # type: ignore[method-assign, assignment]
    return made


def _reducer(cls: type[T]) -> Callable[[T], tuple[type[T], tuple[Any, ...]]]:
    """How a value is pickled: made anew of its fields, in their order."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    if len(names) < 2:  # `attrgetter` gives a tuple of several only
        return lambda one: (cls, tuple(getattr(one, name) for name in names))
    all_of = attrgetter(*names)
    return lambda one: (cls, all_of(one))
