"""Conversations of the small world with a provider that speaks real HTTP: turns, records, resumption and failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audited_runs import copied, plant
from custom_roles import command, script
from fake_provider import FakeProvider, Settings
from talk_world import INTENTS, write_talk_world

from cts_async.config import BudgetConfig, ConverseConfig
from cts_async.engine import runner
from cts_async.engine.events import Events
from cts_async.engine.step import RetryPolicy
from cts_async.errors import BudgetSpent, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.audit import audit_run
from cts_async.protocol.converse import ConversePlan, plan_conversations, run_conversations
from cts_async.records import SCHEMES
from cts_async.runs.conversations import read_conversation_run
from cts_async.runs.results import failed, latest_results

N, TOPICS, TURNS = len(INTENTS), 3, 2
RESPOND, SELECT, AT_ONCE = "fake-at-cot-respond-k2", "fake-at-cot-select-k2", "fake-at-cot-k4"
CALLS = {RESPOND: N * TURNS * 3, SELECT: N * TURNS * 2, AT_ONCE: TOPICS}
"""A question, an answer and a reformulation each turn; queries and a choice; questions alone."""


@pytest.fixture(autouse=True)
def _fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


def held(folder: Path, provider: FakeProvider, **options: Any) -> dict[str, Path]:
    """Converse or resume; give the run directories by system."""
    data, _ = write_talk_world(folder)
    file = folder / "cts.toml"

    async def main() -> dict[str, Path]:
        async with provider:
            file.write_text(f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\n')
            config = ConverseConfig(
                data=str(data),
                runs_dir=folder / "runs",
                models=("fake",),
                every_role="fake",
                ks=(TURNS,),
                schemes=("at-cot",),
                modes=("respond", "select", "at-once"),
                questions=4,
            )
            config = replace(config, **options)
            plan = plan_conversations(config, load_catalogue(file), {})
            await run_conversations(plan, {}, Events())
            return {system.label: path for system, path in plan.systems.items()}

    return asyncio.run(main())


def test_conversations_hold_the_closed_book_and_questions_at_once_have_no_answers(tmp_path: Path) -> None:
    runs = held(tmp_path, FakeProvider(Settings(unknown_share=0.0)))
    talk = read_conversation_run(runs[AT_ONCE])
    assert list(talk.conversations) == ["1-1", "2-1", "3-1"]
    for (turn,) in talk.conversations.values():
        assert (len(turn.offered), turn.answers, turn.query) == (4, (), "")
    line = latest_results(runs[AT_ONCE] / "results.jsonl")["1-1"]
    assert (line["questions"], line["answers"]) == ([], [])
    audits = {label: audit_run(path) for label, path in runs.items()}
    assert {label: (one.n_held, one.n_instances) for label, one in audits.items()} == {
        RESPOND: (N, N),
        SELECT: (N, N),
        AT_ONCE: (TOPICS, TOPICS),
    }
    assert {label: one.n_requests for label, one in audits.items()} == CALLS


def test_a_budget_stops_it_and_the_same_command_pays_for_the_rest_only(tmp_path: Path) -> None:
    first = FakeProvider(Settings())
    with pytest.raises(BudgetSpent):
        held(tmp_path, first, budget=BudgetConfig(max_calls=17))
    assert len(first.seen) == 17
    second = FakeProvider(Settings())
    directories = held(tmp_path, second)
    assert len(second.seen) == sum(CALLS.values()) - 17
    assert not any(
        failed(line)
        for path in directories.values()
        for line in latest_results(path / "results.jsonl").values()
    )
    third = FakeProvider(Settings())
    held(tmp_path, third)
    assert third.seen == []


def test_failed_conversation_is_recorded_and_can_be_retried(tmp_path: Path) -> None:
    refusing = FakeProvider(Settings(refuses="reformulate"))
    directories = held(tmp_path, refusing, modes=("respond",))
    lines = latest_results(directories[RESPOND] / "results.jsonl")
    assert {line["error"]["step"] for line in lines.values()} == {"reformulate/1"}
    assert not read_conversation_run(directories[RESPOND]).conversations
    held(tmp_path, FakeProvider(Settings()), modes=("respond",))
    assert not read_conversation_run(directories[RESPOND]).conversations
    willing = FakeProvider(Settings())
    held(tmp_path, willing, modes=("respond",), retry_failed=True)
    assert len(read_conversation_run(directories[RESPOND]).conversations) == N
    assert len(willing.seen) == CALLS[RESPOND] - 2 * N  # the first question and its answer are remembered


# --- A plan of conversations: which instances, who plays whom, where each run stands, what determines it.


KEYS = {"OPENAI_API_KEY": "sk-x", "QIANFAN_API_KEY": "sk-y"}


def planned(folder: Path, **options: Any) -> ConversePlan:
    data, _ = write_talk_world(folder)
    usual = {"models": ("gpt",), "ks": (3,), "schemes": ("cot",), "modes": ("respond",)}
    config = ConverseConfig(data=str(data), runs_dir=folder / "runs", **{**usual, **options})
    return plan_conversations(config, load_catalogue(None), KEYS)


def ids(plan: ConversePlan) -> list[str]:
    return [instance.id for instance in plan.instances()]


def test_topics_are_distinct_queries_and_intents_are_counted_in_each(tmp_path: Path) -> None:
    assert ids(planned(tmp_path)) == ["1-1", "1-2", "2-1", "1-3", "3-1"]
    assert ids(planned(tmp_path, topics=2)) == ["1-1", "1-2", "2-1", "1-3"]
    assert ids(planned(tmp_path, intents=1)) == ["1-1", "2-1", "3-1"]
    assert ids(planned(tmp_path, topics=1, intents=2)) == ["1-1", "1-2"]
    assert ids(planned(tmp_path, topics=2, limit=3)) == ["1-1", "1-2", "2-1"]


def test_every_scheme_has_a_run_in_every_mode(tmp_path: Path) -> None:
    plan = planned(tmp_path, schemes=("standard", "at-cot"), modes=("respond", "select", "at-once"))
    names = [directory.name for directory in plan.systems.values()]
    assert names == [
        "talks-talk-gpt-standard-respond-k3",
        "talks-talk-gpt-standard-select-k3",
        "talks-talk-gpt-standard-k5",
        "talks-talk-gpt-at-cot-respond-k3",
        "talks-talk-gpt-at-cot-select-k3",
        "talks-talk-gpt-at-cot-k5",
    ]
    assert [plan.n_expected(system) for system in plan.systems] == [5, 5, 3, 5, 5, 3]
    # Another user is another run, but not where nobody is asked.
    plan = planned(tmp_path, support="gpt", modes=("respond", "at-once"))
    assert [directory.name for directory in plan.systems.values()] == [
        "talks-talk-gpt-cot-respond-k3+support-gpt",
        "talks-talk-gpt-cot-k5",
    ]


def test_evaluation_options_do_not_change_the_run(tmp_path: Path) -> None:
    plan = planned(tmp_path, modes=("select",))
    (system,) = plan.systems
    identity = plan.identity(system)
    facts = [identity[name] for name in ("task", "scheme", "mode", "k")]
    assert facts == ["talk", "cot", "select", 3]
    assert identity["models"].keys() == {"clarifier", "support"}
    assert {name.split(".")[0] for name in identity["prompts"]} == {"cot_queries", "select_query"}
    assert not identity.keys() & {"tools", "corpus_sha256", "agent"}
    assert identity == planned(tmp_path, modes=("select",), topics=1).identity(system)


# --- Roles of the user's own

FUNCTIONS = """
from cts_async import role

@role("clarifier")
def ask(view):
    answers = [answer for _, answer in view.pairs]
    return [f"{view.blurred_query} after {answers}: {n}?" for n in range(view.k)]

@role("answerer")
def answer(view):
    return f"{view.fused_query.split()[-1]} {len(view.pairs)}"

@role("rewriter")
def rewrite(view):
    return " ".join([view.blurred_query, *(answer for _, answer in view.pairs)])
"""
COMMAND = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    view, answers = asked["view"], [answer for _, answer in asked["view"]["pairs"]]
    reply = {
        "clarifier": lambda: {"questions": [f"{view['blurred_query']} after {answers}: {n}?" for n in range(view["k"])]},
        "answerer": lambda: {"answer": f"{view['fused_query'].split()[-1]} {len(answers)}"},
        "rewriter": lambda: {"query": " ".join([view["blurred_query"], *answers])},
    }
    print(json.dumps({"id": asked["id"], **reply[asked["role"]]()}), flush=True)
"""


def test_own_roles_hold_a_conversation_turn_by_turn(tmp_path: Path) -> None:
    lab = script(tmp_path, "my_lab.py", FUNCTIONS)
    (tmp_path / "wire").mkdir()
    runs = held(tmp_path, FakeProvider(), models=(str(lab),), every_role=str(lab), schemes=SCHEMES[1:])
    wire = command(script(tmp_path, "wire.py", COMMAND))
    wired = held(tmp_path / "wire", FakeProvider(), models=(wire,), every_role=wire, schemes=SCHEMES[1:])
    for found, label in ((runs, "my_lab.ask"), (wired, "wire.py")):
        assert list(found) == [f"{label}-respond-k2", f"{label}-k4"]  # no scheme, and no mode "select"
        talk = read_conversation_run(found[f"{label}-respond-k2"])
        assert [(turn.offered, turn.query) for turn in talk.conversations["2-1"]] == [
            (("ferry after []: 0?",), "ferry times 0"),
            (("ferry after ['times 0']: 0?",), "ferry times 0 times 1"),
        ]
        (turn,) = read_conversation_run(found[f"{label}-k4"]).conversations["2-1"]
        assert (len(turn.offered), turn.answers, turn.query) == (4, (), "")
        audits = [audit_run(path) for path in found.values()]
        assert [(one.n_held, one.n_requests, one.findings) for one in audits] == [
            (N, N * TURNS * 3, []),
            (TOPICS, TOPICS, []),
        ]
    expected = {"clarify/2": [["ferry after []: 0?", "noon"]], "answer/1": [["a?", "b"]], "reformulate/2": []}
    for step, pairs in expected.items():
        tampered = copied(runs["my_lab.ask-respond-k2"], tmp_path / step.replace("/", "-"))
        plant(
            tampered, "2-1", step, lambda record, pairs=pairs: record["request"]["view"].update(pairs=pairs)
        )
        problems = {(one.step, one.problem) for one in audit_run(tampered).findings}
        assert (step, "pairs is not exactly what was asked and answered") in problems


def test_own_roles_and_models_converse_with_each_other(tmp_path: Path) -> None:
    lab = script(tmp_path, "my_lab.py", FUNCTIONS)
    provider = FakeProvider(Settings(unknown_share=0.0))
    runs = held(tmp_path, provider, models=("fake", str(lab)))
    assert list(runs) == [
        *("fake-at-cot-respond-k2", "my_lab.ask-respond-k2", "fake-at-cot-select-k2"),
        *("fake-at-cot-k4", "my_lab.ask-k4"),
    ]
    assert len(provider.seen) == sum(CALLS.values()) + N * TURNS * 2  # answers and reformulations
    answered = held(tmp_path, FakeProvider(), support=str(lab), modes=("respond",))
    for path in (*runs.values(), *answered.values()):
        assert audit_run(path).findings == [], path.name


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"models": ("baseline",), "modes": ("select",)}, "--mode select: baseline asks questions"),
        ({"support": "baseline", "modes": ("select",)}, "--mode select: baseline cannot choose"),
        ({"models": ("baseline",), "support": "gpt"}, "--scheme: baseline is code of yours"),
        ({"models": ("no.py:ask",)}, "no.py: no such file"),
    ],
)
def test_a_mode_without_a_meaning_for_own_roles_is_refused(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        planned(tmp_path, **options)
