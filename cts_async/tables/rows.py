"""Finished runs as rows: instances, nuggets, judges and systems.

`cts_async.load` returns them, and `cts export` writes all but the last. `columns.toml` says what each
column holds.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from cts_async.errors import InputError, UsageError
from cts_async.llm.further import further_texts
from cts_async.records import Failure, Instance
from cts_async.runs.asking import QuestionedSearch, questioned_searches
from cts_async.runs.files import reopen_data
from cts_async.runs.finished import FailedItem, FinishedRun, Item, read_path
from cts_async.runs.journal import InstanceSpending
from cts_async.runs.manifest import manifest_of
from cts_async.runs.selection import RunPath
from cts_async.runs.versions import version_of
from cts_async.tables.overview import Overview

if TYPE_CHECKING:
    import pandas

TableName: TypeAlias = Literal["instances", "nuggets", "judges", "systems", "asks"]
Row = dict[str, Any]
NUMBERED: Final = "_N"
"""End of the name of a column that stands for numbered ones: question_N for question_1, question_2, ..."""
FURTHER: Final = "."
"""Between step and name in the column of a further field, as in clarify.rationale; no other column has one."""
MAX_FURTHER: Final = 50
"""Columns of further fields: code that names its fields anew for each instance would make millions."""
_ASKED: Final = ("asks", "first_ask_turn", "turns", "injected_turn")
OPTIONAL: Final = ("domain", "confidence", *_ASKED)
"""Columns of instances that rows have only where some run has them."""
_NUMBER: Final = re.compile(r"_[0-9]+$")
_ERROR: Final = ("error_step", "error_kind", "error_message")
_DTYPES: Final = {"text": "object", "number": "float64", "integer": "Int64"}
"""pandas' names of the types in columns.toml; Int64 is its integer that may be missing."""


@dataclass(frozen=True, slots=True, repr=False)
class Tables:
    """Runs as rows, each a list of mappings, or as data frames (`to_pandas`). Printing it shows an overview.

    Values are text, numbers and None; all rows of a table have the same keys, in the same order (`columns`).
    """

    instances: list[Row]
    """A row for each instance of each run, also for those that failed or are unfinished."""
    nuggets: list[Row]
    """A row for each nugget that a judge has labelled."""
    judges: list[Row]
    """A row for each answer that a judge has labelled or failed to label."""
    paths: tuple[Path, ...]
    """The run directories."""
    remarks: tuple[str, ...] = ()
    """What is missing from the rows, in a sentence each."""
    systems: list[Row] = field(default_factory=list)
    """A row for each run and judge: how many instances were scored or failed, and their mean score."""
    asks: list[Row] = field(default_factory=list)
    """A row for each question of an agent to the user during its search; of answered instances."""

    def to_pandas(self, table: TableName = "instances") -> pandas.DataFrame:
        """Return a table as a data frame. A column of numbers is one even where every value is missing.

        Raises UsageError for an unknown table, and where pandas is not installed.
        """
        if table not in get_args(TableName):
            raise UsageError(f"table: must be one of {', '.join(get_args(TableName))}, not {table!r}")
        try:
            import pandas
        except ModuleNotFoundError as error:
            # One that pandas misses itself is another problem.
            if error.name != "pandas":
                raise
            raise UsageError("to_pandas needs pandas: pip install pandas") from None
        rows: list[Row] = getattr(self, table)
        names = columns(table, 0)
        if rows:
            names = list(rows[0])
        frame: dict[str, pandas.Series] = {}
        for name in names:
            values = [row[name] for row in rows]
            frame[name] = pandas.Series(values, dtype=_DTYPES[column_type(table, name)])
        return pandas.DataFrame(frame)

    def __repr__(self) -> str:
        return self._overview().text()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return self._overview().html()

    def _overview(self) -> Overview:
        return Overview(
            n_runs=len(self.paths),
            n_by_status=Counter(row["status"] for row in self.instances),
            n_nuggets=len(self.nuggets),
            n_judgments=len(self.judges),
            systems=self.systems,
            remarks=self.remarks,
        )


@cache
def column_notes() -> Mapping[str, Mapping[str, str]]:
    """Read columns.toml: table -> column -> its type and meaning, in order."""
    text = Path(__file__).with_name("columns.toml").read_text("utf-8")
    return tomllib.loads(text)


def columns(table: str, n_questions: int, optional: Collection[str] = ()) -> list[str]:
    """Return the names of a table's columns, with so many questions and answers, and those of the `optional` ones."""
    names: list[str] = []
    numbered: list[str] = []
    for name in column_notes()[table]:
        if table == "instances" and name in OPTIONAL and name not in optional:
            continue
        if name.endswith(NUMBERED):
            numbered.append(name.removesuffix("N"))
            continue
        if numbered:
            # Question and answer of a turn side by side: question_1, answer_1, question_2, ...
            for n in range(1, n_questions + 1):
                for stem in numbered:
                    names.append(f"{stem}{n}")
            numbered = []
        names.append(name)
    return names


def column_type(table: str, column: str) -> str:
    """Return "text", "number" or "integer", as columns.toml has it. Raises KeyError for an unknown column."""
    if FURTHER in column:
        return "text"
    notes = column_notes()[table]
    if column not in notes:
        column = _NUMBER.sub(NUMBERED, column)
    meaning = notes[column]
    return meaning.partition(":")[0].removesuffix(" or null")


def tables_of(found_runs: Sequence[RunPath]) -> Tables:
    """Read runs as rows. Raises InputError."""
    runs = [read_path(found_run.path, without=()) for found_run in found_runs]
    n_questions = 0
    for run in runs:
        for _, item in run.outcomes():
            n_questions = max(n_questions, len(item.questions))
    names = columns("instances", n_questions, _optional_columns(runs))
    instances: list[Row] = []
    nuggets: list[Row] = []
    judges: list[Row] = []
    systems: list[Row] = []
    asks: list[Row] = []
    remarks: list[str] = []
    further = _further_columns(runs)
    if len(further) > MAX_FURTHER:
        remarks.append(
            f"Only {MAX_FURTHER} further fields of replies have a column, of {len(further)}: the first ones."
        )
        del further[MAX_FURTHER:]
    names += further
    for run in runs:
        waiting, problems = unfinished(run)
        searches: Mapping[str, QuestionedSearch] = {}
        if run.asks_anew:
            searches = questioned_searches(run.directory)
        # Every row has every column: `pandas.DataFrame` and a CSV file take them as they are.
        for row in _instances(run, waiting, searches):
            instances.append({name: row.get(name) for name in names})
        nuggets += _nuggets(run)
        judges += _verdicts(run)
        asks += _asks(run, searches)
        systems += _systems(run)
        remarks += run.contradictions
        remarks += problems
    return Tables(
        instances=instances,
        nuggets=nuggets,
        judges=judges,
        paths=tuple(run.directory for run in runs),
        remarks=tuple(remarks),
        systems=systems,
        asks=asks,
    )


def _optional_columns(runs: Sequence[FinishedRun]) -> set[str]:
    names: set[str] = set()
    for run in runs:
        if run.asks_confidence:
            names.add("confidence")
        if any(item.domain for _, item in run.outcomes()):
            names.add("domain")
        if run.asks_anew:
            names.update(_ASKED)
    return names


def _further_columns(runs: Sequence[FinishedRun]) -> list[str]:
    """The columns of further fields of any reply, in the order in which the runs have them."""
    names: dict[str, None] = {}
    for run in runs:
        for _, item in run.outcomes():
            names.update(dict.fromkeys(_further(item)))
    return list(names)


def unfinished(run: FinishedRun) -> tuple[list[Instance], list[str]]:
    """Return the instances without a result, and if their data cannot be read, a sentence that says so."""
    if run.n_missing <= 0:
        return [], []
    about = f"{run.directory}: {run.n_missing} of {run.n_expected} instances are unfinished"
    if run.talk or not run.data.sha256:
        return [], [f"{about}; which ones is not recorded."]
    try:
        dataset = reopen_data(manifest_of(run.directory))
        waiting: list[Instance] = []
        for instance in islice(dataset.instances(), run.n_expected):  # of a run with --limit the first ones
            if instance.id not in run.items and instance.id not in run.failures:
                waiting.append(instance)
    except (InputError, UsageError) as error:
        return [], [f"{about}; which ones is unknown: {error}."]
    return waiting, []


def _about(run: FinishedRun) -> Row:
    """The fields that every row of a run begins with."""
    return {
        "run": run.directory.name,
        "system": run.system,
        "version": version_of(manifest_of(run.directory)).number,
        "support": run.support or None,
        "agent": run.players.get("agent"),
    }


def _in_order(table: str, row: Row) -> Row:
    """Return a row with the table's columns in their order."""
    return {name: row[name] for name in column_notes()[table]}


def _instances(
    run: FinishedRun, waiting: Sequence[Instance], searches: Mapping[str, QuestionedSearch]
) -> Iterator[Row]:
    """Yield the rows of a run by id: the finished ones and the failures, then the unfinished ones."""
    spending = _SpendingColumns(run.directory)
    head = _about(run) | {"clarifier": run.clarifier or None, "k": run.k}
    for id, item in run.outcomes():
        row = head | {"id": id}
        if isinstance(item, FailedItem):
            row["status"] = "failed"
            row |= _queries(item) | _conversation(item) | _error(item.failure)
        else:
            row |= _answered(item, run.scoring)
            if not run.searched:  # its empty answer is none
                row |= {"status": "unsearched", "answer": None}
        if id in searches:
            row |= _asked(searches[id], may_ask=run.max_asks > 0)
        yield row | spending.fields(id)
    for instance in waiting:
        row = head | {"id": instance.id, "status": "unfinished"}
        yield row | _queries(instance) | spending.fields(instance.id)


def _asks(run: FinishedRun, searches: Mapping[str, QuestionedSearch]) -> Iterator[Row]:
    """Yield a row for each question during a search, in the order in which the agent asked."""
    for id, search in searches.items():
        for n, ask in enumerate(search.asks, 1):
            row = _about(run) | {"id": id, "n": n, "turn": ask.turn, "turns": search.n_turns}
            row |= {"question": ask.question, "reply": ask.reply}
            yield _in_order("asks", row)


def _asked(search: QuestionedSearch, *, may_ask: bool) -> Row:
    """How often and when the agent asked, or was given answers."""
    row: Row = {"turns": search.n_turns or None, "injected_turn": search.injected_turn}
    row["first_ask_turn"] = search.first_ask_turn
    # None, not 0, for an agent that cannot ask.
    if may_ask:
        row["asks"] = len(search.asks)
    return row


def _answered(item: Item, scoring: str) -> Row:
    """The fields of an answer, scored by the judge of that name; "" if nobody has scored the run."""
    row = _queries(item) | _conversation(item)
    row["answer"] = item.answer
    row["confidence"] = item.confidence
    row["status"] = "unjudged"
    if scoring in item.verdicts:
        row |= {"status": "scored", "judge": scoring, "score": item.verdicts[scoring].score}
        return row
    # Judges are independent: the failure of another one is in the table of judges, and leaves this score as it is.
    failures = list(item.unjudged.values())
    if scoring:
        failures = [failure for judge, failure in item.unjudged.items() if judge == scoring]
    if failures:
        row["status"] = "failed"
        row |= _error(failures[0])
    return row


def _conversation(item: Item | FailedItem) -> Row:
    """What an instance was asked and answered, and the query that followed; of a failed one as far as it got."""
    row: Row = {}
    for n, question in enumerate(item.questions, start=1):
        row[f"question_{n}"] = question
    for n, answer in enumerate(item.answers, start=1):
        row[f"answer_{n}"] = answer
    # None, not 0, for a failed instance that nobody answered.
    if isinstance(item, Item) or item.answers:
        row["n_unknown"] = sum(item.unknown)
    row["rewritten_query"] = item.rewritten_query or None
    return row | _further(item)


def _further(item: Item | FailedItem) -> Row:
    """What replies had beyond their forms, by column."""
    row: Row = {}
    for step, name, text in further_texts(item.further):
        row[f"{step}{FURTHER}{name}"] = text
    return row


def _queries(item: Item | FailedItem | Instance) -> Row:
    return {
        "fused_query": item.intent or None,
        "blurred_query": item.query or None,
        "domain": item.domain or None,
    }


def _error(failure: Failure) -> Row:
    return dict(zip(_ERROR, (failure.step or None, failure.kind, failure.message), strict=True))


class _SpendingColumns:
    """Calls, tokens, seconds and dollars of each instance of a run; unknown without a journal."""

    def __init__(self, directory: Path) -> None:
        manifest = manifest_of(directory)
        self._spending, self._prices = InstanceSpending(manifest), manifest.prices

    def fields(self, id: str) -> Row:
        spent = self._spending.spent_on(id)
        if spent is None:
            return {}
        reused_calls = 0
        if spent.reused is not None:
            reused_calls = spent.reused.calls
        input_tokens: int | None = None
        output_tokens: int | None = None
        # Some servers report no usage, or not always: then tokens are unknown, and not those of the others.
        if not spent.without_usage and (any(spent.tokens.values()) or not spent.calls):
            input_tokens = output_tokens = 0
            for tokens in spent.tokens.values():
                input_tokens += tokens["input"]
                output_tokens += tokens["output"]
        cached_tokens: int | None = None
        if input_tokens is not None:
            cached_tokens = spent.cached_tokens
        return {
            "calls": spent.calls,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cached_tokens": cached_tokens,
            "model_s": round(spent.latency_s, 4),
            "cost_usd": spent.cost_usd(self._prices),
            "reused_calls": reused_calls,
        }


def _nuggets(run: FinishedRun) -> Iterator[Row]:
    about = _about(run)
    for item in run.items.values():
        for judge, verdict in item.verdicts.items():
            for nugget, coverage in verdict.coverage.items():
                row = about | {"id": item.id, "judge": judge}
                yield row | {"nugget": nugget, "weight": verdict.weights[nugget], "coverage": coverage}


def _verdicts(run: FinishedRun) -> Iterator[Row]:
    about = _about(run)
    for item in run.items.values():
        # A failed judgement is a row without a score: it differs from 0 everywhere.
        for judge in sorted(item.verdicts.keys() | item.unjudged.keys()):
            row = about | {"judge": judge, "id": item.id, "score": None}
            row |= dict.fromkeys(_ERROR)
            if judge in item.verdicts:
                row["score"] = item.verdicts[judge].score
            else:
                row |= _error(item.unjudged[judge])
            yield row


def _systems(run: FinishedRun) -> Iterator[Row]:
    """Yield a row for each judge, the scoring one first; one without a judge for a run that nobody judged."""
    judges = list(run.judges)
    # The scoring judge may have labelled nothing yet.
    if run.scoring not in judges:
        judges.insert(0, run.scoring)
    for judge in judges:
        scores = run.scores(judge)
        mean = None
        if scores:
            mean = fmean(scores.values())
        row = _about(run) | {"clarifier": run.clarifier or None, "k": run.k, "judge": judge or None}
        row |= {
            "n_expected": run.n_expected,
            "n_scored": len(scores),
            "n_failed": run.n_failed_under(judge),
            "n_unfinished": run.n_missing,
            "mean": mean,
            "caveat": run.caveat or None,
        }
        yield _in_order("systems", row)
