"""The nugget extractor: a golden reference from the evidence of one search (paper, section 4.2 and prompt D)."""

from __future__ import annotations

from cts_async.engine.runner import Context
from cts_async.protocol.gold_check import Gold
from cts_async.protocol.gold_form import GoldForm
from cts_async.protocol.role import Role
from cts_async.protocol.sources import source_lines
from cts_async.protocol.views import ExtractorView
from cts_async.records import language_of

EXTRACTING = "extract"
"""The name of the extractor's step."""


async def extract_gold(ctx: Context, extractor: Role, view: ExtractorView) -> Gold:
    """The gold of the view's query; asked again, with everything that was wrong, until it is good.

    `view.sources` is not empty. Raises UnusableOutput where it never becomes good.
    """
    small = extractor.model.spec.prompt_size == "small"
    return await extractor.ask(
        ctx,
        EXTRACTING,
        "gold",
        language_of(view.query),
        GoldForm(view.sources),
        on_record=("query", "answer", "sources"),
        query=view.query,
        answer=view.answer,
        sources=source_lines(view.sources, small=small),
    )
