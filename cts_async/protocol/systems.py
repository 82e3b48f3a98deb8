"""The compared systems, the names of their runs, and the models that play their roles.

Pure: the environment is passed in, and of a key only whether it is set is looked at.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Final, Literal

from cts_async.config import RunConfig, variant_of
from cts_async.engine.prices import price_table
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.llm.local import model_file
from cts_async.llm.model import model_prices, tier_prices
from cts_async.protocol.judge import LEXICAL
from cts_async.records import SCHEMES, AskRules, Mode, Scheme, is_one_line

SystemKind = Literal["clarify", "orig", "gold", "rewrites", "ask"]
REFERENCE_KINDS: Final = ("orig", "gold")
"""The kinds of systems that nobody asks in: they are shared by all systems that are compared with them."""


@dataclass(frozen=True, slots=True)
class System:
    """One row of the results table. `clarifier` is "" and `k` 0 for the reference points.

    Of given rewritten queries ("rewrites") `clarifier` is the label of who made them, and `k` 0: nothing is asked. Of
    the kind "ask" nobody asks before the search; the agent does during it.
    """

    kind: SystemKind
    clarifier: str = ""
    k: int = 0
    """Questions asked at once, or turns of the conversation (modes "respond" and "select")."""
    scheme: Scheme = "cts"
    mode: Mode = "at-once"
    variant: str = ""
    """The name of the Clarifier's prompts, with which `clarifier` ends then (`gpt@short`)."""
    asks: AskRules | None = None
    """What the agent may ask during its search; None: nothing."""
    inject_at: float | None = None
    """The share of the agent's turns after which it is given the answers, as pairs; None: they are rewritten into q-hat
    before it."""

    @property
    def converses(self) -> bool:
        """Whether scheme or mode differ from the benchmark's own: then the system holds a conversation."""
        return self.kind == "clarify" and (self.scheme, self.mode) != ("cts", "at-once")

    @property
    def label(self) -> str:
        """`gpt-k3`; `gpt-at-cot-respond-k3` if scheme or mode differ from the benchmark's own; `gpt-k3-rewrites`.

        With prompts of the user's, `gpt-k3@short`. What happens during the search comes last: `orig+ask3`,
        `gpt-k3+ask5-min5-yesno`, `gpt-k3+inject25`.
        """
        return self._label_before_search + self._label_during_search

    @property
    def _label_during_search(self) -> str:
        label = ""
        if self.inject_at is not None:
            label += f"+inject{100 * self.inject_at:g}"
        if self.asks is not None:
            label += f"+ask{self.asks.max_asks}"
            if self.asks.min_asks:
                label += f"-min{self.asks.min_asks}"
            if self.asks.replies == "yes-no":
                label += "-yesno"
        return label

    @property
    def _label_before_search(self) -> str:
        if self.kind == "rewrites":
            return f"{self.clarifier}-rewrites"
        if self.kind == "ask":
            return "orig"
        if self.kind != "clarify":
            return self.kind
        prompts = ""
        if self.variant:
            prompts = f"@{self.variant}"
        parts = [self.clarifier.removesuffix(prompts)]
        if self.scheme != "cts":
            parts.append(self.scheme)
        if self.mode != "at-once":
            parts.append(self.mode)
        parts.append(f"k{self.k}")
        # A label is part of a folder's name, and models' ids may have slashes.
        return "-".join(parts).replace("/", "_") + prompts


def systems_of(
    config: RunConfig,
    rewrites: Iterable[str] = (),
    variants: Container[str] = (),
    custom: Container[str] = (),
) -> list[System]:
    """References first, then every Clarifier with every scheme, mode and budget of questions, then given `rewrites`.

    `variants` are the names of prompts that may follow a Clarifier's, as in `gpt@short`.

    The default scheme cts supports only at-once: it is left out with other modes. UsageError where a scheme or
    mode of the configuration would get no system at all. A Clarifier in `custom` is code of the user's: it has no
    scheme, and is left out of mode "select", since it asks questions.
    """
    schemes, modes = dict.fromkeys(config.schemes), dict.fromkeys(config.modes)
    model_pairs: list[tuple[Scheme, Mode]] = []
    for scheme, mode in product(schemes, modes):
        # The benchmark's own scheme has no prompt for a single turn.
        if scheme != "cts" or mode == "at-once":
            model_pairs.append((scheme, mode))
    custom_pairs: list[tuple[Scheme, Mode]] = [("cts", mode) for mode in modes if mode != "select"]
    # A command without Clarifiers (`--rewrites`) has no use for a scheme or mode either: that is no reason to accept it.
    only_custom = bool(config.models) and all(name in custom for name in config.models)
    if not only_custom:
        _check_pairs(config, model_pairs)
    references: dict[str, System] = {"orig": System("orig"), "gold": System("gold")}
    systems = [references[name] for name in dict.fromkeys(config.references)]
    for name in dict.fromkeys(config.models):
        _, variant = variant_of(name, variants)
        pairs = custom_pairs if name in custom else model_pairs
        for (scheme, mode), k in product(pairs, dict.fromkeys(config.ks)):
            system = System("clarify", name, k, scheme, mode, variant)
            if "before" in config.ask:
                systems.append(system)
                systems += _injecting_systems(system, config.inject_at)
            if "both" in config.ask:
                systems.append(replace(system, asks=config.ask_rules))
    if "during" in config.ask:
        systems.append(System("ask", asks=config.ask_rules))
    for label in rewrites:
        systems.append(System("rewrites", label))
    return systems


def _injecting_systems(system: System, shares: Iterable[float]) -> list[System]:
    """`system` with its answers given at each of these shares. 0.3 and 0.1 + 0.2 have one label, and so one folder."""
    by_label: dict[str, System] = {}
    for share in shares:
        injecting = replace(system, inject_at=share)
        by_label.setdefault(injecting.label, injecting)
    return list(by_label.values())


def _check_pairs(config: RunConfig, pairs: Sequence[tuple[Scheme, Mode]]) -> None:
    """Raise UsageError for a mode, or the scheme cts, of the configuration that is in none of the `pairs`."""
    modes = {mode for _, mode in pairs}
    for mode in config.modes:
        if mode not in modes:
            raise UsageError(
                f"--mode {mode}: the default scheme cts supports only at-once; add --scheme with one of "
                f"{', '.join(SCHEMES[1:])}"
            )
    if "cts" in config.schemes and ("cts", "at-once") not in pairs:
        raise UsageError("--scheme cts: supports only --mode at-once; add it, or omit --scheme cts")


def run_names(
    systems: Sequence[System], dataset: str, name: str | None, suffixes: Mapping[System, str] | None = None
) -> dict[System, str]:
    """Directory names: DATASET-SYSTEM+SUFFIX; with a chosen name, NAME for the only Clarifier, else NAME-SYSTEM.

    `suffixes` tell apart runs of one system whose fixed roles differ (see `role_suffix`); a chosen name does so itself.
    The reference points of other systems are named by what determines them, whatever name is chosen for these.
    Raises UsageError for a name that cannot be a folder's.
    """
    check_run_name(name)
    if not is_one_line(dataset):
        raise UsageError(f"{dataset!r}: has control characters, so no run can be named after it: use --name")
    suffixes = suffixes or {}
    compared = [system for system in systems if system.kind not in REFERENCE_KINDS] or systems
    names = {}
    for system in systems:
        if name and system in compared:
            folder = f"{name}-{system.label}"
        else:
            folder = f"{dataset}-{system.label}{suffixes.get(system, '')}"
        names[system] = folder.replace(":", "_")
    # The only system but the reference points is the one that the user named.
    if name and len(compared) == 1:
        names[compared[0]] = name
    return names


def check_run_name(name: str | None) -> None:
    """Raises UsageError for a name with control characters, or one that is not a single folder in the runs folder."""
    if name is None:
        return
    if not is_one_line(name):
        raise UsageError(f"--name {name!r}: has control characters or line breaks; use a name without")
    if Path(name).name != name or name.strip() in ("", ".."):
        raise UsageError(
            f"--name {name}: must be the name of a single folder; use --runs-dir for its location"
        )


def role_suffix(system: System, chosen: RoleNames, usual: RoleNames, *, judged: bool) -> str:
    """The suffix of a run's name for the fixed roles whose models differ from the usual ones.

    `+support-gpt+agent-kimi`; `+all-kimi` if one model plays all of several roles; "" if none differs. Only roles that
    the system has count: a reference point asks no questions, so it has no `support`.
    """
    roles = []
    if system.kind == "clarify":
        roles += chosen.supporting
    elif system.kind == "ask":
        roles += asked_role(chosen)
    if chosen.agent:
        roles.append("agent")
    if judged:
        roles.append("judge")
    players, usual_players = _folder_names(chosen), _folder_names(usual)
    different = [role for role in roles if players[role] != usual_players[role]]
    everybody = {players[role] for role in roles}
    if different and len(roles) > 1 and len(everybody) == 1:
        return f"+all-{everybody.pop()}"
    return "".join(f"+{role}-{players[role]}" for role in different)


def asked_role(roles: RoleNames) -> list[str]:
    """The role of the User Answerer, where nobody rewrites."""
    return roles.supporting[:1]


def _folder_names(roles: RoleNames) -> dict[str, str]:
    """Role to model name in a form that directory names allow; several judges are joined."""
    names = {
        "support": roles.support,
        "answerer": roles.supporters[0],
        "rewriter": roles.supporters[1],
        "agent": roles.agent,
        "judge": "-".join(roles.judges),
    }
    return {role: name.replace("/", "_") for role, name in names.items()}


# --- Which model plays which role


PAPER_SUPPORT = "ernie"
PAPER_AGENT = "webdancer"
"""The paper's fixed roles: ERNIE-4.5-Turbo-128K, and WebDancer for the search (table 1, section 5.2)."""


@dataclass(frozen=True, slots=True)
class RoleNames:
    """Model names by role; several judges, the first of which gives the score."""

    support: str
    judges: tuple[str, ...]
    agent: str
    answerer: str = ""
    rewriter: str = ""
    """Who answers and rewrites in the place of `support`; "": it does so itself."""
    visit: str | None = None
    """The model that reads pages for the agent; None: passages are chosen by term overlap."""

    @property
    def supporters(self) -> tuple[str, str]:
        """The names of the answerer and of the rewriter."""
        return self.answerer or self.support, self.rewriter or self.support

    @property
    def supporting(self) -> list[str]:
        """The supporting roles that somebody plays: the answerer and the rewriter apart, or both as `support`."""
        if self.answerer or self.rewriter:
            return ["answerer", "rewriter"]
        return ["support"]


def choose_roles(config: RunConfig, defaults: Mapping[str, str], *, web: bool = False) -> RoleNames:
    """Who plays the fixed roles: by option, else `--all`, else cts.toml's [roles] (`defaults`), else as in the paper.

    Where every Clarifier is the embedded model, it plays all other roles too, since it needs no key. Pages of the
    `web` are read by the support model, and documents by term overlap, unless [roles] or an option says otherwise.
    """
    embedded = bool(config.models) and all(name.partition("@")[0] == "local" for name in config.models)
    paper = {"support": PAPER_SUPPORT, "judge": PAPER_SUPPORT, "agent": PAPER_AGENT}

    def usual(role: str) -> str:
        if config.every_role is not None:
            return config.every_role
        if role in defaults:
            return defaults[role]
        return "local" if embedded else paper[role]

    support, agent = config.support, config.agent
    if support is None:
        support = usual("support")
    if agent is None:
        agent = usual("agent")
    chosen_reader = config.visit_model
    if web:
        chosen_reader = chosen_reader or config.every_role
    reader = chosen_reader or defaults.get("visit") or (support if web else LEXICAL)
    # The embedded model would copy the prompt's words, or make some up: it reads pages only where it is named for that.
    if reader.partition("@")[0] == "local" and reader not in (config.visit_model, defaults.get("visit")):
        reader = LEXICAL
    return RoleNames(
        support,
        judges=tuple(config.judges) or (usual("judge"),),
        agent=agent,
        answerer=config.answerer or "",
        rewriter=config.rewriter or "",
        visit=None if reader == LEXICAL else reader,
    )


def resolve_all(
    roles_by_model: Mapping[str, Sequence[str]],
    catalogue: Catalogue,
    environ: Mapping[str, str],
    *,
    also_missing: Sequence[str] = (),
    options: str,
    trial: str = "--all baseline",
    keyless: bool = False,
    keys_elsewhere: bool = False,
) -> dict[str, ModelSpec]:
    """Specs by name. Raises one UsageError that lists every missing variable with the roles that need it.

    `roles_by_model` has the roles that a model plays, by its name; `also_missing` lists what searches and visits lack,
    in the same form. `options` are the command's options that choose other models, `trial` those that need no key.

    With `keyless`, keys and addresses may be missing: the plan is only looked at. With `keys_elsewhere`, only keys may
    be missing: the workers that execute the plan have them.
    """
    specs: dict[str, ModelSpec] = {}
    lacking: list[str] = []
    for name, roles in roles_by_model.items():
        if name == LEXICAL:
            continue
        missing = catalogue.missing_variables(name, environ)
        optional: Sequence[str] = ()
        if keys_elsewhere:
            optional = catalogue.missing_variables(name, environ, keys_only=True)
        elif keyless:
            optional = missing
        needed = [variable for variable in missing if variable not in optional]
        for variable in needed:
            lacking.append(f"{variable} ({', '.join(roles)}: {name})")
        if needed:  # all that is missing is told together, in one error
            continue
        # An address that nobody can reach, lest a request goes anywhere by mistake (RFC 6761: .invalid).
        placeholders = {variable: f"http://{variable.lower()}.invalid/v1" for variable in optional}
        specs[name] = catalogue.resolve(name, dict(environ) | placeholders)
    if keyless or keys_elsewhere:
        also_missing = ()
    if lacking or also_missing:
        alternatives = []
        hint = ""
        if lacking:
            alternatives.append(f"models you have ({options})")
            # A trial without keys helps only where the models' keys are all that is missing.
            if not also_missing:
                hint = f", or try without any key: {trial}"
        if also_missing:
            alternatives.append("another web (--search, --visit)")
        raise UsageError(
            f"missing in the environment: {', '.join(chain(lacking, also_missing))}. "
            f"Set what is missing, or choose {' and '.join(alternatives)}{hint}"
        )
    return specs


def with_embedded_file(specs: Mapping[str, ModelSpec], environ: Mapping[str, str]) -> dict[str, ModelSpec]:
    """`specs` with the embedded model named by its file: results of one such model are not those of another."""
    if not any(spec.embedded for spec in specs.values()):
        return dict(specs)
    stem = model_file(environ).stem
    specs_with_file = {}
    for name, spec in specs.items():
        if spec.embedded:
            spec = replace(spec, model=stem)
        specs_with_file[name] = spec
    return specs_with_file


def manifest_prices(specs: Iterable[ModelSpec]) -> dict[str, dict[str, float | None]]:
    """Dollars per million tokens by model id, as a manifest records them."""
    prices = {}
    for spec in specs:
        prices[spec.model] = price_table(
            spec.input_usd_per_mtok,
            spec.output_usd_per_mtok,
            spec.cached_input_usd_per_mtok,
            spec.cache_write_usd_per_mtok,
            tier_prices(spec),
        )
    return prices


def tier_notes(specs: Mapping[str, ModelSpec]) -> dict[str, dict[str, str]]:
    """The field of a manifest that says in which tiers models are asked; none where all are asked live."""
    tiers = {name: spec.tier for name, spec in specs.items() if spec.tier}
    if not tiers:
        return {}
    return {"tiers": tiers}


def remarks_on_tiers(specs: Mapping[str, ModelSpec], *, cheap: bool) -> Iterator[str]:
    """Say which models are asked in a tier, and with --cheap which have none."""
    for name, spec in specs.items():
        tier = spec.asked_tier
        if tier is not None:
            waits = ""
            if tier.waits:
                waits = f" (may take {tier.waits})"
            yield f"{name} is asked in the tier {spec.tier} at {tier.price:g} of its price{waits}"
        elif cheap and not spec.is_free:
            yield (
                f"{name} has no cheaper tier of the ordinary call and is asked live, at its full price "
                f"([models.{spec.alias}.tiers.NAME] in cts.toml adds one)"
            )


def check_prices(specs: Iterable[ModelSpec]) -> None:
    """Raises UsageError naming every model whose price is unknown: its dollars could not be counted."""
    unpriced = [spec.name for spec in specs if model_prices(spec) is None]
    if unpriced:
        raise UsageError(
            f"--max-usd needs the price of {', '.join(unpriced)}: give input_usd_per_mtok and "
            "output_usd_per_mtok in its table of cts.toml ([models.NAME], with its id as model), "
            "or limit --max-tokens instead"
        )
