"""Finished runs as analyses see them: what was asked, answered, rewritten and judged, by instance."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from cts_async import scorer
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError
from cts_async.protocol.results import Line, answer_digest, checked_results, failed
from cts_async.protocol.run_files import JUDGMENTS, PER_ITEM, RESULTS, TALK, results_of
from cts_async.records import UNKNOWN, Coverage, is_one_line
from cts_async.scorer import TOLERANCE, restore_score_100

UNNAMED = "unnamed"
"""The judge of lines that name none, if the manifest names none either."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's labels for one answer, and the score they make (0..100)."""

    score: float
    coverage: Mapping[str, Coverage]
    """Label by nugget id, in the order of the gold."""
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Item:
    """One finished instance of one run; `answers[i]` belongs to `questions[i]`, both are empty for orig."""

    id: str
    fused_query: str
    blurred_query: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    rewritten_query: str
    answer: str
    verdicts: Mapping[str, Verdict]
    """By judge, without the judges that failed on this answer."""

    @property
    def unknown(self) -> tuple[bool, ...]:
        """For each answer, whether the User Answerer said `unknown`."""
        return tuple(answer == UNKNOWN for answer in self.answers)


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run directory in memory. `players` are model names by role: clarifier, support, agent, judge NAME."""

    directory: Path
    label: str
    clarifier: str
    """The model that asked, with its scheme and mode if these are not the benchmark's (`gpt-at-cot-respond`): the same
    model prompted otherwise is another Clarifier. Empty for the reference points."""
    k: int
    players: Mapping[str, str]
    judges: tuple[str, ...]
    """The scoring judge first; empty for a run without judging."""
    items: Mapping[str, Item] = field(repr=False)
    """By id, in the order of the ids, so that sums and resamples do not depend on what finished first."""
    n_failed: int
    n_expected: int
    data: Mapping[str, Any]
    """Name of the data, sha256 of its file and of its gold."""
    embedded: bool
    """True if the embedded model played a role: the scores are a smoke test."""
    judge_failures: Mapping[str, int] = field(default_factory=dict)
    """Answers that a judge failed to label. For the judge of the run itself they are among `n_failed`."""
    remarks: tuple[str, ...] = ()
    """Facts about its files that a reader of its scores has to know."""
    mode: str = "at-once"
    """How the Clarifier interacts with the user."""
    talk: bool = False
    """Conversations only (`cts converse`): nothing was searched, and questions of mode at-once have no answers."""

    @property
    def unanswered(self) -> str:
        """Why the run has no answers of a user; "" if it has, or if it asked nothing."""
        if self.mode == "select":
            return "its user chose among queries and answered no questions"
        return "no user answered its questions" if self.talk and self.mode == "at-once" else ""

    @property
    def n_missing(self) -> int:
        """Instances without a line yet."""
        return self.n_expected - len(self.items) - self.n_failed

    def scores(self, judge: str) -> dict[str, float]:
        """`restore_score_100` by id of the instances that this judge has labelled."""
        return {id: item.verdicts[judge].score for id, item in self.items.items() if judge in item.verdicts}


def label_with_mark(label: str, directory: Path) -> str:
    """Append to a system's label what the name of its directory adds, as in `gpt-k1+support-kimi`."""
    _, plus, mark = directory.name.partition("+")
    return label + plus + mark


def read_run(directory: Path, *, without: Collection[str] = ()) -> FinishedRun:
    """Read a run directory, or one that `cts judge --out` made, one line at a time.

    Texts of `Item` that are named in `without` are left empty, which saves most of the memory. Raises InputError
    if the directory is not a run.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "not a run directory: run.json not found")
    identity = manifest.get("identity", {})
    judge = next(iter(identity.get("judges") or ()), UNNAMED)
    lines = _Lines(judge, without, changeable="candidates" in identity)
    results = directory / results_of(directory)
    for line in checked_results(results):
        lines.add(line, results)
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        lines.add_judgments(path)
    players = dict(manifest.get("players", {}))
    label, k = str(identity.get("system") or directory.name), int(identity.get("k") or 0)
    if "candidates" in identity:
        label, k = named_system(label)
    return FinishedRun(
        directory=directory,
        label=label,
        clarifier=_clarifier_name(players, identity),
        k=k,
        players=players,
        judges=tuple(lines.verdicts),
        items=lines.items(),
        n_failed=len(lines.failed),
        n_expected=max(int(manifest.get("n_expected", 0)), len(lines.found) + len(lines.failed)),
        data=data_of(identity),
        embedded=bool(manifest.get("embedded")),
        judge_failures={judge: len(ids) for judge, ids in lines.unlabelled.items() if ids},
        remarks=lines.contradictions(),
        mode=str(identity.get("mode") or "at-once"),
        talk=identity.get("task") == TALK,
    )


def _clarifier_name(players: Mapping[str, str], identity: Mapping[str, Any]) -> str:
    scheme, mode = identity.get("scheme") or "cts", identity.get("mode") or "at-once"
    unusual = [str(scheme)] * (scheme != "cts") + [str(mode)] * (mode != "at-once")
    return "-".join([str(players["clarifier"]), *unusual]) if players.get("clarifier") else ""


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """Join the first of several texts, and say how many more there are."""
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


def named_system(name: str) -> tuple[str, int]:
    """Split the name of a file of answers into system and budget: ("ebk1", 1) for the release's ebk1__cand_hard518.

    The budget is 0 if the name does not end in k and a digit.
    """
    system = name.split("__cand")[0] or name
    budget = re.search(r"k([1-9])$", system)
    return system, int(budget[1]) if budget else 0


def data_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return name and digests of the data in a manifest's identity; for judged candidates only the gold's."""
    return dict(identity.get("data") or {"gold_sha256": identity.get("gold_sha256")})


class _Lines:
    """Collects the lines of a run; the last line of an id counts."""

    def __init__(self, judge: str, without: Collection[str], *, changeable: bool) -> None:
        self._judge, self._without, self._changeable = judge, without, changeable
        self._digests: dict[str, str] = {}
        """Digests of answers that may change under their ids (those of candidates)."""
        self._shared: dict[Any, Mapping[str, Any]] = {}
        self.found: dict[str, Item] = {}
        self.failed: set[str] = set()
        self.verdicts: dict[str, dict[str, Verdict]] = {}
        """By judge and id, the scoring judge first."""
        self.unlabelled: dict[str, set[str]] = {}
        """Ids of the answers that a judge failed to label."""
        self._disputed: dict[tuple[Path, str], tuple[float, float]] = {}
        """A stored score and the one computed from its nuggets, by file and id, if they differ."""

    def add(self, line: Line, path: Path) -> None:
        """Add a line of the results."""
        id, judge = line["id"], str(line.get("judge") or self._judge)
        for by_id in self.verdicts.values():
            by_id.pop(id, None)
        for ids in self.unlabelled.values():
            ids.discard(id)
        if failed(line) and line.get("answer"):  # the answer is there: only the judge failed
            self.unlabelled.setdefault(judge, set()).add(id)
        elif failed(line):
            self.found.pop(id, None)
            self.failed.add(id)
            return
        self.failed.discard(id)
        self.found[id] = _item(line, self._without)
        if self._changeable and isinstance(line.get("answer"), str):
            self._digests[id] = answer_digest(str(line.get("fused_query") or ""), line["answer"])
        if verdict := self._verdict(line, path):
            self.verdicts.setdefault(judge, {})[id] = verdict

    def add_judgments(self, path: Path) -> None:
        """Add a further judge's file. A verdict on another answer than the one recorded does not count."""
        judge, verdicts, failures = path.stem, dict[str, Verdict](), set[str]()
        for line in checked_results(path):
            judge = str(line.get("judge") or judge)
            verdicts.pop(line["id"], None)
            failures.discard(line["id"])
            if not self._is_about(line):
                continue
            if failed(line):
                failures.add(line["id"])
            elif verdict := self._verdict(line, path):
                verdicts[line["id"]] = verdict
        if verdicts:
            self.verdicts.setdefault(judge, {}).update(verdicts)
        if failures:
            self.unlabelled[judge] = failures

    def _is_about(self, line: Line) -> bool:
        """True if a verdict is about the recorded answer, as far as it says; after a crash there may be none."""
        if line["id"] not in self.found:
            return False
        digest, recorded = line.get("answer_digest"), self._digests.get(line["id"])
        return digest is None or recorded is None or digest == recorded

    def items(self) -> dict[str, Item]:
        """Return the items with their verdicts, in the order of their ids."""
        for id, item in self.found.items():
            verdicts = {judge: by_id[id] for judge, by_id in self.verdicts.items() if id in by_id}
            self.found[id] = replace(item, verdicts=verdicts)
        return {id: self.found[id] for id in sorted(self.found)}

    def contradictions(self) -> tuple[str, ...]:
        """Describe the files whose stored scores contradict their nuggets, each with the first instances by id."""
        by_file: dict[Path, list[str]] = {}
        for (path, id), (stored, score) in sorted(self._disputed.items()):
            by_file.setdefault(path, []).append(f"{id!r} says {stored:.6g}, its nuggets give {score:.6g}")
        return tuple(
            f"Stored scores contradict their nuggets, and are recomputed: {path}: {first_of(texts)}."
            for path, texts in by_file.items()
        )

    def _verdict(self, line: Line, path: Path) -> Verdict | None:
        """Compute the score from the labels, as `cts score` does; the stored one may be wrong."""
        key, stored = (path, line["id"]), line.get("restore_score_100")
        self._disputed.pop(key, None)
        if not line.get("nuggets") or stored is None:
            return None
        coverage = self._once(tuple((nugget["id"], nugget["coverage"]) for nugget in line["nuggets"]))
        weights = self._once(tuple((nugget["id"], float(nugget["weight"])) for nugget in line["nuggets"]))
        score = restore_score_100(zip(weights.values(), coverage.values(), strict=True))
        if not abs(score - stored) <= TOLERANCE:
            self._disputed[key] = float(stored), score
        return Verdict(score, coverage, weights)

    def _once(self, pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
        """Share one object among equal labels or weights: of many thousand answers few differ."""
        known = self._shared.get(pairs)
        if known is None:
            known = self._shared[pairs] = dict(pairs)
        return known


def _item(line: Line, without: Collection[str]) -> Item:
    def text(name: str) -> str:
        return "" if name in without else str(line.get(name) or "")

    def texts(name: str) -> tuple[str, ...]:
        return () if name in without else tuple(line.get(name) or ())

    return Item(
        id=line["id"],
        fused_query=text("fused_query"),
        blurred_query=text("blurred_query"),
        questions=texts("questions"),
        answers=texts("answers"),
        rewritten_query=text("rewritten_query"),
        answer=text("answer"),
        verdicts={},
    )


# Judged answers that any program wrote: the release's per_item.jsonl, and whatever else `cts score` reads


def read_judged(path: Path) -> FinishedRun:
    """Read one file as a run; its scores are the scorer's, recomputed from its labels.

    The system is named after the file, or after its folder for a per_item.jsonl or results.jsonl; a name that ends in
    k1 to k9 gives the budget. Raises InputError with the line at fault.
    """
    remarks: list[str] = []
    try:
        outcomes = scorer.read_outcomes(path, report=remarks.append)
        lines = dict(_records_by_name(path))
    except scorer.BadInput as error:
        raise InputError(error.path, error.problem, line=error.line) from None
    scores = {id: outcome for id, outcome in outcomes.items() if not isinstance(outcome, scorer.Unscored)}
    judges = (str(line["judge"]) for name, line in lines.items() if name in scores and line.get("judge"))
    judge = min(judges, default=UNNAMED)  # the first by name, since lines have no order
    if not is_one_line(judge):
        raise InputError(path, f"{judge!r} has control characters or line breaks", field="judge")
    by_folder = path.name in (PER_ITEM, RESULTS)
    system, k = named_system(path.parent.name if by_folder else path.stem)
    return FinishedRun(
        directory=path.parent if by_folder else path,
        label=system,
        clarifier="",
        k=k,
        players={},
        judges=(judge,) if scores else (),
        items={id: _judged_item(id, lines.get(id, {}), scores[id], judge) for id in sorted(scores)},
        n_failed=list(outcomes.values()).count(scorer.Unscored.FAILED),
        n_expected=len(outcomes),
        data={},
        embedded=False,
        remarks=(f"Recomputed from the nuggets: {first_of(remarks)}.",) if remarks else (),
    )


def _records_by_name(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every line with its item's name; a table of scores (CSV) has none."""
    if not scorer.is_csv(path):
        for _, line in scorer.read_records(path, lambda _: None):
            yield scorer.item_name(line), line


def _judged_item(id: str, line: Mapping[str, Any], score: float, judge: str) -> Item:
    pairs = scorer.pairs_of(line)
    coverage = cast("Mapping[str, Coverage]", {name: label for name, (_, label) in pairs.items()})
    weights = {name: float(weight) for name, (weight, _) in pairs.items()}
    return Item(
        id=id,
        fused_query=str(line.get("fused_query") or line.get("query") or ""),
        blurred_query="",
        questions=(),
        answers=(),
        rewritten_query="",
        answer="",
        verdicts={judge: Verdict(score, coverage, weights)},
    )
