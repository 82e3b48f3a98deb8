"""Which keys a run sends where, and whether a cts.toml found in the working directory may decide that.

A directory can come from anybody. Its cts.toml could point a known model at another host, or name any variable as a key
(compare CVE-2026-21852, a project's settings that override a base URL). So everything beyond the shipped catalogue needs
the user's consent. Naming a file with --config is consent, and so is setting a variable in the environment. The user's
own cts.toml, which nobody else can write (`config.user_config_file`), is as trusted as the shipped catalogue.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from yarl import URL

from cts_async.config import SET_HOME, config_home, home_folder
from cts_async.errors import UsageError, write_error
from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.safe_files import replace_file
from cts_async.search.catalog import EngineSpec, ReaderSpec, load_search

__all__ = ["Concern", "Trust", "concerns", "is_trusted", "remember", "sent_keys", "trust_in"]

Spec = ModelSpec | EngineSpec | ReaderSpec

_USUAL_KEY: Final = re.compile(r"\w+_API_KEY")
_USUAL_MODEL: Final = re.compile(r"\w+_MODEL(?:_NAME)?")


@dataclass(frozen=True, slots=True)
class Concern:
    """Something a table of a file would do that needs consent; `entry` is e.g. "model mine" or "search brave"."""

    entry: str
    text: str


@dataclass(frozen=True, slots=True)
class Trust:
    """How files differ from the shipped catalogues: which file each entry comes from, and what needs consent."""

    sources: Mapping[str, Path] = field(default_factory=dict)
    concerns: tuple[Concern, ...] = ()

    def concerns_of(self, used: Iterable[Spec]) -> tuple[Concern, ...]:
        """All concerns of the file if any is about what is `used`, else none: consent is given to the whole file."""
        entries = {entry_of(spec) for spec in used}
        return self.concerns if any(concern.entry in entries for concern in self.concerns) else ()


def trust_in(file: Path | None, user: Path | None = None) -> Trust:
    """Compare `file` with the shipped catalogues, and the `user`'s own file over them. Raises InputError."""
    shipped = _by_entry()
    trusted = _by_entry(user) if user else shipped
    sources = {entry: user for entry, spec in trusted.items() if user and shipped.get(entry) != spec}
    if file is None:
        return Trust(sources)
    read = _by_entry(user, file)
    own = {entry: spec for entry, spec in read.items() if trusted.get(entry) != spec}
    return Trust({**sources, **dict.fromkeys(own, file)}, tuple(concerns(own, trusted)))


def concerns(own: Mapping[str, Spec], shipped: Mapping[str, Spec]) -> Iterator[Concern]:
    """What needs consent in a file's `own` tables, given the `shipped` ones (and the user's), both by entry. Pure.

    Without consent, the key of a shipped entry is sent to no other host, whatever the table's name; other keys must be
    named *_API_KEY; no other variable's value is sent as a model id, and no private pages are fetched.
    """
    origins: dict[str, set[str]] = defaultdict(set)
    addresses: dict[str, set[str | None]] = defaultdict(lambda: {None})
    for spec in shipped.values():
        if spec.key_env:
            origins[spec.key_env].add(_origin(spec))
            addresses[spec.key_env].add(_address_env(spec))
    shipped_ids = {spec.model_env for spec in shipped.values() if isinstance(spec, ModelSpec)}
    for entry, spec in own.items():
        key, origin, variable = spec.key_env, _origin(spec), _address_env(spec)
        where = origin or f"the address in {variable}"
        if key in origins:
            if origin not in origins[key] or variable not in addresses[key]:
                where = f"the address in {variable}" if origin in origins[key] else where
                at_home = ", ".join(sorted(origins[key]))
                yield Concern(entry, f"send {key} to {where} ({entry}; it belongs to {at_home})")
        elif key and not _USUAL_KEY.fullmatch(key):
            yield Concern(entry, f"send {key} to {where} ({entry})")
        if _is_moved(spec, shipped.get(entry)):
            yield Concern(entry, f"send all that is asked of {entry} to {where}")
        model_env = spec.model_env if isinstance(spec, ModelSpec) else None
        if model_env not in shipped_ids and not _USUAL_MODEL.fullmatch(model_env or ""):
            yield Concern(entry, f"send the value of {model_env} to {where} ({entry})")
        before = shipped.get(entry)
        known = before.allow if isinstance(before, ReaderSpec) else ()
        allow = [place for place in getattr(spec, "allow", ()) if place not in known]
        if allow:
            yield Concern(entry, f"fetch private pages at {', '.join(allow)} ({entry})")


def _is_moved(spec: Spec, shipped: Spec | None) -> bool:
    """Whether a shipped entry without a key is moved to another host, which then receives its requests."""
    if shipped is None or shipped.key_env or spec.key_env:
        return False
    at_home = _origin(shipped) or (isinstance(shipped, ModelSpec) and shipped.embedded)
    return bool(at_home) and _origin(spec) != _origin(shipped) and not _is_loopback(_origin(spec))


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
    return f"{kind} {spec.name.partition(':')[0].partition('@')[0]}"


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
