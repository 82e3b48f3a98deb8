"""Versions of runs: which of them a page shows, what its menus list, and what changed between two of them.

Parameters: `versions` names runs to be shown in the place of the newest of their lineages, separated by commas as
`runs` of a matrix; `all` is "1" for all versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cts_async.errors import CTSError
from cts_async.runs.index import NO_RUN, Json, Refused, display_name
from cts_async.runs.manifest import Manifest
from cts_async.runs.open_run import Place
from cts_async.runs.run_changes import ABSENT, SettingChange, compare_two
from cts_async.viewer.instances import Parameters, choice
from cts_async.viewer.library import Library
from cts_async.viewer.matrix import names_in

MAX_LINES: Final = 2_000
"""Lines of a text's difference that are sent; a prompt or a source has a few hundred."""
MAX_LINE_CHARS: Final = 2_000


def chosen_versions(library: Library, data_sha: str, parameters: Parameters) -> list[tuple[Place, Manifest]]:
    """The runs over these data that a leaderboard shows. Raises Refused."""
    names = names_in(parameters, "versions")
    return library.shown_over(data_sha, names, all_versions=choice(parameters, "all", ("1",)) == "1")


def versions_of(library: Library, names: Iterable[str]) -> dict[str, list[Json]]:
    """The versions of each run that has several, by name, the newest first."""
    versions: dict[str, list[Json]] = {}
    for name in names:
        if len(library.find().versions.get(name, ())) > 1:
            versions[name] = library.version_rows(name)
    return versions


def changes_of(library: Library, name: str) -> Json:
    """What differs between a version and the one that it was compared with when it was made. Raises Refused.

    {"before", "changed", "settings": [{name, before, after}], "texts": [{file, status, lines, cut}], "problem"}; the
    lines of texts are those of a unified diff.
    """
    from cts_async.tables.run_diff import text_status, unified_lines

    run = library.get(name)
    if run is None:
        raise Refused(404, NO_RUN)
    place, manifest = run
    changes: Json = {
        "before": display_name(manifest.changed_from),
        "changed": list(manifest.changed),
        "settings": [],
        "texts": [],
        "problem": "",
    }
    origin = library.origin(place, manifest)
    if origin is None:
        return changes
    try:
        compared = compare_two(origin.directory, manifest.directory, with_scores=False)
    except (CTSError, OSError, ValueError):
        # Its message names paths.
        return changes | {"problem": "run.json cannot be compared"}
    changes["settings"] = [_setting_json(change) for change in compared.settings]
    changes["problem"] = "; ".join(problem.rpartition("/")[2] for problem in compared.problems)
    for text in compared.texts:
        lines = [line[:MAX_LINE_CHARS] for line in unified_lines(text)]
        changes["texts"].append(
            {
                "file": display_name(text.name),
                "status": text_status(text),
                "lines": lines[:MAX_LINES],
                "n_lines": len(lines),
            }
        )
    return changes


def _setting_json(change: SettingChange) -> Json:
    """A setting with both values; one that a run does not have is null, as a setting without a value is."""
    values: list[object] = []
    for value in (change.before, change.after):
        values.append(None if value == ABSENT else value)
    return {"name": change.name, "before": values[0], "after": values[1]}
