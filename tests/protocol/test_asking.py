"""An agent that asks the user during its search: what it is told, what the user sees, what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from asking_runs import ANSWER, INTENT, QUERY, SEARCH, Models, asked_run, asking, planned

from cts_async.engine.journal import read_records
from cts_async.errors import UsageError
from cts_async.llm.model import input_tokens
from cts_async.protocol.audit.asking import AskingFacts
from cts_async.protocol.systems import System
from cts_async.records import AskRules, ReplyForm
from cts_async.runs.manifest import manifest_of
from cts_async.runs.open_run import whole_run
from cts_async.runs.trace import whole_events
from cts_async.search.agent import History
from cts_async.search.asking import Injection
from cts_async.search.toolbox.ask import AskTool
from cts_async.search.tools import AgentSettings
from cts_async.search.turn_format import format_tool_response


def line_of(run: Path) -> dict[str, Any]:
    (line,) = (run / "results.jsonl").read_bytes().splitlines()
    parsed: dict[str, Any] = orjson.loads(line)
    return parsed


def steps_of(run: Path) -> list[str]:
    return [record["step"] for record in read_records(run / "steps.jsonl")]


def test_agent_asks_at_a_turn_and_reads_the_reply_and_what_is_left(tmp_path: Path) -> None:
    models = Models([SEARCH, asking("Which season?"), ANSWER], lambda question: "winter")
    run = asked_run(tmp_path, models)
    assert run.name.startswith("data-orig+ask3")
    line = line_of(run)
    assert line["asks"] == [{"question": "Which season?", "reply": "winter", "turn": 2}]
    assert line["search"]["turns"] == 3
    assert line["questions"] == []
    assert line["k"] == 0
    assert models.agent[2][-1]["content"] == (
        "<tool_response>\nThe user replies: winter\n(Questions left: 2.)\n</tool_response>"
    )
    # The user sees the intent and ONE question; the agent never sees the intent.
    (asked,) = models.user
    assert INTENT in asked[-1]["content"]
    assert "Which season?" in asked[-1]["content"]
    assert all(INTENT not in message["content"] for sent in models.agent for message in sent)
    assert steps_of(run) == [
        "search/turn/1",
        "search/tool/1.1/query/1",
        "search/turn/2",
        "search/ask/1",
        "search/turn/3",
    ]


def test_prompt_describes_ask_with_its_limits_and_only_where_the_agent_may_ask(tmp_path: Path) -> None:
    models = Models([ANSWER])
    asked_run(tmp_path, models, references=("orig",), max_asks=5, replies="yes-no")
    prompts = [sent[0]["content"] for sent in models.agent]
    # The rewritten query of `orig` is the query itself; the systems go side by side.
    with_ask = [prompt for prompt in prompts if '"name": "ask"' in prompt]
    assert len(prompts) == 2
    assert len(with_ask) == 1
    assert "the user replies yes, no, or i don't know. You may ask 5 questions in all." in with_ask[0]


def test_questions_beyond_the_most_are_refused_and_the_user_never_sees_them(tmp_path: Path) -> None:
    models = Models([asking("A?", "B?", "C?"), ANSWER], lambda question: f"to {question}")
    line = line_of(asked_run(tmp_path, models, max_asks=2))
    assert [ask["question"] for ask in line["asks"]] == ["A?", "B?"]
    assert line["search"]["asks_refused"] == 1
    assert len(models.user) == 2
    assert (
        "The user did not see this question: you have asked 2, and no more are allowed."
        in (models.agent[1][-1]["content"])
    )


def test_equal_question_gets_the_earlier_reply_without_a_step_and_counts(tmp_path: Path) -> None:
    models = Models([asking("Which season?"), asking("which SEASON"), ANSWER], lambda question: "winter")
    run = asked_run(tmp_path, models)
    assert [ask["reply"] for ask in line_of(run)["asks"]] == ["winter", "winter"]
    assert steps_of(run).count("search/ask/1") == 1
    assert "search/ask/2" not in steps_of(run)


def test_answer_before_the_least_questions_is_sent_back(tmp_path: Path) -> None:
    models = Models([ANSWER, asking("A?"), asking("B?"), ANSWER], lambda question: "unknown")
    run = asked_run(tmp_path, models, min_asks=2)
    assert "+ask3-min2" in run.name
    line = line_of(run)
    assert line["search"]["early_answers"] == 1
    assert [ask["turn"] for ask in line["asks"]] == [2, 3]
    assert "Ask the user at least 2 more before you answer" in models.agent[1][-1]["content"]
    assert line["answer"] == "The winter ferry leaves at 23:10."


TINY = 'structured = "llama"\nagent = { max_turns = 4 }\n'


def calls_of(grammar: str) -> str:
    """The calls that a grammar permits; "" for an answer only."""
    calls = [line for line in grammar.splitlines() if line.startswith("call ::= ")]
    if not calls:
        return ""
    return calls[0].split('"')[2].strip(" ()")


def test_grammar_leaves_only_questions_when_the_turns_left_are_just_enough(tmp_path: Path) -> None:
    """Of four turns the last answers: with two questions to ask, the second has to ask, and so has the third."""
    models = Models([SEARCH, asking("A?"), asking("B?"), ANSWER], lambda question: "unknown")
    line = line_of(asked_run(tmp_path, models, table=TINY, min_asks=2, max_asks=2))
    assert [calls_of(grammar) for grammar in models.grammars] == ["search | ask", "ask", "ask", ""]
    assert [ask["turn"] for ask in line["asks"]] == [2, 3]


@pytest.mark.parametrize(
    ("replies", "example"), [("open", "Which one do you mean?"), ("yes-no", "Do you mean the new one?")]
)
def test_example_for_small_models_asks_what_the_user_can_reply_to(replies: ReplyForm, example: str) -> None:
    tool = AskTool(AskRules(replies=replies))
    line = f'{{"name": "ask", "arguments": {{"question": "{example}"}}}}'
    assert [tool.prompt_line(f"agent.small.{language}") for language in ("en", "zh")] == [line, line]


def test_grammar_permits_no_question_when_none_is_left(tmp_path: Path) -> None:
    models = Models([asking("A?"), SEARCH, ANSWER], lambda question: "unknown")
    asked_run(tmp_path, models, table=TINY, max_asks=1)
    assert [calls_of(grammar) for grammar in models.grammars] == ["search | ask", "search", "search | visit"]


@pytest.mark.parametrize(
    ("said", "reply"),
    [("Yes.", "yes"), ("NO", "no"), ("I don’t know.", "i don't know"), ("unknown", "i don't know")],
)
def test_reply_in_yes_no_mode_is_exactly_one_of_three(tmp_path: Path, said: str, reply: str) -> None:
    models = Models([asking("In winter?"), ANSWER], lambda question: said)
    assert line_of(asked_run(tmp_path, models, replies="yes-no"))["asks"][0]["reply"] == reply


def test_reply_of_another_form_is_a_failure_and_never_a_no(tmp_path: Path) -> None:
    models = Models([asking("In winter?"), ANSWER], lambda question: "Possibly, but not always.")
    line = line_of(asked_run(tmp_path, models, replies="yes-no"))
    assert line["error"]["step"] == "search/ask/1"
    assert "expected exactly yes, no or i don't know" in line["error"]["message"]
    assert "restore_score_100" not in line


def test_answers_are_injected_when_a_share_of_the_turns_is_used_up(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "1", "questions": ["Which season?"]}\n')
    models = Models([SEARCH, SEARCH.replace("ferry", "boat"), ANSWER], lambda question: "winter")
    run = asked_run(
        tmp_path,
        models,
        ask=("before",),
        models=("local",),
        given_questions=(questions,),
        inject_at=(0.0, 0.25),
        max_turns=8,
    )
    assert run.name.startswith("data-questions-k1+inject25")
    pairs = (
        "\nThe user was asked before your search, and answered:\nQuestion 1: Which season?\nAnswer 1: winter"
    )
    # Of 8 turns a quarter is used up after the second.
    late = [sent for sent in models.agent if len(sent) == 6 and sent[-1]["content"].endswith(pairs)]
    assert len(late) == 1
    assert pairs not in late[0][1]["content"]
    line = line_of(run)
    assert line["injected_turn"] == 3
    assert line["rewritten_query"] == QUERY
    at_once = next(path for path in run.parent.iterdir() if "+inject0" in path.name)
    assert line_of(at_once)["injected_turn"] == 1
    # Beside both ways the pairs rewritten into the query are a system of its own.
    assert any("inject" not in path.name for path in run.parent.iterdir())


@pytest.mark.parametrize(
    ("share", "max_turns", "n_before"),
    # 0.55 * 20 and 0.07 * 100 are a little more than 11 and 7. Of 20 turns no answer is left to give after 0.99.
    [(0.0, 20, 0), (0.25, 8, 2), (0.1, 9, 1), (0.55, 20, 11), (0.07, 100, 7), (0.99, 20, 20)],
)
def test_answers_are_due_at_the_first_turn_with_that_share_of_turns_before_it(
    share: float, max_turns: int, n_before: int
) -> None:
    injection = Injection("", share)
    due = [n_used for n_used in range(max_turns) if injection.is_due(n_used, max_turns)]
    assert due == list(range(n_before, max_turns))
    assert AskingFacts(inject_at=share, max_turns=max_turns).injected_turn == n_before + 1


def test_search_that_ends_before_the_share_says_that_nothing_was_injected(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "1", "questions": ["Which season?"]}\n')
    models = Models([ANSWER], lambda question: "winter")
    run = asked_run(
        tmp_path, models, ask=("before",), models=("local",), given_questions=(questions,), inject_at=(0.5,)
    )
    assert line_of(run)["injected_turn"] is None


def test_identity_has_the_rules_and_only_where_the_system_has_them(tmp_path: Path) -> None:
    models = Models([ANSWER])
    run = asked_run(tmp_path, models, references=("orig",), max_asks=5, min_asks=0)
    identity = manifest_of(run).raw_identity
    assert identity["asks"] == {"max": 5, "min": 0, "replies": "open"}
    assert identity["agent_tools"] == {"search": "1", "visit": "1", "ask": "1"}
    orig = next(path for path in run.parent.iterdir() if "+ask" not in path.name)
    assert not {"asks", "agent_tools"} & manifest_of(orig).raw_identity.keys()


def test_resumed_search_asks_nothing_again(tmp_path: Path) -> None:
    models = Models([asking("Which season?"), SEARCH, ANSWER], lambda question: "winter")
    run = asked_run(tmp_path, models)
    line = line_of(run)
    # As after a kill before the last turn: without the result, and without that turn.
    (run / "results.jsonl").unlink()
    steps = (run / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (run / "steps.jsonl").write_bytes(b"".join(steps[:-1]))
    again = Models(models.turns, lambda question: "summer")
    assert asked_run(tmp_path, again) == run
    assert line_of(run) == line
    assert (len(again.user), len(again.agent)) == (0, 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_asks": 2, "min_asks": 3}, "--min-asks 3: must be from 0"),
        ({"max_asks": 0}, "--max-asks 0: must be 1 or more; --ask never is for none"),
        ({"ask": ("never",), "min_asks": 1}, "add --ask during, or both"),
        ({"ask": ("never",), "max_asks": 5}, "--max-asks, --min-asks and --replies are of questions during"),
        ({"ask": ("before",), "models": ("user",), "inject_at": (25.0,)}, "from 0 to below 1; 25 % are 0.25"),
        ({"ask": ("both",), "given_rewrites": (Path("r.jsonl"),)}, "--ask both: the queries of --rewrites"),
        (
            {"ask": ("before",), "given_rewrites": (Path("r.jsonl"),), "inject_at": (0.5,)},
            "--inject-at: the queries of --rewrites have no questions",
        ),
        ({"ask": ("before",), "models": ("user",), "inject_at": (1.0,)}, "--inject-at 1: must be a share"),
        ({"inject_at": (0.5,)}, "add --ask before"),
        ({"models": ("user",)}, "--model user: nobody asks before the search with --ask during"),
        ({"stop_after": "questions"}, "there is no search to ask in"),
        ({"as_published": True}, "as published, the user is asked before the search"),
        (
            {"table": TINY, "min_asks": 4, "max_asks": 4},
            "--min-asks 4: agent asks once a turn, and has 4, the last of which answers: add --max-turns 5",
        ),
        ({"tools": ("search", "ask")}, "--tools: whether the agent may ask is said with --ask during"),
    ],
)
def test_options_that_cannot_go_together_are_refused(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError) as error:
        planned(tmp_path, **options)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("system", "label"),
    [
        (System("ask", asks=AskRules()), "orig+ask3"),
        (System("clarify", "gpt", 3, asks=AskRules(5, 5, "yes-no")), "gpt-k3+ask5-min5-yesno"),
        (System("clarify", "gpt", 3, inject_at=0.125), "gpt-k3+inject12.5"),
        (System("clarify", "gpt@short", 1, variant="short", inject_at=0.0), "gpt-k1@short+inject0"),
    ],
)
def test_label_says_what_happens_during_the_search(system: System, label: str) -> None:
    assert system.label == label


def test_trace_has_questions_replies_and_what_was_sent_back(tmp_path: Path) -> None:
    models = Models([ANSWER, asking("Which season?", "Which car?"), ANSWER], lambda question: "winter")
    run = asked_run(tmp_path, models, min_asks=1)
    events = [
        (event.kind, event.request, event.whole_text())
        for event in whole_events(whole_run(run, journal=True), "1")
        if event.kind != "think"
    ]
    answer = "The winter ferry leaves at 23:10."
    assert events == [
        ("early_answer", "", answer),
        ("ask", "Which season?", "winter"),
        ("ask", "Which car?", "winter"),
        ("answer", "", answer),
    ]


@pytest.mark.parametrize("cut_in_middle", [False, True])
def test_injected_answers_stay_when_what_they_followed_is_left_out(cut_in_middle: bool) -> None:
    history = History(
        [{"role": "user", "content": "Question"}],
        {},
        limit=400,
        settings=AgentSettings(cut_in_middle=cut_in_middle),
    )
    page = format_tool_response("x" * 2_000)
    history.append("I look.", page, "search/turn/1", [])
    history.inject("Question 1: Which season? Answer 1: winter", 2)
    for number in range(2, 6):
        history.append("I look again. " * 20, page, f"search/turn/{number}", [])
        history.make_room()
    sent = "".join(message["content"] for message in history.sent_messages)
    assert sent.count("Answer 1: winter") == 1
    assert input_tokens(history.sent_messages) < input_tokens(history.messages) or not cut_in_middle
