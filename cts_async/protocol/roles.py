"""Which model plays which role, and whether everything it needs is there. Pure: the environment is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.llm.local import model_file
from cts_async.protocol.judge import LEXICAL

PAPER_SUPPORT = "ernie"
PAPER_AGENT = "webdancer"
"""The paper's fixed roles: ERNIE-4.5-Turbo-128K, and WebDancer for the search (table 1, section 5.2)."""


@dataclass(frozen=True, slots=True)
class RoleNames:
    """Model names by role; several judges, the first of which gives the score."""

    support: str
    judges: tuple[str, ...]
    agent: str
    visit: str | None = None
    """Who reads pages for the agent; None: they are read by their words."""


def choose_roles(
    clarifiers: Sequence[str],
    defaults: Mapping[str, str],
    *,
    support: str | None,
    judges: Sequence[str],
    agent: str | None,
    every_role: str | None,
    visit: str | None = None,
    web: bool = False,
) -> RoleNames:
    """An option wins over `--all`, that over cts.toml's [roles], that over the paper's choice.

    Where every Clarifier is the embedded model, so is everything else: it needs no key. Pages of the `web` are
    read by the support model, documents of one's own by their words, unless [roles] or an option says otherwise.
    """
    embedded = bool(clarifiers) and all(name == "local" for name in clarifiers)
    paper = {"support": PAPER_SUPPORT, "judge": PAPER_SUPPORT, "agent": PAPER_AGENT}

    def name(role: str) -> str:
        if every_role is not None:
            return every_role
        return defaults.get(role) or ("local" if embedded else paper[role])

    support = name("support") if support is None else support
    reader = visit or (every_role if web else None) or defaults.get("visit") or (support if web else LEXICAL)
    return RoleNames(
        support,
        tuple(judges) or (name("judge"),),
        name("agent") if agent is None else agent,
        None if reader == LEXICAL else reader,
    )


def default_players(defaults: Mapping[str, str]) -> dict[str, str]:
    """Role to model name where no option says otherwise; `defaults` are cts.toml's [roles].

    A run without `--model` is clarified by the embedded model, which then plays the other roles as well.
    """
    chosen = choose_roles(["a model"], defaults, support=None, judges=(), agent=None, every_role=None)
    players = {
        "clarifier": "local",
        "support": chosen.support,
        "judge": chosen.judges[0],
        "agent": chosen.agent,
    }
    return players | ({"extractor": defaults["extractor"]} if "extractor" in defaults else {})


def with_stand_ins(
    wanted: Iterable[str], catalogue: Catalogue, environ: Mapping[str, str], *, keys_only: bool = False
) -> dict[str, str]:
    """`environ` with something in place of every variable that is missing: enough to plan, not to call."""
    lacks = catalogue.missing_keys if keys_only else catalogue.missing_variables
    missing = {variable for name in wanted if name != LEXICAL for variable in lacks(name, environ)}
    return {**environ, **{name: f"http://{name.lower()}.invalid/v1" for name in missing}}


def resolve_all(
    wanted: Mapping[str, Sequence[str]],
    catalogue: Catalogue,
    environ: Mapping[str, str],
    *,
    also_missing: Sequence[str] = (),
    options: str,
    keyless: str = "--all local",
) -> dict[str, ModelSpec]:
    """Specs by name. Raises UsageError that lists every missing variable at once, with who needs it.

    `wanted` maps a model's name to the roles it plays; `also_missing` is what searches and visits lack, in the
    same words. `options` choose other models, `keyless` those that need no key, at the command that asks.
    """
    specs: dict[str, ModelSpec] = {}
    missing: list[str] = []
    for name, roles in wanted.items():
        if name == LEXICAL:
            continue
        lacks = catalogue.missing_variables(name, environ)
        if lacks:
            missing += [f"{variable} ({', '.join(roles)}: {name})" for variable in lacks]
        else:
            specs[name] = catalogue.resolve(name, environ)
    if missing or also_missing:
        others = [f"models you have ({options})"] * bool(missing)
        others += ["another web (--search, --visit)"] * bool(also_missing)
        trial = f", or try without any key: {keyless}" if missing and not also_missing else ""
        raise UsageError(
            f"missing in the environment: {', '.join([*missing, *also_missing])}. "
            f"Set what is missing, or choose {' and '.join(others)}{trial}"
        )
    return specs


def with_embedded_file(specs: Mapping[str, ModelSpec], environ: Mapping[str, str]) -> dict[str, ModelSpec]:
    """`specs` with the embedded model called by its file's name: results of one such model are not another's."""
    if not any(spec.embedded for spec in specs.values()):
        return dict(specs)
    stem = model_file(environ).stem
    return {name: replace(spec, model=stem) if spec.embedded else spec for name, spec in specs.items()}
