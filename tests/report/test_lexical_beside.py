"""The lexical judge beside the others, read from verdict files written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cts_async.errors import InputError
from cts_async.protocol.results import answer_digest
from cts_async.report.summary import (
    agreement_sentence,
    judge_pairs,
    pooled_agreements,
    summarise_run,
    write_summary,
)


def line(id: str, labels: str, **more: Any) -> dict[str, Any]:
    """`fpn` is full, partial, none; the score is that of equal weights."""
    words = {"f": "full", "p": "partial", "n": "none"}
    nuggets = [{"id": f"N{i}", "weight": 1, "coverage": words[c]} for i, c in enumerate(labels)]
    score = sum({"f": 100, "p": 50, "n": 0}[c] for c in labels) / len(labels)
    return {"id": id, "nuggets": nuggets, "restore_score_100": score, **more}


def failure(id: str, judge: str) -> dict[str, Any]:
    return {"id": id, "judge": judge, "error": {"step": "judge", "kind": "rejected", "message": "no"}}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Judged by both: a (ff / fn), b (np / np), c (fp / pp). Not by both: d, e, and f with other nuggets."""
    own = {"judge": "ernie"}
    write(tmp_path / "run.json", {"identity": {"system": "m-k1"}, "n_expected": 6})
    write(
        tmp_path / "results.jsonl",
        line("a", "nn", **own),  # superseded
        line("a", "ff", **own),
        line("b", "np", **own),
        line("d", "ff", **own),
        failure("e", "ernie"),
        line("c", "fp", **own),
        line("f", "f", **own),
    )
    write(
        tmp_path / "judgments/lexical.jsonl",
        *(line(id, labels, judge="lexical") for id, labels in (("c", "pp"), ("a", "fn"), ("b", "np"))),
        line("e", "ff", judge="lexical"),
        line("f", "fn", judge="lexical"),
        failure("d", "lexical"),
    )
    return tmp_path


def test_pairs_and_scores_by_hand(run: Path) -> None:
    (found,) = summarise_run(run).judge_pairs
    assert (found.judge, found.other) == ("ernie", "lexical")
    assert found.pairs == {
        ("full", "full"): 1, ("full", "none"): 1, ("none", "none"): 1, ("partial", "partial"): 2,
        ("full", "partial"): 1,
    }  # fmt: skip
    assert sorted(zip(found.scores.tolist(), found.other_scores.tolist(), strict=True)) == [
        (25.0, 25.0),
        (75.0, 50.0),
        (100.0, 50.0),
    ]


def test_the_summary_has_the_coefficients(run: Path) -> None:
    """Equal 4 of 6. Rows f 3 p 2 n 1, columns f 1 p 3 n 2: by chance (3 + 6 + 2)/36, so (24 - 11)/(36 - 11)."""
    (found,) = write_summary(summarise_run(run))["agreement"]
    assert (found["judge"], found["n_answers"], found["n_nuggets"]) == ("ernie", 3, 6)
    assert found["exact"] == 4 / 6
    assert found["kappa"] == pytest.approx(13 / 25)
    # Quadratic: 4 + 1 observed, of 6; by chance f: 3 + 4*2, p: 1 + 2, n: 4 + 3 times 3, 2 and 1 = 33 + 6 + 7.
    assert found["kappa_quadratic"] == pytest.approx(1 - 5 * 6 / 46)


def test_runs_are_pooled_in_one_sentence(run: Path) -> None:
    found = summarise_run(run).judge_pairs
    (pooled,) = pooled_agreements([*found, *found])
    assert (pooled.n_answers, pooled.n_nuggets, pooled.exact) == (6, 12, 4 / 6)
    assert agreement_sentence(pooled) == (
        "lexical agrees with ernie on 66.7 % of 12 nuggets (Cohen's kappa 0.520, quadratic 0.348); "
        "scores of 6 answers correlate by 0.945"
    )


def test_scores_that_never_vary_have_no_correlation_to_tell(tmp_path: Path) -> None:
    files = [
        (judge, write(tmp_path / f"{judge}.jsonl", line("a", "fn", judge=judge)))
        for judge in ("m", "lexical")
    ]
    (found,) = judge_pairs(files, "lexical")
    assert agreement_sentence(found.agreement()).endswith(
        "on 100.0 % of 2 nuggets (Cohen's kappa 1.000, quadratic 1.000)"
    )


def test_nothing_stands_beside_a_judge_alone(tmp_path: Path) -> None:
    lexical = write(tmp_path / "l.jsonl", line("a", "fn"))
    other = write(tmp_path / "m.jsonl", line("b", "fn"))
    assert list(judge_pairs([("lexical", lexical)], "lexical")) == []
    assert list(judge_pairs([("m", lexical), ("n", lexical)], "lexical")) == []
    (found,) = judge_pairs([("m", other), ("lexical", lexical)], "lexical")
    assert agreement_sentence(found.agreement()) == "lexical and m have no judged nugget in common"


def test_verdicts_on_different_answers_are_not_compared(tmp_path: Path) -> None:
    """Of two answers one has changed since the second judge saw it."""
    now = {"fused_query": "q", "judge": "ernie"}
    first = write(
        tmp_path / "per_item.jsonl",
        *(line(id, "ff", answer=answer, **now) for id, answer in (("a", "old"), ("b", "new"))),
    )
    second = write(
        tmp_path / "judgments/lexical.jsonl",
        *(line(id, "fn", answer_digest=answer_digest("q", "old")) for id in ("a", "b")),
    )
    (found,) = judge_pairs([("ernie", first), ("lexical", second)], "lexical")
    assert found.pairs == {("full", "full"): 1, ("full", "none"): 1}
    assert len(found.scores) == 1


@pytest.mark.parametrize("nugget", [{"id": "N1", "weight": 1, "coverage": "Full"}, {"id": "N1"}, "N1", None])
def test_a_verdict_that_somebody_broke_is_named_with_its_line(run: Path, nugget: object) -> None:
    with (run / "judgments" / "lexical.jsonl").open("a") as file:
        nuggets = True if nugget is None else [nugget]
        file.write(json.dumps({"id": "a", "judge": "lexical", "nuggets": nuggets}) + "\n")
    with pytest.raises(InputError, match=r"lexical\.jsonl:7: field 'nuggets': has to be a list of"):
        summarise_run(run)
