"""Score judged nuggets: `restore_score_100` and its summary (Huang et al., KDD 2026, section 4.4.2).

This file stands alone. Copy it anywhere and run it with Python 3.11 or newer; it needs nothing but the
standard library, and uses orjson where that is installed.

    python scorer.py judgments.jsonl [more.csv 'outputs/*/per_item.jsonl' ...] [--gold gold.jsonl] [--json]

A directory stands for its results.jsonl or per_item.jsonl, or for those of its subdirectories; any file may
be gzipped (.gz). A file of judgments is JSON Lines, one object a line, in one of these forms:

    {"id": "q1", "nuggets": [{"id": "N1", "weight": 3, "coverage": "full"}], "restore_score_100": 100.0}
    {"id": "q1", "results": [{"id": "N1", "coverage": "full"}]}             weights from --gold
    {"id": "q2", "error": {"step": "judge", "kind": "rejected", "message": "..."}}
    {"id": "q3", "answer": "...", "nuggets": null}                          answered, never judged
    {"id": "q4", "restore_score_100": 62.5}                                 a score computed elsewhere

Nuggets may also be named `per_nugget` or `judgments`, a label `label` or `cov`, an id `query_id` or `qid`.
A line without an id is identified by its `fused_query` (or `query`). A line of gold is
`{"id", "fused_query", "gold": {"nuggets": [{"id", "text", "weight"}]}}`, or has `nuggets` at its top.

A .csv or .tsv file has a header and either a row for each nugget, in any order, or one for each item:

    id,nugget_id,weight,coverage          an item is failed if a row of it says so under `error`,
    q1,N1,3,full                          unjudged if no row of it has a coverage
    id,restore_score_100                  scores computed elsewhere, used as they are; without one an item
    q1,62.5                               is failed if it has an `error`, else unjudged

Two rules. A failure is never a score: an item without a score is counted apart or refused, never taken as 0.
The order of lines never chooses between two verdicts: a later line of an id counts, since a resumed or retried
run appends new lines, but if both judge one answer they have to agree (equal lines count once), or the file is
refused, naming both. In CSV a nugget that is judged twice is refused, and an item with two scores.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import errno
import glob
import gzip
import json
import math
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import chain
from operator import itemgetter, mul
from pathlib import Path
from typing import IO, Any, Final, cast

__all__ = [
    "BadInput",
    "Gold",
    "Summary",
    "Unscored",
    "as_json",
    "is_csv",
    "is_pipe",
    "item_name",
    "judged_files",
    "main",
    "pairs_of",
    "percentile",
    "printable",
    "read_gold",
    "read_outcomes",
    "read_records",
    "restore_score_100",
    "score_file",
    "score_files",
    "summarise",
    "table",
    "usual_score",
]

GAIN: Final[Mapping[str, float]] = {"full": 1.0, "partial": 0.5, "none": 0.0}
"""Equation 1: the share of a nugget's weight that a coverage label earns."""

TOLERANCE: Final = 1e-6
"""Largest difference between a stored score and the recomputed one that is not reported."""

_LARGEST: Final = sys.float_info.max
_ID_FIELDS: Final = ("id", "query_id", "qid")
_QUERY_FIELDS: Final = ("fused_query", "query")
_NUGGET_FIELDS: Final = ("nuggets", "per_nugget", "judgments", "results")
_OUTCOME_FIELDS: Final = (*_NUGGET_FIELDS, "answer", "rewritten_query")


# -- the metric ---------------------------------------------------------------------------------------


def restore_score_100(pairs: Iterable[tuple[float, str]]) -> float:
    """Return `100 * sum(w_j * s_j) / sum(w_j)` over (weight, coverage) pairs, in [0, 100] (equations 1-3).

    The order of the pairs does not matter. Raises ValueError for no pairs, a label other than
    full / partial / none, or a weight that is not a positive finite number.
    """
    checked = list(pairs)
    for weight, label in checked:
        _check_pair(weight, label)
    if not checked:
        raise ValueError("there are no nuggets to score")
    try:
        return _score(*zip(*checked, strict=True))
    except OverflowError:
        raise ValueError("the weights are too large to add up") from None


def score_of_labels(weights: tuple[float, ...], labels: tuple[str, ...]) -> float:
    """Return `restore_score_100` of weights and labels in the same order; those seen lately are remembered."""
    # Before the cache looks: 1 and True are the same key.
    if not _NUMBERS.issuperset(map(type, weights)):
        return restore_score_100(zip(weights, labels, strict=True))
    return _remembered_score(weights, labels)


@lru_cache(maxsize=4096)  # of very many answers to few queries most are labelled as another one
def _remembered_score(weights: tuple[float, ...], labels: tuple[str, ...]) -> float:
    return restore_score_100(zip(weights, labels, strict=True))


def _check_pair(weight: object, label: object) -> None:
    if not isinstance(weight, (int, float)) or isinstance(weight, bool) or not 0 < weight <= _LARGEST:
        raise ValueError(f"weight {weight!r} is not a positive finite number")
    if not isinstance(label, str) or label not in GAIN:
        raise ValueError(f"coverage {label!r} is not one of full, partial, none")


def _score(weights: Sequence[float], labels: Iterable[str]) -> float:
    """Compute `restore_score_100` of valid weights and labels. Raises OverflowError, KeyError otherwise."""
    gains = map(mul, weights, map(GAIN.__getitem__, labels))
    return 100.0 * (math.fsum(gains) / math.fsum(weights))


def percentile(values: Sequence[float], q: float) -> float:
    """Return the q-th percentile (0 <= q <= 100) of ascending `values`, interpolated linearly.

    Equal to `numpy.percentile(values, q)` to the last bit. Raises ValueError for no values or another q.
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
    # Like numpy: interpolate from the nearer end, so that rounding cannot overshoot it.
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a run's scores; those over the scored items are None if there are none.

    `mean_failed_as_0` is the mean over scored and failed items with failures as 0, for tables with the same n for every
    system. It is printed in addition to the mean, never instead of it. `n_expected` can exceed scored + failed +
    unjudged: the rest has no line at all.
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
    mean_failed_as_0: float | None = None


def summarise(
    scores: Iterable[float], n_failed: int = 0, n_expected: int | None = None, *, n_unjudged: int = 0
) -> Summary:
    """Summarise scores, in any order. `n_expected` is by default scored + failed + unjudged.

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
        # Failures are 0 by definition; without any there is nothing to take the mean of.
        return Summary(*counts, None, None, None, None, None, 0.0 if n_failed else None)
    total = math.fsum(ordered)
    return Summary(
        *counts,
        mean=total / len(ordered),
        p50=percentile(ordered, 50),
        p90=percentile(ordered, 90),
        min=ordered[0],
        max=ordered[-1],
        mean_failed_as_0=total / (len(ordered) + n_failed),
    )


# -- reading lines ------------------------------------------------------------------------------------


_LONGEST_PROBLEM: Final = 400
"""Characters of a message: a file's label or id, which it quotes, may have a million."""


class BadInput(Exception):
    """A file that cannot be scored; `str()` is one line, `path:line: problem`, without the line if that is 0."""

    def __init__(self, path: Path | str, line: int, problem: str) -> None:
        if len(problem) > _LONGEST_PROBLEM:
            half = _LONGEST_PROBLEM // 2
            problem = f"{problem[:half]} ... {problem[-half:]}"
        self.path, self.line, self.problem = str(path), line, problem
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


def _stdlib_loads(line: bytes) -> Any:
    return json.loads(line.decode("utf-8"), parse_constant=int)  # int("NaN") raises: it is not JSON


_loads: Callable[[bytes], Any]
try:
    from orjson import loads as _loads
except ImportError:
    _loads = _stdlib_loads

Report = Callable[[str], None]
"""A function that shows the user a warning of one line."""


def _to_stderr(line: str) -> None:
    print(f"scorer: {printable(line)}", file=sys.stderr)


def printable(text: str) -> str:
    """Return text of unknown origin for a terminal: control characters, and bytes of file names that are no text, as
    escapes such as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def read_records(path: Path | str, report: Report | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object). A torn last line is reported and skipped; without `report` it is an error."""
    for number, line in _lines(path):
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
        # Fewer opening brackets than levels are no deep nesting: two counts in C spare most lines the walk.
        if line.count(b"[") + line.count(b"{") > _MAX_DEPTH and _is_too_deep(record):
            raise BadInput(path, number, f"the JSON is nested deeper than {_MAX_DEPTH} levels")
        yield number, record


_MAX_DEPTH: Final = 100
"""Levels of arrays and objects, as in the rest of the package. Printing or comparing a value fails near 1,000."""


def _is_too_deep(value: object) -> bool:
    """True if a value has more than `_MAX_DEPTH` levels of arrays and objects."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        deeper: list[object] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        if not deeper:
            return False
        level = deeper
    # The deepest level allowed may hold numbers and texts.
    return any(isinstance(item, dict | list) for item in level)


def _lines(path: Path | str) -> Iterator[tuple[int, bytes]]:
    """Yield line numbers and lines without a byte-order mark, decompressed if the file's name ends in .gz.

    Raises BadInput if a gzipped file is damaged or truncated, for a line longer than `_LONGEST_LINE`, and for what
    `_opened` refuses.
    """
    number = 0
    is_packed = str(path).lower().endswith(".gz")
    with _opened(path) as file, cast("IO[bytes]", gzip.open(file)) if is_packed else file as lines:
        try:
            for number, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE + 1), b""), 1):
                if len(line) > _LONGEST_LINE:
                    raise BadInput(path, number, f"the line is longer than {_LONGEST_LINE} bytes")
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BadInput(path, number + 1, f"cannot be unpacked: {error}") from None


_LONGEST_LINE: Final = 1 << 26
_DESCRIPTOR: Final = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/(?:self|\d+)/fd/\d+")
"""What a shell hands over: standard input, or the pipe of `<(...)`."""


def is_pipe(path: Path | str) -> bool:
    """True if a file can be read only once: a pipe of the shell's."""
    return bool(_DESCRIPTOR.fullmatch(str(path))) and stat.S_ISFIFO(os.stat(path).st_mode)


def _opened(path: Path | str) -> IO[bytes]:
    """Open a regular file, or a pipe that the shell hands over. Raises BadInput for anything else, at once.

    Waiting for the writer of a named pipe would never end, and a device such as /dev/zero has no end.
    """
    # Opened before it is looked at: a file that is looked at first may be another one when it is opened.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    kind = os.fstat(file).st_mode
    if stat.S_ISFIFO(kind) and _DESCRIPTOR.fullmatch(str(path)):
        os.set_blocking(file, True)
    elif stat.S_ISDIR(kind):
        os.close(file)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    elif not stat.S_ISREG(kind):
        os.close(file)
        raise BadInput(path, 0, "not a regular file: a pipe, a device or the like is not read; name a file")
    return os.fdopen(file, "rb")


def _name(value: object) -> str | None:
    """Return an id or query as text, None if it is missing. The number 7 and the text "7" are the same id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _first_name(record: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    return next((name for field in fields if (name := _name(record.get(field))) is not None), None)


# -- gold ---------------------------------------------------------------------------------------------

Weights = dict[str, float]
"""Nugget id to weight, for one intent query."""


@dataclass(slots=True)
class Gold:
    """The nugget weights of all intent queries, found by id, else by `fused_query`."""

    by_id: dict[str, Weights] = field(default_factory=dict)
    by_query: dict[str, Weights | None] = field(default_factory=dict)
    """None if several lines of gold have this query and different weights: such a query joins nothing."""
    n_lines: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Line numbers of gold without valid weights, by id and query; their items are not scored."""

    def __len__(self) -> int:
        return self.n_lines

    def weights_of(self, record: Mapping[str, Any]) -> Weights:
        """Return the weights for a line of judgments. Raises ValueError if the gold has none, or several."""
        name, query = _first_name(record, _ID_FIELDS), _first_name(record, _QUERY_FIELDS)
        if name is not None and name in self.by_id:
            return self.by_id[name]
        if query is None or query not in self.by_query:
            raise ValueError(f"no gold for {name if name is not None else query!r}")
        weights = self.by_query[query]
        if weights is None:
            raise ValueError(f"several different golds for the query {query!r}, and no id tells which")
        return weights

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one line of gold. Raises ValueError if it cannot be joined or has no valid weights."""
        name, query = _first_name(record, _ID_FIELDS), _first_name(record, _QUERY_FIELDS)
        if name is None and query is None:
            raise ValueError(f"neither id nor fused_query; the fields are {_fields(record)}")
        weights = _gold_weights(record)
        if name is not None:
            if name in self.by_id:
                raise ValueError(f"the id {name!r} occurs twice in the gold")
            self.by_id[name] = weights
        if query is not None:
            known = self.by_query.get(query, weights)
            self.by_query[query] = weights if known == weights else None
        self.n_lines += 1

    def leaves_out(self, record: Mapping[str, Any]) -> bool:
        """True if the gold of a line of judgments was left out, by its id, else by its query."""
        return _first_name(record, (*_ID_FIELDS, *_QUERY_FIELDS)) in self.left_out


class _NoWeights(ValueError):
    """A line of gold has no nuggets, or one without a valid weight."""


def read_gold(path: Path | str, *, skip_bad: bool = False, report: Report = _to_stderr) -> Gold:
    """Read a gold file. Raises BadInput at the first broken line, OSError if there is no file.

    With `skip_bad`, lines without nuggets or with an invalid weight are left out and reported.
    """
    gold = Gold()
    for number, record in read_records(path, None):
        try:
            gold.add(record)
        except _NoWeights as problem:
            if not skip_bad:
                raise BadInput(path, number, f"{problem} (--skip-bad-gold leaves such lines out)") from None
            for name in filter(None, (_first_name(record, _ID_FIELDS), _first_name(record, _QUERY_FIELDS))):
                gold.left_out.setdefault(name, number)
            report(f"{path}:{number}: left out: {problem}")
        except ValueError as problem:
            raise BadInput(path, number, str(problem)) from None
    if gold.left_out:
        n = len(set(gold.left_out.values()))
        report(
            f"{path}: {n} of {n + len(gold)} lines of gold are left out, and the items that they are about"
        )
    return gold


def _gold_weights(record: Mapping[str, Any]) -> Weights:
    inner = record.get("gold")
    nuggets = inner.get("nuggets") if isinstance(inner, dict) else record.get("nuggets")
    weights: Weights = {}
    try:
        for name, nugget in _by_id(nuggets, "gold.nuggets").items():
            _require_score({name: (nugget.get("weight"), "none")})
            weights[name] = nugget["weight"]
    except ValueError as problem:
        raise _NoWeights(str(problem)) from None
    return weights


# -- judgments ----------------------------------------------------------------------------------------


class Unscored(Enum):
    """The reason why an item has no score."""

    FAILED = "failed"
    UNJUDGED = "unjudged"


Outcome = float | Unscored


def read_outcomes(
    path: Path | str, gold: Gold | None = None, report: Report = _to_stderr, *, empty_is_zero: bool = False
) -> dict[str, Outcome]:
    """Read a file of judgments: item id to `restore_score_100`, or why it has none.

    Memory grows with the number of items (of CSV files also with that of nuggets). With gold, its weights replace those
    of the file, and each of its nuggets must be judged exactly once; items whose gold was left out are not counted.
    With `empty_is_zero` an item without an answer is scored 0 instead of counted as failed (JSON Lines only). Raises
    BadInput at the first broken line, OSError if there is no file. A torn last line and a stored score that differs
    from the recomputed one are reported.
    """
    if is_csv(path):
        return _csv_outcomes(path, gold)
    outcomes: dict[str, Outcome] = {}
    repeated: set[str] = set()
    verdicts: list[_Verdict] | None = [] if is_pipe(path) else None  # a pipe cannot be read a second time
    for number, record in read_records(path, report):
        try:
            name = item_name(record)
            if gold is not None and gold.leaves_out(record):
                continue
            if name in outcomes:
                repeated.add(name)
            if verdicts is not None and (verdict := _verdict(number, record)):
                verdicts.append(verdict)
            outcome = 0.0 if empty_is_zero and _is_empty(record) else _outcome(record, gold)
        except ValueError as problem:
            raise BadInput(path, number, str(problem)) from None
        if isinstance(outcome, float):
            stored = record.get("restore_score_100")
            if stored is not None and not _agrees(stored, outcome):
                report(f"{path}:{number}: restore_score_100 is {stored!r} here, its nuggets give {outcome!r}")
        outcomes[name] = outcome
    if repeated:
        if verdicts is None:
            found = (_verdict(number, record) for number, record in read_records(path, lambda _: None))
            verdicts = [verdict for verdict in found if verdict]
        _check_repeated(path, repeated, verdicts)
    return outcomes


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a line says about an item that it scores."""

    line: int
    name: str
    labels: object
    """Weight and label by nugget, or a score without nuggets."""
    answer: object
    """The answer that was judged, or the digest that identifies it; None if the line does not say."""


def _verdict(line: int, record: Mapping[str, Any]) -> _Verdict | None:
    """Return the verdict of a line; None for a failure, and without labels."""
    if record.get("error") not in (None, "", False):
        return None
    labels = pairs_of(record) or record.get("restore_score_100")
    if labels is None:
        return None
    answer = record.get("answer_digest") or record.get("answer")
    return _Verdict(line, item_name(record), labels, answer)


def _check_repeated(path: Path | str, repeated: Iterable[str], verdicts: Iterable[_Verdict]) -> None:
    """Raise BadInput if two lines judge one answer of an item otherwise, naming both.

    A line about another answer of the item takes the place of the earlier ones: that candidate was changed and judged
    again.
    """
    names = frozenset(repeated)
    latest: dict[str, _Verdict] = {}
    for verdict in verdicts:
        if verdict.name not in names:
            continue
        before = latest.get(verdict.name)
        latest[verdict.name] = verdict
        if before is None or before.labels == verdict.labels:
            continue
        if None not in (before.answer, verdict.answer) and before.answer != verdict.answer:
            continue
        problem = f"{verdict.name!r} has other labels on line {before.line}; remove one of the two lines"
        raise BadInput(path, verdict.line, problem)


def score_file(
    path: Path | str, gold: Gold | None = None, report: Report = _to_stderr, *, empty_is_zero: bool = False
) -> Summary:
    """Summarise a file of judgments; see `read_outcomes`.

    The number of expected items is that of the file or of the gold, whichever is larger.
    """
    outcomes = read_outcomes(path, gold, report, empty_is_zero=empty_is_zero)
    kinds = list(outcomes.values())
    return summarise(
        (kind for kind in kinds if not isinstance(kind, Unscored)),
        n_failed=kinds.count(Unscored.FAILED),
        n_expected=max(len(kinds), len(gold) if gold is not None else 0),
        n_unjudged=kinds.count(Unscored.UNJUDGED),
    )


def item_name(record: Mapping[str, Any]) -> str:
    """Return the id of a line's item, else its query. Raises ValueError if it has neither."""
    name = _first_name(record, (*_ID_FIELDS, *_QUERY_FIELDS))
    if name is None:
        raise ValueError(f"neither id nor fused_query; the fields are {_fields(record)}")
    return name


def lacks_answer(step: object, kind: object) -> bool:
    """True for an error that means there is no answer.

    Its kind is "no_answer" (`cts judge`), or a search ended in unusable output (`cts run`).
    """
    return kind == "no_answer" or (str(step).startswith("search/turn/") and kind == "unusable_output")


def _is_empty(record: Mapping[str, Any]) -> bool:
    """True if an item failed or was not judged because it has no answer.

    That is an error as in `lacks_answer`, or a blank or null answer without a judgment.
    """
    error, answer = record.get("error"), record.get("answer")
    if isinstance(error, dict):
        return lacks_answer(error.get("step"), error.get("kind"))
    judged = any(record.get(name) for name in (*_NUGGET_FIELDS, "restore_score_100"))
    blank = not answer.strip() if isinstance(answer, str) else "answer" in record and answer is None
    return not error and not judged and blank


def _outcome(record: Mapping[str, Any], gold: Gold | None) -> Outcome:
    if record.get("error") not in (None, "", False):
        return Unscored.FAILED
    if gold is None and (usual := usual_score(record.get("nuggets"))) is not None:
        return usual
    pairs = pairs_of(record)
    if not pairs:
        if (stored := record.get("restore_score_100")) is not None:
            return _stored_score(stored, gold)
        if not any(name in record for name in _OUTCOME_FIELDS):
            raise ValueError(f"neither judged nuggets nor an error; the fields are {_fields(record)}")
        return Unscored.UNJUDGED
    return _require_score(pairs if gold is None else _reweighted(pairs, gold.weights_of(record)))


def pairs_of(record: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return weight and label by nugget, from the first field with judged nuggets; {} without such a field.

    Raises ValueError for malformed nuggets.
    """
    found = [(name, record[name]) for name in _NUGGET_FIELDS if record.get(name) is not None]
    if not found:
        return {}
    judged = (
        (name, value)
        for name, value in found
        if isinstance(value, list) and value and isinstance(value[0], dict) and _label(value[0]) is not None
    )
    name, nuggets = next(judged, found[0])
    return {key: (n.get("weight"), _label(n)) for key, n in _by_id(nuggets, name).items()}


_USUAL = itemgetter("id", "weight", "coverage")
_NAMES, _NUMBERS = frozenset({str}), frozenset({int, float})


def usual_score(nuggets: Any) -> float | None:
    """Return the score of nuggets in the usual form; None for any others, which need a closer look.

    The same arithmetic as `restore_score_100` without a Python loop over the nuggets: about twice as fast.
    """
    try:
        names, weights, labels = zip(*map(_USUAL, nuggets), strict=True)
        # Before the cache looks: 1 and True are the same key.
        if not _NUMBERS.issuperset(map(type, weights)):
            return None
        return _usual_score(names, weights, labels)
    except (TypeError, ValueError, KeyError, OverflowError):
        return None


@lru_cache(maxsize=4096)  # of very many answers to few queries most are labelled as another one
def _usual_score(
    names: tuple[object, ...], weights: tuple[float, ...], labels: tuple[str, ...]
) -> float | None:
    if (
        _NAMES.issuperset(map(type, names))
        and len(set(names)) == len(names)
        and all(names)
        and min(weights) > 0
        and max(weights) <= _LARGEST
    ):
        return _score(weights, labels)
    return None


def _stored_score(stored: object, gold: Gold | None) -> float:
    """Check a score without nuggets. Raises ValueError outside [0, 100], or if there is a gold."""
    if gold is not None:
        raise ValueError("a restore_score_100 without its nuggets cannot be weighed by --gold")
    if not isinstance(stored, (int, float)) or isinstance(stored, bool) or not 0 <= stored <= 100:
        raise ValueError(f"restore_score_100 is {stored!r}, not a number in [0, 100]")
    return float(stored)


def _label(nugget: Mapping[str, Any]) -> Any:
    return nugget.get("coverage") or nugget.get("label") or nugget.get("cov")


def _by_id(nuggets: object, where: str) -> dict[str, dict[str, Any]]:
    """Return the nuggets by id, each once; one without an id is named by its place, as `#3`."""
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
    """Score named pairs. The ValueError names the first invalid nugget."""
    for name, (weight, label) in pairs.items():
        try:
            _check_pair(weight, label)
        except ValueError as problem:
            hint = " (weights can come from --gold)" if weight is None else ""
            raise ValueError(f"nugget {name!r}: {problem}{hint}") from None
    return restore_score_100(pairs.values())


def _agrees(stored: object, score: float) -> bool:
    return isinstance(stored, (int, float)) and score - TOLERANCE <= stored <= score + TOLERANCE


def _fields(record: Mapping[str, Any]) -> str:
    return ", ".join(sorted(record)) or "none"


# -- CSV ----------------------------------------------------------------------------------------------

_MOST_CELL_CHARS: Final = 1 << 26
_COLUMN_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "id": (*_ID_FIELDS, "item_id", "instance_id", "example_id", *_QUERY_FIELDS),
    "nugget": ("nugget_id", "nugget", "nid"),
    "weight": ("weight", "w", "nugget_weight", "importance"),
    "coverage": ("coverage", "label", "cov", "nugget_coverage"),
    "score": ("restore_score_100", "restore_score", "score_100", "score"),
    "query": _QUERY_FIELDS,
    "error": ("error", "error_message"),
}
"""Accepted names of each column, best first; case, spaces and hyphens are ignored."""

_NO_ERROR: Final = frozenset({"", "false", "none", "null", "nan"})

Pair = tuple[float, str]


def is_csv(path: Path | str) -> bool:
    """True if a file is read as CSV, by its name, gzipped or not."""
    return str(path).lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def _csv_outcomes(path: Path | str, gold: Gold | None) -> dict[str, Outcome]:
    rows = _rows(path)
    line, header = next(rows, (1, []))
    folded = [_folded(name) for name in header]
    places = {name: i for i, name in enumerate(folded)}
    found = {what: [places[n] for n in names if n in places] for what, names in _COLUMN_NAMES.items()}
    columns = {what: at[0] for what, at in found.items() if at}
    if "id" not in columns or not ("coverage" in columns or "score" in columns):
        wanted = "an id, and either coverage (a row for each nugget) or restore_score_100 (for each item)"
        raise BadInput(path, line, f"a header with {wanted} is needed; it has {', '.join(header) or 'none'}")
    for place in columns.values():
        if folded.count(folded[place]) > 1:
            raise BadInput(path, line, f"the column {header[place].strip()!r} occurs twice")
    table = _Table(path, header, columns)
    if "coverage" in columns:
        return _nugget_rows(table, rows, gold)
    if gold is not None:
        raise BadInput(path, line, "scores without their nuggets cannot be weighed by --gold")
    return dict(_stored_scores(table, rows))


def _rows(path: Path | str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the numbers of their last lines, the header first; blank rows are skipped.

    Raises BadInput for a row that has more or fewer cells than the header.
    """
    csv.field_size_limit(_MOST_CELL_CHARS)
    lines = _text_lines(path)
    above, first = next(((n, line) for n, line in enumerate(lines) if line.strip()), (0, ""))
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    width = 0
    try:
        for row in reader:
            width = width or len(row)
            if not ((row and row[0].strip()) or any(map(str.strip, row))):
                continue
            if len(row) != width:
                problem = f"{len(row)} cells, but the header has {width}"
                raise BadInput(path, above + reader.line_num, problem)
            yield above + reader.line_num, row
    except csv.Error as error:
        raise BadInput(path, above + reader.line_num, f"not CSV: {error}") from None


def _text_lines(path: Path | str) -> Iterator[str]:
    for number, line in _lines(path):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise BadInput(path, number, "not UTF-8 text") from None


def _folded(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _says_error(cell: str) -> bool:
    """True if a cell of the error column reports an error; programs write False, None or nan for none."""
    return cell.strip().lower() not in _NO_ERROR


@dataclass(frozen=True, slots=True)
class _Table:
    """A CSV file's header, for errors that name the column as the file does."""

    path: Path | str
    header: Sequence[str]
    columns: Mapping[str, int]
    """Positions of the columns that the file has."""

    def cell(self, row: Sequence[str], column: str) -> str:
        """Return a cell, "" if there is no such column."""
        return row[self.columns[column]].strip() if column in self.columns else ""

    def bad(self, line: int, column: str, problem: str) -> BadInput:
        """Return the error for a cell."""
        named = self.header[self.columns[column]].strip() if column in self.columns else column
        return BadInput(self.path, line, f"field {named!r}: {problem}")

    def gold_names(self, name: str, row: Sequence[str]) -> dict[str, str]:
        """Return the names by which the gold of an item is found."""
        by_query = self.columns["id"] == self.columns.get("query")
        return {"id": "" if by_query else name, "fused_query": self.cell(row, "query")}

    def pair(self, line: int, written: tuple[str, str], *, weighed: bool) -> Pair:
        """Parse the cells of weight and label. The label may be empty; unless `weighed`, the gold has the weight."""
        label = written[1].strip()
        if label and label not in GAIN:
            raise self.bad(line, "coverage", f"{label!r} is not one of full, partial, none")
        weight = _cell_number(written[0]) if weighed else 0.0
        if weight is None or (weighed and not 0 < weight <= _LARGEST):
            hint = "" if written[0].strip() else " (weights can come from --gold)"
            raise self.bad(line, "weight", f"{written[0]!r} is not a positive finite number{hint}")
        return weight, label


@dataclass(slots=True)
class _Item:
    """An item of a CSV file with one row per nugget."""

    line: int
    """The line of its first row."""
    names: Mapping[str, str]
    """Where the gold is: its id and query; empty without gold."""
    pairs: dict[str, Pair] = field(default_factory=dict)
    failed: bool = False
    blank: int = 0
    """The line of a row without a label, 0 if all have one."""


def _nugget_rows(
    table: _Table, rows: Iterable[tuple[int, list[str]]], gold: Gold | None
) -> dict[str, Outcome]:
    """Score items whose nuggets have one row each, in any order."""
    columns = table.columns
    id_at, label_at = columns["id"], columns["coverage"]
    nugget_at, weight_at, error_at = map(columns.get, ("nugget", "weight", "error"))
    items: dict[str, _Item] = {}
    pairs: dict[tuple[str, str], Pair] = {}  # few pairs of cells differ: each is parsed and stored once
    for line, row in rows:
        name = row[id_at].strip()
        item = items.get(name)
        if item is None:
            if not name:
                raise table.bad(line, "id", "is empty")
            item = items[name] = _Item(line, table.gold_names(name, row) if gold is not None else {})
        if error_at is not None and _says_error(row[error_at]):
            item.failed = True
            continue
        written = ("" if weight_at is None else row[weight_at], row[label_at])
        pair = pairs.get(written)
        if pair is None:
            pair = pairs[written] = table.pair(line, written, weighed=gold is None)
        if not pair[1]:
            item.blank = item.blank or line
        nugget = row[nugget_at].strip() if nugget_at is not None else ""
        nugget = nugget or f"#{len(item.pairs) + 1}"
        if nugget in item.pairs:
            raise table.bad(line, "nugget", f"nugget {nugget!r} of {name!r} is judged twice")
        item.pairs[nugget] = pair
    return {
        name: _item_outcome(table, name, item, gold)
        for name, item in items.items()
        if gold is None or not gold.leaves_out(item.names)
    }


def _item_outcome(table: _Table, name: str, item: _Item, gold: Gold | None) -> Outcome:
    if item.failed:
        return Unscored.FAILED
    if item.blank:
        if any(label for _, label in item.pairs.values()):
            raise table.bad(item.blank, "coverage", f"is empty, but {name!r} has other labels")
        return Unscored.UNJUDGED
    try:
        if gold is not None:
            return _require_score(_reweighted(item.pairs, gold.weights_of(item.names)))
        return _score(*zip(*item.pairs.values(), strict=True))
    except ValueError as problem:
        raise BadInput(table.path, item.line, f"{name!r}: {problem}") from None
    except OverflowError:
        raise BadInput(table.path, 1, f"{name!r}: the weights are too large to add up") from None


def _stored_scores(table: _Table, rows: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[str, Outcome]]:
    """Yield the item of each row and its score in [0, 100]. Raises BadInput for an item with two different scores."""
    scored: dict[str, tuple[int, float]] = {}
    for line, row in rows:
        name, written = table.cell(row, "id"), table.cell(row, "score")
        if not name:
            raise table.bad(line, "id", "is empty")
        score = _cell_number(written)
        if _says_error(table.cell(row, "error")):
            yield name, Unscored.FAILED
        elif not written:
            yield name, Unscored.UNJUDGED
        elif score is None or not 0 <= score <= 100:
            raise table.bad(line, "score", f"{written!r} is not a number in [0, 100]")
        else:
            before, other = scored.setdefault(name, (line, score))
            if other != score:
                problem = f"{name!r} has the score {other:g} on line {before}; remove one of the two rows"
                raise table.bad(line, "score", problem)
            yield name, score


def _cell_number(written: str) -> float | None:
    try:
        return None if "_" in written else float(written)
    except ValueError:
        return None


# -- files --------------------------------------------------------------------------------------------

_JUDGED_NAMES: Final = ("results.jsonl", "per_item.jsonl")


def judged_files(word: str) -> list[str]:
    """Return the judged files that an argument names: a file, the files of a directory, or the matches of a pattern.

    Raises FileNotFoundError for a directory without judged files. A pattern without matches is returned as it is.
    """
    path = Path(word)
    if path.is_dir():
        found = [str(path / name) for name in _JUDGED_NAMES if (path / name).is_file()][:1]
        found = found or sorted(str(deeper) for name in _JUDGED_NAMES for deeper in path.glob(f"*/{name}"))
        if not found:
            raise FileNotFoundError(errno.ENOENT, f"holds no {' or '.join(_JUDGED_NAMES)}", word)
        return found
    if path.exists() or not glob.has_magic(word):
        return [word]
    return [file for name in sorted(glob.glob(word, recursive=True)) for file in judged_files(name)] or [word]


def score_files(
    words: Iterable[str],
    gold: Path | str | None = None,
    report: Report = _to_stderr,
    *,
    skip_bad_gold: bool = False,
    empty_is_zero: bool = False,
) -> list[tuple[str, Summary]]:
    """Summarise every file that the arguments name (see `judged_files`), each once, in that order.

    Raises BadInput at the first broken line, OSError for a missing file.
    """
    weights = read_gold(gold, skip_bad=skip_bad_gold, report=report) if gold else None
    names = dict.fromkeys(name for word in words for name in judged_files(word))
    return [(name, score_file(name, weights, report, empty_is_zero=empty_is_zero)) for name in names]


# -- the command --------------------------------------------------------------------------------------

_COLUMNS: Final = ("expected", "scored", "failed", "unjudged", "mean", "failed=0", "p50", "p90", "min", "max")

_EXAMPLE: Final = """\
example:
  python -m cts_async.scorer runs/gpt-k3/results.jsonl
  python scorer.py 'outputs/*/per_item.jsonl' --gold gold_public_hard518.jsonl --json

exit code: 0 all scored, 1 some items failed, 2 bad input
"""


def table(rows: Sequence[tuple[str, Summary]]) -> str:
    """Format the summaries as a table; `unjudged` and `failed=0` (the mean with failures as 0) only if needed.

    The file comes last, so that long names do not move the numbers out of sight on a narrow screen.
    """
    empty = {
        "unjudged": not any(summary.n_unjudged for _, summary in rows),
        "failed=0": not any(summary.n_failed for _, summary in rows),
    }
    columns = [column for column in _COLUMNS if not empty.get(column)]
    cells = [columns, *([_cell(summary, column) for column in columns] for _, summary in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    names = ["file", *(printable(name) for name, _ in rows)]
    return "\n".join(
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), name])
        for row, name in zip(cells, names, strict=True)
    )


def as_json(rows: Sequence[tuple[str, Summary]]) -> str:
    """Return a JSON list, one object per file, unrounded."""
    found = []
    for name, summary in rows:
        # A file's name may have bytes that are no text: no output could be made of them.
        shown = name.encode("utf-8", "backslashreplace").decode()
        found.append({"file": shown, **asdict(summary)})
    return json.dumps(found, ensure_ascii=False, indent=2)


def _cell(summary: Summary, column: str) -> str:
    if hasattr(summary, f"n_{column}"):
        return str(getattr(summary, f"n_{column}"))
    value: float | None = getattr(summary, "mean_failed_as_0" if column == "failed=0" else column)
    return "-" if value is None else f"{value:.3f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scorer",
        description="Compute restore_score_100 from judged nuggets and summarise each file.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("judgments", nargs="+", metavar="JUDGMENTS", help="judged files, directories of them, or patterns")
    add("--gold", metavar="GOLD.jsonl", help="take the nuggets' weights from this gold")
    add("--skip-bad-gold", action="store_true", help="leave out items whose gold has no valid weights")
    empty = "an item without an answer: failed and in no mean, or scored 0"
    add("--empty-answers", choices=("fail", "zero"), default="fail", help=empty)
    add("--json", action="store_true", help="print a JSON list, one object per file")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print one summary per file; returns the exit code: 0 all scored, 1 some failed, 2 bad input."""
    options = _parser().parse_args(argv)
    try:
        rows = score_files(
            options.judgments,
            options.gold,
            skip_bad_gold=options.skip_bad_gold,
            empty_is_zero=options.empty_answers == "zero",
        )
    except (BadInput, OSError) as error:
        problem = error if isinstance(error, BadInput) else f"{error.filename}: {error.strerror}"
        print(f"scorer: error: {printable(str(problem))}", file=sys.stderr)
        return 2
    print(as_json(rows) if options.json else table(rows))
    return 1 if any(summary.n_failed for _, summary in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
