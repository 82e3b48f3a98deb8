"""A role: a model that is given a prompt, the fields of its view, and a form to answer in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from cts_async.engine.runner import Context
from cts_async.llm.model import Model
from cts_async.llm.structured import Expect
from cts_async.protocol.prompts import PromptSet
from cts_async.records import Language

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Role:
    """Who speaks (a model) and from which prompts."""

    model: Model
    prompts: PromptSet

    async def ask(
        self,
        ctx: Context,
        step: str,
        prompt: str,
        language: Language,
        expect: Expect[T],
        **fields: Any,
    ) -> T:
        """Render `prompt` with `fields`, ask, and read the reply as `expect`; remembered as `step`."""
        rendered = self.prompts.get(prompt, language, self.model.spec.prompt_size)
        values = {name: str(value) for name, value in fields.items()}
        request = {"prompt": rendered.name, "fields": values}
        return await self.model.ask(ctx, step, rendered.render(**values), expect, request=request)
