"""Groups of runs whose scores can be compared: by one agent, under the same settings, over the same data and gold.

A difference to the orig of another agent, or to scores by another gold, would say more about these than about
clarification. So a table of several such groups has an orig, ranks, gains and tests for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.runs.manifest import manifest_of
from cts_async.runs.selection import RunPath
from cts_async.runs.settings import setting_of, settings_agree
from cts_async.runs.versions import RunVersion, version_of

_DATA_FACETS: Final = ("data", "gold")
"""What two runs must have in common even if their agents are to be compared with each other."""
_DIGEST_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class ComparableRuns:
    """Runs whose scores can be compared, in the order of their paths."""

    runs: tuple[RunPath, ...]
    agent: str = ""
    """The agent's name; "" if no run names one."""
    heading: str = ""
    """What distinguishes the group from others, such as `agent webdancer; gold 1a2b3c4d`; "" for a group alone."""
    facets: tuple[tuple[str, str], ...] = ()
    """The same as pairs: `("agent", "webdancer"), ("gold", "1a2b3c4d")`; empty for a group that names no agent."""
    without_agent: tuple[RunPath, ...] = ()
    """Those of the runs that name no agent, and would go with other groups as well."""


@dataclass(slots=True)
class _Group:
    """A group that is being filled."""

    setting: dict[str, str]
    data_name: str
    runs: list[RunPath]
    last_worked_on: str


def comparable_runs(runs: Sequence[RunPath]) -> list[ComparableRuns]:
    """Divide runs into groups, the one last worked on first; each run is in one group.

    A run goes with any group that nothing known of it contradicts: judged files name neither agent nor data. Of several
    such groups it goes with the one last worked on. Two runs that were both named by their paths are one group if their
    data agree: whoever names two runs compares them.
    """
    manifests = {run.path: manifest_of(run.path) for run in runs}
    settings = {run.path: setting_of(manifests[run.path]) for run in runs}
    is_pair = len(runs) == 2 and all(run.by_path for run in runs)
    groups: list[_Group] = []
    # Those of which most is known first: they make the groups that the others go with. The order of words is none.
    for run in sorted(runs, key=lambda run: (-len(settings[run.path]), run.path)):
        manifest, setting = manifests[run.path], settings[run.path]
        facets = None
        if is_pair:
            facets = _DATA_FACETS
        started = manifest.last_session.start
        group = _latest_that_agrees(groups, setting, facets)
        if group is None:
            groups.append(_Group(dict(setting), manifest.identity.dataset.name, [run], started))
            continue
        group.setting = setting | group.setting
        group.data_name = group.data_name or manifest.identity.dataset.name
        group.runs.append(run)
        group.last_worked_on = max(group.last_worked_on, started)
    # Starts are ISO texts of UTC, which sort by time; the first path decides among equal ones.
    groups.sort(key=lambda group: min(run.path for run in group.runs))
    groups.sort(key=lambda group: group.last_worked_on, reverse=True)
    comparable: list[ComparableRuns] = []
    for group, facets_of_group in zip(groups, _distinguishing_facets(groups), strict=True):
        heading = ""
        if len(groups) > 1:
            heading = "; ".join(f"{facet} {value}" for facet, value in facets_of_group) or "no agent"
        without_agent = [run for run in group.runs if "agent" not in settings[run.path]]
        comparable.append(
            ComparableRuns(
                runs=tuple(sorted(group.runs, key=lambda run: run.path)),
                agent=group.setting.get("agent", ""),
                heading=heading,
                facets=facets_of_group,
                without_agent=tuple(sorted(without_agent, key=lambda run: run.path)),
            )
        )
    return comparable


def version_layers(runs: Iterable[RunPath]) -> list[list[RunPath]]:
    """Divide runs into layers that have each lineage once: the newest versions first, then the next older ones, ...

    What is pooled over runs must not count a system and its older versions together.
    """
    versions: list[tuple[RunVersion, RunPath]] = []
    for run in runs:
        versions.append((version_of(manifest_of(run.path)), run))
    versions.sort(key=lambda versioned: versioned[0].recency, reverse=True)
    layers: list[list[RunPath]] = []
    n_seen: Counter[tuple[Path, str]] = Counter()
    for version, run in versions:
        lineage = run.path.absolute().parent, version.lineage
        if n_seen[lineage] == len(layers):
            layers.append([])
        layers[n_seen[lineage]].append(run)
        n_seen[lineage] += 1
    return [sorted(layer, key=lambda run: run.path) for layer in layers]


def _latest_that_agrees(
    groups: Iterable[_Group], setting: Mapping[str, str], facets: Sequence[str] | None
) -> _Group | None:
    latest: _Group | None = None
    for group in groups:
        if not settings_agree(group.setting, setting, facets):
            continue
        if latest is None or group.last_worked_on > latest.last_worked_on:
            latest = group
    return latest


_DIGESTS: Final = ("data", "gold", "source", "documents")


def _distinguishing_facets(groups: Sequence[_Group]) -> list[tuple[tuple[str, str], ...]]:
    """Return what distinguishes each group: its agent, its data's name, and the facets that these do not imply."""
    if len(groups) == 1:
        return [()]
    facets: dict[str, None] = {}
    for group in groups:
        facets.update(dict.fromkeys(group.setting))
    names_differ = len({group.data_name for group in groups}) > 1
    distinguishing: list[tuple[tuple[str, str], ...]] = []
    for group in groups:
        agent = group.setting.get("agent")
        pairs: list[tuple[str, str]] = []
        if agent:
            pairs.append(("agent", agent))
        if names_differ and group.data_name:
            pairs.append(("data", group.data_name))
        # Another agent has another model and other settings, and other data another gold: the name says so already.
        rivals: list[_Group] = []
        for rival in groups:
            if rival.setting.get("agent") == agent and rival.data_name == group.data_name:
                rivals.append(rival)
        for facet in facets:
            if facet in group.setting and len({rival.setting.get(facet) for rival in rivals}) > 1:
                value = group.setting[facet]
                if facet in _DIGESTS:
                    value = value[:_DIGEST_CHARS]
                pairs.append((facet, value))
        distinguishing.append(tuple(pairs))
    return distinguishing
