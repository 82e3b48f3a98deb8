"""What judging will take, on a terminal or as JSON."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.protocol.estimates import PER_NUGGET, SENDING_S, TOKENS_PER_S
from cts_async.protocol.forecast import JudgingForecast
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.report.planned import count, duration, money
from cts_async.report.whole_table import NAME_WIDTH, print_whole

HEADINGS = ("judge", "left", "distinct", "calls", "tokens in", "out", "cost")


def foreseen_json(plan: JudgePlan, foreseen: JudgingForecast) -> dict[str, Any]:
    """Everything that the table says, unrounded but for tokens."""
    return {
        "systems": [{"system": one.name, "answers": len(one.answers)} for one in plan.targets],
        "answers": plan.n_answers,
        "total": {**foreseen.total.as_json(), "time_s": round(foreseen.time_s, 1)},
        "judges": [
            {
                "judge": one.judge,
                "answers_left": one.n_left,
                "distinct": one.n_questions,
                **one.work.effort.as_json(),
            }
            for one in foreseen.judges
        ],
        "accounts": [
            {
                "account": lane.name,
                "models": list(lane.models),
                "time_s": round(lane.time_s, 1),
                "bound_by": lane.binding,
            }
            for lane in foreseen.lanes
        ],
    }


def print_foreseen(console: Console, plan: JudgePlan, foreseen: JudgingForecast) -> None:
    """Each judge, the whole, and what was assumed."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    systems = len(plan.targets)
    say(f"{plan.n_answers:,} answers of {systems} {'system' if systems == 1 else 'systems'}.")
    if not foreseen.judges:
        say("The lexical judge asks nobody and costs nothing.")
        return
    if not foreseen.total.calls:
        say("Every one of them is judged: nothing is left to do.")
        return
    print_whole(console, _table(foreseen))
    times = [f"{lane.name} {duration(lane.time_s)}, bound by {lane.binding}" for lane in foreseen.lanes]
    say(f"At least {duration(foreseen.time_s)} ({'; '.join(times)}).")
    say(
        f"Assumed: {PER_NUGGET:g} tokens a nugget judged, no hidden reasoning; a call takes {SENDING_S:g} s and its "
        f"reply at {TOKENS_PER_S:g} tokens a second; none fails. Prompts are rendered over a sample of the answers."
    )


def _table(foreseen: JudgingForecast) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), pad_edge=False)
    table.add_column(HEADINGS[0], overflow="fold", min_width=NAME_WIDTH)
    for heading in HEADINGS[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for one in foreseen.judges:
        effort = one.work.effort
        tokens = count(effort.input_tokens), count(effort.output_tokens)
        left = f"{one.n_left:,}", f"{one.n_questions:,}"
        table.add_row(Text(one.judge), *left, count(effort.calls), *tokens, money(effort))
    return table
