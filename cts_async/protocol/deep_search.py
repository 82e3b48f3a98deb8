"""Deep search as a role: its prompt around the agent's loop."""

from __future__ import annotations

from dataclasses import dataclass

from cts_async.engine.runner import Context
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.views import SearchView
from cts_async.records import AgentPrompt, Trace, language_of
from cts_async.search.agent import Agent


@dataclass(frozen=True, slots=True)
class DeepSearch:
    """The agent with its prompts; `current_date` (YYYY-MM-DD) and `prompt` are fixed for a whole run."""

    agent: Agent
    prompts: PromptSet
    current_date: str
    prompt: AgentPrompt = "query"

    async def search(self, ctx: Context, view: SearchView, *, anew: bool = False) -> Trace:
        """Search until there is an answer, or the budget of model calls is spent; `anew` as in `Agent.run`."""
        language = self.prompt if self.prompt in ("en", "zh") else language_of(view.query)
        prompt = self.prompts.agent(self.prompt, view.query, self.agent.model.spec.prompt_size)
        fields = {"question": view.query, "current_date": self.current_date}
        request = {"prompt": prompt.name, "fields": fields}
        opening = prompt.render(**fields)
        return await self.agent.run(ctx, view.query, opening, language, request, anew=anew)
