"""The models one can ask for: what each needs, whether it is there, and which roles it plays unless told otherwise.

Pure: the environment is passed in, and of a key nothing is looked at but whether it is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec, load_catalogue
from cts_async.llm.local import model_file
from cts_async.protocol.roles import default_players


@dataclass(frozen=True, slots=True)
class Entry:
    """A model by the name one asks for. `spec` has the address that the environment gives it, if it has one."""

    name: str
    spec: ModelSpec
    roles: tuple[str, ...]
    missing: tuple[str, ...]
    """Variables that have to be set."""
    problem: str
    """What else stands in its way; empty if nothing does."""
    shipped: bool
    """Whether it is as shipped, and not from a cts.toml."""

    @property
    def ready(self) -> bool:
        return not (self.missing or self.problem)

    @property
    def key_set(self) -> bool | None:
        """Whether its key is there; None where it needs none."""
        return None if self.spec.key_env is None else self.spec.key_env not in self.missing


def roster(catalogue: Catalogue, environ: Mapping[str, str]) -> list[Entry]:
    """Every name of the catalogue, then those that only a role of cts.toml has."""
    names = dict.fromkeys([*catalogue.models, *default_players(catalogue.roles).values()])
    return [entry(catalogue, name, environ) for name in names]


def entry(catalogue: Catalogue, name: str, environ: Mapping[str, str]) -> Entry:
    """The model called `name`, `alias:model-id` included. Raises UsageError if there is none."""
    missing, problem = catalogue.missing_variables(name, environ), ""
    spec = catalogue.models[name.partition(":")[0]]
    shipped = load_catalogue().models.get(spec.name) == spec
    try:
        spec = catalogue.resolve(name, environ)
        if spec.embedded:
            model_file(environ)
    except UsageError as error:
        problem = "" if missing else str(error)
    roles = tuple(role for role, player in default_players(catalogue.roles).items() if player == name)
    return Entry(name, spec, roles, missing, problem, shipped)


def as_json(entry: Entry) -> dict[str, Any]:
    """Everything about an entry as JSON; never a key."""
    spec = entry.spec
    return {
        "name": entry.name,
        "model": spec.model,
        "api": spec.api,
        "base_url": spec.base_url or None,
        "key_env": spec.key_env,
        "key_set": entry.key_set,
        "ready": entry.ready,
        "missing": entry.missing,
        "problem": entry.problem or None,
        "roles": entry.roles,
        "source": "shipped" if entry.shipped else "cts.toml",
        "account": spec.account,
        "limits": {
            "requests_per_min": spec.requests_per_min,
            "tokens_per_min": spec.tokens_per_min,
            "max_concurrency": spec.max_concurrency,
            "limit": spec.limit,
            "window_s": spec.window_s,
            "fixed": spec.limits_fixed,
        },
        "prices": {"input": spec.input_usd_per_mtok, "output": spec.output_usd_per_mtok},
        "params": spec.sent({}),
        "drops": spec.drops,
        "timeout_s": spec.timeout_s,
        "context_tokens": spec.context_tokens,
        "agent": spec.agent,
        "agent_prompt": spec.agent_prompt,
        "embedded": spec.embedded,
        "note": spec.note,
    }
