"""A model in use: the client that makes one attempt, and the durable step that asks one question.

One pool of connections serves all providers. The lanes limit them, not the pool, and every request has a deadline: one
that hangs cannot hold an instance for ever.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from types import MappingProxyType, TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

import aiohttp
import orjson

from cts_async import __version__, plugins
from cts_async.engine.events import Events, Notice, Usage
from cts_async.engine.lane import Lane
from cts_async.engine.prices import Prices, usage_json
from cts_async.engine.ratelimit import Quotas
from cts_async.engine.reuse import ReuseRule
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, RetryPolicy, Step, step_key
from cts_async.errors import (
    ContentRefused,
    ParameterRefused,
    PromptTooLong,
    ProviderRefused,
    RejectedError,
    TransientError,
    UnusableOutput,
)
from cts_async.llm.apis import Api, ChatRequest, Message, Reply, load_api, request_path
from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.llm.http import ENCODINGS, ConnectionPool, HttpEndpoint, encode_headers
from cts_async.llm.json_text import split_thoughts
from cts_async.llm.params import output_limit, uncounted_bytes
from cts_async.llm.parsing import Expect
from cts_async.llm.prompt_cuts import PromptCuts, cut_prompt_text
from cts_async.llm.redact import SECRETS
from cts_async.llm.refusals import (
    error_from_response,
    is_error_resource,
    refused_parameter,
    refuses_tier,
    setting_hint,
)
from cts_async.llm.responses import LENGTH, STOP, read_reply
from cts_async.records import value

T = TypeVar("T")

# --- One attempt ----------------------------------------------------------------------------------------

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": ENCODINGS,
    "User-Agent": f"cts-async/{__version__}",
}


LOOK_EVERY_S: Final = 0.05
"""How often the limits in a server's headers are read while much of them remains: reading nine headers of each reply
costs as much as sending the request."""
PLENTY_SHARE: Final = 0.25
PLENTY_REQUESTS: Final = 2_000.0
PLENTY_TOKENS: Final = 20_000_000.0
"""Much remains: this share of a limit, or more than one process sends between two looks (10,000 requests a second, a
thousand in flight, of 10,000 tokens each)."""


@dataclass(slots=True)
class _Route:
    """What is the same for all calls of a model with a key: its API, the request's headers, where it is sent."""

    api: Api
    head: bytes
    endpoint: HttpEndpoint
    next_look: float = 0.0
    """The Unix time until which the limits in its headers need not be read again."""


def _pause_between_looks(quotas: Quotas) -> float:
    """Seconds until the limits in headers are read again; 0 while little of one remains, or nobody knows."""
    for quota, plenty in ((quotas.requests, PLENTY_REQUESTS), (quotas.tokens, PLENTY_TOKENS)):
        if quota is None:
            continue
        if quota.remaining is None or quota.remaining < min(plenty, PLENTY_SHARE * quota.limit):
            return 0.0
    return LOOK_EVERY_S


class Client:
    """Use as `async with Client(environ) as client`. Keys are read from `environ` and stored nowhere else."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._routes: dict[tuple[str, str, str], _Route] = {}
        """By the model's name, its address and its key."""
        self._refused: dict[tuple[str, str], tuple[str, ...]] = {}
        """Parameters that a server has refused, by its address and model id."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=ConnectionPool(self._environ))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        """Make one attempt. Raises TransientError, RejectedError (StepErrors) or ProviderRefused (stops the run).

        A parameter that the server refuses (ParameterRefused) is never sent to it again.
        """
        dropped: tuple[str, ...] = ()
        refused: tuple[str, ...] = ()
        if self._refused:
            refused = self._refused.get((spec.base_url, spec.model), ())
        if refused:
            # What the reply is marked with: a refused `stream`, which is no parameter of the model, changes nothing.
            sent = spec.sent(request.params)
            dropped = tuple(name for name in refused if name in sent)
            spec = replace(spec, drops=spec.drops + refused)
        key = ""
        if spec.key_env:
            key = self._environ.get(spec.key_env, "").strip()
        route = self._routes.get((spec.name, spec.base_url, key))
        if route is None:
            route = self._route(spec, key)
        api = route.api
        try:
            body = api.body(spec, request)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            # A form of somebody else's: its mistake is this step's failure, and no reason to end the run.
            problem = f"{type(error).__name__}: {error}"
            raise RejectedError(
                f"{spec.name}: the request cannot be written (api = {spec.api!r}): {problem}"
            ) from error
        try:
            response = await route.endpoint.send(route.head, body, spec.timeout_s, spec.idle_timeout_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            address = f"{spec.name}: {spec.base_url}"
            raise route.endpoint.failure(error, address, spec.timeout_s, spec.idle_timeout_s) from None
        # An error may repeat the key it was sent, and so may a careless gateway anywhere.
        data = SECRETS.body(response.data, good=response.status == 200)
        now = time.time()
        looks = not now < route.next_look < now + LOOK_EVERY_S  # else the clock was set back
        try:
            reply = read_reply(api, spec, response.status, response.headers, data, now, with_limits=looks)
        except (ContentRefused, PromptTooLong):
            raise
        except RejectedError as error:
            raise self.explain_rejection(error, spec, request, body, data) from None
        if reply.quotas is not None:
            route.next_look = now + _pause_between_looks(reply.quotas)
        if dropped:
            return replace(reply, dropped=dropped)
        return reply

    def explain_rejection(
        self, error: RejectedError, spec: ModelSpec, request: ChatRequest, body: bytes, data: bytes
    ) -> RejectedError | ProviderRefused:
        """The error to raise for a rejected request: for a tier that the model lacks, for a parameter that is left out
        from now on, or with a hint."""
        if spec.asked_tier is not None and refuses_tier(error.status, data, spec.asked_tier):
            return ProviderRefused(
                f"{error} (the tier {spec.tier} is refused for {spec.model}: ask it live, without --cheap and without "
                "tier in cts.toml; the same command resumes)"
            )
        defaults = request.defaults.difference(spec.drops)
        # By the error's own status: some gateways send errors under HTTP 200.
        parameter = refused_parameter(error.status, data, orjson.loads(body), defaults)
        if parameter is not None:
            server = spec.base_url, spec.model
            refused = self._refused.get(server, ())
            # Requests in flight together may all be told of the same parameter.
            if parameter not in refused:
                self._refused[server] = (*refused, parameter)
            return ParameterRefused(str(error), parameter=parameter, status=error.status)
        hint = setting_hint(spec, error.status, data, spec.sent(request.params))
        if hint:
            return RejectedError(f"{error} ({hint})", status=error.status)
        return error

    async def request(
        self,
        spec: ModelSpec,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
        timeout_s: float,
        max_bytes: int | None = None,
        once: bool = False,
        is_file: bool = False,
    ) -> bytes:
        """Ask for another resource of the model's server than its chat; return the body of a successful response.

        `path` stands below base_url. A request that must not be sent twice is sent `once`. The body is as it came: the
        caller takes keys out of it. Unless it `is_file`, whose lines may speak of errors, an error under HTTP 200 is
        one here, too. Raises as `chat` does.
        """
        if self._session is None:
            raise RuntimeError("the client is not open")
        api, key = load_api(spec.api), self.key(spec)
        SECRETS.add(key)
        headers = {**_HEADERS, "Content-Type": content_type, **api.headers(key)}
        endpoint = HttpEndpoint(self._session, spec.base_url + path, method)
        try:
            response = await endpoint.send(
                encode_headers(headers), body, timeout_s, max_bytes=max_bytes, reuse=not once
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise endpoint.failure(error, f"{spec.name}: {spec.base_url}", timeout_s) from None
        if not 200 <= response.status < 300:
            data = SECRETS.body(response.data)
            raise error_from_response(spec, response.status, response.headers, data, time.time())
        if not is_file and is_error_resource(response.data):
            data = SECRETS.body(response.data)
            refusal = error_from_response(spec, 200, response.headers, data, time.time())
            if isinstance(refusal, TransientError) and refusal.status == 200:
                # Of no known kind: the server says that it has not done what it was asked, and no more.
                raise RejectedError(str(refusal), status=200)
            raise refusal
        return response.data

    def key(self, spec: ModelSpec) -> str:
        """The model's key; "" where it needs none. Raises ProviderRefused for one that cannot be sent."""
        key = ""
        if spec.key_env:
            key = self._environ.get(spec.key_env, "").strip()
        if not key.isprintable():
            raise ProviderRefused(
                f"{spec.name}: {spec.key_env} is no key: it has line breaks or other control characters inside"
            )
        return key

    def refused_parameters(self, spec: ModelSpec) -> tuple[str, ...]:
        """The parameters that the model's server has refused so far, which are not sent any more."""
        return self._refused.get((spec.base_url, spec.model), ())

    def check_proxy(self, spec: ModelSpec) -> None:
        """Raise UsageError if the proxy that leads to the model cannot be used."""
        self._endpoint(spec)

    async def reach(self, spec: ModelSpec, timeout_s: float) -> None:
        """Connect to the model's server, with TLS and through the proxy. Raises as `chat` does."""
        endpoint = self._endpoint(spec)
        try:
            await endpoint.reach(timeout_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise endpoint.failure(error, f"{spec.name}: {spec.base_url}", timeout_s) from None

    def _route(self, spec: ModelSpec, key: str) -> _Route:
        if not key.isprintable():
            raise ProviderRefused(
                f"{spec.name}: {spec.key_env} is no key: it has line breaks or other control characters inside"
            )
        api = load_api(spec.api)
        SECRETS.add(key)
        own_headers = plugins.guarded(plugins.APIS, spec.api, api.headers, key)
        route = _Route(api, encode_headers({**_HEADERS, **own_headers}), self._endpoint(spec))
        self._routes[spec.name, spec.base_url, key] = route
        return route

    def _endpoint(self, spec: ModelSpec) -> HttpEndpoint:
        if self._session is None:
            raise RuntimeError("the client is not open")
        return HttpEndpoint(self._session, spec.base_url + request_path(load_api(spec.api), spec))


# --- One question, as a durable step --------------------------------------------------------------------

_NO_NAMES: Final[frozenset[str]] = frozenset()
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})
QUOTED_CHARS = 2000
"""How much of an unusable reply is quoted when the model is asked again."""


@value
class ModelCall(Generic[T]):
    """One question to a model, as a step named `step`, whose reply has the form `expect`."""

    step: str
    messages: Sequence[Message]
    expect: Expect[T]
    request: Any
    """What is new in the messages, for the journal."""
    key_on: Any = None
    """Stands for the messages in the step's key where that is cheaper: a digest of a long conversation."""
    params: Mapping[str, Any] | None = None
    defaults: Mapping[str, Any] | None = None
    """Parameters that are sent where neither `params` nor the model's own set them. The key does not have them, as
    versions that sent none made the same keys."""
    shared: bool = False
    """True if the step is the same for all instances."""
    policy: RetryPolicy | None = None
    """The step's own retry policy; None: the runner's."""
    notes: Any = None
    """As in `Step`."""
    name: str = ""
    """The step's name where that is no part of its key; "": `step`."""
    as_recorded: bool = False
    """True if the result is the response as the journal has it, and not what `expect` reads in it."""
    repeated_chars: int = 0
    """As in `ChatRequest`; determines nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallParams:
    """What a call's parameters determine: made once for calls that are given the very same ones, as those of a role."""

    call_params: Mapping[str, Any] | None
    """The `params` of the `ModelCall`."""
    call_defaults: Mapping[str, Any] | None
    """Its `defaults`."""
    with_text_params: bool
    """True if the model's parameters for replies in text are among them."""
    keyed: Mapping[str, Any]
    """Those that are part of the step's key."""
    sent: Mapping[str, Any]
    """Those of the request: with defaults, and those of the tier."""
    default_names: frozenset[str]
    """The names of the defaults that are sent."""
    reuse: ReuseRule
    output_limit: int | None
    n_bytes: int
    """Bytes of those that the model reads beside the messages."""

    def serves(self, call: ModelCall[Any], *, with_text_params: bool) -> bool:
        """True if these are the parameters of a call, too."""
        # By identity: to compare them would take as long as to make them.
        is_same = self.call_params is call.params and self.call_defaults is call.defaults
        return is_same and self.with_text_params is with_text_params


class ChatClient(Protocol):
    """Who makes one attempt: by an ordinary call, or as a line of a batch."""

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        """As `Client.chat`."""


class Model:
    """A catalogue entry bound to its client and to its account's lane."""

    def __init__(
        self,
        spec: ModelSpec,
        client: ChatClient,
        lane: Lane,
        served: ServedModels | None = None,
        dearest_tier: str = "",
    ) -> None:
        """`dearest_tier` is the dearest tier in which it may be charged; "" for the ordinary one."""
        self.spec, self.lane, self._dearest_tier = spec, lane, dearest_tier
        self._client, self.served = client, served
        self._tokens = TokenEstimate()
        self._cuts = PromptCuts()
        self.prices = model_prices(spec)
        self._asked_tier = spec.asked_tier
        self._tier_params: Mapping[str, Any] = NO_PARAMS
        if self._asked_tier is not None:
            self._tier_params = self._asked_tier.params
        self._tiers_by_word = _tiers_by_word(spec)
        self._latest_params: _CallParams | None = None
        """Of the call before."""

    async def ask(self, ctx: Context, call: ModelCall[T]) -> T:
        """Ask the model, or return the reply that the journal has. Raises as `Context.step`."""
        return await ctx.step(self.step(ctx, call))

    def step(self, ctx: Context, call: ModelCall[T]) -> Step[T]:
        """The durable step of asking the model.

        Thoughts at the beginning of a reply are separated from it, unless they belong to its form (see `Expect`).
        """
        spec, messages, expect = self.spec, call.messages, call.expect
        with_text_params = bool(spec.text_params) and expect.json_schema is None
        params = self._latest_params
        if params is None or not params.serves(call, with_text_params=with_text_params):
            params = self._latest_params = self._params_of(call, with_text_params=with_text_params)
        limit, n_param_bytes = params.output_limit, params.n_bytes
        json_schema, grammar = self._enforced(expect)
        # Order and form of this list are every journal's: another one would execute all steps again.
        determining = [
            call.step,
            None if call.shared else ctx.job.id,
            spec.api,
            spec.model,
            messages if call.key_on is None else call.key_on,
            params.keyed,
            json_schema,
            grammar,
        ]
        if spec.system != "system":  # keys without it are those of earlier versions
            determining.append({"system": spec.system})
        key = step_key(*determining)
        n_messages, size = len(messages), n_bytes(messages) + n_param_bytes
        repeated_chars = 0
        if spec.cache_marks:
            repeated_chars = call.repeated_chars

        async def execute(unusable: UnusableOutput | None) -> Executed:
            sent, n_sent, sent_bytes = messages, n_messages, size
            n_repeated = repeated_chars
            if unusable:
                sent = (*messages, *_repair_turns(unusable))
                n_sent, sent_bytes = len(sent), n_bytes(sent) + n_param_bytes
                n_repeated = 0
            reply = await self._client.chat(
                spec,
                ChatRequest(sent, params.sent, json_schema, grammar, params.default_names, n_repeated),
            )
            response = self._response(reply, expect)
            usage = reply.usage
            if self._asked_tier is not None or reply.tier in self._tiers_by_word:
                usage = self._usage_in_tier(reply, response)
            if reply.usage:
                self._tokens.learn(call.step, n_sent, sent_bytes, reply.usage)
                self._note_cut(response, sent, sent_bytes, reply.usage.input_tokens)
            elif self.served:
                self.served.note_no_usage(spec.model)
            return Executed(response, usage, reply.quotas)

        def most_usage(unusable: UnusableOutput | None) -> Usage:
            sent = (*messages, *_repair_turns(unusable))
            most = self._tokens.most_usage(call.step, sent, limit, n_param_bytes)
            if self._dearest_tier:
                return most.in_tier(self._dearest_tier)
            if repeated_chars:
                # All of it may be written to a cache, which costs more than input where that has a price of its own.
                most = replace(most, cache_write_tokens=most.input_tokens)
            if self._asked_tier is not None and self._asked_tier.price > 1:
                # A faster tier costs more. A cheaper one may be served, and charged, as the ordinary one.
                most = most.in_tier(spec.tier)
            return most

        further_in = getattr(expect, "further_in", None)

        def decode(response: Mapping[str, Any]) -> T:
            parsed = _parse(response, expect)
            if further_in and (further := further_in(response["text"])):
                ctx.further[call.step] = further
            return parsed

        return Step(
            name=call.name or call.step,
            key=key,
            execute=execute,
            decode=_as_recorded if call.as_recorded else decode,
            request=call.request,
            model=spec.model,
            lane=self.lane,
            tokens=self._tokens.total(call.step, n_messages, size),
            reserved=self._tokens.reserved(n_messages, size, limit),
            most_usage=most_usage,
            policy=call.policy,
            prices=self.prices,
            notes=call.notes,
            reuse=params.reuse,
        )

    def _params_of(self, call: ModelCall[Any], *, with_text_params: bool) -> _CallParams:
        """The parameters of a call; those for replies in text are among them `with_text_params`."""
        params = call.params or NO_PARAMS
        if with_text_params:
            params = {**self.spec.text_params, **params}
        default_names, sent = _NO_NAMES, params
        if call.defaults:
            default_names = frozenset(call.defaults).difference(params)
            sent = {**call.defaults, **params}
        if self._tier_params:
            # No part of the key: the same model replies, whatever it costs.
            sent = {**sent, **self._tier_params}
        keyed = self.spec.sent(params)
        reuse = ReuseRule.SAMPLED
        if keyed.get("temperature") == 0:
            reuse = ReuseRule.FIXED
        elif call.defaults and "temperature" in default_names and call.defaults["temperature"] == 0:
            reuse = ReuseRule.FIXED_BY_DEFAULT
        return _CallParams(
            call_params=call.params,
            call_defaults=call.defaults,
            with_text_params=with_text_params,
            keyed=keyed,
            sent=sent,
            default_names=default_names,
            reuse=reuse,
            output_limit=output_limit(keyed),
            # Descriptions of tools and the like are charged as the prompt is.
            n_bytes=uncounted_bytes(keyed),
        )

    def _usage_in_tier(self, reply: Reply, response: dict[str, Any]) -> Usage | None:
        """The usage in the tier that the reply names; `response` notes a tier that is not the one asked for.

        A tier with an address of its own is named by that.
        """
        served, asked = self._tiers_by_word.get(reply.tier, ""), self._asked_tier
        if asked is not None and not asked.named_in_reply:
            served = self.spec.tier
        elif asked is not None and served != self.spec.tier:
            word = printable_name(reply.tier) or UNNAMED_TIER
            response["served_tier"] = word
            if self.served:
                self.served.note_tier(self.spec.model, self.spec.tier, word, is_priced=bool(served))
        if not served or reply.usage is None:
            return reply.usage
        return reply.usage.in_tier(served)

    def _note_cut(
        self, response: dict[str, Any], messages: Sequence[Message], n_bytes: int, counted: int
    ) -> None:
        """Mark a reply to a prompt that the server has cut with about how many tokens it had."""
        about = self._cuts.add(n_bytes, counted)
        # An image, which only a gateway sends, has many bytes and few tokens.
        if about is None or not all(isinstance(message["content"], str) for message in messages):
            return
        response["cut_prompt"] = about
        if self.served:
            self.served.note_cut(self.spec.model, counted, about)

    def _enforced(self, expect: Expect[Any]) -> tuple[Mapping[str, Any] | None, str | None]:
        """The JSON schema, or else the grammar, of the expected form that this server can enforce."""
        if self.spec.structured == "llama" and expect.grammar:
            return None, expect.grammar
        if self.spec.structured == "none":
            return None, None
        return expect.json_schema, None

    def _response(self, reply: Reply, expect: Expect[Any]) -> dict[str, Any]:
        """What the journal stores of a reply; fields with their usual value are left out."""
        keep = getattr(expect, "keeps_thoughts", False)
        thoughts, text = split_thoughts(reply.text, tags=not keep)
        response: dict[str, Any] = {"text": text}
        if reply.reasoning or thoughts:
            response["reasoning"] = "\n\n".join(filter(None, (reply.reasoning, thoughts)))
        if reply.finish_reason != STOP:
            response["finish_reason"] = reply.finish_reason
        if isinstance(expect, Completion):
            if reply.tool_calls:
                response["tool_calls"] = reply.tool_calls
            response["usage"] = None
            if reply.usage is not None:
                response["usage"] = usage_json(reply.usage)
        if reply.refused:
            response["refused"] = reply.refused
        if reply.model and reply.model != self.spec.model:
            response["served_model"] = reply.model
        if reply.dropped:
            response["dropped"] = list(reply.dropped)
        if self.served:
            self.served.note(self.spec.model, reply)
        return response


@dataclass(frozen=True, slots=True)
class Completion:
    """Any reply, whose response the journal stores with its usage and its calls of tools: for code of the user's."""

    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str | None] = None
    keeps_thoughts: ClassVar[bool] = True

    def parse(self, text: str) -> Mapping[str, Any]:
        return {"text": text}


def _as_recorded(response: Any) -> Any:
    return response


def model_prices(spec: ModelSpec) -> Prices | None:
    """A model's prices as the catalogue has them; None unless it has both."""
    if spec.input_usd_per_mtok is None or spec.output_usd_per_mtok is None:
        return None
    return Prices(
        spec.input_usd_per_mtok,
        spec.output_usd_per_mtok,
        spec.cached_input_usd_per_mtok,
        spec.cache_write_usd_per_mtok,
        tier_prices(spec),
    )


def tier_prices(spec: ModelSpec) -> dict[str, float]:
    """By tier, the factor over a model's prices."""
    return {name: tier.price for name, tier in spec.tiers.items()}


UNNAMED_TIER: Final = "not named"
"""What is noted of a reply that does not say in which tier it was served: it is charged in full."""


def _tiers_by_word(spec: ModelSpec) -> dict[str, str]:
    """A model's tiers by the word with which a reply names them; without those that are asked for by their address."""
    names: dict[str, str] = {}
    for name, tier in spec.tiers.items():
        if not tier.is_ordinary_call:
            names[name] = name
        elif tier.named_in_reply:
            names[tier.named_in_reply] = name
    return names


@lru_cache(maxsize=1)
def dearest_prices() -> tuple[str, Prices]:
    """The model of the shipped catalogue whose output costs most, and its prices."""
    prices_by_model: dict[str, Prices] = {}
    for name, spec in load_catalogue().models.items():
        prices = model_prices(spec)
        if prices is not None:
            prices_by_model[name] = prices
    dearest = max(prices_by_model, key=lambda name: prices_by_model[name].output_usd_per_mtok)
    return dearest, prices_by_model[dearest]


def unpriced_models(specs: Iterable[ModelSpec]) -> tuple[str, ...]:
    """Return the names of models whose prices are unknown."""
    return tuple(spec.name for spec in specs if model_prices(spec) is None)


def _parse(response: Mapping[str, Any], expect: Expect[T]) -> T:
    """The value in a stored reply, whose reasoning is ignored. Raises ContentRefused or UnusableOutput."""
    if "refused" in response:
        raise ContentRefused(response["refused"])
    text = response["text"]
    is_blank = not text.strip()
    if response.get("finish_reason") == LENGTH:
        place = ""
        if is_blank:
            place = " before its answer began"
        raise UnusableOutput(f"the reply was cut off by its token limit{place}; be shorter", text=text)
    if is_blank and response.get("reasoning"):
        raise UnusableOutput("the reply was all reasoning and no answer", text=text)
    if is_blank:
        raise UnusableOutput("the reply was empty", text=text)
    try:
        return expect.parse(text)
    except RecursionError:
        raise UnusableOutput("the reply is nested too deeply", text=text) from None


def _repair_turns(unusable: UnusableOutput | None) -> tuple[Message, ...]:
    """The turns that follow an unusable reply: the reply itself, and what was wrong with it."""
    if unusable is None:
        return ()
    complaint = (
        f"Your reply could not be used: {unusable.problem}. Answer again, in exactly the form asked for."
    )
    quoted: Message = {"role": "assistant", "content": unusable.text[:QUOTED_CHARS] or "(empty)"}
    return (quoted, {"role": "user", "content": complaint})


# --- Token estimates ------------------------------------------------------------------------------------

FIRST_PER_BYTE = 0.25
"""Tokens per UTF-8 byte before any usage was seen: four letters a token, or four ideographs in three tokens."""
SMALLEST_PER_BYTE = 0.05
"""No tokenizer has fewer: a server that says so miscounts."""
FIRST_OUTPUT = 256.0
PER_MESSAGE = 8.0
WEIGHT = 0.1
"""Weight of the newest observation in the moving averages."""
LEAST_PER_BYTE = 0.5
"""Twice what English has; Chinese has about a third."""
EXTRA_INPUT = 64.0
FIRST_MOST_OUTPUT, LEAST_MOST_OUTPUT = 4096, 1024
"""Upper estimates of a reply without a limit: before any was seen, and never less than the second."""


class TokenEstimate:
    """One model's tokens per byte of prompt and reply lengths by kind of step, learned from `usage`.

    The expected numbers are moving averages. The most that a call may be charged is for a budget that must not be
    exceeded: for the prompt, half again the most tokens per byte seen so far, at least LEAST_PER_BYTE, and EXTRA_INPUT
    for what a server adds of its own; for the reply, its limit if the request has one, else twice the longest reply to
    this kind of step so far.
    """

    def __init__(self) -> None:
        self._per_byte, self._most_per_byte = FIRST_PER_BYTE, LEAST_PER_BYTE
        self._output: dict[str, float] = {}
        self._longest: dict[str, int] = {}

    def total(self, step: str, n_messages: int, n_bytes: int) -> float:
        """Tokens of prompt and reply together."""
        return self._prompt(n_messages, n_bytes) + self._output.get(_step_kind(step), FIRST_OUTPUT)

    def reserved(self, n_messages: int, n_bytes: int, max_output: int | None) -> float:
        """Tokens of prompt and longest reply together; 0 where the request does not limit the reply."""
        if not max_output:
            return 0.0
        return self._prompt(n_messages, n_bytes) + max_output

    def most_usage(
        self, step: str, messages: Sequence[Message], max_output: int | None, n_param_bytes: int = 0
    ) -> Usage:
        """The most that a call is expected to be charged; `max_output` is the request's own limit.

        `n_param_bytes` are those of parameters that the model reads beside the messages.
        """
        if max_output is None:
            longest = self._longest.get(_step_kind(step))
            if longest is None:
                max_output = FIRST_MOST_OUTPUT
            else:
                max_output = max(LEAST_MOST_OUTPUT, 2 * longest)
        prompt = input_tokens(messages, self._most_per_byte) + self._most_per_byte * n_param_bytes
        return Usage(ceil(EXTRA_INPUT + prompt), max_output)

    def learn(self, step: str, n_messages: int, n_bytes: int, usage: Usage) -> None:
        """Update the estimates with what a call was charged."""
        tokens = usage.input_tokens - PER_MESSAGE * n_messages
        n_bytes = n_bytes or 1
        per_byte = tokens / n_bytes
        if per_byte < SMALLEST_PER_BYTE:
            per_byte = SMALLEST_PER_BYTE
        self._per_byte += WEIGHT * (per_byte - self._per_byte)
        most_per_byte = 1.5 * (tokens - EXTRA_INPUT) / n_bytes
        if most_per_byte > self._most_per_byte:
            self._most_per_byte = most_per_byte
        kind, output = _step_kind(step), usage.output_tokens
        if kind not in self._longest:
            self._output[kind], self._longest[kind] = float(output), output
        self._output[kind] += WEIGHT * (output - self._output[kind])
        if output > self._longest[kind]:
            self._longest[kind] = output

    def _prompt(self, n_messages: int, n_bytes: int) -> float:
        return PER_MESSAGE * n_messages + self._per_byte * n_bytes


def input_tokens(messages: Sequence[Message], per_byte: float = FIRST_PER_BYTE) -> float:
    """Estimated tokens of a prompt."""
    return PER_MESSAGE * len(messages) + per_byte * n_bytes(messages)


def n_bytes(messages: Sequence[Message]) -> int:
    """UTF-8 bytes of the messages' contents."""
    size = 0
    for message in messages:
        text = message["content"]
        if type(text) is str and len(message) == 2:
            if text.isascii():  # on the way of every call: to encode it would copy it
                size += len(text)
            else:
                size += len(text.encode())
        else:
            # Calls of tools beside a text, or parts of several kinds, which only a gateway sends: all of it is read.
            size += len(orjson.dumps(message))
    return size


@lru_cache(maxsize=256)  # asked twice for every call
def _step_kind(step: str) -> str:
    """The kind of a step, whose replies are of like length: `judge` for `judge/gpt`, `search` for `search/turn/3`."""
    return step.split("/", 1)[0]


# --- Which model replied --------------------------------------------------------------------------------
# Providers retire models, reroute names, and say so only in the reply.

_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_SNAPSHOT: Final = re.compile(
    rf"""[-@:.](?:
        20\d\d-?{_MONTH}-?\d\d      # 2025-12-11, 20250929
        | \d\d{_MONTH}\d\d          # 251211
        | \d\d{_MONTH} | {_MONTH}\d\d | {_MONTH}-\d\d   # 2507, 0905, 05-06
        | 0\d\d                     # 001
        | latest
    )""",
    re.VERBOSE,
)


@lru_cache(maxsize=256)
def is_other_model(requested: str, served: str) -> bool:
    """True if `served`, by a reply's own word, is another model than the one requested; False for an empty word.

    A snapshot is the same model: its name with a date or a numbered release behind it (`gpt-5.2` served by
    `gpt-5.2-2025-12-11`), and `NAME-latest` requests any of them. Case and folders in front (`models/`, `openai/`) do
    not matter.
    """
    requested_name, served_name = _bare_name(requested), _bare_name(served)
    if not served_name or served_name == requested_name:
        return False
    requested_name = requested_name.removesuffix("-latest")
    if served_name == requested_name:
        return False
    is_snapshot = _SNAPSHOT.fullmatch(served_name, len(requested_name))
    return not (served_name.startswith(requested_name) and is_snapshot)


def _bare_name(name: str) -> str:
    return name.strip().rpartition("/")[2].lower()


def printable_name(name: str) -> str:
    """A model's name as it may be printed: a server may call itself anything."""
    return "".join(c if c.isprintable() else "?" for c in name[:80])


MAX_SERVED_NOTICES: Final = 50
"""A server may name another model in each reply."""


class ServedModels:
    """Emits one notice for every model that replies in place of another, without a parameter, to a cut prompt, in
    another tier than it was asked in, or without naming its tokens."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._noticed: set[str] = set()
        self._cut: set[str] = set()
        self._without_usage: set[str] = set()
        self._other_tiers: set[tuple[str, str]] = set()

    def note_tier(self, model: str, asked: str, served: str, *, is_priced: bool = False) -> None:
        """Emit, once for each model and tier, that a reply was served in another tier than it was asked for in;
        `is_priced` if that tier has a price of its own."""
        if (model, served) in self._other_tiers or len(self._other_tiers) >= MAX_SERVED_NOTICES:
            return
        self._other_tiers.add((model, served))
        name = printable_name(model)
        priced = "priced in full"
        if is_priced:
            priced = "priced as such"
        self._events.emit(Notice(f"{name} was asked in the tier {asked}, a reply says {served}: {priced}"))

    def note_cut(self, model: str, counted: int, sent: int) -> None:
        """Emit, once for each model, that its server cuts prompts; both numbers are tokens."""
        if model not in self._cut:
            self._cut.add(model)
            self._events.emit(Notice(cut_prompt_text(printable_name(model), counted, sent)))

    def note_no_usage(self, model: str) -> None:
        """Emit, once for each model, that a reply named no tokens."""
        if model not in self._without_usage:
            self._without_usage.add(model)
            name = printable_name(model)
            self._events.emit(
                Notice(f"{name}: a reply names no tokens; its tokens and dollars are unknown, and in no sum")
            )

    def note(self, requested: str, reply: Reply) -> None:
        """Emit what is new in a reply to a request for `requested`."""
        if not reply.dropped and not is_other_model(requested, reply.model):
            return  # on the way of every call
        name, texts = printable_name(requested), []
        if is_other_model(requested, reply.model):
            texts.append(f"{name} was requested, {printable_name(reply.model)} replies")
        texts += [f"{name} refuses the parameter {parameter}: sent without it" for parameter in reply.dropped]
        for text in texts:
            if text in self._noticed or len(self._noticed) > MAX_SERVED_NOTICES:
                continue
            if len(self._noticed) == MAX_SERVED_NOTICES:
                self._events.emit(Notice(f"{name}: replies name still more models; summary.json counts them"))
            else:
                self._events.emit(Notice(text))
            self._noticed.add(text)
