"""A dataset taken off the shelf to look at: whatever its kind, its files, what they hold, and its items one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from cts_async.datasets.annotations import Annotations
from cts_async.datasets.contents import Contents, contents_of
from cts_async.datasets.dataset import Dataset
from cts_async.datasets.kinds import KINDS, imported_on_call, open_dataset
from cts_async.errors import UsageError
from cts_async.records import Instance, Nugget

Item = Mapping[str, Any]
"""An instance or a pane as JSON has it; `id` names it."""

MIMICS_DUO: Final = "mimics-duo"
_FULLER: Final = {
    "qulac": imported_on_call("cts_async.neighbours.qulac.collection", "qulac_contents"),
    "clariq": imported_on_call("cts_async.neighbours.clariq.collection", "clariq_contents"),
}
"""Kinds of which more is read than instances need."""
_open_panes: Final = imported_on_call("cts_async.neighbours.mimics_duo.panes", "open_panes")
_MOST_IDS: Final = 10_000
"""Ids among which one like a wrong one is looked for."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """`kind` is a key of `about.ABOUT`; `contents` reads everything there is; `items` streams in file order.

    `dataset` is None where there are no instances.
    """

    kind: str
    paths: tuple[Path, ...]
    contents: Callable[[], Contents] = field(repr=False)
    items: Callable[[], Iterator[Item]] = field(repr=False)
    dataset: Dataset | None = field(default=None, repr=False)


def open_shelf(spec: str, gold: Path | None = None, fields: Mapping[str, str] | None = None) -> Shelf:
    """Open what `--data` takes, or `mimics-duo:DIR`. Errors as `open_dataset`; some come only on reading."""
    kind, _, target = spec.partition(":")
    if kind == MIMICS_DUO:
        if not target:
            raise UsageError("mimics-duo needs a path: mimics-duo:DIR, the folder with its four TSV files")
        if gold is not None:
            raise UsageError("--gold: mimics-duo has no instances that nuggets could belong to")
        shelf: Shelf = _open_panes(Path(target).expanduser())
        return shelf
    dataset = open_dataset(spec, gold, fields)
    kind = kind if kind in KINDS else "file"
    further = (path for path in (dataset.gold_path, dataset.corpus) if path is not None)
    paths = (dataset.path, *dataset.more_paths, *further)
    contents = partial(_FULLER.get(kind, contents_of), dataset, fields)
    return Shelf(kind, paths, contents, partial(_instance_items, dataset), dataset)


def item_of(shelf: Shelf, id: str) -> Item:
    """The item with this id. Raises UsageError that names similar ids where there is none."""
    ids: list[str] = []
    for item in shelf.items():
        if item["id"] == id:
            return item
        if len(ids) < _MOST_IDS:
            ids.append(str(item["id"]))
    close = get_close_matches(id, ids, n=3) or ids[:3]
    raise UsageError(f"--id {id}: not in {shelf.paths[0]}; there are {', '.join(map(repr, close))} ...")


def nugget_row(nugget: Nugget) -> dict[str, Any]:
    """A nugget as a gold file has it."""
    row: dict[str, Any] = {"id": nugget.id, "text": nugget.text, "weight": nugget.weight}
    return row | ({"source_ids": list(nugget.source_ids)} if nugget.source_ids else {})


def _instance_items(dataset: Dataset) -> Iterator[Item]:
    written = dataset.annotations() if dataset.annotations is not None else None
    for instance in dataset.instances():
        yield _instance_item(instance, written)


def _instance_item(instance: Instance, written: Annotations | None) -> Item:
    item: dict[str, Any] = {
        "id": instance.id,
        "blurred_query": instance.blurred_query,
        "fused_query": instance.fused_query,
        "nuggets": [nugget_row(nugget) for nugget in instance.nuggets],
    }
    if written is not None:
        pairs = written.pairs.get(instance.id, ())
        item["human_answers"] = [{"question": question, "answer": answer} for question, answer in pairs]
        query = written.queries.get(instance.blurred_query)
        item["ambiguity"] = query.ambiguity if query is not None else None
    return item
