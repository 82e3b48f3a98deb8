"""Wire formats of chat APIs, one module each: what a request looks like, and what a response means.

The catalogue's `api = "NAME"` names the module. It is imported when a model that uses it is first called, so a further
wire format is one file in this folder with the four names of `Api`, or an entry point `cts_async.apis` of another
package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from cts_async import plugins
from cts_async.engine.events import Usage
from cts_async.records import value

if TYPE_CHECKING:
    from cts_async.engine.ratelimit import Quotas
    from cts_async.llm.catalog import ModelSpec


Message = Mapping[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""


@value
class ChatRequest:
    """One chat completion; `params` are request fields such as temperature, over the model's own.

    The JSON schema or the GBNF grammar is a form that the server should enforce on the reply.
    """

    messages: Sequence[Message]
    params: Mapping[str, Any] = field(default_factory=dict)
    json_schema: Mapping[str, Any] | None = None
    grammar: str | None = None
    defaults: frozenset[str] = frozenset()
    """The names among `params` that nobody has set: where a server refuses one, in any words, it is left out."""
    repeated_chars: int = 0
    """How many characters of the last message further requests repeat, after all messages before it; 0: not known.
    An API whose cache has to be told marks the end of what is repeated, where that pays."""


@value
class Reply:
    """A model's reply. `finish_reason` is STOP, LENGTH or REFUSED of `responses`, or any other word of the provider."""

    text: str
    model: str
    """The model that replied, by its own word; empty where it does not say."""
    finish_reason: str
    usage: Usage | None
    quotas: Quotas | None = None
    """The account's limits as the response's headers name them."""
    reasoning: str = ""
    """The model's reasoning where the provider returns it apart from the text."""
    refused: str = ""
    """Why there is no answer, where the model or a content filter refused; `text` is not one then."""
    tool_calls: Sequence[Any] = ()
    """The calls of tools that were offered in the request's parameters, in OpenAI's form."""
    dropped: tuple[str, ...] = ()
    """Request parameters that were left out because this server has refused them before."""
    tier: str = ""
    """The tier that served it, by its own word; "" where it names none."""


def with_system_in_user_turn(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages without a system role: the instructions stand at the head of the first user turn, a blank line after.

    Where there is no user turn, they are one, in front of the others.
    """
    texts: list[str] = []
    turns: list[dict[str, Any]] = []
    # Templates such as Gemma's know no system role, and refuse a conversation with one.
    for message in messages:
        if message["role"] == "system":
            texts.append(message["content"])
        else:
            turns.append(dict(message))
    instructions = "\n\n".join(texts)
    if not instructions:
        return turns
    for turn in turns:
        if turn["role"] != "user":
            continue
        if isinstance(turn["content"], str):
            turn["content"] = f"{instructions}\n\n{turn['content']}"
        else:
            # Content in parts comes from a gateway's caller alone.
            turn["content"] = [{"type": "text", "text": instructions}] + list(turn["content"])
        return turns
    turns.insert(0, {"role": "user", "content": instructions})
    return turns


MAX_USAGE_TOKENS: Final = 20_000_000
"""More than any model reads or writes at once: a wrong number as large as this would block its account for hours."""


def plausible_usage(
    input_tokens: int, output_tokens: int, cached_tokens: int = 0, cache_write_tokens: int = 0
) -> Usage | None:
    """The usage that a provider reports, caches included in the input; None for numbers that cannot be true.

    Numbers of caches that cannot be true count as none, so that these tokens are paid in full.
    """
    # Negative numbers would give tokens back to a limit or a budget.
    if not (0 <= input_tokens <= MAX_USAGE_TOKENS and 0 <= output_tokens <= MAX_USAGE_TOKENS):
        return None
    if not (cached_tokens or cache_write_tokens):  # as of nearly every call
        return Usage(input_tokens, output_tokens)
    in_order = cached_tokens >= 0 and cache_write_tokens >= 0
    if not in_order or cached_tokens + cache_write_tokens > input_tokens:
        return Usage(input_tokens, output_tokens)
    return Usage(input_tokens, output_tokens, cached_tokens, cache_write_tokens)


MAX_NAME_CHARS: Final = 200
"""A served model's name is stored with each reply: a server may send any length."""


def served_name(name: object) -> str:
    """The model's name in a reply, cut to MAX_NAME_CHARS; "" where there is none."""
    return str(name or "")[:MAX_NAME_CHARS]


class Api(Protocol):
    """What a module of this folder defines.

    Where the path depends on the model, a module defines `path(spec)` in the place of PATH. It may also define
    `from_events(values, done)`: it puts the JSON values of server-sent events together, as `reply` reads them (see
    `bodies`), for servers that stream although they are asked not to.
    """

    @property
    def PATH(self) -> str:
        """The path of the chat resource, below the model's base_url."""

    def headers(self, key: str) -> dict[str, str]:
        """The request headers that are this API's own; `key` ("" for none) appears here and nowhere else."""

    def body(self, spec: ModelSpec, request: ChatRequest) -> bytes:
        """The JSON body of a request. A form that the server would not understand is left out by the caller."""

    def reply(self, parsed: Any, quotas: Quotas | None) -> Reply:
        """Read the JSON body of a response with status 200 and no error, to which `quotas` are added.

        Raises LookupError, TypeError, ValueError or AttributeError if it is not what the API promises.
        """


def load_api(name: str) -> Api:
    """The wire format called `name`. Raises LookupError if there is none, UsageError for a broken plug-in."""
    return cast(Api, plugins.load(plugins.APIS, name))


def request_path(api: Api, spec: ModelSpec) -> str:
    """The path below a model's base_url that its requests go to."""
    path = getattr(api, "path", None)
    if path is None:
        return api.PATH
    # A plug-in that fails here fails the step, not the run.
    return str(plugins.guarded(plugins.APIS, spec.api, path, spec))
