"""Names, folders and patterns are resolved to runs over the same data, and these are read as analyses need them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from made_runs import Row, made_run
from made_talks import made_talk

from cts_async.errors import InputError, UsageError
from cts_async.runs.finished import (
    UNNAMED,
    RunPath,
    check_same_data,
    find_runs,
    of_one_agent,
    read_judged,
    read_path,
    read_run,
    sibling_origs,
)
from cts_async.runs.manifest import named_system

ROWS = [Row("q1", score=10.0)]
FULL = {"id": "N1", "weight": 3, "coverage": "full"}
NONE = {"id": "N2", "weight": 1, "coverage": "none"}


def written(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def paths(*words: object) -> list[Path]:
    return [one.path for one in find_runs([str(word) for word in words])]


def candidates(folder: Path, name: str, gold_sha256: str) -> Path:
    written(folder / name / "run.json", {"identity": {"system": name, "gold_sha256": gold_sha256}})
    return folder / name


def test_folder_pattern_and_name_stand_for_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpt, orig = (made_run(tmp_path / "runs", label=label, rows=ROWS) for label in ("gpt-k1", "orig"))
    talk = made_talk(tmp_path / "runs", scheme="cot", rows={"a": []})
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / ".gitkeep").touch()
    folder = tmp_path / "runs"
    assert find_runs([str(folder), str(orig)]) == [
        RunPath(gpt, False),
        RunPath(orig, True),
        RunPath(talk, False),
    ]
    assert find_runs([str(orig), str(folder)]) == find_runs([str(folder), str(orig)])
    assert paths(folder / "made-*-k1", gpt, folder / "made-o*") == [gpt, orig]
    monkeypatch.chdir(tmp_path)
    assert paths("runs/made-o*") == [Path("runs/made-orig")]


def test_words_without_runs_are_refused(tmp_path: Path) -> None:
    for word in ("nowhere", "nowhere/*"):
        with pytest.raises(InputError, match="nowhere.*: no such run, folder or file"):
            find_runs([word])
    with pytest.raises(InputError, match=r"run\.json not found, here or one folder below"):
        find_runs([str(tmp_path)])


def test_judged_files_and_candidates_are_found(tmp_path: Path) -> None:
    release = written(tmp_path / "release" / "ebk1" / "per_item.jsonl", {"id": "q1", "nuggets": [FULL]})
    (path,) = paths(tmp_path / "release")
    assert read_path(path).label == read_path(release).label == "ebk1"
    out = candidates(tmp_path, "judged", "abc")
    assert paths(out) == [out]  # a run that has just begun
    below = [candidates(out, name, "abc") for name in ("ebk1", "gptk1")]
    for one in below:
        (one / "per_item.jsonl").touch()
    assert paths(out) == below


def test_only_runs_of_same_data_and_gold_pair(tmp_path: Path) -> None:
    this, that = (made_run(tmp_path, label="orig", rows=ROWS, data=data) for data in ("this", "that"))
    check_same_data([this, candidates(tmp_path, "theirs-k1", "sha of this gold")])
    with pytest.raises(
        UsageError, match=r"this \(sha256 sha of t, gold sha of t\): .*this-orig; that .*that-"
    ):
        check_same_data([this, that])
    with pytest.raises(UsageError, match=r"gold fedcba98\): .*others-k1"):
        check_same_data([this, candidates(tmp_path, "others-k1", "fedcba9876543210")])


# Runs


def verdict(id: str, coverage: str, score: float, **fields: object) -> dict[str, object]:
    nuggets = [{"id": "N1", "weight": 2, "coverage": coverage}]
    return {"id": id, "nuggets": nuggets, "restore_score_100": score, **fields}


def test_run_is_read_with_identity_and_items(tmp_path: Path) -> None:
    row = Row("q1", ["Where?", "When?"], ["unknown", "May"], labels={"ernie": "fpn"}, weights=[3, 2, 1])
    directory = made_run(tmp_path, label="gpt-k2", rows=[row])
    run = read_run(directory)
    assert (run.label, run.clarifier, run.k, run.judges) == ("gpt-k2", "gpt", 2, ("ernie",))
    assert (run.players["support"], run.data.sha256) == ("ernie", "sha of made")
    item = run.items["q1"]
    assert (item.unknown, item.answer) == ((True, False), "an answer")
    assert item.verdicts["ernie"].score == pytest.approx(100 * 4 / 6)
    assert dict(item.verdicts["ernie"].coverage) == {"N1": "full", "N2": "partial", "N3": "none"}
    assert dict(item.verdicts["ernie"].weights) == {"N1": 3.0, "N2": 2.0, "N3": 1.0}
    assert read_run(directory, without=["answer"]).items["q1"].answer == ""
    with pytest.raises(InputError, match=r"run\.json not found"):
        read_run(tmp_path)


def test_last_line_counts_and_failures_are_not_missing(tmp_path: Path) -> None:
    rows = [Row("q1", error="search"), Row("q2", score=40.0), Row("q1", score=30.0), Row("q2", error="judge")]
    run = read_run(made_run(tmp_path, label="orig", rows=rows, n_expected=8))
    assert run.scores("ernie") == {"q1": 30.0}
    assert (list(run.items), run.n_done, run.n_failed, run.n_missing) == (["q1"], 1, 1, 6)


def test_scoring_judge_comes_first_then_others_by_name(tmp_path: Path) -> None:
    labels = {"kimi": "fp", "gpt": "pp", "claude": "nn"}
    rows = [Row("q1", labels=labels), Row("q2", labels=labels)]
    run = read_run(made_run(tmp_path / "judged", label="orig", rows=rows))
    assert run.judges == ("kimi", "claude", "gpt")
    assert [run.scores(judge)["q1"] for judge in run.judges] == [75.0, 0.0, 50.0]
    coverages = [item.verdicts["kimi"].coverage for item in run.items.values()]
    assert coverages[0] is coverages[1]  # equal labels share one object
    assert read_run(made_run(tmp_path / "not", label="orig", rows=[Row("q1")])).judges == ()


def test_verdict_needs_an_answer_and_replaces_a_failure(tmp_path: Path) -> None:
    rows = [Row("q1", score=1.0), Row("q2", score=2.0), Row("q3", error="search")]
    directory = made_run(tmp_path, label="orig", rows=rows)
    error = {"error": {"step": "judge", "kind": "rejected", "message": "no"}, "judge": "gpt"}
    verdicts = [verdict(id, "full", 100.0, judge="gpt") for id in ("q2", "q3", "q4")]
    written(directory / "judgments" / "gpt.jsonl", {"id": "q1", **error}, {"id": "q2", **error}, *verdicts)
    run = read_run(directory)
    assert run.scores("gpt") == {"q2": 100.0}
    assert (run.judge_failures, run.n_failed_under("gpt")) == ({"gpt": 1}, 2)


def test_judged_candidates_take_judge_from_manifest(tmp_path: Path) -> None:
    identity = {"system": "gpt-k1", "candidates": "x.jsonl", "gold_sha256": "abc", "judges": ["ernie"]}
    written(tmp_path / "run.json", {"identity": identity, "n_expected": 2})
    lines = verdict("q1", "partial", 50.0, judge="ernie"), verdict("q2", "none", 0.0)
    written(tmp_path / "per_item.jsonl", *lines)
    run = read_run(tmp_path)
    assert (run.label, run.k, run.judges, run.n_missing) == ("gpt-k1", 1, ("ernie",), 0)
    assert run.data.as_json() == {"gold_sha256": "abc"}


# Judged files


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("ebk1__cand_hard518", ("ebk1", 1)),
        ("orig__cand_hard518", ("orig", 0)),
        ("gpt-k3", ("gpt-k3", 3)),
        ("gpt-k3@short", ("gpt-k3@short", 3)),
        ("k2-gpt", ("k2-gpt", 0)),
        ("__cand", ("__cand", 0)),
    ],
)
def test_name_of_answers_gives_system_and_budget(name: str, system: tuple[str, int]) -> None:
    assert named_system(name) == system


def test_judged_file_is_named_after_its_folder_or_itself(tmp_path: Path) -> None:
    line = {"id": "q1", "fused_query": "winter ferries", "nuggets": [FULL, NONE], "judge": "ernie"}
    run = read_judged(written(tmp_path / "gpt-k1" / "per_item.jsonl", line))
    assert (run.label, run.k, run.judges, run.n_expected) == ("gpt-k1", 1, ("ernie",), 1)
    assert run.directory == tmp_path / "gpt-k1"
    assert (run.items["q1"].intent, run.items["q1"].verdicts["ernie"].score) == ("winter ferries", 75.0)
    path = written(tmp_path / "ebk1__cand_hard518.jsonl", line)
    assert (read_judged(path).label, read_judged(path).directory) == ("ebk1", path)


@pytest.mark.parametrize(
    ("line", "id", "score", "coverage"),
    [
        (
            {"fused_query": "winter", "per_nugget": [{"id": "N1", "weight": 1, "label": "partial"}]},
            "winter",
            50.0,
            {"N1": "partial"},
        ),
        # nuggets without ids, and unlabelled gold beside them
        (
            {
                "id": 7,
                "nuggets": [{"id": "N1", "text": "By ferry."}],
                "per_nugget": [{"weight": 1, "label": "full"}, {"weight": 1, "label": "none"}],
            },
            "7",
            50.0,
            {"#1": "full", "#2": "none"},
        ),
    ],
)
def test_other_spellings_of_fields_are_understood(
    tmp_path: Path, line: dict[str, object], id: str, score: float, coverage: dict[str, str]
) -> None:
    path = tmp_path / "theirs.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line).encode()))  # no newline at the end
    found = read_judged(path).items[id].verdicts[UNNAMED]
    assert (found.score, dict(found.coverage)) == (score, coverage)


def test_failures_tables_and_malformed_lines_of_judged_files(tmp_path: Path) -> None:
    lines = {"id": "q1", "nuggets": [FULL]}, {"id": "q2", "error": {"kind": "rejected"}}
    run = read_judged(written(tmp_path / "theirs.jsonl", *lines))
    assert (list(run.items), run.n_failed, run.n_expected) == (["q1"], 1, 2)
    found = read_judged(written(tmp_path / "t.csv", "id,score", "q1,62.5")).items["q1"].verdicts[UNNAMED]
    assert (found.score, dict(found.coverage)) == (62.5, {})
    with pytest.raises(InputError, match=r"theirs\.jsonl:2: not valid JSON"):
        read_judged(written(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL]}, "{"))


def test_contradicting_score_in_judged_file_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "theirs.jsonl", {"id": "q1", "nuggets": [FULL, NONE], "restore_score_100": 20})
    run = read_judged(path)
    found = run.items["q1"].verdicts[UNNAMED]
    assert (found.score, found.weights) == (75.0, {"N1": 3.0, "N2": 1.0})
    assert run.contradictions == (
        f"Recomputed from the nuggets: {path}:1: restore_score_100 is 20 here, its nuggets give 75.0.",
    )


def test_runs_of_one_agent_are_compared_where_a_folder_has_several(tmp_path: Path) -> None:
    """The latest agent's, and those that are named themselves; a lone orig, or one agent, changes nothing."""
    for label, agent, day in (("orig", "a", 1), ("gpt-k1", "a", 1), ("orig", "b", 2), ("gpt-k2", "b", 2)):
        path = made_run(
            tmp_path,
            label=label,
            rows=[Row("q", score=1.0)],
            players={"agent": agent},
            name=f"{label}-{agent}",
        )
        manifest = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps(manifest | {"sessions": [{"start": f"2026-01-0{day}"}]}))
    notes: list[str] = []
    taken = of_one_agent(find_runs([str(tmp_path)]), notes.append)
    assert [one.path.name for one in taken] == ["gpt-k2-b", "orig-b"]
    left = f"{tmp_path / 'gpt-k1-a'} {tmp_path / 'orig-a'}"
    assert notes == [f"Left out, since their agent is a, not b (name them to see them): {left}"]
    words = [str(tmp_path / name) for name in ("orig-a", "gpt-k1-a")]
    assert len(of_one_agent(find_runs([*words, str(tmp_path)]), notes.append)) == 4
    assert len(of_one_agent(find_runs(words), notes.append)) == 2
    assert sibling_origs([tmp_path / "gpt-k1-a"]) == [tmp_path / "orig-a"]


@pytest.mark.parametrize("sessions", [None, 1, {"start": "x"}, [1], ["x"], [{"start": 1}, None]])
def test_malformed_sessions_do_not_matter(tmp_path: Path, sessions: object) -> None:
    for agent in "ab":
        path = made_run(tmp_path, label="orig", rows=ROWS, players={"agent": agent}, name=agent) / "run.json"
        manifest = json.loads(path.read_text()) | {"sessions": sessions}
        path.write_text(json.dumps(manifest))
    (taken,) = of_one_agent(find_runs([str(tmp_path)]), lambda note: None)
    assert read_run(taken.path).models == {}
