"""Wire formats of chat APIs, one module each: what a request looks like, and what a response means.

The catalogue's `api = "NAME"` names the module. It is imported when a model that uses it is first called, so a further
wire format is one file in this folder with the four names of `Api`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from cts_async.llm.messages import ChatRequest, Reply

if TYPE_CHECKING:
    from cts_async.llm.catalog import ModelSpec


class Api(Protocol):
    """What a module of this folder defines."""

    @property
    def PATH(self) -> str:
        """The path of the chat resource, below the model's base_url."""

    def headers(self, key: str) -> dict[str, str]:
        """The request headers that are this API's own; `key` ("" for none) appears here and nowhere else."""

    def body(self, spec: ModelSpec, request: ChatRequest) -> bytes:
        """The JSON body of a request. A constraint that the server would not understand is left out by the caller."""

    def reply(self, spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float) -> Reply:
        """Read a response; raises the error that it stands for. `now` is the wall clock, for dates in headers."""


@lru_cache(maxsize=1)
def api_names() -> tuple[str, ...]:
    """The wire formats that there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load_api(name: str) -> Api:
    """The wire format called `name`, one of `api_names`."""
    return cast(Api, importlib.import_module(f"{__name__}.{name}"))
