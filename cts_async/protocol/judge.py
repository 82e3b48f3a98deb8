"""The coverage judges: a label for each nugget (paper, section 4.4.1 and prompt E).

A judge is anything with a name that labels a JudgeView: a model, or `lexical`, which needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cts_async.engine.runner import Context
from cts_async.llm.structured import CoverageList
from cts_async.protocol.lexical import judge_lexically
from cts_async.protocol.role import Role
from cts_async.protocol.views import JudgeView
from cts_async.records import Judgment, Nugget, language_of

LEXICAL = "lexical"
JUDGING = "judge/"
"""What the names of judging steps begin with; the judge's name follows."""
MAX_BRIEFS = 4096


class Judge(Protocol):
    @property
    def name(self) -> str: ...

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        """Label every nugget of the view exactly once."""


class ModelJudge:
    """A model with the strict rubric of prompt E."""

    def __init__(self, name: str, role: Role) -> None:
        self.name, self.role = name, role
        self._step = f"{JUDGING}{name}"
        self._briefs: dict[int, _Brief] = {}

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        brief = self._brief(view)
        coverage = await self.role.ask(
            ctx,
            self._step,
            "judge",
            language_of(view.query),
            brief.expect,
            on_record=("query", "nuggets", "candidate_answer"),
            query=view.query,
            nuggets=brief.text,
            candidate_answer=view.candidate_answer,
        )
        return Judgment(self.name, coverage)

    def _brief(self, view: JudgeView) -> _Brief:
        """Many answers are judged by the same nuggets, the very same tuple: it is put into words once."""
        brief = self._briefs.get(id(view.nuggets))
        if brief is None or brief.nuggets is not view.nuggets:
            if len(self._briefs) >= MAX_BRIEFS:
                self._briefs.clear()
            expect = CoverageList(tuple(nugget.id for nugget in view.nuggets))
            brief = self._briefs[id(view.nuggets)] = _Brief(view.nuggets, nugget_lines(view.nuggets), expect)
        return brief


@dataclass(frozen=True, slots=True)
class _Brief:
    """What a model is told of some nuggets, and the form of its reply."""

    nuggets: tuple[Nugget, ...]
    text: str
    expect: CoverageList


@dataclass(frozen=True, slots=True)
class LexicalJudge:
    """Term recall: deterministic, no calls (see `lexical`)."""

    name: str = LEXICAL

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        return judge_lexically(view.nuggets, view.candidate_answer)


def nugget_lines(nuggets: tuple[Nugget, ...]) -> str:
    """The nuggets as a judge reads them, one a line."""
    return "\n".join(f"{nugget.id}: {_one_line(nugget.text)}" for nugget in nuggets)


def _one_line(text: str) -> str:
    return " ".join(text.split())
