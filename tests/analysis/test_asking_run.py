"""A real run of every way of asking, by an agent that asks at known turns and a user with known replies.

Three instances; the agent knows the answer where it has read the secret word, in its query, a reply or answers given:

| | q | secret | orig | told | asks in turn, of turns | replies |
| --- | --- | --- | --- | --- | --- | --- |
| 1 | ferries to Seal Island | winter | 0 | 100 | 1 of 2 | winter |
| 2 | trams to Brack Hill | night | 25 | 100 | 3 of 4 | unknown |
| 3 | museum of clocks opening hours | none | 100 | 100 | 2 and 3 of 4, the same | it stands in q |

Before the search the user knows all that the Clarifier asks. Searches without a question take two turns.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from asking_runs import SEARCH, asking, completion
from fake_web import served

from cts_async.analysis.run_losses import query_forms
from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan
from cts_async.tables.diagnosis import diagnose_named, report_json


@dataclass(frozen=True)
class Told:
    """What the players say about an instance."""

    secret: str
    known: str
    """The answer of who has read the secret word."""
    unknown: str
    turns: tuple[str, ...]
    """What the agent does first if it may ask; an answer follows."""
    question: str
    """The Clarifier's."""
    rewritten: str


TOLD = {
    "ferries": Told(
        secret="winter",
        known="The winter ferry leaves at 23:10.",
        unknown="Boats go there.",
        turns=(asking("Which season?"),),
        question="Which season?",
        rewritten="ferries to Seal Island in winter",
    ),
    "trams": Told(
        secret="night",
        known="The night tram leaves at 01:15. A ticket costs 4 euros.",
        unknown="A ticket costs 4 euros.",
        turns=(SEARCH, SEARCH.replace("ferry", "timetable"), asking("Which line is it?")),
        question="When do you travel?",
        rewritten="trams to Brack Hill at night",
    ),
    "museum": Told(
        secret="clocks",
        known="The doors open at nine.",
        unknown="",
        turns=(SEARCH, asking("Which museum?"), asking("which  MUSEUM")),
        question="Which museum?",
        rewritten="museum of clocks opening hours",
    ),
}
REPLIES = {
    "Which season?": "winter",
    "Which line is it?": "unknown",
    "When do you travel?": "at night",
    "Which museum?": "the museum of clocks",
}
INSTANCES: list[dict[str, Any]] = [
    {
        "id": "1",
        "fused_query": "ferries to Seal Island in winter",
        "blurred_query": "ferries to Seal Island",
        "nuggets": [{"id": "N1", "text": "The winter ferry leaves at 23:10.", "weight": 2}],
    },
    {
        "id": "2",
        "fused_query": "trams to Brack Hill at night",
        "blurred_query": "trams to Brack Hill",
        "nuggets": [
            {"id": "N1", "text": "The night tram leaves at 01:15.", "weight": 3},
            {"id": "N2", "text": "A ticket costs 4 euros.", "weight": 1},
        ],
    },
    {
        "id": "3",
        "fused_query": "museum of clocks opening hours for visitors",
        "blurred_query": "museum of clocks opening hours",
        "nuggets": [{"id": "N1", "text": "The doors open at nine.", "weight": 1}],
    },
]


async def serve(request: web.Request) -> web.Response:
    body = await request.json()
    messages = body["messages"]
    instructions = messages[0]["content"]
    said = "\n".join(message["content"] for message in messages[1:])
    told = next(told for subject, told in TOLD.items() if subject in said)
    if body["model"] == "asker-1":
        return completion(json.dumps([told.question]))
    if body["model"] == "agent-1":
        turns = (SEARCH,)
        if '"name": "ask"' in instructions:
            turns = told.turns
        n_said = sum(message["role"] == "assistant" for message in messages)
        if n_said < len(turns):
            return completion(turns[n_said])
        answer = told.known if told.secret in said else told.unknown
        return completion(f"Enough.\n</think>\n<answer>\n{answer}\n</answer>")
    if "<qa_pairs>" in said:
        return completion(told.rewritten)
    question = said.split("<clarification_question>\n")[1].split("\n</clar")[0]
    return completion(REPLIES[question])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What cts diagnose says of the runs."""
    folder = tmp_path_factory.mktemp("asking")
    data, documents, config = folder / "data.jsonl", folder / "documents.jsonl", folder / "cts.toml"
    data.write_text("".join(json.dumps(instance) + "\n" for instance in INSTANCES))
    page = {"id": "d1", "url": "https://a.example/1", "title": "Timetable", "text": "A ferry timetable."}
    documents.write_text(json.dumps(page) + "\n")

    async def main() -> None:
        async with served(serve) as base:
            models = []
            for name in ("asker", "agent", "user"):
                models.append(f'[models.{name}]\nbase_url = "{base}/v1"\nmodel = "{name}-1"\n')
            config.write_text("".join(models))
            options = RunConfig(
                data=str(data),
                corpus=documents,
                models=("asker",),
                references=("orig", "gold"),
                ks=(1,),
                ask=("never", "before", "during", "both"),
                inject_at=(0, 0.05, 0.1),
                agent="agent",
                support="user",
                judges=("lexical",),
                date="2026-11-26",
                runs_dir=folder / "runs",
                config_file=config,
            )
            await run_plan(make_plan(options, load_catalogue(config), {}), {}, Events())

    asyncio.run(main())
    return report_json(diagnose_named([str(folder / "runs")]))


def row(found: Mapping[str, Any], table: str, system: str) -> dict[str, Any]:
    return next(row for row in found[table] if row["system"] == system)


def test_all_systems_are_one_group(found: Mapping[str, Any]) -> None:
    assert "groups" not in found
    assert {row["system"]: (row["asked"], row["answered"], row["mean"]) for row in found["asking"]} == {
        "orig": ("never", 3, 125 / 3),
        "asker-k1": ("before", 3, 100.0),
        "orig+ask3": ("during", 3, 75.0),
        "asker-k1+ask3": ("both", 3, 100.0),
        "asker-k1+inject0": ("later", 3, 100.0),
        "asker-k1+inject5": ("later", 3, 100.0),
        # Due after 2 of 20 turns, when all searches have ended.
        "asker-k1+inject10": ("later", 3, 125 / 3),
        "gold": ("told", 3, 100.0),
    }


def test_worth(found: Mapping[str, Any]) -> None:
    """+100, 0 and 0 for 1, 1 and 2 questions; 13 + 17 + 13 bytes, the repeated question once, are 10.75 tokens."""
    worth = row(found, "asking_worth", "orig+ask3")
    assert (worth["gain"], worth["questions"], worth["tokens"]) == (pytest.approx(100 / 3), 4, 10.75)
    assert worth["gain_per_question"] == 25.0
    assert worth["gain_per_1000_tokens"] == pytest.approx(100 / 10.75 * 1000)


def test_timing(found: Mapping[str, Any]) -> None:
    """Shares 1/2, 3/4, 2/4 and 3/4; the first ones have the ranks 1.5, 3, 1.5, and their gains 3, 1.5, 1.5."""
    timing = row(found, "asking_timing", "orig+ask3")
    assert (timing["n"], timing["mean_share"], timing["mean_first_share"]) == (3, 2.5 / 4, 1.75 / 3)
    assert timing["rho"] == pytest.approx((-0.5 * 1 + 1 * -0.5 + -0.5 * -0.5) / 1.5)


def test_care(found: Mapping[str, Any]) -> None:
    """Only the first question told something new; 1 and 2 had something to ask for."""
    care = row(found, "asking_care", "orig+ask3")
    assert (care["questions"], care["repeated"], care["in_query"], care["needless"]) == (4, 1, 2, 2)
    assert (care["to_ask"], care["not_asked"], care["precision"], care["recall"]) == (2, 0, 1 / 4, 1 / 2)
    assert care["ask_f1"] == pytest.approx(1 / 3)


def test_given_away(found: Mapping[str, Any]) -> None:
    """The reply winter tells the one hidden word of 1, that of 3 not the word visitors; she was asked that once."""
    told = row(found, "asking_given_away", "orig+ask3")
    assert (told["known"], told["told"], told["over_informing"], told["named"]) == (2, 0.5, 0, 0)


def test_regret_and_test(found: Mapping[str, Any]) -> None:
    """The best are 100 everywhere, by asking before."""
    assert row(found, "asking_regret", "orig")["regret"] == pytest.approx(175 / 3)
    assert row(found, "asking_regret", "orig+ask3")["regret"] == 25.0
    assert row(found, "asking_regret", "asker-k1")["regret"] == 0.0
    (test,) = found["asking_tests"]
    assert (test["system"], test["other"], test["difference"], test["p"]) == (
        "orig+ask3",
        "asker-k1",
        -25.0,
        1.0,
    )


def test_given_later(found: Mapping[str, Any]) -> None:
    keys = ("system", "share", "not_delivered", "mean_share", "over_rewriting")
    assert [tuple(row[key] for key in keys) for row in found["given_later"]] == [
        ("asker-k1", None, None, None, None),
        ("asker-k1+inject0", 0.0, 0, 0.0, 0.0),
        ("asker-k1+inject5", 0.05, 0, 0.5, 0.0),
        ("asker-k1+inject10", 0.1, 3, None, pytest.approx(125 / 3 - 100)),
    ]


def test_what_was_told_during_the_search_is_no_loss_of_asking() -> None:
    """The word night stands in no query, but in a reply. One that is not known tells nothing, nor does its question."""
    line: dict[str, Any] = dict(INSTANCES[1])
    line["rewritten_query"] = line["blurred_query"]
    assert query_forms(line).unasked == {"night"}
    line["asks"] = [{"question": "At night?", "reply": "i don't know", "turn": 1}]
    assert query_forms(line).unasked == {"night"}
    line["asks"].append({"question": "At night?", "reply": "yes", "turn": 2})
    assert query_forms(line).unasked == frozenset()
    given = dict(
        INSTANCES[1], rewritten_query=line["blurred_query"], questions=["When?"], answers=["at night"]
    )
    assert query_forms(given | {"injected_turn": None}).unasked == {"night"}
    assert query_forms(given | {"injected_turn": 3}).unasked == frozenset()
