"""The coverage judges: a label for each nugget (paper, section 4.4.1 and prompt E).

A judge is anything with a name that labels a JudgeView: a model, or `lexical`, which needs no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from cts_async.engine.runner import Context
from cts_async.llm.coverage import CoverageList
from cts_async.protocol.lexical import judge_lexically
from cts_async.protocol.roles import Role
from cts_async.protocol.views import JudgeView
from cts_async.records import Coverage, Judgment, Nugget, language_of

LEXICAL = "lexical"
JUDGING = "judge/"
"""Prefix of the names of judging steps; the judge's name follows."""
MAX_BRIEFS = 4096

Labels: TypeAlias = tuple[tuple[str, Coverage], ...]


class Judge(Protocol):
    @property
    def name(self) -> str: ...

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        """Label every nugget of the view exactly once."""


def nothing_covered(judge: str, nuggets: Sequence[Nugget]) -> Judgment:
    """The verdict on an empty answer, which needs no call."""
    return Judgment(judge, tuple((nugget.id, "none") for nugget in nuggets))


class ModelJudge:
    """A model with the strict rubric of prompt E.

    The question depends on the query, the nuggets' texts in their order and the answer, and on nothing else: it has
    numbers of its own (N1, N2, ...) instead of the gold's ids, and the step's key names no instance. So equal questions
    are one step for all instances. More nuggets than the model's `judge_nuggets` are asked about in several concurrent
    calls; if one fails, the verdict fails.
    """

    def __init__(self, name: str, role: Role) -> None:
        self.name, self.role = name, role
        self._step = f"{JUDGING}{name}"
        self._briefs: dict[int, _Brief] = {}

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        brief = self._brief(view)
        if len(brief.parts) == 1:
            labels = await self._ask(ctx, view, brief.parts[0])
        else:
            parts = await ctx.gather([partial(self._ask, ctx, view, part) for part in brief.parts])
            labels = tuple(pair for pairs in parts for pair in pairs)
        return Judgment(self.name, brief.under_own_ids(labels))

    async def _ask(self, ctx: Context, view: JudgeView, part: _Part) -> Labels:
        return await self.role.ask(
            ctx,
            self._step,
            "judge",
            language_of(view.query),
            part.expect,
            on_record=("query", "nuggets", "candidate_answer"),
            shared=True,
            query=view.query,
            nuggets=part.text,
            candidate_answer=view.candidate_answer,
        )

    def _brief(self, view: JudgeView) -> _Brief:
        """The nuggets as text; cached by identity, since many answers are judged by the very same tuple of nuggets."""
        brief = self._briefs.get(id(view.nuggets))
        if brief is None or brief.nuggets is not view.nuggets:
            if len(self._briefs) >= MAX_BRIEFS:
                self._briefs.clear()
            brief = _brief_of(view.nuggets, self.role.model.spec.judge_nuggets)
            self._briefs[id(view.nuggets)] = brief
        return brief


@dataclass(frozen=True, slots=True)
class _Part:
    """The nuggets of one call, and the form of the reply."""

    text: str
    expect: CoverageList


@dataclass(frozen=True, slots=True)
class _Brief:
    """Nuggets as text, split into calls in the order of the gold."""

    nuggets: tuple[Nugget, ...]
    parts: tuple[_Part, ...]
    ids: tuple[str, ...] | None
    """The gold's own ids; None if they equal the numbers that the judge reads."""

    def under_own_ids(self, labels: Labels) -> Labels:
        if self.ids is None:
            return labels
        return tuple((id, label) for id, (_, label) in zip(self.ids, labels, strict=True))


def _brief_of(nuggets: tuple[Nugget, ...], per_call: int) -> _Brief:
    ids = tuple(nugget.id for nugget in nuggets)
    numbers = tuple(f"N{n}" for n in range(1, len(nuggets) + 1))
    parts = tuple(
        _Part(text, CoverageList(numbers[start : start + per_call]))
        for start, text in zip(
            range(0, len(nuggets), per_call), nuggets_by_call(nuggets, per_call), strict=True
        )
    )
    return _Brief(nuggets, parts, None if ids == numbers else ids)


@dataclass(frozen=True, slots=True)
class LexicalJudge:
    """Term recall: deterministic, no calls (see `lexical`)."""

    name: str = LEXICAL

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        return judge_lexically(view.nuggets, view.candidate_answer)


def nuggets_by_call(nuggets: Sequence[Nugget], per_call: int) -> list[str]:
    """The nuggets as a judge reads them, numbered, one a line: a text for each call."""
    lines = [f"N{n}: {_one_line(nugget.text)}" for n, nugget in enumerate(nuggets, 1)]
    return ["\n".join(lines[start : start + per_call]) for start in range(0, len(lines), per_call)]


def _one_line(text: str) -> str:
    return " ".join(text.split())
