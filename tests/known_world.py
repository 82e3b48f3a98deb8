"""A world in which every number can be worked by hand: 154 intents, three Clarifiers, and who answers what.

Instance i is about topic i. Which constraints its intent holds depends on i modulo 14, and 154 = 11 * 14, so that
each remainder occurs 11 times:

    kind                    i                   n     year  scope  city    weights    sum
    A  year and city        even, 7 | i         11     x            x      2+3+1       6
    B  city                 odd,  7 | i         11                  x      2+1         3
    C  year and scope       even, i%7 in 1-3    33     x     x             2+3+2       7
    D  scope                odd,  i%7 in 1-3    33           x             2+2         4
    E  year                 even, i%7 in 4-6    33     x                   2+3         5
    F  nothing              odd,  i%7 in 4-6    33                         2           2

The gold has a nugget of weight 2 that every answer covers, and one for each constraint of the intent (year 3, scope 2,
city 1). A constraint's nugget is covered when the rewritten query has the constraint: year and city in full,
the scope in part. The second judge, `strict`, gives nothing for the scope.

The Clarifiers ask, in this order: gpt year, scope, city; claude city, year, scope; kimi the scope where i
is even, else the city, then the year, then what is left. The User Answerer knows what the intent says. `forgetful`
in its place knows no city, and as Rewriter makes up the year 2023 where 11 | i and the year is unknown: 7 times, i = 99,
121, 143 (D), 11, 33, 55 (F) and 77 (B).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from fake_roles import field_of, role_of

N = 154
Slot = Literal["year", "scope", "city"]
SAID: Mapping[Slot, str] = {"year": "in 2024", "scope": "for beginners", "city": "in Berlin"}
WEIGHTS: Mapping[str, int] = {"base": 2, "year": 3, "scope": 2, "city": 1}
QUESTIONS: Mapping[Slot, str] = {
    "year": "Which year do you mean?",
    "scope": "Is it for beginners or for experts?",
    "city": "Which city do you mean?",
}


def slots_of(i: int) -> list[Slot]:
    """The constraints that the intent of instance `i` holds."""
    slots: list[Slot] = []
    if i % 2 == 0:
        slots.append("year")
    if i % 7 in (1, 2, 3):
        slots.append("scope")
    if i % 7 == 0:
        slots.append("city")
    return slots


def order_of(clarifier: str, i: int) -> list[Slot]:
    """What a Clarifier asks about instance `i`, best first."""
    if clarifier == "gpt":
        return ["year", "scope", "city"]
    if clarifier == "claude":
        return ["city", "year", "scope"]
    if i % 2 == 0:
        return ["scope", "year", "city"]
    return ["city", "year", "scope"]


def blurred(i: int) -> str:
    return f"rules for topic{i:03d}"


def fused(i: int) -> str:
    query = blurred(i)
    for slot in slots_of(i):
        query += f" {SAID[slot]}"
    return query


def write_data(directory: Path) -> tuple[Path, Path, Path]:
    """The queries, their gold and some documents, as the release has them."""
    queries = directory / "hard_518_queries.csv"
    gold = directory / "gold.jsonl"
    corpus = directory / "docs.jsonl"
    rows = ["id,fused_query,blurred_query"]
    for i in range(N):
        rows.append(f"q{i:03d},{fused(i)},{blurred(i)}")
    queries.write_text("\n".join(rows) + "\n")
    gold.write_text("".join(json.dumps(_gold(i)) + "\n" for i in range(N)))
    corpus.write_text(
        json.dumps({"id": "d", "url": "http://x.test/", "title": "Rules", "text": "Rules."}) + "\n"
    )
    return queries, gold, corpus


def _gold(i: int) -> dict[str, Any]:
    nuggets = []
    for n, name in enumerate(["base", *slots_of(i)], 1):
        text = f"topic{i:03d} covers {name}"
        nuggets.append({"id": f"N{n}", "text": text, "weight": WEIGHTS[name], "source_ids": ["S1"]})
    return {"id": f"q{i:03d}", "fused_query": fused(i), "gold": {"nuggets": nuggets}}


# --- Who says what -------------------------------------------------------------------------------------

MODELS = ("gpt", "claude", "kimi", "ernie", "webdancer", "strict", "forgetful")


def say(model: str, asked: str) -> str:
    """What `model` says to a user message, by the role that the message is for."""
    return _ROLES[role_of(asked)](model, asked)


def _topic(text: str) -> int:
    return int(re.findall(r"topic(\d{3})", text)[-1])


def _clarify(model: str, asked: str) -> str:
    k = int(re.findall(r"^K = (\d+)", asked, re.MULTILINE)[-1])
    i = _topic(field_of(asked, "blurred_query"))
    return json.dumps([QUESTIONS[slot] for slot in order_of(model, i)[:k]])


def _answer(model: str, asked: str) -> str:
    query, question = field_of(asked, "clear_query"), field_of(asked, "clarification_question")
    (slot,) = (slot for slot, text in QUESTIONS.items() if text == question)
    forgotten = model == "forgetful" and slot == "city"
    if forgotten or SAID[slot] not in query:
        return "unknown"
    return SAID[slot]


def _rewrite(model: str, asked: str) -> str:
    constraints = []
    for constraint in SAID.values():
        if re.search(rf"Answer \d+: {constraint}$", asked, re.MULTILINE):
            constraints.append(constraint)
    query = field_of(asked, "blurred_query")
    if model == "forgetful" and _topic(query) % 11 == 0 and SAID["year"] not in constraints:
        constraints.append("in 2023")
    return " ".join([query, *constraints])


def _agent(model: str, asked: str) -> str:
    query = asked.rpartition("User:")[2]
    covered = ["base"]
    for slot, constraint in SAID.items():
        if constraint in query:
            covered.append(slot)
    facts = ", ".join(f"topic{_topic(query):03d} covers {name}" for name in covered)
    return f"<think>I know it.</think>\n<answer>{facts}.</answer>"


def _judge(model: str, asked: str) -> str:
    nuggets = re.findall(r"^(N\d+): (.*)$", field_of(asked, "nuggets"), re.MULTILINE)
    candidate = field_of(asked, "candidate_answer")
    results = []
    for id, text in nuggets:
        results.append({"id": id, "coverage": _label(model, text, candidate)})
    return json.dumps({"results": results})


def _label(model: str, nugget: str, candidate: str) -> str:
    if nugget not in candidate:
        return "none"
    if nugget.endswith("scope"):
        if model == "strict":
            return "none"
        return "partial"
    return "full"


_ROLES: Mapping[str, Callable[[str, str], str]]
_ROLES = {"clarify": _clarify, "answer": _answer, "rewrite": _rewrite, "agent": _agent, "judge": _judge}


def write_config(directory: Path) -> None:
    """Write cts.toml with all models, each at an account of its own. Nothing listens there."""
    tables = [
        f'[models.{name}]\nbase_url = "http://127.0.0.1:9/{name}/v1"\nmodel = "{name}-id"\n'
        f'account = "{name}"\nkey_env = "KNOWN_API_KEY"\nrequests_per_min = 1e7\ntokens_per_min = 1e10\n'
        "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
        for name in MODELS
    ]
    (directory / "cts.toml").write_text("\n".join(tables))
