"""Run directories written by hand, small enough to work every number out on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cts_async.scorer import restore_score_100

SCORING = "ernie"
_LABELS = {"f": "full", "p": "partial", "n": "none"}


@dataclass(frozen=True)
class Row:
    """One instance of a run. What is judged is given as `score` or as `labels`.

    `score` is what the judge SCORING gave, a multiple of 0.5; `labels` are labels by judge, a letter for each nugget
    ("fpn" is full, partial, none), which make the score with `weights` (all 1 where they are left out). The
    first judge of `labels` is the scoring one. `error` makes the instance a failure at that step.
    """

    id: str
    questions: Sequence[str] = ()
    answers: Sequence[str] = ()
    score: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    weights: Sequence[float] = ()
    fused_query: str = ""
    blurred_query: str = ""
    rewritten_query: str = ""
    answer: str = "an answer"
    error: str = ""


def made_run(
    folder: Path,
    *,
    label: str,
    rows: Sequence[Row],
    k: int | None = None,
    clarifier: str | None = None,
    data: str = "made",
    players: Mapping[str, str] | None = None,
    n_expected: int | None = None,
    embedded: bool = False,
    name: str | None = None,
    scheme: str = "cts",
    mode: str = "at-once",
) -> Path:
    """Write run.json, results.jsonl and judgments/ into `folder`/`name` (default DATA-LABEL); give that path.

    `gpt-k3` is the Clarifier gpt with k = 3, where neither is given; any other label is a reference point.
    `scheme` and `mode` are how it talked with the user; its label is then `gpt-SCHEME-MODE-k3`.
    """
    model, _, budget = label.rpartition("-k")
    unusual = {"scheme": scheme, "mode": mode} if (scheme, mode) != ("cts", "at-once") else {}
    for part in (mode, scheme):
        model = model.removesuffix(f"-{part}")
    directory = folder / (name or f"{data}-{label}")
    directory.mkdir(parents=True)
    k = (int(budget) if model else 0) if k is None else k
    clarifier = model if clarifier is None else clarifier
    named = {"clarifier": clarifier, "support": "ernie"} if clarifier else {}
    judges = list(next((row.labels for row in rows if row.labels), ())) or [SCORING]
    manifest = {
        "identity": {
            "system": label,
            "k": k,
            **unusual,
            "data": {"name": data, "sha256": f"sha of {data}", "gold_sha256": f"sha of {data} gold"},
            "judges": judges[:1],
        },
        "players": {**named, "agent": "webdancer", f"judge {judges[0]}": judges[0], **(players or {})},
        "embedded": embedded,
        "n_expected": len(rows) if n_expected is None else n_expected,
        "sessions": [],
    }
    (directory / "run.json").write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")
    _write_lines(directory / "results.jsonl", [_line(row, label, k) for row in rows])
    for judge in judges[1:]:
        (directory / "judgments").mkdir(exist_ok=True)
        verdicts = [{"id": row.id, **_judged(row, judge)} for row in rows if judge in row.labels]
        _write_lines(directory / "judgments" / f"{judge}.jsonl", verdicts)
    return directory


@contextmanager
def changed_manifest(run: Path) -> Iterator[dict[str, Any]]:
    """Change a run's run.json: `with changed_manifest(run) as manifest: manifest["k"] = 2`."""
    manifest: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    yield manifest
    (run / "run.json").write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")


def _line(row: Row, label: str, k: int) -> dict[str, Any]:
    head = {
        "id": row.id,
        "system": label,
        "fused_query": row.fused_query or f"the intent of {row.id}",
        "blurred_query": row.blurred_query or f"the query of {row.id}",
    }
    if row.error:
        return {**head, "error": {"step": row.error, "kind": "rejected", "message": "refused"}}
    return {
        **head,
        "k": k,
        "questions": list(row.questions),
        "answers": list(row.answers),
        "rewritten_query": row.rewritten_query,
        "answer": row.answer,
        **_judged(row, next(iter(row.labels), SCORING)),
    }


def _judged(row: Row, judge: str) -> dict[str, Any]:
    if judge in row.labels:
        labels = [_LABELS[letter] for letter in row.labels[judge]]
        weights = row.weights or [1.0] * len(labels)
        nuggets = [
            {"id": f"N{i}", "weight": weight, "coverage": label}
            for i, (weight, label) in enumerate(zip(weights, labels, strict=True), start=1)
        ]
        score = restore_score_100(list(zip(weights, labels, strict=True)))
        return {"judge": judge, "nuggets": nuggets, "restore_score_100": score}
    if row.score is None:
        return {"judge": None, "nuggets": None, "restore_score_100": None}
    nuggets = _nuggets_of(row.score)
    score = restore_score_100([(nugget["weight"], nugget["coverage"]) for nugget in nuggets])
    return {"judge": judge, "nuggets": nuggets, "restore_score_100": score}


_WEIGHTS = (37, 32, 16, 8, 4, 2, 1)
"""They add up to 100, and some of them to any number below."""


def _nuggets_of(score: float) -> list[dict[str, Any]]:
    """Judged nuggets that make a score, a multiple of 0.5, by the same weights for any score."""
    nuggets, left = [], score
    for i, weight in enumerate(_WEIGHTS, start=1):
        label = "full" if weight <= left else "partial" if weight == 2 * left else "none"
        left -= {"full": weight, "partial": weight / 2, "none": 0}[label]
        nuggets.append({"id": f"N{i}", "weight": weight, "coverage": label})
    if left:
        raise ValueError(f"{score} is no multiple of 0.5 in [0, 100]: give labels")
    return nuggets


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
