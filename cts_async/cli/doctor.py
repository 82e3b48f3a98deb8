"""`cts doctor`: check what a run needs. Each line says what was found, and what to do about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.cli import options
from cts_async.config import user_config_file, user_config_path
from cts_async.errors import (
    EXIT_OK,
    EXIT_SOME_FAILED,
    ContentRefused,
    CTSError,
    ParameterRefused,
    UsageError,
    install_command,
)
from cts_async.tables.output import print_json

if TYPE_CHECKING:
    from cts_async.llm.apis import Reply
    from cts_async.llm.catalog import Catalogue, ModelSpec, Tier
    from cts_async.llm.model import Client
    from cts_async.search.catalog import EngineSpec, ReaderSpec, SearchCatalogue

PACKAGES = (
    "aiohttp",
    "aiolimiter",
    "orjson",
    "anyio",
    "rich",
    "bm25s",
    "jieba",
    "json-repair",
    "trafilatura",
)

EXTRAS = {
    "local": ("xllamacpp",),
    "ltr": ("lightgbm", "scikit-learn"),
    "bertscore": ("bert-score",),
    "ray": ("ray", "grpcio"),
    "retrieval": ("ir-measures",),
}
"""Optional extras of this package, and the packages of each."""
MARK_WIDTH = 5
"""Columns of "ok", "FAIL" or "-" before a result, and of the gap behind it."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report; `ok` is None for something absent that a run does not need by default."""

    name: str
    ok: bool | None
    text: str


def doctor(
    ask: Annotated[
        list[str] | None,
        typer.Option(
            "--ask",
            metavar="MODEL",
            help="Send this model a question, and one behind a text of 10,000 tokens. Repeatable.",
            **options.PLAYER,
        ),
    ] = None,
    cheap: Annotated[
        bool,
        typer.Option("--cheap", help="Ask in the model's cheaper tier, and say which one the reply names."),
    ] = False,
    config: options.ConfigFile = None,
    trust_config: options.TrustConfig = False,
    as_json: options.AsJson = False,
) -> None:
    """Check Python, packages, keys, endpoints, search engines and page readers; with --ask, whether models answer.

    Keys are never shown. Exit code 1 if something fails; what is absent and not needed by every run is no failure.

    Example: cts doctor --ask local --ask gpt
    """
    from cts_async.llm.catalog import load_catalogue
    from cts_async.search.catalog import load_search

    file, user = options.config_file(config), user_config_file(os.environ)
    catalogue, tools = load_catalogue(user, file), load_search(user, file)
    # A question sends a key: a folder's cts.toml needs the same consent as in a run.
    asked = replace(catalogue, cheap=cheap)
    models = [asked.resolve(name, os.environ) for name in ask or ()]
    options.check_keys(file, options.config_consent(config, trust_config), models, user, players=ask or ())
    # Models that were named come first: the other checks take seconds, and forty lines.
    findings: list[CheckResult] = []
    for spec in models:
        if cheap and not spec.tier:
            text = "has no cheaper tier of the ordinary call: asked live"
            findings.append(CheckResult(f"tier {spec.name}", None, text))
        findings += _check_by_asking(spec, os.environ)
    if not as_json:
        _print(findings)
    machine = list(_check_machine(catalogue, tools))
    if not as_json:
        _print(machine)
    findings += machine
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(EXIT_SOME_FAILED)
    raise typer.Exit(EXIT_OK)


def _check_machine(catalogue: Catalogue, tools: SearchCatalogue) -> Iterator[CheckResult]:
    """Check all that needs no question to a model: packages, files, proxies, keys and endpoints."""
    yield from _packages()
    yield from _extras()
    yield _figures()
    yield _configuration(catalogue)
    yield from _proxies(os.environ)
    yield from _models(catalogue, os.environ)
    yield from _tools(tools, os.environ)


def _packages() -> Iterator[CheckResult]:
    """Check Python, the packages that every run needs, and the embedded model, which is optional."""
    import platform

    from cts_async.llm.local import MODEL_VARIABLE, check_digest, model_file

    yield CheckResult("python", True, platform.python_version())
    for package in PACKAGES:
        version = _version(package)
        text = version or f"not installed: pip install {package}"
        yield CheckResult(package, version is not None, text)
    own_model = bool(os.environ.get(MODEL_VARIABLE))
    try:
        path = model_file(os.environ)
    except UsageError as error:
        # A file that the user named is missed; the embedded one is absent unless it was asked for.
        absent = None
        if own_model:
            absent = False
        yield CheckResult("embedded model", absent, str(error))
        return
    try:
        # The user's own model has a digest that nobody here knows.
        if not own_model:
            check_digest(path)
        yield CheckResult("embedded model", True, str(path))
    except UsageError as error:
        yield CheckResult("embedded model", False, str(error))


def _extras() -> Iterator[CheckResult]:
    """Check which optional extras are installed; a run needs none of them."""
    for extra, packages in EXTRAS.items():
        installed: list[str] = []
        missing: list[str] = []
        for package in packages:
            version = _version(package)
            if version is None:
                missing.append(package)
            else:
                installed.append(f"{package} {version}")
        if missing:
            text = f"{missing[0]} is not installed: {install_command(extra)}"
            yield CheckResult(f"extra {extra}", None, text)
        else:
            yield CheckResult(f"extra {extra}", True, ", ".join(installed))


def _figures() -> CheckResult:
    """Check what `cts report --plots` needs."""
    from cts_async.pages.plots.image_files import FORMATS, check_export

    try:
        check_export(FORMATS)
    except UsageError as error:
        # No failure: only --plots needs them, which draws SVG, PNG and PDF with a browser.
        return CheckResult("figures", None, str(error))
    return CheckResult("figures", True, "cts report --plots finds kaleido and a browser")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _configuration(catalogue: Catalogue) -> CheckResult:
    """Name the user's files that were read."""
    files = ", then ".join(map(str, catalogue.files))
    if files:
        return CheckResult("configuration", True, files)
    user_file = user_config_path(os.environ) or "a home directory (HOME is not set)"
    text = f"neither ./cts.toml nor {user_file}; to add models, type cts init"
    return CheckResult("configuration", None, text)


def _proxies(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Name the proxies of the environment, without their credentials."""
    from yarl import URL

    from cts_async.llm.proxies import proxy_for

    # Each variable may be malformed by itself, and a SOCKS proxy is refused.
    for scheme in ("https", "http"):
        try:
            # A host of no one's (RFC 6761), so that only NO_PROXY=* exempts it.
            proxy = proxy_for(URL(f"{scheme}://proxied.invalid"), environ)
        except UsageError as error:
            yield CheckResult(f"proxy for {scheme}", None, str(error))
            continue
        if proxy is not None:
            text = f"{proxy.url} ({proxy.variable})"
            if proxy.headers:
                text += ", with a login"
            yield CheckResult(f"proxy for {scheme}", True, text)


def _models(catalogue: Catalogue, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the key and the address of every model, all hosts at the same time."""
    from cts_async.cli.drive import run_async

    specs: dict[str, ModelSpec] = {}
    for name in catalogue.models:
        try:
            specs[name] = catalogue.resolve(name, environ)
        except UsageError as error:
            yield CheckResult(f"model {name}", None, str(error))
    # Several models share a host: each address is tried once.
    remote = [spec for spec in specs.values() if not spec.embedded]
    by_address = {spec.base_url: spec for spec in remote}
    for spec in remote:
        for tier in spec.tiers.values():
            if tier.base_url:
                by_address[tier.base_url] = replace(spec, base_url=tier.base_url)
    reached = run_async(_reach, by_address, environ)
    for spec in remote:
        missing = catalogue.missing_variables(spec.name, environ, keys_only=True)
        reachable, endpoint = reached[spec.base_url]
        # Never False: a run needs few of the catalogue's models.
        ready = None
        if reachable and not missing:
            ready = True
        facts = [_key_fact(spec, missing[0] if missing else None), endpoint]
        if spec.address_hint:
            facts.append(spec.address_hint)
        for name, tier in spec.tiers.items():
            if tier.base_url and name != spec.tier:
                facts.append(f"tier {name}: {reached[tier.base_url][1]}")
        if spec.tier:
            facts.append(f"asked in the tier {spec.tier}")
        yield CheckResult(f"model {spec.name}", ready, f"{spec.model}: {'; '.join(facts)}")


def _tools(catalogue: SearchCatalogue, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check that each search engine and page reader has its key; nothing is sent to them."""
    from cts_async.protocol.config_trust import entry_of

    specs: list[EngineSpec | ReaderSpec] = list(catalogue.engines.values())
    specs += catalogue.readers.values()
    for spec in specs:
        missing = spec.missing_key(environ)
        ready = None
        if not missing:
            ready = True
        text = _key_fact(spec, missing)
        if spec.url:
            text += f"; {spec.url}{_through(spec.url, environ)}"
        yield CheckResult(entry_of(spec), ready, text)


def _key_fact(spec: ModelSpec | EngineSpec | ReaderSpec, missing: str | None) -> str:
    """Say whether a key is there; `missing` is the variable that is not set."""
    if missing:
        return f"{missing} is not set"
    if spec.key_env:
        return "key is set"
    return "needs no key"


def _through(url: str, environ: Mapping[str, str]) -> str:
    """Describe the proxy used for `url`, or why it cannot be used; "" without one."""
    from yarl import URL

    from cts_async.llm.proxies import proxy_for

    try:
        proxy = proxy_for(URL(url), environ)
    except UsageError as error:
        return f" ({error})"
    if proxy is None:
        return ""
    return f" through the {proxy}"


async def _reach(specs: Mapping[str, ModelSpec], environ: Mapping[str, str]) -> dict[str, tuple[bool, str]]:
    """Connect to each address as a call does, with TLS and proxy; returns success and a description by address."""
    import asyncio

    from cts_async.llm.model import Client

    async def connect(url: str, spec: ModelSpec) -> tuple[bool, str]:
        try:
            await client.reach(spec, timeout_s=5.0)
        except CTSError as error:
            return False, f"unreachable: {str(error).removeprefix(f'{spec.name}: ')}"
        return True, f"{url} reachable{_through(url, environ)}"

    async with Client(environ) as client:
        outcomes = await asyncio.gather(*(connect(url, spec) for url, spec in specs.items()))
    return dict(zip(specs, outcomes, strict=True))


QUESTION: Final = "What is the capital of France? Answer with one word."
LONG_PROMPT_TOKENS: Final = 10_000
"""About as many as an agent's conversation has after a few searches; at most 0.8 of the model's context_tokens."""
_SENTENCE: Final = "The ferry to the island leaves the quay in the morning and comes back when it is dark. "
_BYTES_PER_TOKEN: Final = 4.5
"""Of plain English in current tokenizers (o200k, Llama 3, Qwen 3), with the space before a word."""
UNTOLD: Final = "the server's usage does not tell whether it reads long prompts in full"
_CUT_SHARE: Final = 0.7
"""A server that counts less than this share of the tokens was sent more than it read."""


def _check_by_asking(spec: ModelSpec, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Ask a test question, and then one behind a long text, of which a server may silently read only a part."""
    from cts_async.cli.drive import run_async

    name = f"ask {spec.name}"
    try:
        answer, served_tier, cut = run_async(_question, spec, environ)
    except CTSError as error:
        yield CheckResult(name, False, str(error))
        return
    yield CheckResult(name, True, f"answers: {answer!r}")
    if spec.asked_tier is not None:
        yield _check_tier(spec, spec.asked_tier, served_tier)
    if cut:
        yield cut


def _check_tier(spec: ModelSpec, tier: Tier, served: str) -> CheckResult:
    """Say whether a reply was served in the tier that it was asked for in, by its own word."""
    from cts_async.llm.model import printable_name

    name = f"tier {spec.name}"
    share = f"at {tier.price:.0%} of the price"
    if not tier.named_in_reply:
        return CheckResult(name, True, f"{spec.tier} {share}, by its address {spec.base_url}")
    if served == tier.named_in_reply:
        return CheckResult(name, True, f"the reply was served in {spec.tier}, {share}")
    word = f"the reply names the tier {printable_name(served)}"
    if not served:
        word = "the reply names no tier"
    return CheckResult(name, None, f"asked in {spec.tier}, but {word}: such replies are priced in full")


async def _question(spec: ModelSpec, environ: Mapping[str, str]) -> tuple[str, str, CheckResult | None]:
    """The answer to the test question, the tier that served it by its own word, and what a long prompt shows."""
    from contextlib import AsyncExitStack

    from cts_async.llm.json_text import split_thoughts
    from cts_async.llm.local import serving
    from cts_async.llm.model import Client

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(environ))
        if spec.embedded:
            spec = await stack.enter_async_context(serving(spec, environ))
        reply = await _chat(client, spec, QUESTION)
        if reply.refused:  # a filter of the provider's, with HTTP 200
            raise ContentRefused(f"{spec.name}: {reply.refused}")
        # Some servers leave a model's thoughts in its text.
        answer = split_thoughts(reply.text)[1].strip()[:80]
        # The embedded model's context is known, and a long prompt takes it a minute.
        if spec.embedded:
            return answer, reply.tier, None
        if reply.usage is None or reply.usage.input_tokens <= 0:
            return (
                answer,
                reply.tier,
                CheckResult(f"long prompt {spec.name}", None, f"{UNTOLD}: it reports no usage"),
            )
        return answer, reply.tier, await _long_prompt(client, spec, reply.usage.input_tokens)


async def _chat(client: Client, spec: ModelSpec, question: str) -> Reply:
    from cts_async.llm.apis import ChatRequest

    message = {"role": "user", "content": question}
    params: Mapping[str, Any] = {}
    if spec.asked_tier is not None:
        params = spec.asked_tier.params
    while True:
        try:
            return await client.chat(spec, ChatRequest((message,), params))
        except ParameterRefused:  # the client omits that parameter from now on
            continue


async def _long_prompt(client: Client, spec: ModelSpec, short_tokens: int) -> CheckResult:
    """Say whether the server reads a long prompt in full, by its usage, or that this does not tell."""
    from cts_async.llm.prompt_cuts import cut_prompt_text

    name = f"long prompt {spec.name}"
    tokens = LONG_PROMPT_TOKENS
    if spec.context_tokens:
        tokens = min(tokens, int(0.8 * spec.context_tokens))
    # The question comes last: servers that cut drop the beginning, or the middle, and answer all the same.
    text = _SENTENCE * round(tokens * _BYTES_PER_TOKEN / len(_SENTENCE))
    try:
        reply = await _chat(client, spec, f"{text}\n\n{QUESTION}")
    except CTSError as error:
        problem = f"a prompt of about {tokens:,} tokens gets no answer (context_tokens?): {error}"
        return CheckResult(name, None, problem)
    counted = 0
    if reply.usage is not None:
        counted = reply.usage.input_tokens
    if counted <= short_tokens:
        # Some servers count the same whatever is sent, or leave cached tokens out.
        problem = f"{UNTOLD}: it counts {counted:,} tokens for it, and {short_tokens:,} for a short one"
        return CheckResult(name, None, problem)
    if counted < _CUT_SHARE * tokens:
        return CheckResult(name, False, cut_prompt_text(spec.name, counted, tokens))
    return CheckResult(name, True, f"all of about {tokens:,} tokens are read")


def _print(findings: list[CheckResult]) -> None:
    from rich.console import Console

    from cts_async.tables.output import wrapped

    console = Console(emoji=False)
    width = sys.maxsize  # a log or a pipe gets whole lines
    if console.is_terminal:
        width = console.width
    marks = {True: "[green]ok[/green]   ", False: "[red]FAIL[/red] ", None: "[yellow]-[/yellow]    "}
    for finding in findings:
        console.print(marks[finding.ok], end="")
        # The mark stands in the leading spaces of the first line; further lines begin below its text.
        text = wrapped(f"{' ' * MARK_WIDTH}{finding.name}: {finding.text}", width)[MARK_WIDTH:]
        console.print(text, markup=False, highlight=False, soft_wrap=True)
