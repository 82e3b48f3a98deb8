"""Score judged nuggets: `restore_score_100` and its summary (Huang et al., KDD 2026, section 4.4.2).

This file stands alone. Copy it anywhere and run it with Python 3.11 or newer; it needs nothing but the
standard library, and uses orjson where that is installed.

    python scorer.py judgments.jsonl [more.jsonl ...] [--gold gold.jsonl] [--json]

A file of judgments is JSON Lines, one object a line, in one of these forms:

    {"id": "q1", "nuggets": [{"id": "N1", "weight": 3, "coverage": "full"}], "restore_score_100": 100.0}
    {"id": "q1", "results": [{"id": "N1", "coverage": "full"}]}             weights from --gold
    {"id": "q2", "error": {"step": "judge", "kind": "rejected", "message": "..."}}
    {"id": "q3", "answer": "...", "nuggets": null}                          answered, never judged

Nuggets may also stand under `per_nugget` or `judgments`, a label under `label` or `cov`, an id under
`query_id` or `qid`. A line without an id is known by its `fused_query` (or `query`). A line of gold is
`{"id", "fused_query", "gold": {"nuggets": [{"id", "text", "weight"}]}}`, or has `nuggets` at its top.

Two rules. A failure is never a score: what cannot be scored is counted apart or refused, never taken as 0.
The last line of an id counts: a resumed or retried run supersedes what it wrote before.
"""

from __future__ import annotations

import argparse
import codecs
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

__all__ = [
    "BadInput",
    "Gold",
    "Summary",
    "Unscored",
    "main",
    "percentile",
    "read_gold",
    "read_outcomes",
    "restore_score_100",
    "score_file",
    "summarise",
]

GAIN: Final[Mapping[str, float]] = {"full": 1.0, "partial": 0.5, "none": 0.0}
"""Equation 1: what a coverage label earns of its nugget's weight."""

TOLERANCE: Final = 1e-6
"""How far a stored score may lie from the recomputed one before it is reported."""

_LARGEST: Final = sys.float_info.max
_ID_FIELDS: Final = ("id", "query_id", "qid")
_QUERY_FIELDS: Final = ("fused_query", "query")
_NUGGET_FIELDS: Final = ("nuggets", "per_nugget", "judgments", "results")
_OUTCOME_FIELDS: Final = (*_NUGGET_FIELDS, "answer", "rewritten_query")


# -- the metric ---------------------------------------------------------------------------------------


def restore_score_100(pairs: Iterable[tuple[float, str]]) -> float:
    """Give `100 * sum(w_j * s_j) / sum(w_j)` over (weight, coverage) pairs, in [0, 100] (equations 1-3).

    The order of the pairs does not matter. Raises ValueError for no pairs, a label other than
    full / partial / none, or a weight that is not a positive finite number.
    """
    weights: list[float] = []
    gains: list[float] = []
    for weight, label in pairs:
        if not (type(weight) is float or _is_number(weight)) or not 0 < weight <= _LARGEST:
            raise ValueError(f"weight {weight!r} is not a positive finite number")
        gain = GAIN.get(label) if isinstance(label, str) else None
        if gain is None:
            raise ValueError(f"coverage {label!r} is not one of full, partial, none")
        weights.append(weight)
        gains.append(weight * gain)
    if not weights:
        raise ValueError("there are no nuggets to score")
    try:
        return 100.0 * (math.fsum(gains) / math.fsum(weights))
    except OverflowError:
        raise ValueError("the weights are too large to add up") from None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def percentile(values: Sequence[float], q: float) -> float:
    """Give the q-th percentile (0 <= q <= 100) of ascending `values`, interpolated linearly.

    The same to the last bit as `numpy.percentile(values, q)`. Raises ValueError for no values or another q.
    """
    if not values:
        raise ValueError("no percentile of no values")
    if not 0 <= q <= 100:
        raise ValueError(f"percentile {q!r} is not in [0, 100]")
    position = (len(values) - 1) * (q / 100)
    below = math.floor(position)
    if below + 1 == len(values):
        return values[below]
    low, high, share = values[below], values[below + 1], position - below
    # numpy starts from the nearer end, so that neither end is overshot by rounding.
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's scores in short. The five statistics are over the scored items, None where there are none.

    `n_expected` can exceed scored + failed + unjudged: the rest has no line at all.
    """

    n_expected: int
    n_scored: int
    n_failed: int
    n_unjudged: int
    mean: float | None
    p50: float | None
    p90: float | None
    min: float | None
    max: float | None


def summarise(
    scores: Iterable[float], n_failed: int = 0, n_expected: int | None = None, *, n_unjudged: int = 0
) -> Summary:
    """Summarise scores, in any order. `n_expected` is by default all that is counted here.

    Raises ValueError for a score that is not finite, or fewer expected than counted.
    """
    ordered = sorted(scores)
    if not all(map(math.isfinite, ordered)):
        raise ValueError("a score is not a finite number")
    counted = len(ordered) + n_failed + n_unjudged
    expected = counted if n_expected is None else n_expected
    if expected < counted:
        raise ValueError(f"{expected} items expected, but {counted} counted")
    counts = (expected, len(ordered), n_failed, n_unjudged)
    if not ordered:
        return Summary(*counts, None, None, None, None, None)
    mean = math.fsum(ordered) / len(ordered)
    return Summary(*counts, mean, percentile(ordered, 50), percentile(ordered, 90), ordered[0], ordered[-1])


# -- reading lines ------------------------------------------------------------------------------------


class BadInput(Exception):
    """A file that cannot be scored; `str()` is one line, `path:line: problem`."""

    def __init__(self, path: Path | str, line: int, problem: str) -> None:
        self.path, self.line, self.problem = str(path), line, problem
        super().__init__(f"{path}:{line}: {problem}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _stdlib_loads(line: bytes) -> Any:
    return json.loads(line.decode("utf-8"), parse_constant=_no_constant)


_loads: Callable[[bytes], Any] = _stdlib_loads
try:
    import orjson
except ImportError:
    pass
else:
    _loads = orjson.loads

Report = Callable[[str], None]
"""Takes one line that a person should see but that stops nothing."""


def _to_stderr(line: str) -> None:
    print(f"scorer: {line}", file=sys.stderr)


def _records(path: Path | str, report: Report | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object). A torn last line is told to `report`; without one it is an error."""
    with open(path, "rb") as lines:
        for number, raw in enumerate(lines, 1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if not line.strip():
                continue
            try:
                record = _loads(line)
            except (ValueError, RecursionError):
                if report is None or line.endswith(b"\n"):
                    raise BadInput(path, number, "not valid JSON") from None
                report(f"{path}:{number}: the last line is torn and was ignored")
                return
            if not isinstance(record, dict):
                raise BadInput(path, number, "not a JSON object")
            yield number, record


def _name(value: object) -> str | None:
    """Give an id or query as text; None where there is none. The number 7 and the text "7" are one id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _first_name(record: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    return next((name for field in fields if (name := _name(record.get(field))) is not None), None)


# -- gold ---------------------------------------------------------------------------------------------

Weights = dict[str, float]
"""Nugget id to weight, for one intent query."""


@dataclass(frozen=True, slots=True)
class Gold:
    """The weights of every intent query's nuggets, to be found by id, else by `fused_query`."""

    by_id: dict[str, Weights] = field(default_factory=dict)
    by_query: dict[str, Weights | None] = field(default_factory=dict)
    """None where several lines of gold share a query and differ: such a query joins nothing."""
    lines: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def weights_of(self, record: Mapping[str, Any]) -> Weights:
        """Give the weights for a line of judgments; ValueError where the gold has none, or several."""
        name, query = _first_name(record, _ID_FIELDS), _first_name(record, _QUERY_FIELDS)
        if name is not None and name in self.by_id:
            return self.by_id[name]
        if query is None or query not in self.by_query:
            raise ValueError(f"no gold for {name if name is not None else query!r}")
        weights = self.by_query[query]
        if weights is None:
            raise ValueError(f"several different golds for the query {query!r}, and no id tells which")
        return weights

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Take in one line of gold; ValueError where it cannot be joined or weighs nothing."""
        name, query = _first_name(record, _ID_FIELDS), _first_name(record, _QUERY_FIELDS)
        weights = _gold_weights(record)
        if name is None and query is None:
            raise ValueError(f"neither id nor fused_query; the fields are {_fields(record)}")
        if name is not None:
            if name in self.by_id:
                raise ValueError(f"the id {name!r} stands in the gold twice")
            self.by_id[name] = weights
        if query is not None:
            known = self.by_query.get(query, weights)
            self.by_query[query] = weights if known == weights else None
        self.lines.append(line)


def read_gold(path: Path | str) -> Gold:
    """Read a file of gold. Raises BadInput at the first line that is broken, OSError if there is no file."""
    gold = Gold()
    for number, record in _records(path, None):
        try:
            gold.add(number, record)
        except ValueError as problem:
            raise BadInput(path, number, str(problem)) from None
    return gold


def _gold_weights(record: Mapping[str, Any]) -> Weights:
    inner = record.get("gold")
    nuggets = inner.get("nuggets") if isinstance(inner, dict) else record.get("nuggets")
    weights: Weights = {}
    for name, nugget in _by_id(nuggets, "gold.nuggets").items():
        _require_score({name: (nugget.get("weight"), "none")})
        weights[name] = nugget["weight"]
    return weights


# -- judgments ----------------------------------------------------------------------------------------


class Unscored(Enum):
    """Why an item has no score."""

    FAILED = "failed"
    UNJUDGED = "unjudged"


Outcome = float | Unscored


def read_outcomes(
    path: Path | str, gold: Gold | None = None, report: Report = _to_stderr
) -> dict[str, Outcome]:
    """Read a file of judgments: item id to `restore_score_100`, or why it has none.

    The lines are read one by one, and only what is returned is kept.
    With gold, the weights are the gold's whatever the line says, and each of its nuggets must be judged
    exactly once. Raises BadInput at the first line that is broken, OSError if there is no file. A torn
    last line and a stored score that disagrees are told to `report`.
    """
    outcomes: dict[str, Outcome] = {}
    for number, record in _records(path, report):
        try:
            name, outcome = _item_name(record), _outcome(record, gold)
        except ValueError as problem:
            raise BadInput(path, number, str(problem)) from None
        if isinstance(outcome, float):
            stored = record.get("restore_score_100")
            if stored is not None and not _agrees(stored, outcome):
                report(f"{path}:{number}: restore_score_100 is {stored!r} here, its nuggets give {outcome!r}")
        outcomes[name] = outcome
    return outcomes


def score_file(path: Path | str, gold: Gold | None = None, report: Report = _to_stderr) -> Summary:
    """Summarise a file of judgments; see `read_outcomes`.

    Expected are all items that have a line, or all of the gold where that is more.
    """
    outcomes = read_outcomes(path, gold, report)
    kinds = list(outcomes.values())
    return summarise(
        (kind for kind in kinds if not isinstance(kind, Unscored)),
        n_failed=kinds.count(Unscored.FAILED),
        n_expected=max(len(kinds), len(gold) if gold is not None else 0),
        n_unjudged=kinds.count(Unscored.UNJUDGED),
    )


def _item_name(record: Mapping[str, Any]) -> str:
    name = _first_name(record, (*_ID_FIELDS, *_QUERY_FIELDS))
    if name is None:
        raise ValueError(f"neither id nor fused_query; the fields are {_fields(record)}")
    return name


def _outcome(record: Mapping[str, Any], gold: Gold | None) -> Outcome:
    if record.get("error") not in (None, "", False):
        return Unscored.FAILED
    found = [(name, record[name]) for name in _NUGGET_FIELDS if record.get(name) is not None]
    if not found:
        return _unjudged(record)
    name, nuggets = next(((n, v) for n, v in found if _looks_judged(v)), found[0])
    pairs = {key: (n.get("weight"), _label(n)) for key, n in _by_id(nuggets, name).items()}
    return _require_score(pairs if gold is None else _reweighted(pairs, gold.weights_of(record)))


def _unjudged(record: Mapping[str, Any]) -> Unscored:
    """Tell a line that was answered but not judged from one whose nuggets we cannot find."""
    if record.get("restore_score_100") is not None:
        raise ValueError("a restore_score_100 without the nuggets it was computed from")
    if not any(name in record for name in _OUTCOME_FIELDS):
        raise ValueError(f"neither judged nuggets nor an error; the fields are {_fields(record)}")
    return Unscored.UNJUDGED


def _looks_judged(nuggets: object) -> bool:
    return (
        isinstance(nuggets, list)
        and bool(nuggets)
        and isinstance(nuggets[0], dict)
        and _label(nuggets[0]) is not None
    )


def _label(nugget: Mapping[str, Any]) -> Any:
    return nugget.get("coverage") or nugget.get("label") or nugget.get("cov")


def _by_id(nuggets: object, where: str) -> dict[str, dict[str, Any]]:
    """Give the nuggets by id, each once; one without an id is known by its place, as `#3`."""
    if not isinstance(nuggets, list) or not nuggets:
        raise ValueError(f"{where} is not a list with at least one nugget")
    named: dict[str, dict[str, Any]] = {}
    for place, nugget in enumerate(nuggets, 1):
        if not isinstance(nugget, dict):
            raise ValueError(f"{where}: nugget #{place} is not an object")
        name = _name(nugget.get("id")) or f"#{place}"
        if name in named:
            raise ValueError(f"{where}: nugget {name!r} occurs twice")
        named[name] = nugget
    return named


def _reweighted(pairs: Mapping[str, tuple[Any, Any]], weights: Weights) -> dict[str, tuple[Any, Any]]:
    if pairs.keys() != weights.keys():
        for name in pairs:
            if name not in weights:
                raise ValueError(f"nugget {name!r} is not in the gold")
        missing = next(name for name in weights if name not in pairs)
        raise ValueError(f"nugget {missing!r} of the gold was not judged")
    return {name: (weights[name], label) for name, (_, label) in pairs.items()}


def _require_score(pairs: Mapping[str, tuple[Any, Any]]) -> float:
    """Score named pairs; ValueError names the first nugget at fault."""
    try:
        return restore_score_100(pairs.values())
    except ValueError:
        for name, pair in pairs.items():
            try:
                restore_score_100([pair])
            except ValueError as problem:
                hint = " (weights can come from --gold)" if pair[0] is None else ""
                raise ValueError(f"nugget {name!r}: {problem}{hint}") from None
        raise


def _agrees(stored: object, score: float) -> bool:
    return isinstance(stored, (int, float)) and score - TOLERANCE <= stored <= score + TOLERANCE


def _fields(record: Mapping[str, Any]) -> str:
    return ", ".join(sorted(record)) or "none"


# -- the command --------------------------------------------------------------------------------------

_COLUMNS: Final = ("expected", "scored", "failed", "unjudged", "mean", "p50", "p90", "min", "max")

_EXAMPLE: Final = """\
example:
  python -m cts_async.scorer runs/gpt-k3/results.jsonl
  python scorer.py per_item.jsonl --gold gold_public_hard518.jsonl --json

exit code: 0 all scored, 1 some items failed, 2 bad input
"""


def _table(rows: Sequence[tuple[str, Summary]]) -> str:
    """Lay the summaries out in columns; `unjudged` only where there is something in it."""
    columns = [c for c in _COLUMNS if c != "unjudged" or any(s.n_unjudged for _, s in rows)]
    cells = [["file", *columns]]
    cells += [[name, *(_cell(summary, column) for column in columns)] for name, summary in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    )


def _cell(summary: Summary, column: str) -> str:
    if hasattr(summary, f"n_{column}"):
        return str(getattr(summary, f"n_{column}"))
    value: float | None = getattr(summary, column)
    return "-" if value is None else f"{value:.3f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scorer",
        description="Compute restore_score_100 from judged nuggets and summarise each file.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "judgments", nargs="+", metavar="JUDGMENTS.jsonl", help="judged nuggets, one item a line"
    )
    parser.add_argument("--gold", metavar="GOLD.jsonl", help="take the nuggets' weights from this gold")
    parser.add_argument("--json", action="store_true", help="print a JSON list, one object per file")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print one summary per file and give the exit code: 0 all scored, 1 some failed, 2 bad input."""
    options = _parser().parse_args(argv)
    try:
        gold = read_gold(options.gold) if options.gold else None
        rows = [(name, score_file(name, gold)) for name in options.judgments]
    except BadInput as problem:
        print(f"scorer: error: {problem}", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"scorer: error: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([{"file": name, **asdict(s)} for name, s in rows], ensure_ascii=False, indent=2))
    else:
        print(_table(rows))
    return 1 if any(summary.n_failed for _, summary in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
