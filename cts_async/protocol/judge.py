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
from cts_async.records import Judgment, language_of

LEXICAL = "lexical"


class Judge(Protocol):
    @property
    def name(self) -> str: ...

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        """Label every nugget of the view exactly once."""


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """A model with the strict rubric of prompt E."""

    name: str
    role: Role

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        coverage = await self.role.ask(
            ctx,
            f"judge/{self.name}",
            "judge",
            language_of(view.query),
            CoverageList(tuple(nugget.id for nugget in view.nuggets)),
            on_record=("query", "nuggets", "candidate_answer"),
            query=view.query,
            nuggets="\n".join(f"{nugget.id}: {_one_line(nugget.text)}" for nugget in view.nuggets),
            candidate_answer=view.candidate_answer,
        )
        return Judgment(self.name, coverage)


@dataclass(frozen=True, slots=True)
class LexicalJudge:
    """Term recall: deterministic, no calls (see `lexical`)."""

    name: str = LEXICAL

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        return judge_lexically(view.nuggets, view.candidate_answer)


def _one_line(text: str) -> str:
    return " ".join(text.split())
