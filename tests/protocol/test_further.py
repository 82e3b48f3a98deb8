"""Further fields of a role's reply, such as a Clarifier's reasons: kept and shown, and never sent to another role."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fake_roles
import golden_world
import pytest
from custom_roles import command, played, script
from fake_provider import FakeProvider, Settings
from golden_world import cts, write_config
from viewer_server import viewer

import cts_async
from cts_async.llm.apis import Message
from cts_async.llm.further import MAX_FIELDS, MAX_VALUE_CHARS, further_fields
from cts_async.llm.parsing import Clarification, QuestionList
from cts_async.protocol.custom.wire import response_of

REASON = "Since <b>zanzibar</b> may be meant"
COLUMN = "clarify.rationale"


# --- What a model's reply has


@pytest.mark.parametrize(
    ("reply", "further"),
    [
        ('["When?", "Where?"]', {}),
        ('{"questions": ["When?", "Where?"], "rationale": "both"}', {"rationale": "both"}),
        (
            '```json\n[{"question": "When?", "why": "x"}, {"question": "Where?", "why": "y", "p": 0.5}]\n```',
            {"why": ["x", "y"], "p": [None, 0.5]},
        ),
        ('{"qs": ["When?", "Where?"], "note": {"n": 1}, "empty": ""}', {"note": {"n": 1}}),
        ('Here: {"questions": ["When?", {"text": "Where?"}]}', {}),
    ],
)
def test_fields_beside_the_questions_and_of_each_question(reply: str, further: dict[str, Any]) -> None:
    form = QuestionList(2)
    assert len(form.parse(reply)) == 2
    assert form.further_in(reply) == further


def test_what_a_scheme_reads_is_not_further() -> None:
    reply = '{"reasoning": "r", "ambiguity_types": ["semantic"], "questions": ["When?"], "sure": true}'
    assert Clarification(1, reasoning=True, types=True).further_in(reply) == {"sure": True}
    assert Clarification(1).further_in(reply).keys() == {"reasoning", "ambiguity_types", "sure"}


def test_size_and_number_are_limited_and_values_are_plain_json() -> None:
    odd = {"long": "x" * 9_000, "list": ["y" * 9_000], "half": "a\ud83d", "object": {1, 2}, "a\nb": 1, 3: 4}
    fields = further_fields(odd, ())
    assert fields["long"] == "x" * MAX_VALUE_CHARS + "…"
    assert fields["list"] == ('["' + "y" * MAX_VALUE_CHARS)[:MAX_VALUE_CHARS] + "…"
    assert (fields["half"], fields["object"], fields["ab"]) == ("a?", "{1, 2}", 1)
    assert len(further_fields({str(n): n for n in range(99)}, ())) == MAX_FIELDS
    json.dumps(fields)


@pytest.mark.parametrize(
    ("role", "value", "text"),
    [
        ("clarifier", {"id": "7", "questions": ["When?"], "rationale": "r"}, '["When?"]'),
        (
            "answerer",
            {"answer": "in May", "rationale": "r", "view": {}, "base_url": "http://secret"},
            "in May",
        ),
        ("rewriter", {"query": "ferry in May", "rationale": "r"}, "ferry in May"),
        ("agent", {"answer": "At nine.", "sources": [], "rationale": "r"}, "At nine."),
        (
            "judge",
            {"results": [{"id": "N1", "coverage": "full"}], "rationale": "r"},
            '{"results":[{"id":"N1","coverage":"full"}]}',
        ),
    ],
)
def test_any_custom_role_may_add_fields(role: Any, value: Any, text: str) -> None:
    assert response_of(role, value) == {"text": text, "further": {"rationale": "r"}}


def test_labels_by_id_are_no_further_fields() -> None:
    labels = {"results": "full", "N2": "none"}
    text = '{"results":[{"id":"results","coverage":"full"},{"id":"N2","coverage":"none"}]}'
    assert response_of("judge", labels) == {"text": text}


# --- Whole runs


def says(model: str, messages: Sequence[Message]) -> str:
    """The models of the golden campaign, with a Clarifier that gives its reason."""
    text = golden_world.reply(model, messages)
    if fake_roles.role_of(messages[1]["content"]) != "clarify":
        return text
    return json.dumps({"questions": json.loads(text), "rationale": REASON})


def test_a_models_reason_is_in_viewer_report_and_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_world.unpack("0.7.0", tmp_path, *golden_world.WORLD)
    monkeypatch.chdir(tmp_path)
    write_config(Path())
    run = "run -m alpha -k 2 --support support --agent support --judge support --data hard518:queries.csv "
    result = cts(
        *run.split(), *["--gold", "gold.jsonl", "--corpus", "docs.jsonl", "--limit", "4", "-q"], says=says
    )
    assert result.exit_code == 0, result.output
    directory = Path("runs/hard518-alpha-k2+all-support")
    lines = [json.loads(line) for line in (directory / "results.jsonl").read_text("utf-8").splitlines()]
    assert [line["further"] for line in lines] == [{"clarify": {"rationale": REASON}}] * 4
    orig = (Path("runs") / "hard518-orig+all-support" / "results.jsonl").read_text("utf-8")
    assert "further" not in orig

    # The closed book: nobody was sent it, and the audit says so.
    for record in (directory / "steps.jsonl").read_text("utf-8").splitlines():
        step = json.loads(record)
        assert "zanzibar" not in json.dumps(step["request"])
    assert cts("audit", "runs").exit_code == 0

    rows = [row for row in cts_async.load("runs").instances if row["clarifier"]]
    assert {row[COLUMN] for row in rows} == {REASON}
    assert cts("export", "runs", "--layout", "csv", "--out", "out").exit_code == 0
    with open("out/instances.csv", encoding="utf-8", newline="") as file:
        assert {row[COLUMN] for row in csv.DictReader(file)} == {REASON, ""}
    assert cts("export", "runs", "--layout", "hf", "--out", "hf").exit_code == 0
    assert f'- name: "{COLUMN}"' in Path("hf/README.md").read_text("utf-8")
    assert cts("report", "runs", "--out", "report.html").exit_code == 0
    page = Path("report.html").read_text("utf-8")
    assert "rationale" in page
    assert "Since &lt;b&gt;zanzibar&lt;/b&gt; may be meant" in page
    assert REASON not in page
    with viewer(tmp_path / "runs") as site:
        shown = site.get("instance", run=directory.name, id=lines[0]["id"])
    assert shown["further"] == [{"step": "clarify", "name": "rationale", "text": REASON}]

    # Resuming replays the steps, with the same further fields.
    before = (directory / "results.jsonl").read_bytes()
    (directory / "results.jsonl").write_bytes(b"")
    cts(*run.split(), *["--gold", "gold.jsonl", "--corpus", "docs.jsonl", "--limit", "4", "-q"], says=says)
    after = (directory / "results.jsonl").read_bytes()
    assert sorted(after.splitlines()) == sorted(before.splitlines())


def test_reasons_in_a_conversation_are_by_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden_world.unpack("0.7.0", tmp_path, *golden_world.WORLD)
    monkeypatch.chdir(tmp_path)
    write_config(Path())
    role = script(tmp_path, "lab.py", FUNCTION)
    words = "--all baseline --data talks.jsonl --corpus docs.jsonl --mode respond --turns 2 --limit 1 -q"
    result = cts("converse", "-m", f"{role}:ask", *words.split())
    assert result.exit_code == 0, (result.output, result.stderr)
    (results,) = Path("runs").glob("*/results.jsonl")
    line = json.loads(results.read_text("utf-8").splitlines()[0])
    assert line["further"]["clarify/1"] == {"rationale": "they are open", "sure": 0.5}


FUNCTION = """
from cts_async import role

@role("clarifier", version="1")
def ask(view):
    return {"questions": ["Which year?", "Which place?"][: view.k], "rationale": "they are open", "sure": 0.5}
"""
COMMAND = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    questions = ["Which year?", "Which place?"][: asked["view"]["k"]]
    # Some code sends back what it was sent; its addresses are secret.
    print(json.dumps({**asked, "questions": questions, "rationale": "they are open", "sure": 0.5}), flush=True)
"""


@pytest.mark.parametrize(("name", "text"), [("lab.py", FUNCTION), ("ask.py", COMMAND)])
def test_a_custom_clarifiers_reason_is_in_its_results(tmp_path: Path, name: str, text: str) -> None:
    path = script(tmp_path, name, text)
    player = f"{path}:ask" if name == "lab.py" else command(path)
    lines = played(tmp_path, player, FakeProvider(Settings()))
    assert [line["further"] for line in lines] == [
        {"clarify": {"rationale": "they are open", "sure": 0.5}}
    ] * 4
    (row, *_) = cts_async.load(tmp_path / "runs").instances
    assert (row[COLUMN], row["clarify.sure"]) == ("they are open", "0.5")
