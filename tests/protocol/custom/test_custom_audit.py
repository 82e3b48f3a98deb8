"""Custom roles in an audit: a clean run is held, whatever is planted in one is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from audited_runs import Record, copied, plant
from custom_roles import FUNCTION, played, script
from fake_provider import FakeProvider, Settings

from cts_async.protocol.audit import audit_run
from cts_async.protocol.audit.evidence import OwnPrompts, texts_in
from cts_async.protocol.audit.text import Secret

LAB = (
    FUNCTION
    + """
@role("agent")
async def find(view, llm, search, visit):
    hits = await search(view.query)
    page = await visit(hits[0].url)
    found = f"Winter and weekday are words of this prompt.\\n{page.text}"
    await llm([{"role": "user", "content": found}], model="fake")
    await search(page.title)
    return {"answer": page.text[:300], "trace": [{"kind": "think", "text": "one page will do"}]}
"""
)
Q_STAR = "考试季图书馆二楼安静区的座位预约办法和开放时间"  # of s03, to which the baseline answers nothing but "unknown"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    lab = script(folder, "my_lab.py", LAB)
    played(folder, f"{lab}:ask", FakeProvider(Settings()), agent=f"{lab}:find", limit=6)
    return folder / "runs/run"


def test_a_clean_run_is_held_and_says_what_is_not_proven(run: Path) -> None:
    audit = audit_run(run)
    assert audit.findings == []
    # Six instances: clarify and its model, two answers, rewrite, search and its four questions.
    assert (audit.n_held, audit.n_requests) == (6, 6 * (2 + 2 + 1 + 5))
    assert list(map(str, audit.not_proven)) == [
        "not proven: my_lab.ask is code of yours and may call out by itself (plays: clarifier)",
        "not proven: baseline is code of yours and may call out by itself (plays: answerer, rewriter)",
        "not proven: my_lab.find is code of yours and may call out by itself (plays: agent)",
    ]


def view(**fields: object) -> Callable[[Record], None]:
    return lambda record: record["request"]["view"].update(fields)


def message(text: str) -> Callable[[Record], None]:
    return lambda record: record["request"]["messages"].append({"role": "user", "content": text})


LEAK = "its request contains text that occurs only in q*"


@pytest.mark.parametrize(
    ("step", "change", "level", "problem"),
    [
        ("clarify", view(fused_query="more"), "provenance", "its view is not exactly blurred_query, k"),
        ("clarify", view(blurred_query="another"), "provenance", "blurred_query is not that of the data"),
        ("clarify", view(k=3), "provenance", "k is 3, but a turn of this run has 2"),
        ("clarify", view(blurred_query=Q_STAR), "leak", LEAK),
        (
            "clarify",
            lambda record: record["request"].update(note="see"),
            "provenance",
            "its request contains more than its view",
        ),
        (
            "clarify",
            lambda record: record["request"].update(custom="other"),
            "provenance",
            "it was not sent to my_lab.ask, which plays this role in this run",
        ),
        (
            "answer/1",
            lambda record: record["request"].update(on_record="0" * 16),
            "provenance",
            "what it saw besides what was asked is not q* alone",
        ),
        (
            "answer/2",
            view(question="Why?"),
            "provenance",
            "it was not asked exactly question 2 of the Clarifier's reply",
        ),
        ("rewrite", view(pairs=[]), "provenance", "pairs is not exactly what was asked and answered"),
        ("search", view(query=Q_STAR), "provenance", "the agent's question is not the Rewriter's reply"),
        ("clarify/llm/1", message("安静一点"), "leak", LEAK),
        ("search/llm/1", message("安静"), "leak", LEAK),
        ("search/tool/1/query/1", lambda record: record["request"].update(query="安静"), "leak", LEAK),
        (
            "search/tool/2/page/1",
            lambda record: record["request"].update(url="https://e.example/?q=%E5%AE%89%E9%9D%99"),
            "leak",
            LEAK,
        ),
    ],
)
def test_what_is_planted_is_found(
    run: Path, tmp_path: Path, step: str, change: Callable[[Record], None], level: str, problem: str
) -> None:
    planted = copied(run, tmp_path)
    plant(planted, "s03", step, change)
    found = [
        (finding.instance, finding.step, finding.level, finding.problem)
        for finding in audit_run(planted).findings
    ]
    assert ("s03", step, level, problem) in found


def test_a_result_without_the_agents_step_is_missing(run: Path, tmp_path: Path) -> None:
    planted = copied(run, tmp_path)
    plant(planted, "s03", "search", lambda record: record.update(step="other"))
    assert "it has a result, but not these steps: search" in {
        one.problem for one in audit_run(planted).findings
    }


def test_own_prompt_is_what_a_quarter_of_the_instances_share() -> None:
    def asked(text: str) -> list[Record]:
        return [{"step": "clarify/llm/1", "request": {"messages": [{"role": "user", "content": text}]}}]

    own = OwnPrompts()
    own.read(
        [asked("name the season: north quay"), *[asked("name the season")] * 3], ["season at north quay"]
    )
    secret = Secret.hidden("season at north quay", [])
    assert own.without(secret, "clarify").singles == {"north", "quay"}
    assert own.tells("quay", "clarify")
    assert not own.tells("quay", "rewrite"), "nothing is known of the prompt of another step"


def test_texts_in_json_within_json_are_found() -> None:
    assert set(texts_in({"arguments": '{"q": ["\\u5b89\\u9759"]}', "Not a name": 1})) >= {
        "安静",
        "Not a name",
    }
    assert list(texts_in("[" * 5000)) == ["[" * 5000]
