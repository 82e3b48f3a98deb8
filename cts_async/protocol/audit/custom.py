"""Custom roles: which steps of theirs are audited, and what their models and tools may be asked.

    step                request                        checked against
    clarify             its view: q, k                 as for a model
    answer/i            question i, q* by its digest   as for a model
    rewrite             q, pairs                       as for a model
    clarify/t           q, k, pairs                    what was asked and answered before turn t
    answer/t            question, pairs, q*            the question of clarify/t after those pairs
    reformulate/t       q, pairs                       what was asked and answered until then
    search              its query                      the Rewriter's reply; q for orig, q* for gold
    STEP/llm/n          messages and parameters        no text that occurs only in q*
    STEP/tool/n/...     a query or an address          no text that occurs only in q*

The User Answerer, and the agent of the system gold, may tell their models what they like: they know q*. For the others,
text of q* is no finding if a recorded reply to the same instance has it (a model's, or what a search found), or if the
role's messages have it for other instances too: then it is a part of the role's own prompt.

That the code behind a custom role asks nobody else cannot be proved from the journal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import orjson

from cts_async.custom import RoleName
from cts_async.protocol.audit.evidence import AUDITED, Record
from cts_async.protocol.audit.text import Secret, unit_texts

ROLES: Final[Mapping[str, RoleName]] = {
    "clarify": "clarifier",
    "answer": "answerer",
    "rewrite": "rewriter",
    "reformulate": "rewriter",
    "search": "agent",
}
"""The role of each step that may be a custom role's, by the first word of its name."""
VIEWS: Final[Mapping[str, frozenset[str]]] = {
    "clarify": frozenset({"blurred_query", "k"}),
    "answer": frozenset({"question"}),
    "rewrite": frozenset({"blurred_query", "pairs"}),
    "reformulate": frozenset({"blurred_query", "pairs"}),
    "search": frozenset({"query"}),
}
"""The fields of its view, but for q*, of which the journal has the digest, and the `pairs` before a turn."""
_INNER: Final = r"/(?:llm/\d+|tool/\d+/(?:query|page)/\d+)"
_IS_INNER: Final = re.compile(rf"(clarify(?:/\d+)?|(?:answer|reformulate)/\d+|rewrite|search){_INNER}")
_OWN_STEP: Final[Mapping[str, str]] = {
    "clarify": r"clarify(?:/\d+)?",
    "answer": r"answer/\d+",
    "rewrite": "rewrite",
    "reformulate": r"reformulate/\d+",
    "search": "search",
}
_NAME: Final = re.compile("[a-z_]{1,24}")
_SHARED: Final = 0.25
"""Text in the messages for so many of the instances is the role's own prompt."""
_FEW: Final = 4
"""Instances below which a role's own prompt cannot be told apart: then only long pieces of q* are found."""
_LONG: Final = 4
"""Units of a long piece."""


class Unproven(NamedTuple):
    """A player that is code, and the roles that it plays."""

    label: str
    roles: tuple[RoleName, ...]

    def __str__(self) -> str:
        roles = ", ".join(self.roles)
        return f"not proven: {self.label} is code of yours and may call out by itself (plays: {roles})"


def custom_labels(identity: Mapping[str, Any]) -> dict[RoleName, str]:
    """Return the labels of the custom roles that a manifest names, by role."""
    models = identity.get("models")
    models = models if isinstance(models, dict) else {}
    found = {role: models.get(role) for role in ROLES.values()}
    return {
        role: str(one.get("name")) for role, one in found.items() if isinstance(one, dict) and "custom" in one
    }


def unproven(labels: Mapping[RoleName, str]) -> tuple[Unproven, ...]:
    """Return each player with its roles."""
    return tuple(
        Unproven(label, tuple(role for role, its in labels.items() if its == label))
        for label in dict.fromkeys(labels.values())
    )


def audited_steps(labels: Mapping[RoleName, str]) -> re.Pattern[str]:
    """Return the pattern of the steps to audit in a run with these custom roles."""
    own = [_OWN_STEP[first] for first, role in ROLES.items() if role in labels]
    return re.compile(rf"{AUDITED.pattern}|(?:{'|'.join(own)})(?:{_INNER})?") if own else AUDITED


def asking_step(step: str) -> str | None:
    """Return the step in which `step` asked a model or a tool; None if it is no such question."""
    found = _IS_INNER.fullmatch(step)
    return found[1] if found else None


def asked_texts(request: Any) -> Iterator[str]:
    """Yield what a question to a model or a tool says; not what a tool replied to the model before."""
    match request:
        case {"messages": list(messages), **others}:
            written = [one for one in messages if not (isinstance(one, dict) and one.get("role") == "tool")]
            yield from texts_in([written, others])
        case _:
            yield from map(unquote, texts_in(request))


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names that are no identifiers too, and what texts of JSON hold."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            with suppress(orjson.JSONDecodeError, RecursionError):
                yield from texts_in(orjson.loads(value))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if not _NAME.fullmatch(name):
                yield name
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


@dataclass(slots=True)
class OwnPrompts:
    """Text of the intents that custom roles send for many instances: it stands in their own prompts."""

    n: Counter[str] = field(default_factory=Counter)
    """Instances in which each step asked a model or a tool."""
    singles: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: Counter[tuple[str, tuple[str, str]]] = field(default_factory=Counter)

    def read(self, instances: Iterable[Iterable[Record]], intents: Iterable[str]) -> None:
        """Count in how many instances a step's questions have each unit, and each pair, of any intent."""
        units, pairs = set[str](), set[tuple[str, str]]()
        for intent in intents:
            found = unit_texts(intent)
            units.update(found)
            pairs.update(pairwise(found))
        for records in instances:
            singles_here, pairs_here, steps = set(), set(), set()
            for record in records:
                if (own := asking_step(str(record["step"]))) is None:
                    continue
                steps.add(own)
                for text in asked_texts(record.get("request")):
                    found = unit_texts(text)
                    singles_here |= {(own, unit) for unit in found if unit in units}
                    pairs_here |= {(own, pair) for pair in pairwise(found) if pair in pairs}
            self.n.update(steps)
            self.singles.update(singles_here)
            self.pairs.update(pairs_here)

    def without(self, secret: Secret, step: str) -> Secret:
        """Return what of a secret is not in the own prompt of this step."""
        least = max(2, _SHARED * self.n[step])
        return Secret(
            frozenset(one for one in secret.singles if self.singles[step, one] < least),
            frozenset(one for one in secret.pairs if self.pairs[step, one] < least),
        )

    def tells(self, span: str, step: str) -> bool:
        """Return whether a piece of q* says enough to be a finding."""
        return self.n[step] >= _FEW or len(unit_texts(span)) >= _LONG
