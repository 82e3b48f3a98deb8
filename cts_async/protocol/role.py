"""A role: a model that is given a prompt, the fields of its view, and a form to answer in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cts_async.engine.runner import Context
from cts_async.engine.step import RetryPolicy, step_key
from cts_async.llm.model import Model
from cts_async.llm.parsing import Expect
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
        *,
        on_record: Sequence[str] = (),
        shared: bool = False,
        policy: RetryPolicy | None = None,
        **fields: Any,
    ) -> T:
        """Render `prompt` with `fields`, ask, and read the reply as `expect`; remembered as `step`.

        The fields named in `on_record` stand verbatim in the run's data or results already: the journal
        gets one digest of them instead of their text (see `request_json`). A `shared` step is the same
        step for every instance that asks the same; all its fields have to be `on_record`. `policy` is the
        step's own patience, e.g. how often the model is asked again; None: the runner's.
        """
        rendered = self.prompts.get(prompt, language, self.model.spec.prompt_size)
        values = {name: str(value) for name, value in fields.items()}
        digest = _digest(values, on_record) if on_record else ""
        request = _request(rendered.name, values, on_record, digest)
        # The prompt's text and its fields determine the messages; a digest that is there is not made twice.
        # What many instances share is told apart by all of it.
        key_on = [rendered.sha256, digest if shared else request] if on_record else None
        messages = rendered.render(**values)
        return await self.model.ask(
            ctx, step, messages, expect, request=request, key_on=key_on, shared=shared, policy=policy
        )


def request_json(prompt: str, values: Mapping[str, str], on_record: Sequence[str] = ()) -> dict[str, Any]:
    """A role's request as the journal has it: `{"prompt", "fields", "on_record"}`, empty parts left out.

    `fields` are the texts that stand nowhere else. `on_record` are 16 hex digits over the others by name,
    enough to prove which text of the data it was: compute them again from there and compare.
    """
    return _request(prompt, values, on_record, _digest(values, on_record) if on_record else "")


def _request(prompt: str, values: Mapping[str, str], on_record: Sequence[str], digest: str) -> dict[str, Any]:
    new = {name: value for name, value in values.items() if name not in on_record}
    request: dict[str, Any] = {"prompt": prompt}
    if new:
        request["fields"] = new
    if digest:
        request["on_record"] = digest[:16]
    return request


def _digest(values: Mapping[str, str], on_record: Sequence[str]) -> str:
    return step_key({name: values[name] for name in on_record})
