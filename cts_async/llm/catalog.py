"""The model catalogue: the names that a user may give, and what is known about each model.

The data are in models.toml; a user's cts.toml adds to them or overrides them field by field. TOML is validated here
once; the rest of the program sees `ModelSpec`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from cts_async import plugins
from cts_async.config import (
    VARIABLE_PATTERN,
    VARIANT,
    address_problem,
    check_table,
    environment_override,
    field_error,
    line_of,
    merge_table,
    read_tables,
    row_error,
    suggestion,
    variant_of,
)
from cts_async.errors import InputError, UsageError
from cts_async.llm.params import params_problem, tier_params_problem
from cts_async.records import AgentPrompt, is_one_line

__all__ = ["BATCH", "ROLES", "SHIPPED", "Catalogue", "ModelSpec", "Tier", "load_catalogue"]

Limit = Literal["paced", "sliding", "bucket", "auto"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
Structured = Literal["none", "json_schema", "llama"]
SystemRole = Literal["system", "user"]
PromptSize = Literal["full", "small"]
Text = Annotated[str, Field(min_length=1)]
LowerCase = Annotated[str, StringConstraints(to_lower=True)]
Variable = Annotated[str, Field(pattern=rf"^{VARIABLE_PATTERN}$")]
Count = Annotated[int, Field(gt=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

MAX_CONCURRENCY: Final = 256
"""The default ceiling of concurrency where it finds its level by itself."""
JUDGE_NUGGETS: Final = 20
"""The default number of nuggets that a judge labels in one call. The paper's judge labels all of an intent's at once,
the AutoNuggetizer (Pradeep et al. 2024, "Initial nugget evaluation results") ten: golds of usual size stay whole."""
ROLES: Final = ("support", "judge", "agent", "extractor", "model", "visit")
TIER_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
SHIPPED: Final = Path(__file__).with_name("models.toml")

BATCH: Final = "batch"
"""The tier of batch interfaces, which no ordinary call can ask for."""
TIER_PARAMETER: Final = "service_tier"
"""The request parameter, and the field of a reply, that names a tier."""
CAPACITY_PATIENCE_S: Final = 3600.0
"""How long a tier may have no capacity where its entry does not say: an hour, as DashScope keeps a request waiting."""

_LIMITS: Final = frozenset({"requests_per_min", "tokens_per_min"})


@dataclass(frozen=True, slots=True)
class Tier:
    """A cheaper way to ask a model: another address, further parameters, or (without both) a batch interface.

    What is None or empty is as in the model's own entry. `price` is a factor over all the model's prices.
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, hide_input_in_errors=True, extra="forbid")

    price: Positive
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    base_url: str = ""
    timeout_s: Positive | None = None
    patience_s: Positive = CAPACITY_PATIENCE_S
    """For how long it may have no capacity before the run stops; a longer --max-outage counts in its place."""
    max_concurrency: Count | None = None
    requests_per_min: Positive | None = None
    tokens_per_min: Positive | None = None
    waits: str = ""
    """What one waits for, in a few words: "minutes, for spare capacity"."""
    endpoint: Text = "/v1/chat/completions"
    """Of a batch interface: the path that each request names, in OpenAI's form; `window`: by when a batch has to end."""
    window: Text = "24h"
    max_requests: Count = 50_000
    max_bytes: Count = 200_000_000
    """Of one batch; `max_request_bytes` of one request."""
    max_request_bytes: Count | None = None
    metadata: bool = True
    """Whether a batch may have metadata, by which it is found again."""
    models: tuple[Text, ...] = ()
    """The only model ids that batches are made for; empty: any."""

    @property
    def is_ordinary_call(self) -> bool:
        """True if it is asked by the ordinary call, whose reply is waited for."""
        return bool(self.params or self.base_url)

    @property
    def named_in_reply(self) -> str:
        """The word by which a reply says that it was served in this tier; "" where being asked for it is enough."""
        return str(self.params.get(TIER_PARAMETER, ""))


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model at one endpoint, with everything needed to call it; holds no key.

    Limits and prices of None are unknown. Entries with the same `account` share limits. `params` are request
    parameters, `agent` settings of the deep-search agent. `base_url` is empty for an embedded model, whose server has
    an address only while it runs.
    """

    # Strict: `max_concurrency = "8"` is a mistake. Hidden: a value in the wrong place may be a key.
    __pydantic_config__: ClassVar = ConfigDict(strict=True, hide_input_in_errors=True)

    name: str
    api: str
    base_url: str
    model: Text
    key_env: Variable | None
    account: Text
    max_concurrency: Count
    requests_per_min: Positive | None = None
    tokens_per_min: Positive | None = None
    limit: Limit = "paced"
    window_s: Positive = 60.0
    timeout_s: Positive = 120.0
    """For the complete response; `idle_timeout_s` for each pause within it (by default the same)."""
    idle_timeout_s: Positive | None = None
    limits_fixed: bool = False
    """True if the user set the limits: a provider's headers may lower them, not raise them."""
    rate_limit_words: tuple[LowerCase, ...] = ()
    """Error codes that mean a rate limit at this provider and an exhausted quota at others."""
    input_usd_per_mtok: NotNegative | None = None
    output_usd_per_mtok: NotNegative | None = None
    cached_input_usd_per_mtok: NotNegative | None = None
    cache_write_usd_per_mtok: NotNegative | None = None
    """Of input read from, and written to, the provider's cache; None: as other input."""
    cache_marks: bool = False
    """True for an API whose cache has to be told where a prefix ends that further requests repeat (Anthropic's)."""
    tiers: Mapping[str, Tier] = field(default_factory=dict, hash=False)
    """Cheaper ways to ask it, by name."""
    tier: str = ""
    """The one of `tiers` in which it is asked; "": the ordinary one."""
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    text_params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further parameters for replies in free text: a repetition penalty, say, would spoil JSON."""
    drops: tuple[str, ...] = ()
    """Request parameters that this model refuses: they are never sent."""
    max_tokens_field: MaxTokensField = "max_tokens"
    system: SystemRole = "system"
    """"user" for a model without a system role: its instructions become the head of the first user turn."""
    structured: Structured = "none"
    base_url_env: Variable | None = None
    model_env: Variable | None = None
    embedded: bool = False
    context_tokens: Count | None = None
    agent: Mapping[str, Any] = field(default_factory=dict, hash=False)
    agent_prompt: AgentPrompt = "query"
    """The prompt that it gets as the deep-search agent; "native" for a model trained on WebDancer's format."""
    judge_nuggets: Count = JUDGE_NUGGETS
    """The most nuggets that it labels in one call as a judge."""
    note: str = ""
    demo: bool = False
    """True for the scripted models of `cts demo`."""

    @property
    def prompt_size(self) -> PromptSize:
        """The prompts that suit it: the embedded model is tiny and gets the short ones."""
        return "small" if self.embedded else "full"

    @property
    def address_hint(self) -> str:
        """What may be wrong with the address of an OpenAI-style server that has no path; else ""."""
        if self.api != "openai" or not self.base_url or urlsplit(self.base_url).path.strip("/"):
            return ""
        return f"base_url has no path; most OpenAI-style servers need {self.base_url.rstrip('/')}/v1"

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that determine its replies: two runs of one name must agree on them."""
        identity: dict[str, Any] = {
            "model": self.model,
            "api": self.api,
            "params": dict(self.sent(self.text_params)),
        }
        if self.system != "system":  # a field that runs of earlier versions do not have
            identity["system"] = self.system
        if self.demo:
            identity["demo"] = True
        return identity

    @property
    def fixed_role_params(self) -> Mapping[str, Any]:
        """The paper's temperature for User Answerer, Rewriter and judge, where neither its entry nor `drops` names one.

        The shipped models have theirs in `params`; one of the user's would otherwise sample as its server likes.
        """
        if "temperature" in self.params or "temperature" in self.drops:
            return {}
        return {"temperature": 0.0}

    @property
    def alias(self) -> str:
        """The name of its table: its own, without a model id and the name of prompts behind it."""
        return self.name.partition(":")[0].partition("@")[0]

    @property
    def is_free(self) -> bool:
        """True if it costs nothing, as a model on this machine."""
        return self.embedded or (self.input_usd_per_mtok == 0 and self.output_usd_per_mtok == 0)

    @property
    def cheap_tier(self) -> str:
        """The cheapest tier of the ordinary call; "" where there is none below the ordinary price."""
        cheapest = ""
        price = 1.0
        for name, tier in self.tiers.items():
            if tier.is_ordinary_call and tier.price < price:
                cheapest, price = name, tier.price
        return cheapest

    @property
    def asked_tier(self) -> Tier | None:
        """The tier in which it is asked; None: the ordinary one."""
        if not self.tier:
            return None
        return self.tiers[self.tier]

    def in_tier(self, name: str) -> ModelSpec:
        """The same model asked in one of `tiers`; the parameters of that are added when a request is made.

        They are no part of `params`: the same model replies, so steps are reused between tiers.
        """
        tier = self.tiers[name]
        idle_timeout_s = self.idle_timeout_s
        if tier.timeout_s:
            # Nothing comes while it waits in the tier's queue.
            idle_timeout_s = None
        # A lane of its own: a pause for capacity must hold up nobody who is asked live. An address of its own may have
        # limits of its own, too.
        return replace(
            self,
            tier=name,
            base_url=tier.base_url.rstrip("/") or self.base_url,
            account=f"{self.account} {name}",
            timeout_s=tier.timeout_s or self.timeout_s,
            idle_timeout_s=idle_timeout_s,
            max_concurrency=tier.max_concurrency or self.max_concurrency,
            requests_per_min=tier.requests_per_min or self.requests_per_min,
            tokens_per_min=tier.tokens_per_min or self.tokens_per_min,
        )

    def sent(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request parameters as they are sent: its own, overridden by `params`, without those that it refuses."""
        # On the way of every call: nothing is copied where nothing changes.
        own_params = self.params
        if params:
            own_params = {**self.params, **params}
        if self.drops:
            return {name: value for name, value in own_params.items() if name not in self.drops}
        return own_params


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Models by alias, and the roles that the user's cts.toml assigns (none by default)."""

    models: Mapping[str, ModelSpec]
    roles: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, Path] = field(default_factory=dict)
    """Folders of prompts by the name that follows a model's, as in `gpt@short`."""
    files: tuple[Path, ...] = ()
    """The user's files that were read, each over those before it."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """By alias, the last of these files that has a table for it."""
    cheap: bool = False
    """Whether every model is asked in its cheapest tier of the ordinary call (`--cheap`), if it has one."""

    def resolve(self, name: str, environ: Mapping[str, str]) -> ModelSpec:
        """The model called `name`: an alias, or `alias:model-id` for another model at its endpoint; `@NAME` may follow.

        The environment's overrides are applied; a model id in `name` wins over them. A model other than the
        catalogue's has no known price. Raises UsageError if the name is unknown or there is no address.
        """
        spec, model_id = self._find(name)
        model = model_id or environment_override(spec.model_env, environ) or spec.model
        if model != spec.model:
            # An entry's prices are those of its own model.
            spec = replace(
                spec,
                model=model,
                input_usd_per_mtok=None,
                output_usd_per_mtok=None,
                cached_input_usd_per_mtok=None,
                cache_write_usd_per_mtok=None,
            )
        override = environment_override(spec.base_url_env, environ)
        url = override or spec.base_url
        if not url and not spec.embedded:
            raise UsageError(
                f"model {name!r} has no address: set {spec.base_url_env}, or base_url in cts.toml"
            )
        problem = address_problem(url, optional=spec.embedded)
        if problem and override:
            raise UsageError(f"{spec.base_url_env} {problem}")
        if problem:
            raise UsageError(f"base_url {problem}")
        url, alias = url.rstrip("/"), spec.name
        account = spec.account
        if account in (spec.base_url, alias):
            # The default, not a name that the entry gives: another address is another account.
            account = url or alias
        spec = replace(spec, name=name, base_url=url, account=account)
        tier = spec.tier
        if override:
            # Another server has tiers of its own, if any: those of the entry may lead to another host.
            if tier:
                raise UsageError(
                    f"model {name!r}: tier {tier!r} is one of its own address, and {spec.base_url_env} sets another: "
                    "unset that, or leave out tier"
                )
            return replace(spec, tiers={})
        if not tier and self.cheap:
            tier = spec.cheap_tier
        if tier:
            return spec.in_tier(tier)
        return spec

    def missing_variables(
        self, name: str, environ: Mapping[str, str], *, keys_only: bool = False
    ) -> tuple[str, ...]:
        """The environment variables that are missing before the model called `name` can be used: address and key."""
        spec, _ = self._find(name)
        needed = [spec.key_env]
        if not (spec.base_url or spec.embedded or keys_only):
            needed.insert(0, spec.base_url_env)
        return tuple(
            variable for variable in needed if variable and not environment_override(variable, environ)
        )

    def _find(self, name: str) -> tuple[ModelSpec, str]:
        """The entry that `name` means and the model id in it, "" if it has none."""
        player, (name, _) = name, variant_of(name, self.prompts)
        alias, colon, model = name.partition(":")
        base, at, variant = alias.partition("@")
        # A known name of prompts was taken off above, so this is an unknown one.
        if at and alias not in self.models and base in self.models:
            hint = ""
            if self.prompts:
                hint = suggestion(variant, self.prompts)
            raise UsageError(
                f"{player!r}: no prompts are called {variant!r} (--prompts {variant or 'NAME'}=DIR, or [prompts] in "
                f"cts.toml){hint}"
            )
        if alias not in self.models:
            hint = self._alias_of(name)
            if not hint:
                hint = suggestion(alias, self.models)
            raise UsageError(f"unknown model {name!r}{hint}. {self._how_to_add()}")
        if colon and not model.strip():
            raise UsageError(f"model {name!r} names no model id after the colon")
        if not is_one_line(name):
            raise UsageError(f"model {name!r} has control characters or line breaks in its name")
        return self.models[alias], model.strip()

    def _alias_of(self, model_id: str) -> str:
        for alias, spec in self.models.items():
            if spec.model.lower() == model_id.lower():
                return f"; did you mean {alias!r}, whose id that is?"
        return ""

    def _how_to_add(self) -> str:
        place = f"./cts.toml (none was read in {Path.cwd()}; cts init writes one)"
        if self.files:
            place = str(self.files[-1])
        return f"To add your own, put [models.mine] with base_url and model into {place}"


def load_catalogue(*user_files: Path | None) -> Catalogue:
    """Read the shipped catalogue and, over it, the `[models]`, `[roles]` and `[prompts]` of each file (None: no file).

    Raises InputError with file, line and field of the first mistake.
    """
    rows: dict[str, dict[str, Any]] = read_tables(SHIPPED)["models"]
    catalogue = Catalogue({name: _spec(name, row, SHIPPED) for name, row in rows.items()})
    for file in user_files:
        if file is not None:
            catalogue = _read_over(catalogue, rows, file)
    return catalogue


def _read_over(below: Catalogue, rows: dict[str, dict[str, Any]], file: Path) -> Catalogue:
    """Return the catalogue with the tables of a file over it, which become part of `rows`."""
    tables, specs = read_tables(file), dict(below.models)
    for name, row in tables["models"].items():
        merged = merge_table(rows.get(name), f"models.{name}", row, file)
        if "agent" in row:
            merged = _with_tokenizer_path(merged, file)
        merged = _with_own_tiers(merged, rows.get(name, {}), row)
        rows[name] = merged
        limits_fixed = not _LIMITS.isdisjoint(row)
        if name in specs and specs[name].limits_fixed:
            limits_fixed = True
        specs[name] = _spec(name, rows[name], file, limits_fixed=limits_fixed)
    prompts = {**below.prompts, **_prompt_folders(tables["prompts"], file)}
    sources = {**below.sources, **dict.fromkeys(tables["models"], file)}
    catalogue = Catalogue(specs, below.roles, prompts, (*below.files, file), sources)
    # Checked last: a role may be played by a model of the same file.
    roles = {**below.roles, **_roles(tables["roles"], catalogue, file)}
    return replace(catalogue, roles=roles)


def _with_tokenizer_path(row: dict[str, Any], file: Path) -> dict[str, Any]:
    """A `[models.NAME]` table with its agent's tokenizer below the folder of its file."""
    agent = row.get("agent")
    if isinstance(agent, dict) and isinstance(agent.get("tokenizer"), str):
        return row | {"agent": agent | {"tokenizer": str(file.parent / agent["tokenizer"])}}
    return row


def _with_own_tiers(
    merged: dict[str, Any], below: Mapping[str, Any], row: Mapping[str, Any]
) -> dict[str, Any]:
    """A `[models.NAME]` table with the tiers of its file over those of the table `below`, field by field.

    At another address those of the table below are gone: they may lead to another host, with the key.
    """
    merged = dict(merged)
    moved = "base_url" in row and row["base_url"] != below.get("base_url")
    tiers_below: Any = below.get("tiers")
    tiers: Any = row.get("tiers")
    if moved or not isinstance(tiers_below, dict):
        tiers_below = {}
    if tiers is not None and not isinstance(tiers, dict):
        return merged  # a mistake, which validation tells
    by_name: dict[str, Any] = dict(tiers_below)
    for name, tier in (tiers or {}).items():
        if isinstance(tier, dict) and isinstance(by_name.get(name), dict):
            tier = by_name[name] | tier
        by_name[name] = tier
    if by_name:
        merged["tiers"] = by_name
    else:
        merged.pop("tiers", None)
    return merged


# --- TOML ---------------------------------------------------------------------------------------------

_FORM: Final = TypeAdapter(ModelSpec)
_FIELDS: Final = tuple(
    spec_field.name
    for spec_field in fields(ModelSpec)
    if spec_field.name not in ("name", "limits_fixed", "demo")
)
"""The fields of a `[models.NAME]` table."""


def _spec(name: str, row: dict[str, Any], path: Path, *, limits_fixed: bool = False) -> ModelSpec:
    """Validate one merged table. Raises InputError that names `path`."""
    table = f"models.{name}"
    check_table(table, row, path)
    for key in row:
        if key not in _FIELDS:
            raise field_error(path, table, key, f"unknown field{suggestion(key, _FIELDS)}")
    values = {"api": "openai", "base_url": "", "key_env": None, "max_concurrency": MAX_CONCURRENCY}
    # Providers limit an account, which is known by its key.
    values["account"] = row.get("key_env") or row.get("base_url") or name
    values.update(row)
    values["name"], values["limits_fixed"] = name, limits_fixed
    try:  # as JSON, of which even a strict form makes a dataclass
        spec = _FORM.validate_json(orjson.dumps(values))
    except ValidationError as error:
        raise row_error(path, table, error.errors(include_input=False)[0], _FIELDS) from None
    if not plugins.is_known(plugins.APIS, spec.api):
        formats = ", ".join(plugins.all_names(plugins.APIS))
        raise field_error(path, table, "api", f"unknown wire format {spec.api[:40]!r}; known: {formats}")
    has_address_later = spec.embedded or spec.base_url_env is not None
    problem = address_problem(spec.base_url, optional=has_address_later)
    if problem:
        raise field_error(path, table, "base_url", problem)
    for field_name in ("params", "text_params"):
        fault = params_problem(getattr(spec, field_name))
        if fault:
            parameter, problem = fault
            raise field_error(path, table, f"{field_name}.{parameter}", problem)
    _check_tiers(spec, path, table)
    return spec


def _check_tiers(spec: ModelSpec, path: Path, table: str) -> None:
    """Raises InputError for a tier that no request could be made of, and for a `tier` that is none."""
    for name, tier in spec.tiers.items():
        place = f"tiers.{name}"
        if not TIER_NAME.fullmatch(name):
            raise field_error(path, table, place, "a tier's name has letters, digits, _ and - only")
        problem = address_problem(tier.base_url, optional=True)
        if problem:
            raise field_error(path, table, f"{place}.base_url", problem)
        fault = tier_params_problem(tier.params)
        if fault:
            raise field_error(path, table, f"{place}.params.{fault[0]}", fault[1])
        if name == BATCH and tier.is_ordinary_call:
            problem = (
                "is the batch interface, and takes neither params nor base_url; give the tier another name"
            )
            raise field_error(path, table, place, problem)
    if not spec.tier:
        return
    ordinary = [name for name, tier in spec.tiers.items() if tier.is_ordinary_call]
    if spec.tier not in ordinary:
        known = f"it has none (add [{table}.tiers.NAME])"
        if ordinary:
            known = f"it has {', '.join(ordinary)}"
        raise field_error(path, table, "tier", f"{spec.tier!r} is no tier of its ordinary call; {known}")


def _roles(table: Mapping[str, Any], catalogue: Catalogue, path: Path) -> dict[str, str]:
    """Check that each role is one of ROLES and each value a model that can be found, without a name of prompts."""
    for role, name in table.items():
        line = line_of(path, "roles", role)
        if role not in ROLES:
            problem = f"unknown role{suggestion(role, ROLES)}"
            raise InputError(path, problem, line=line, field=f"roles.{role}")
        try:
            if not isinstance(name, str):
                raise UsageError("must be a model's name, in quotes")
            if variant_of(name, catalogue.prompts)[1]:
                raise UsageError(f"{name!r} names prompts, which only options can: --{role} {name}")
            catalogue._find(name)
        except UsageError as error:
            raise InputError(path, str(error), line=line, field=f"roles.{role}") from None
    return dict(table)


def _prompt_folders(table: Mapping[str, Any], path: Path) -> dict[str, Path]:
    """The folders of `[prompts]`, which have to lie within the folder of the file.

    A cts.toml may be somebody else's: it must not lead to texts elsewhere on this machine. That rule is why it needs no
    consent: prompts send no key anywhere, and are used only where the user types their name (`[roles]` cannot).
    """
    folders: dict[str, Path] = {}
    home = path.resolve().parent
    for name, folder in table.items():
        place: dict[str, Any] = {"line": line_of(path, "prompts", name), "field": f"prompts.{name}"}
        if not VARIANT.fullmatch(name):
            raise InputError(path, "a name has letters, digits, _ and - only", **place)
        if not isinstance(folder, str) or not folder.strip():
            raise InputError(path, "must be a folder, in quotes", **place)
        folders[name] = path.parent / folder
        if not folders[name].resolve().is_relative_to(home):
            problem = "lies outside the folder of this file; name it with --prompts NAME=DIR instead"
            raise InputError(path, problem, **place)
    return folders
