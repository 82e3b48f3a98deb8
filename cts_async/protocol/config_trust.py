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
from enum import IntEnum
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from yarl import URL

from cts_async.config import SET_HOME, config_home, home_folder
from cts_async.errors import UsageError, write_error
from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.llm.params import SAMPLING
from cts_async.protocol.systems import PAPER_AGENT, PAPER_SUPPORT
from cts_async.safe_files import replace_file
from cts_async.search.catalog import EngineSpec, ReaderSpec, load_search

__all__ = [
    "Concern",
    "Harm",
    "Trust",
    "concerns",
    "concerns_text",
    "is_trusted",
    "remember",
    "sent_keys",
    "trust_in",
]

Spec = ModelSpec | EngineSpec | ReaderSpec

_USUAL_KEY: Final = re.compile(r"\w+_API_KEY")
_USUAL_MODEL: Final = re.compile(r"\w+_MODEL(?:_NAME)?")
_HARMLESS: Final = frozenset(
    [
        # How fast and how much at once.
        "account",
        "idle_timeout_s",
        "limit",
        "limits_fixed",
        "max_concurrency",
        "rate_limit_words",
        "requests_per_min",
        "timeout_s",
        "tokens_per_min",
        "window_s",
        # How much text goes into a request, and what is read of an answer.
        "agent",
        "agent_prompt",
        "context_tokens",
        "hit_fields",
        "judge_nuggets",
        "max_bytes",
        "max_chars",
        "max_redirects",
        "results",
        "text",
        "title",
        # What is only shown. `usd_per_1000` is for forecasts: no budget counts searches.
        "engine",
        "name",
        "note",
        "price_source",
        "usd_per_1000",
        # Looked at apart, by `_price_concerns`.
        "cache_write_usd_per_mtok",
        "cached_input_usd_per_mtok",
        "input_usd_per_mtok",
        "output_usd_per_mtok",
        # One of the trusted entry's own tiers, at its price; `tiers` themselves are no harmless field.
        "tier",
    ]
)
"""Fields of an entry that a folder may set: nothing goes elsewhere, and what is paid is counted."""
_PRICES: Final = ("input_usd_per_mtok", "output_usd_per_mtok")
_CACHE_PRICES: Final = ("cached_input_usd_per_mtok", "cache_write_usd_per_mtok")
"""Where a trusted entry has none, these tokens count as other input."""
_ROLE_DEFAULTS: Final = {"support": PAPER_SUPPORT, "judge": PAPER_SUPPORT, "agent": PAPER_AGENT}
_SHOWN: Final = 2
"""Concerns that a message spells out: the file itself is to be read, and has all of them."""
_SHOWN_CHARS: Final = 300
"""Of each concern: entries have names of any length."""


class Harm(IntEnum):
    """What consent is needed for, the worst first: a long list of small things must not hide a great one."""

    SECRET = 0
    PRIVATE = 1
    DATA = 2
    MONEY = 3


@dataclass(frozen=True, slots=True)
class Concern:
    """Something a table of a file would do that needs consent; `entry` is e.g. "model mine" or "search brave"."""

    entry: str
    text: str
    harm: Harm = Harm.DATA
    by_role: bool = False
    """True if it is about `[roles]`: no concern where the user names that model."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How files differ from the shipped catalogues: which file each entry comes from, and what needs consent."""

    sources: Mapping[str, Path] = field(default_factory=dict)
    concerns: tuple[Concern, ...] = ()

    def concerns_of(self, used: Iterable[Spec], named: Iterable[str] = ()) -> tuple[Concern, ...]:
        """All concerns of the file if any is about what is `used`, else none: consent is given to the whole file.

        `named` are the models that the user named. The worst come first, and of these what is used.
        """
        entries = {entry_of(spec) for spec in used}
        chosen = {f"model {_alias(name)}" for name in named}

        def rank(concern: Concern) -> tuple[Harm, bool]:
            return concern.harm, concern.entry not in entries

        for concern in self.concerns:
            # A role's model that the user named would be asked without the file, too.
            is_chosen = concern.by_role and concern.entry in chosen
            if concern.entry in entries and not is_chosen:
                return tuple(sorted(self.concerns, key=rank))
        return ()


def concerns_text(concerns: Iterable[Concern]) -> str:
    """What a file would do, for one line: the first concerns, and how many more there are."""
    texts = list(dict.fromkeys(concern.text for concern in concerns))
    shown = [_middle_cut(text) for text in texts[:_SHOWN]]
    if len(texts) > _SHOWN:
        shown.append(f"do {len(texts) - _SHOWN:,} more things that need consent")
    return "; ".join(shown)


def _middle_cut(text: str) -> str:
    """Shorten a text, keeping its ends: the key's variable is in front, the host may be behind."""
    half = _SHOWN_CHARS // 2
    if len(text) <= _SHOWN_CHARS:
        return text
    return f"{text[:half]}...{text[-half:]}"


def trust_in(file: Path | None, user: Path | None = None) -> Trust:
    """Compare `file` with the shipped catalogues, and the `user`'s own file over them. Raises InputError."""
    shipped = _by_entry()
    if user is None:
        trusted = shipped
    else:
        trusted = _by_entry(user)
    sources = {}
    for entry, spec in trusted.items():
        if user is not None and shipped.get(entry) != spec:
            sources[entry] = user
    if file is None:
        return Trust(sources)
    changed = {}
    for entry, spec in _by_entry(user, file).items():
        if trusted.get(entry) != spec:
            changed[entry] = spec
            sources[entry] = file
    all_concerns = list(concerns(changed, trusted, file.resolve().parent))
    all_concerns += _role_concerns(file, user)
    return Trust(sources, tuple(all_concerns))


def concerns(changed: Mapping[str, Spec], trusted: Mapping[str, Spec], folder: Path) -> Iterator[Concern]:
    """What needs consent in a file's `changed` tables, given the `trusted` ones, both by entry; the file is in `folder`.

    Where a table has a concern about a secret or something private, nothing is said of the other changes in it.
    """
    keys = _TrustedKeys(trusted.values())
    for entry, spec in changed.items():
        before = trusted.get(entry)
        worst = list(keys.concerns(entry, spec))
        worst += _private_concerns(entry, spec, before, folder)
        yield from worst
        if not worst:
            yield from _change_concerns(entry, spec, before)
        yield from _price_concerns(entry, spec, before)


class _TrustedKeys:
    """Where the trusted entries send keys and other variables of the environment."""

    def __init__(self, trusted: Iterable[Spec]) -> None:
        self._hosts: dict[str, set[str]] = defaultdict(set)
        # A table without a variable takes the address, or the model, that the trusted entry has.
        self._address_variables: dict[str, set[str | None]] = {}
        self._model_variables: set[str | None] = {None}
        for spec in trusted:
            if spec.key_env:
                self._hosts[spec.key_env].add(_origin(spec))
                self._hosts[spec.key_env].update(_tier_origins(spec))
                self._address_variables.setdefault(spec.key_env, {None}).add(_address_env(spec))
            if isinstance(spec, ModelSpec):
                self._model_variables.add(spec.model_env)

    def concerns(self, entry: str, spec: Spec) -> Iterator[Concern]:
        """A trusted entry's key that is sent elsewhere, and a variable of any other kind that is sent at all."""
        if spec.key_env in self._hosts:
            yield from self._moved_key(entry, spec, spec.key_env)
        elif spec.key_env and not _USUAL_KEY.fullmatch(spec.key_env):
            yield Concern(entry, f"send {spec.key_env} to {_destination(spec)} ({entry})", Harm.SECRET)
        if not isinstance(spec, ModelSpec) or spec.model_env in self._model_variables:
            return
        if not _USUAL_MODEL.fullmatch(spec.model_env or ""):
            text = f"send the value of {spec.model_env} to {_destination(spec)} ({entry})"
            yield Concern(entry, text, Harm.SECRET)

    def _moved_key(self, entry: str, spec: Spec, key: str) -> Iterator[Concern]:
        moved_tiers = sorted(_tier_origins(spec) - self._hosts[key])
        if _origin(spec) not in self._hosts[key]:
            destination = _destination(spec)
        elif moved_tiers:
            destination = moved_tiers[0]
        elif _address_env(spec) not in self._address_variables[key]:
            destination = f"the address in {_address_env(spec)}"
        else:
            return
        homes = ", ".join(sorted(self._hosts[key]))
        yield Concern(entry, f"send {key} to {destination} ({entry}; it belongs to {homes})", Harm.SECRET)


def _private_concerns(entry: str, spec: Spec, before: Spec | None, folder: Path) -> Iterator[Concern]:
    """Private pages, documents outside the file's own folder, and data posted to what listens on this machine."""
    if isinstance(spec, ModelSpec):
        return
    if isinstance(spec, ReaderSpec):
        usual: tuple[str, ...] = ()
        if isinstance(before, ReaderSpec):
            usual = before.allow
        allowed = [place for place in spec.allow if place not in usual]
        if allowed:
            text = f"fetch private pages at {', '.join(allowed)} ({entry})"
            yield Concern(entry, text, Harm.PRIVATE)
    unchanged = before is not None and not _changed_fields(spec, before) - _HARMLESS
    if unchanged:
        return
    if spec.path is not None and not spec.path.resolve().is_relative_to(folder):
        text = f"read documents at {spec.path}, outside of its folder ({entry})"
        yield Concern(entry, text, Harm.PRIVATE)
    # Many programs that listen on the loopback, such as a Ray cluster, do whatever a POST tells them. A GET only reads.
    posts = spec.method == "POST" and spec.kind not in ("corpus", "direct")
    if posts and _is_loopback(_origin(spec)):
        text = f"post data of its own to {_destination(spec)}, on this machine ({entry})"
        yield Concern(entry, text, Harm.PRIVATE)


def _change_concerns(entry: str, spec: Spec, before: Spec | None) -> Iterator[Concern]:
    """What leaves this machine otherwise than the trusted entry has it, if there is one."""
    if _stays_here(spec, before):
        return
    destination = _destination(spec)
    moved = before is None or destination != _destination(before)
    if spec.key_env:
        destination += f" with {spec.key_env}"
    if before is None or moved:
        elsewhere = sorted(_tier_origins(spec) - {_origin(spec)})
        if elsewhere:
            destination += f", or in a tier to {', '.join(elsewhere)}"
        yield Concern(entry, f"send all that is asked of {entry} to {destination}")
        return
    changed = [name for name in sorted(_changed_fields(spec, before)) if not _is_harmless(name, spec, before)]
    if changed:
        yield Concern(entry, f"change {', '.join(changed)} of what is sent to {destination} ({entry})")


def _price_concerns(entry: str, spec: Spec, before: Spec | None) -> Iterator[Concern]:
    """A price below the trusted one, or where none is known: --max-usd would count less than is paid.

    Another host has prices of its own: what is moved needs consent anyway, unless it is moved to this machine.
    """
    if not isinstance(spec, ModelSpec) or not isinstance(before, ModelSpec):
        return
    if _destination(spec) != _destination(before):
        return
    for name in _PRICES + _CACHE_PRICES:
        price: float | None = getattr(spec, name)
        usual: float | None = getattr(before, name)
        if usual is None and name in _CACHE_PRICES:
            usual = before.input_usd_per_mtok
        if price is None or price == usual:  # TOML has no null: a table cannot take a price away
            continue
        if usual is None:
            yield Concern(entry, f"count {name} = {price:g} instead of unknown ({entry})", Harm.MONEY)
        elif price < usual:
            yield Concern(entry, f"count {name} = {price:g} instead of {usual:g} ({entry})", Harm.MONEY)


def _role_concerns(file: Path, user: Path | None) -> Iterator[Concern]:
    """Models that the file's `[roles]` has asked in the place of those that the trusted files name."""
    trusted, catalogue = load_catalogue(user), load_catalogue(user, file)
    usual = _ROLE_DEFAULTS | dict(trusted.roles)
    roles_by_model: dict[str, list[str]] = defaultdict(list)
    for role, model in catalogue.roles.items():
        if model != usual.get(role):
            roles_by_model[model].append(f"the {role}")
    for model, roles in roles_by_model.items():
        alias = _alias(model)
        spec = catalogue.models[alias]  # every model that is named in [roles] can be found
        if _stays_here(spec, trusted.models.get(alias)):
            continue
        destination = _destination(spec)
        if spec.key_env:
            destination += f" with {spec.key_env}"
        text = f"send the requests of {' and '.join(roles)} to {destination} ([roles], {model})"
        yield Concern(entry_of(spec), text, by_role=True)


def _changed_fields(spec: Spec, before: Spec) -> set[str]:
    """Names of the fields in which two entries differ, among those that have a meaning for the first."""
    fields, fields_before = _fields(spec), _fields(before)
    return {name for name, value in fields.items() if value != fields_before.get(name)}


def _fields(spec: Spec) -> dict[str, Any]:
    """The fields of an entry by name; without a key, those that say how one is sent have no meaning."""
    if isinstance(spec, ModelSpec):
        fields = asdict(spec)
    else:
        fields = spec.model_dump()
    if not spec.key_env:
        for name in ("key_env", "key_header", "key_format"):
            fields.pop(name, None)
    return fields


def _is_harmless(name: str, spec: Spec, before: Spec) -> bool:
    """Whether a folder may change a field of a trusted entry."""
    if name in _HARMLESS:
        return True
    if name == "tiers" and isinstance(spec, ModelSpec) and isinstance(before, ModelSpec):
        # Another address goes without the tiers of the trusted one.
        return all(before.tiers.get(tier_name) == tier for tier_name, tier in spec.tiers.items())
    # The parameters of a search are the service's own, and could be anything.
    if name not in ("params", "text_params") or not isinstance(spec, ModelSpec):
        return False
    params, params_before = getattr(spec, name), getattr(before, name)
    for parameter in set(params) | set(params_before):
        value = params.get(parameter)
        if value == params_before.get(parameter):
            continue
        # Others can name tools, plug-ins, other models or hosts.
        if parameter not in SAMPLING or isinstance(value, (dict, list)):
            return False
    return True


def _stays_here(spec: Spec, before: Spec | None) -> bool:
    """Whether what it is asked goes to no other host: to none, to this machine, or to the pages that a model names."""
    if not isinstance(spec, ModelSpec):
        return spec.kind in ("corpus", "direct") or _is_loopback(_origin(spec))
    if spec.embedded:
        return True
    if not all(_is_loopback(origin) for origin in [_origin(spec), *_tier_origins(spec)]):
        return False
    if spec.base_url_env is None:
        return True
    # The user may have set a trusted entry's variable: its requests go where they went before, with the same key.
    if not isinstance(before, ModelSpec) or spec.base_url_env != before.base_url_env:
        return False
    return spec.key_env in (None, before.key_env)


def _tier_origins(spec: Spec) -> set[str]:
    """Where the tiers of an entry send its requests that have an address of their own."""
    if not isinstance(spec, ModelSpec):
        return set()
    return {str(URL(tier.base_url).origin()) for tier in spec.tiers.values() if tier.base_url}


def _destination(spec: Spec) -> str:
    """Where an entry sends its requests, for people."""
    return _origin(spec) or f"the address in {_address_env(spec)}"


def sent_keys(used: Iterable[Spec], sources: Mapping[str, Path]) -> str:
    """One line that says which file sends which key variable where, for all that is `used`; "" without keys."""
    # File, then what it sends where, then the entries that do so.
    sent: dict[str, dict[str, list[str]]] = {}
    for spec in used:
        if not spec.key_env:
            continue
        text = f"{spec.key_env} to {_origin(spec)}"
        if not _is_private(spec):
            text += ", not encrypted"
        entry = entry_of(spec)
        source = str(sources.get(entry, "shipped catalogue"))
        entries = sent.setdefault(source, {}).setdefault(text, [])
        if entry not in entries:
            entries.append(entry)
    lines = []
    for source, entries_by_text in sent.items():
        parts = [f"{text} ({', '.join(entries)})" for text, entries in entries_by_text.items()]
        lines.append(f"{source}: sends {', '.join(parts)}")
    return "; ".join(lines)


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
    specs: list[Spec] = list(models.models.values())
    specs += tools.engines.values()
    specs += tools.readers.values()
    return {entry_of(spec): spec for spec in specs}


def entry_of(spec: Spec) -> str:
    """Kind and name of an entry; a model's without the id behind a colon and the name of its prompts."""
    if isinstance(spec, ModelSpec):
        return f"model {_alias(spec.name)}"
    return f"{spec.table} {spec.name}"


def _alias(name: str) -> str:
    return name.partition(":")[0].partition("@")[0]


def _origin(spec: Spec) -> str:
    """Scheme, host and port that it sends to; "" if only the environment has the address."""
    if isinstance(spec, ModelSpec):
        url = spec.base_url
    else:
        url = spec.url
    if not url:
        return ""
    return str(URL(url).origin())


def _address_env(spec: Spec) -> str | None:
    if isinstance(spec, ModelSpec):
        return spec.base_url_env
    return None


def _is_private(spec: Spec) -> bool:
    """Whether nobody on the network can read what is sent: it is encrypted, or stays on this machine."""
    return URL(_origin(spec)).scheme == "https" or _is_loopback(_origin(spec))


def _is_loopback(origin: str) -> bool:
    host = URL(origin).host or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
