"""The selecting user: which of the queries offered comes closest to q* (AT-CoT, table 4, scenario select)."""

from __future__ import annotations

from cts_async.engine.runner import Context
from cts_async.llm.scheme_forms import Choice
from cts_async.protocol.role import Role
from cts_async.protocol.schemes import PATIENT
from cts_async.protocol.told import numbered, told
from cts_async.protocol.views import SelectorView
from cts_async.records import language_of


async def select(ctx: Context, selector: Role, view: SelectorView, turn: int) -> int:
    """The place in `view.offered`, from 0, of the query that the user chooses; remembered as `select/TURN`."""
    language = language_of(view.fused_query)
    return await selector.ask(
        ctx,
        f"select/{turn}",
        "select_query",
        language,
        Choice(view.offered),
        on_record=("clear_query",),
        policy=PATIENT,
        clear_query=view.fused_query,
        conversation=told(view.conversation, "queries", language),
        offered_queries=numbered(view.offered),
    )
