"""The reformulator: a conversation summed up as one query (AT-CoT, table 4; there is none in mode "select")."""

from __future__ import annotations

from cts_async.engine.runner import Context
from cts_async.llm.parsing import OneLine
from cts_async.protocol.role import Role
from cts_async.protocol.schemes import PATIENT
from cts_async.protocol.told import told
from cts_async.protocol.views import ReformulatorView
from cts_async.records import language_of


async def reformulate(ctx: Context, reformulator: Role, view: ReformulatorView, turn: int) -> str:
    """The query after turn `turn` (from 1), one non-empty line; remembered as `reformulate/TURN`."""
    language = language_of(view.conversation.first_query)
    return await reformulator.ask(
        ctx,
        f"reformulate/{turn}",
        "reformulate",
        language,
        OneLine(),
        policy=PATIENT,
        conversation=told(view.conversation, "questions", language),
    )
