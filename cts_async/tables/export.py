"""Runs as files for others: the release's folders, a dataset for Hugging Face, or tables as CSV.

An export is made again into the same folder, and never into one that holds anything else: `export.json` marks a folder
as ours, and every other file in it must be one that is written again. Nothing is reached through a link.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import orjson

from cts_async import __version__, foreign_json
from cts_async.analysis.summary import summarise_run
from cts_async.errors import UsageError, write_error
from cts_async.records import NOT_TO_BE_PUBLISHED, SMOKE_TEST, Failure, caveats_in
from cts_async.runs.directory import json_bytes
from cts_async.runs.files import MANIFEST, PER_ITEM, SUMMARY
from cts_async.runs.finished import FailedItem, FinishedRun, Item, read_path, with_distinct_labels
from cts_async.runs.manifest import Manifest, manifest_of
from cts_async.runs.selection import RunPath, find_runs
from cts_async.safe_files import make_folder, read_file, replace_file
from cts_async.tables.output import plain
from cts_async.tables.results import CAVEATS
from cts_async.tables.rows import FURTHER, OPTIONAL, Tables, column_notes, column_type, columns, tables_of
from cts_async.tables.summary import summary_json
from cts_async.tables.table import Column, DataTable, csv_of, markdown, number, text, text_columns
from cts_async.tagged_text import find_answer

MARKER: Final = "export.json"
MAX_MARKER_BYTES: Final = 1 << 16
"""The file that marks a folder as an export: its layout, the version that wrote it, the names of the runs."""
SCHEMAS: Final = "schemas"
_TABLES: Final = ("instances", "nuggets", "judges")
_ASKS: Final = "asks"
"""A further table, of runs whose agent asked the user."""
_DTYPES: Final = {"text": "string", "number": "float64", "integer": "int64"}
"""Hugging Face's names of the types in columns.toml."""
_STATUS: Final = ("scored", "unjudged", "unsearched", "failed", "unfinished")
_UNUSUAL: Final = re.compile(r"[^\w.+@=-]")
"""Characters that a file's name should not have."""

Files = dict[str, bytes]
"""Contents by path within the export's folder."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and what a reader of it should know."""

    paths: tuple[Path, ...]
    remarks: tuple[str, ...] = ()


def export_runs(words: Sequence[str], layout: str, out: Path, *, all_versions: bool = False) -> Exported:
    """Write the runs that `words` name into the folder `out`, in one of LAYOUTS; of folders the newest versions.

    Raises UsageError, before anything is written, for a folder that holds other files; InputError for a damaged run.
    """
    # All contents are made before the first file is written: a damaged run leaves the folder as it was.
    notes: list[str] = []
    paths = [run.path for run in find_runs(words, notes.append, all_versions=all_versions)]
    files, remarks = LAYOUTS[layout](paths)
    written = write_export(out, layout, files, [path.name for path in paths])
    return Exported(written, (*_restrictions(paths), *notes, *remarks))


def _restrictions(paths: Sequence[Path]) -> list[str]:
    """Return a sentence for each reason why texts of the runs' data must not be published."""
    restrictions = [manifest_of(path).restriction for path in paths]
    return [restriction for restriction in dict.fromkeys(restrictions) if restriction]


def export_schemas(out: Path) -> Exported:
    """Write the JSON Schema of each file of a run into the folder `out`. Raises UsageError."""
    from cts_async.tables.schemas import run_schemas

    return Exported(write_export(out, SCHEMAS, run_schemas(), []))


# --- The release's folders


def _release(paths: Sequence[Path]) -> tuple[Files, list[str]]:
    """candidates/NAME__cand_DATA.jsonl, clarify_only/NAME.csv, outputs/NAME/per_item.jsonl and summary.json."""
    files, remarks, names = Files(), list[str](), set[str]()
    for path in paths:
        if not (path / MANIFEST).is_file():
            raise UsageError(f"{path}: has no {MANIFEST}, so it is not a run whose answers could be exported")
    for run in with_distinct_labels(read_path(path, without=()) for path in paths):
        # Labels are distinct, but some file systems take Run and run for one file.
        name = _UNUSUAL.sub("_", run.label).lstrip(".") or "_"
        while name.casefold() in names:
            name += "_"
        names.add(name.casefold())
        questions = _questions_csv(run)
        if questions:
            files[f"clarify_only/{name}.csv"] = questions
        remarks += _remarks(run)
        # Its questions are exported all the same.
        if not run.searched:
            continue
        data = _UNUSUAL.sub("_", run.data.name or "candidates")
        # Failed instances with their error, which `cts judge --candidates` reads.
        files[f"candidates/{name}__cand_{data}.jsonl"] = _lines(_candidates(run))
        if run.judges and run.scoring:
            files[f"outputs/{name}/{PER_ITEM}"] = _lines(_per_item(run))
            summary = summary_json(summarise_run(run.directory))
            files[f"outputs/{name}/{SUMMARY}"] = json_bytes(
                summary, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
            )
    return files, remarks


def _candidates(run: FinishedRun) -> Iterator[dict[str, Any]]:
    restriction = manifest_of(run.directory).data.restriction
    for id, item in run.outcomes():
        candidate: dict[str, Any] = {"id": id, "fused_query": item.intent}
        if isinstance(item, FailedItem):
            candidate["answer"] = None
            candidate["error"] = _error(item.failure)
        else:
            candidate["answer"] = tagged(item.answer)
        # A file of candidates has no manifest: whoever judges it, or passes it on, reads it here.
        if restriction:
            candidate[NOT_TO_BE_PUBLISHED] = restriction
        yield candidate


def tagged(answer: str) -> str:
    """Return an answer so that readers of candidates find it: in tags if they would take something out of it."""
    read, _ = find_answer(answer)
    if read == answer:
        return answer
    return f"<answer>{answer}</answer>"


def _per_item(run: FinishedRun) -> Iterator[dict[str, Any]]:
    """Yield the lines that `cts judge --candidates` writes for the scoring judge."""
    scoring = run.scoring
    for id, item in run.outcomes():
        if isinstance(item, FailedItem):
            yield _failed_line(id, item.intent, item.failure, scoring, answer="")
        elif scoring in item.verdicts:
            yield _judged_line(id, item, scoring)
        else:
            failure = item.unjudged.get(scoring)
            if failure is None:
                failure = Failure("judge", "unjudged", f"{scoring} has not judged this answer")
            yield _failed_line(id, item.intent, failure, scoring, answer=item.answer)


def _judged_line(id: str, item: Item, judge: str) -> dict[str, Any]:
    verdict = item.verdicts[judge]
    nuggets: list[dict[str, Any]] = []
    for nugget, coverage in verdict.coverage.items():
        nuggets.append({"id": nugget, "weight": verdict.weights[nugget], "coverage": coverage})
    return {
        "id": id,
        "fused_query": item.intent,
        "judge": judge,
        "nuggets": nuggets,
        "restore_score_100": verdict.score,
        "answer": item.answer,
    }


def _failed_line(id: str, intent: str, failure: Failure, judge: str, *, answer: str) -> dict[str, Any]:
    return {
        "id": id,
        "system": "",
        "fused_query": intent,
        "blurred_query": "",
        "error": _error(failure),
        "judge": judge,
        "answer": answer,
    }


def _error(failure: Failure) -> dict[str, str]:
    return {"step": failure.step, "kind": failure.kind, "message": failure.message}


def _questions_csv(run: FinishedRun) -> bytes | None:
    """Return what was asked and answered, as lists in JSON; None for a run that asked nothing."""
    if not any(item.questions for _, item in run.outcomes()):
        return None
    rows: list[dict[str, Any]] = []
    for id, item in run.outcomes():
        error = ""
        if isinstance(item, FailedItem):
            error = f"{item.failure.step}: {item.failure.message}"
        rows.append(
            {
                "id": id,
                "fused_query": item.intent,
                "blurred_query": item.query,
                "questions": orjson.dumps(item.questions).decode(),
                "answers": orjson.dumps(item.answers).decode(),
                "rewritten_query": item.rewritten_query,
                "error": error,
            }
        )
    return _csv(list(rows[0]), rows)


def _remarks(run: FinishedRun) -> Iterator[str]:
    directory = run.directory
    yield from run.contradictions
    if run.n_failed:
        yield f"{directory}: {run.n_failed} failed instance(s): named with their error, without a score."
    n_unlabelled = run.judge_failures.get(run.scoring)
    if n_unlabelled:
        yield (
            f"{directory}: {n_unlabelled} answer(s) that {run.scoring} failed to label: named with their error, without "
            "a score."
        )
    if run.n_missing > 0:
        yield f"{directory}: {run.n_missing} of {run.n_expected} instances unfinished: left out."
    n_changed = n_empty = 0
    for item in run.items.values():
        read, _ = find_answer(tagged(item.answer))
        n_changed += read != item.answer.strip()
        n_empty += not item.answer
    if n_changed:
        yield f"{directory}: {n_changed} answer(s) with tags such as <think>, which readers take out."
    if run.searched and n_empty:
        yield f"{directory}: has empty answers; judge its candidates again with --empty-answers zero."


# --- Tables as CSV, and as a dataset for Hugging Face


def _csv_tables(paths: Sequence[Path]) -> tuple[Files, list[str]]:
    tables = _tables(paths)
    files: dict[str, bytes] = {}
    for name in _exported(tables):
        keys, rows = _table(tables, name)
        files[f"{name}.csv"] = _csv(keys, rows)
    return files, list(tables.remarks)


def _hf(paths: Sequence[Path]) -> tuple[Files, list[str]]:
    tables = _tables(paths)
    files: dict[str, bytes] = {}
    for name in _exported(tables):
        _, rows = _table(tables, name)
        files[f"{name}.jsonl"] = _lines(rows)
    files["README.md"] = _card(paths, tables).encode(errors="replace")
    remarks = list(tables.remarks)
    configured = _configured(tables)
    empty = [name for name in _exported(tables) if name not in configured]
    if empty:
        remarks.append(f"No rows, so no configuration of the dataset: {', '.join(empty)}.")
    remarks.append(
        "The dataset card says `license: unknown`: name the licence before you publish it (README.md, line 3)."
    )
    return files, remarks


def _tables(paths: Sequence[Path]) -> Tables:
    return tables_of([RunPath(path, named=True, by_path=True) for path in paths])


def _exported(tables: Tables) -> tuple[str, ...]:
    """The names of the tables that are written."""
    if tables.asks:
        return (*_TABLES, _ASKS)
    return _TABLES


def _table(tables: Tables, name: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and the rows of a table; one without rows has its columns all the same."""
    rows: list[dict[str, Any]] = getattr(tables, name)
    if not rows:
        return columns(name, 0), rows
    return list(rows[0]), rows


def _csv(keys: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    return csv_of(keys, rows).encode(errors="replace")


def _lines(rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> bytes:
    lines = bytearray()
    for row in rows:
        lines += json_bytes(row, orjson.OPT_APPEND_NEWLINE)
    return bytes(lines)


def _card(paths: Sequence[Path], tables: Tables) -> str:
    """Return README.md: YAML front matter, the runs, who played which role, versions, columns. All names are escaped."""
    manifests: dict[Path, Manifest] = {}
    data: set[str] = set()
    for path in paths:
        manifest = manifests[path] = manifest_of(path)
        data.add(manifest.identity.dataset.name or "candidates")
    caveats = caveats_in(manifest.caveat for manifest in manifests.values())
    described: list[dict[str, str]] = []
    for table in _exported(tables):
        names, _ = _table(tables, table)
        for column, meaning in column_notes()[table].items():
            # Of the others numbered ones stand for several, and a table without rows has all.
            if column not in OPTIONAL or column in names:
                described.append({"table": table, "column": column, "meaning": meaning})
    # Fields that a role's reply had beyond its form are those of these runs: columns.toml cannot know them.
    for column in _table(tables, "instances")[0]:
        if FURTHER in column:
            meaning = (
                "text or null: a field of the step's reply beyond its form; a value that is no text is JSON"
            )
            described.append({"table": "instances", "column": column, "meaning": meaning})
    configs: list[str] = []
    for name in _configured(tables):
        configs.append(f"- config_name: {name}\n  data_files: {name}.jsonl")
        if len(configs) == 1:
            configs.append("  default: true")
    title = plain("Clarify-Then-Search runs on " + ", ".join(sorted(data)))
    warnings = ""
    # The manifest's own words are anybody's, and this is Markdown: they are printed, and not repeated here.
    if _restrictions(paths):
        warnings += (
            "\n> **Not to be published.** The text of the data behind these runs must not be published in plain form, "
            "and it is in these files.\n"
        )
    for caveat in caveats:
        name, _, sentence = CAVEATS[caveat].partition(": ")
        warnings += f"\n> **{name}.** {sentence[:1].upper()}{sentence[1:]}\n"
    card = Path(__file__).with_name("dataset_card.md").read_text("utf-8")
    return card.format(
        title=orjson.dumps(title).decode(),
        configs="\n".join(configs),
        features="\n".join(_features(tables)),
        smoke=warnings,
        runs=markdown(_scores_table(manifests, tables)),
        made=markdown(_made_table(manifests)),
        version=__version__,
        columns=markdown(
            DataTable("columns", "Columns", "", text_columns("table", "column", "meaning"), described)
        ),
    )


def _configured(tables: Tables) -> list[str]:
    """Return the tables that are configurations of the dataset: `datasets` cannot load one without rows."""
    names: list[str] = []
    for name in _exported(tables):
        _, rows = _table(tables, name)
        # A dataset has one configuration at least.
        if rows or name == "instances":
            names.append(name)
    return names


def _features(tables: Tables) -> Iterator[str]:
    """Yield the lines of `dataset_info`: the type of each column of each configuration.

    Without them `datasets` takes the types of a file's first 10 MB: a column that has only nulls there can hold nothing
    later.
    """
    for table in _configured(tables):
        yield f"- config_name: {table}"
        yield "  features:"
        names, _ = _table(tables, table)
        for column in names:
            name = column
            if FURTHER in column:
                # A stranger's name; JSON's strings are YAML's, too.
                name = orjson.dumps(column).decode()
            yield f"  - name: {name}"
            yield f"    dtype: {_DTYPES[column_type(table, column)]}"


def _scores_table(manifests: Mapping[Path, Manifest], tables: Tables) -> DataTable:
    rows: list[dict[str, Any]] = []
    # A column for smoke tests in any case: whoever reads the card should see that there are none.
    caveats = caveats_in(chain([SMOKE_TEST], (manifest.caveat for manifest in manifests.values())))
    for path, manifest in manifests.items():
        scores: list[float] = []
        status: Counter[str] = Counter()
        for instance in tables.instances:
            if instance["run"] != path.name:
                continue
            status[instance["status"]] += 1
            if instance["score"] is not None:
                scores.append(instance["score"])
        row: dict[str, Any] = {"run": path.name, "mean": None}
        if scores:
            row["mean"] = fmean(scores)
        for name in _STATUS:
            row[name] = status[name]
        for caveat in caveats:
            row[caveat] = "no"
            if manifest.caveat == caveat:
                row[caveat] = "yes"
        rows.append(row)
    columns = list(text_columns("run"))
    columns.append(Column("mean", number("mean", ".2f")))
    for name in _STATUS:
        columns.append(Column(name, text(name)))
    columns += text_columns(*caveats)
    return DataTable("runs", "Runs", "Mean restore_score_100 of the scored instances.", columns, rows)


def _made_table(manifests: Mapping[Path, Manifest]) -> DataTable:
    """Data, players, judges and versions. Commands and paths are left out: they say where things are on this machine."""
    rows = []
    for path, manifest in manifests.items():
        data = manifest.identity.dataset
        players = [f"{role}: {name}" for role, name in manifest.players.items()]
        rows.append(
            {
                "run": path.name,
                "data": data.name or "-",
                "sha256": (data.sha256 or data.gold_sha256 or "-")[:16],
                "players": ", ".join(players) or "-",
                "judges": ", ".join(manifest.identity.judges) or "-",
                "cts_async": manifest.version or "-",
                "begun": manifest.started or "-",
            }
        )
    names = ("run", "data", "sha256", "players", "judges", "cts_async", "begun")
    return DataTable("made", "Players and versions", "", text_columns(*names), rows)


LAYOUTS: Final[Mapping[str, Callable[[Sequence[Path]], tuple[Files, list[str]]]]] = {
    "release": _release,
    "hf": _hf,
    "csv": _csv_tables,
}


# --- The folder


def write_export(out: Path, layout: str, files: Files, runs: Sequence[str]) -> tuple[Path, ...]:
    """Write files into the folder `out`, which is made unless it exists; return their paths.

    Raises UsageError if the folder, or anything in it, is a link, or is not of an earlier export of the same files;
    StorageFull.
    """
    marker = {"export": layout, "made_by": f"cts_async {__version__}", "runs": list(runs)}
    contents = {MARKER: json_bytes(marker, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)}
    contents.update(files)
    _check_folder(out, layout, contents)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            folder = out
            for part in Path(name).parent.parts:
                folder = make_folder(folder, part)
            replace_file(folder / Path(name).name, content)
    except OSError as error:
        raise write_error(out, error, verb="write there") from None
    return tuple(out / name for name in contents)


def _check_folder(out: Path, layout: str, files: Files) -> None:
    """Refuse a folder with anything that this export would not write again. Hidden files do not count."""
    remedy = "name another folder with --out"
    # Whatever such a link leads to would be overwritten.
    if out.is_symlink():
        raise UsageError(f"--out {out}: is a symbolic link; name its target instead")
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"--out {out}: is a file; {remedy}")
    entries = list(_entries(out))
    for path in entries:
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UsageError(f"--out {out}: {path.relative_to(out)} is a link or no regular file; {remedy}")
    present = {str(path.relative_to(out)) for path in entries if path.is_file()}
    # Without the marker nobody knows who wrote them, even if the names are those of an export.
    if present and _marked(out / MARKER) != layout:
        raise UsageError(
            f"--out {out}: holds files that cts export --layout {layout} did not write; {remedy}"
        )
    strange = sorted(present - files.keys())
    if strange:
        raise UsageError(f"--out {out}: holds {strange[0]}, which is not part of this export; {remedy}")


def _entries(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder and its folders, without following links, and without hidden files."""
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from _entries(path)


def _marked(path: Path) -> str | None:
    """Return the layout that a marker names; None if there is no marker, or it is not ours."""
    try:
        marker = foreign_json.loads(read_file(path, MAX_MARKER_BYTES))
    except (FileNotFoundError, ValueError):
        return None
    return foreign_json.as_text(foreign_json.as_object(marker).get("export"))
