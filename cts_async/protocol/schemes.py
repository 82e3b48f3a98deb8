"""The prompting schemes of AT-CoT (SIGIR 2025, sections 3.2 and 4.4): what a Clarifier is asked for at a turn.

    scheme        thinks before    is told of ambiguity types    equation
    standard      -                -                             1: p(c | D, C, q)
    at-standard   -                yes                           2: p(c | D, A, C, q)
    cot           freely           -                             3: p(a, c | D, C, q)
    at-cot        which apply      yes, and names them           4: p(a, c | D, A, C, q)

All are few-shot and reply in JSON; one that cannot be used is asked for again up to 10 times. A question that
was asked before is discouraged by the prompts, but taken as it is: a turn lost is the Clarifier's own, and is
measured. The paper's temperature of 0.6 is a matter of the model's entry in the catalogue.
"""

from __future__ import annotations

from typing import Final, Literal

from cts_async.engine.runner import Context
from cts_async.engine.step import RetryPolicy
from cts_async.llm.scheme_forms import Clarification, Clarified
from cts_async.protocol.role import Role
from cts_async.protocol.systems import System
from cts_async.protocol.told import told
from cts_async.protocol.views import TurnView
from cts_async.records import Mode, Scheme, language_of

__all__ = ["PATIENT", "QUERIES_OFFERED", "clarify_turn", "form_of", "offering_of", "prompt_of", "prompts_of"]

Offering = Literal["questions", "queries"]

PATIENT: Final = RetryPolicy(max_unusable=10)
"""The patience of the conversation's steps: "maximum number of retry attempts set to 10" (section 4.4)."""
QUERIES_OFFERED: Final = 5
"""Reformulated queries at each turn of mode "select" (section 4.2)."""


def offering_of(mode: Mode) -> Offering:
    """What a Clarifier offers in this mode."""
    return "queries" if mode == "select" else "questions"


def prompt_of(scheme: Scheme, mode: Mode) -> str:
    """The name of a Clarifier's prompt: "clarify" for the benchmark's own scheme, which asks at once only."""
    if scheme == "cts":
        return "clarify"
    return scheme.replace("-", "_") + ("_queries" if mode == "select" else "")


def prompts_of(system: System) -> list[str]:
    """The names of the prompts that a system may use before it searches; none for the reference points."""
    if system.kind != "clarify":
        return []
    said = {
        "at-once": ["answer", "rewrite"],
        "respond": ["respond", "reformulate"],
        "select": ["select_query"],
    }
    return [prompt_of(system.scheme, system.mode), *said[system.mode]]


def form_of(scheme: Scheme, mode: Mode, k: int) -> Clarification:
    """What a reply of `k` questions or queries has to hold."""
    return Clarification(
        k, offering_of(mode), reasoning=scheme in ("cot", "at-cot"), types=scheme == "at-cot"
    )


async def clarify_turn(
    ctx: Context, clarifier: Role, view: TurnView, scheme: Scheme, mode: Mode, turn: int
) -> Clarified:
    """What the Clarifier offers at turn `turn` (from 1), remembered as `clarify/TURN`."""
    language = language_of(view.conversation.first_query)
    return await clarifier.ask(
        ctx,
        f"clarify/{turn}",
        prompt_of(scheme, mode),
        language,
        form_of(scheme, mode, view.k),
        policy=PATIENT,
        conversation=told(view.conversation, offering_of(mode), language),
        blurred_query=view.blurred_query,
        k=view.k,
    )
