"""Which keys and data a run sends where, and whether a cts.toml found in the working directory may decide that.

A directory can come from anybody. Its cts.toml could point a known model at another host, name any variable as a key
(compare CVE-2026-21852, a project's settings that override a base URL), have a role played by a model that nobody named,
or lower the price that a budget counts. So there is one rule: whatever leaves this machine because of a folder's
cts.toml, and is not what the trusted files send in the same place, needs the user's consent. Without consent it may set
limits and the like (`_HARMLESS`), and add what stays on this machine.

Naming a file with --config is consent, and so is setting a variable in the environment. The user's own cts.toml, which
nobody else can write (`config.user_config_file`), is as trusted as the shipped catalogue.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from yarl import URL

from cts_async.config import SET_HOME, config_home, home_folder
from cts_async.errors import UsageError, write_error
from cts_async.llm.catalog import Catalogue, ModelSpec, load_catalogue
from cts_async.protocol.systems import PAPER_AGENT, PAPER_SUPPORT
from cts_async.safe_files import replace_file
from cts_async.search.catalog import EngineSpec, ReaderSpec, load_search

__all__ = ["Concern", "Trust", "concerns", "is_trusted", "remember", "sent_keys", "trust_in"]

Spec = ModelSpec | EngineSpec | ReaderSpec

_USUAL_KEY: Final = re.compile(r"\w+_API_KEY")
_USUAL_MODEL: Final = re.compile(r"\w+_MODEL(?:_NAME)?")
_HARMLESS: Final = frozenset(
    {
        # How fast and how much at once.
        *("account", "limit", "limits_fixed", "max_concurrency", "requests_per_min", "tokens_per_min"),
        *("window_s", "timeout_s", "idle_timeout_s", "rate_limit_words"),
        # How much text goes into a request, and what is read of an answer.
        *(
            "agent",
            "agent_prompt",
            "context_tokens",
            "judge_nuggets",
            "max_bytes",
            "max_chars",
            "max_redirects",
        ),
        *("text", "title", "results", "hit_fields"),
        # What is only shown. `usd_per_1000` is for forecasts: no budget counts searches.
        *("name", "note", "engine", "usd_per_1000", "price_source"),
    }
)
"""Fields of an entry that a folder may set: nothing goes elsewhere, and what is paid is counted."""
_SAMPLING: Final = frozenset(
    {
        *("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "reasoning_effort"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty"),
    }
)
"""Request parameters that a folder may set as plain values: others can name tools, plug-ins, other models or hosts."""
_PRICES: Final = ("input_usd_per_mtok", "output_usd_per_mtok")
_ROLE_DEFAULTS: Final = {"support": PAPER_SUPPORT, "judge": PAPER_SUPPORT, "agent": PAPER_AGENT}


@dataclass(frozen=True, slots=True)
class Concern:
    """Something a table of a file would do that needs consent; `entry` is e.g. "model mine" or "search brave"."""

    entry: str
    text: str
    by_role: bool = False
    """True if it is about `[roles]`: no concern where the user names that model."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How files differ from the shipped catalogues: which file each entry comes from, and what needs consent."""

    sources: Mapping[str, Path] = field(default_factory=dict)
    concerns: tuple[Concern, ...] = ()

    def concerns_of(self, used: Iterable[Spec], named: Iterable[str] = ()) -> tuple[Concern, ...]:
        """All concerns of the file if any is about what is `used`, else none: consent is given to the whole file.

        `named` are the models that the user named.
        """
        entries = {entry_of(spec) for spec in used}
        chosen = {f"model {_alias(name)}" for name in named}
        for concern in self.concerns:
            if concern.entry in entries and not (concern.by_role and concern.entry in chosen):
                return self.concerns
        return ()


def trust_in(file: Path | None, user: Path | None = None) -> Trust:
    """Compare `file` with the shipped catalogues, and the `user`'s own file over them. Raises InputError."""
    shipped = _by_entry()
    trusted = _by_entry(user) if user else shipped
    sources = {entry: user for entry, spec in trusted.items() if user and shipped.get(entry) != spec}
    if file is None:
        return Trust(sources)
    read = _by_entry(user, file)
    own = {entry: spec for entry, spec in read.items() if trusted.get(entry) != spec}
    found = [*concerns(own, trusted, file.resolve().parent), *_role_concerns(file, user)]
    return Trust({**sources, **dict.fromkeys(own, file)}, tuple(found))


def concerns(own: Mapping[str, Spec], trusted: Mapping[str, Spec], folder: Path) -> Iterator[Concern]:
    """What needs consent in a file's `own` tables, given the `trusted` ones, both by entry; the file is in `folder`.

    Where a table has a concern about its key or its host, that is all that is said of it.
    """
    hosts: dict[str, set[str]] = defaultdict(set)
    variables: dict[str, set[str | None]] = defaultdict(lambda: {None})
    for spec in trusted.values():
        if spec.key_env:
            hosts[spec.key_env].add(_origin(spec))
            variables[spec.key_env].add(_address_env(spec))
    model_variables = {spec.model_env for spec in trusted.values() if isinstance(spec, ModelSpec)}
    for entry, spec in own.items():
        before = trusted.get(entry)
        texts = list(_key_concerns(entry, spec, hosts, variables))
        model_env = spec.model_env if isinstance(spec, ModelSpec) else None
        if model_env not in model_variables and not _USUAL_MODEL.fullmatch(model_env or ""):
            texts.append(f"send the value of {model_env} to {_where(spec)} ({entry})")
        texts += _private_concerns(entry, spec, before, folder)
        if not texts:
            texts += _change_concerns(entry, spec, before)
        for text in (*texts, *_price_concerns(entry, spec, before)):
            yield Concern(entry, text)


def _key_concerns(
    entry: str, spec: Spec, hosts: Mapping[str, set[str]], variables: Mapping[str, set[str | None]]
) -> Iterator[str]:
    """A trusted entry's key that is sent elsewhere, under whatever name, and a variable that is named like no key."""
    key, origin, variable = spec.key_env, _origin(spec), _address_env(spec)
    if not key:
        return
    if key not in hosts:
        if not _USUAL_KEY.fullmatch(key):
            yield f"send {key} to {_where(spec)} ({entry})"
        return
    elsewhere = origin not in hosts[key]
    if elsewhere or variable not in variables[key]:
        where = _where(spec) if elsewhere else f"the address in {variable}"
        yield f"send {key} to {where} ({entry}; it belongs to {', '.join(sorted(hosts[key]))})"


def _private_concerns(entry: str, spec: Spec, before: Spec | None, folder: Path) -> Iterator[str]:
    """Private pages, and files outside the file's own folder, which a model would be shown."""
    if isinstance(spec, ReaderSpec):
        known = before.allow if isinstance(before, ReaderSpec) else ()
        allow = [place for place in spec.allow if place not in known]
        if allow:
            yield f"fetch private pages at {', '.join(allow)} ({entry})"
    path = getattr(spec, "path", None)
    if path is None or path == getattr(before, "path", None):
        return
    if not path.resolve().is_relative_to(folder):
        yield f"read documents at {path}, outside of its folder ({entry})"


def _change_concerns(entry: str, spec: Spec, before: Spec | None) -> Iterator[str]:
    """What leaves this machine otherwise than the trusted entry has it, if there is one."""
    if _stays_here(spec):
        return
    key = f" with {spec.key_env}" if spec.key_env else ""
    if before is None or _where(spec) != _where(before):
        yield f"send all that is asked of {entry} to {_where(spec)}{key}"
        return
    changed = [name for name in _changed_fields(spec, before) if not _is_harmless(name, spec, before)]
    if changed:
        yield f"change {', '.join(changed)} of what is sent to {_where(spec)}{key} ({entry})"


def _price_concerns(entry: str, spec: Spec, before: Spec | None) -> Iterator[str]:
    """A price below the trusted one, or where none is known: --max-usd would count less than is paid."""
    if not isinstance(spec, ModelSpec) or not isinstance(before, ModelSpec):
        return
    for name in _PRICES:
        price, usual = getattr(spec, name), getattr(before, name)
        if price != usual and (usual is None or price is None or price < usual):
            yield f"count {name} = {price:g} instead of {usual or 'unknown'} ({entry})"


def _role_concerns(file: Path, user: Path | None) -> Iterator[Concern]:
    """Models that the file's `[roles]` has asked in the place of those that the trusted files name."""
    trusted, read = load_catalogue(user), load_catalogue(user, file)
    usual = {**_ROLE_DEFAULTS, **trusted.roles}
    roles: dict[str, list[str]] = defaultdict(list)
    for role, name in read.roles.items():
        if name != usual.get(role):
            roles[name].append(role)
    for name, played in roles.items():
        spec = _model_named(name, read)
        if not _stays_here(spec):
            key = f" with {spec.key_env}" if spec.key_env else ""
            text = (
                f"send what the {' and the '.join(played)} is asked to {_where(spec)}{key} ([roles], {name})"
            )
            yield Concern(entry_of(spec), text, by_role=True)


def _model_named(name: str, catalogue: Catalogue) -> ModelSpec:
    """The entry of a name in `[roles]`, all of which can be found."""
    return catalogue.models[_alias(name)]


def _changed_fields(spec: Spec, before: Spec) -> list[str]:
    now, then = _fields(spec), _fields(before)
    return [name for name in now if now[name] != then.get(name)]


def _fields(spec: Spec) -> dict[str, Any]:
    """The fields of an entry by name; without a key, those that say how one is sent have no meaning."""
    fields = asdict(spec) if isinstance(spec, ModelSpec) else spec.model_dump()
    if not spec.key_env:
        for name in ("key_env", "key_header", "key_format"):
            fields.pop(name, None)
    return fields


def _is_harmless(name: str, spec: Spec, before: Spec) -> bool:
    """Whether a folder may change a field of a trusted entry; prices are looked at apart."""
    if name in _HARMLESS or name in _PRICES:
        return True
    if name not in ("params", "text_params"):
        return False
    now, then = getattr(spec, name), getattr(before, name)
    if not isinstance(spec, ModelSpec):
        return bool(now == then)
    for parameter in {*now, *then}:
        value = now.get(parameter)
        if value != then.get(parameter) and (parameter not in _SAMPLING or isinstance(value, (dict, list))):
            return False
    return True


def _stays_here(spec: Spec) -> bool:
    """Whether what it is asked goes to no other host: to none, to this machine, or to the pages that a model names."""
    if isinstance(spec, ModelSpec):
        return spec.embedded or (spec.base_url_env is None and _is_loopback(_origin(spec)))
    return spec.kind in ("corpus", "direct") or _is_loopback(_origin(spec))


def _where(spec: Spec) -> str:
    return _origin(spec) or f"the address in {_address_env(spec)}"


def sent_keys(used: Iterable[Spec], sources: Mapping[str, Path]) -> str:
    """One line that says which file sends which key variable where, for all that is `used`; "" without keys."""
    sent = defaultdict(lambda: defaultdict(list))  # type: ignore[var-annotated]
    for spec in used:
        if spec.key_env:
            source = str(sources.get(entry_of(spec), "shipped catalogue"))
            clear = "" if _is_private(spec) else ", not encrypted"
            sent[source][f"{spec.key_env} to {_origin(spec)}{clear}"].append(entry_of(spec))
    return "; ".join(
        f"{source}: sends "
        + ", ".join(f"{what} ({', '.join(dict.fromkeys(entries))})" for what, entries in whats.items())
        for source, whats in sent.items()
    )


def is_trusted(file: Path, environ: Mapping[str, str]) -> bool:
    """Whether the user has consented to this file before: the same path with the same content."""
    record = _record(file, environ)
    return record is not None and os.path.isfile(record)


def remember(file: Path, environ: Mapping[str, str]) -> None:
    """Record the user's consent to this path with this content. Raises UsageError."""
    if config_home(environ) is None:
        raise UsageError(
            f"{file}: consent cannot be kept without a home directory: {SET_HOME}, or use --config {file}"
        )
    record = _record(file, environ)
    if record is None:
        raise UsageError(
            f"{file}: consent cannot be kept in the folder that it is about: use --config {file}"
        )
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        refused = write_error(record, error)
        if isinstance(refused, UsageError):
            raise UsageError(f"{refused}: {SET_HOME}, or use --config {file}") from None
        raise refused from None
    replace_file(record, os.fsencode(file.resolve()) + b"\n")


def _record(file: Path, environ: Mapping[str, str]) -> Path | None:
    """The record of consent to `file`; None if the file's own directory would contain it, and so could forge it.

    None without a home directory, too.
    """
    home, configured = home_folder(), config_home(environ)
    if configured is None:
        return None
    folder, path = configured / "cts-async" / "trusted", file.resolve()
    at_home = home is not None and path.parent == home.resolve()
    if folder.resolve().is_relative_to(path.parent) and not at_home:
        return None
    return folder / sha256(os.fsencode(path) + b"\0" + path.read_bytes()).hexdigest()


def _by_entry(*files: Path | None) -> dict[str, Spec]:
    models, tools = load_catalogue(*files), load_search(*files)
    specs: list[Spec] = [*models.models.values(), *tools.engines.values(), *tools.readers.values()]
    return {entry_of(spec): spec for spec in specs}


def entry_of(spec: Spec) -> str:
    """Kind and name of an entry; a model's without the id behind a colon and the name of its prompts."""
    kind = "model" if isinstance(spec, ModelSpec) else "search" if isinstance(spec, EngineSpec) else "visit"
    return f"{kind} {_alias(spec.name)}"


def _alias(name: str) -> str:
    return name.partition(":")[0].partition("@")[0]


def _origin(spec: Spec) -> str:
    """Scheme, host and port that it sends to; "" if only the environment has the address."""
    url = spec.base_url if isinstance(spec, ModelSpec) else spec.url
    return str(URL(url).origin()) if url else ""


def _address_env(spec: Spec) -> str | None:
    return spec.base_url_env if isinstance(spec, ModelSpec) else None


def _is_private(spec: Spec) -> bool:
    """Whether nobody on the network can read what is sent: it is encrypted, or stays on this machine."""
    return URL(_origin(spec)).scheme == "https" or _is_loopback(_origin(spec))


def _is_loopback(origin: str) -> bool:
    host = URL(origin).host or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
