"""The setting of a run: what two runs must have in common for a difference between their scores to mean anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cts_async.foreign_json import as_object
from cts_async.records import DEFAULT_TOOLS
from cts_async.runs.manifest import Manifest
from cts_async.search.tools import ALL_SWITCHES, AgentSettings, recorded_settings

_USUAL_TOOLS: Final = ", ".join(DEFAULT_TOOLS)
ASK_TOOL: Final = "ask"
"""The tool by which an agent asks the user."""


def setting_of(manifest: Manifest) -> dict[str, str]:
    """Return what a run must have in common with others for a difference to mean anything, as far as it is known.

    Digests of data and gold; and for a run with an agent its name, model or source, its settings, tools and documents.
    The date in its prompt is not among them: a day's difference was never a reason not to compare.
    """
    setting: dict[str, str] = {}
    identity = manifest.identity
    # A run that searches nothing is not judged, whatever gold there is.
    gold = manifest.gold_digest
    if manifest.searches and gold:
        setting["gold"] = gold
    if identity.dataset.sha256:
        setting["data"] = identity.dataset.sha256
    if not manifest.agent:
        return setting
    setting["agent"] = manifest.agent
    model = as_object(identity.models.get("agent"))
    for facet, key in (("model", "model"), ("source", "sha256")):
        if isinstance(model.get(key), str):
            setting[facet] = model[key]
    if identity.corpus_sha256:
        setting["documents"] = identity.corpus_sha256
    for facet, value in identity.agent.items():
        # Those of the agent's mode are one facet: what is off is not recorded, and would be no contradiction.
        if facet not in ALL_SWITCHES:
            setting[facet.replace("_", " ")] = _shown(value)
    if identity.agent:
        setting["agent mode"] = _agent_mode(recorded_settings(identity.agent))
        setting["tools"] = _tools_of_group(manifest.raw_identity.get("agent_tools"))
    if "tools" in manifest.raw_identity:
        setting["web"] = _shown(manifest.raw_identity["tools"])
    return setting


def _tools_of_group(tools: Any) -> str:
    """Return an agent's tools but for questions to the user; the usual ones are not recorded (`tools` is None).

    Whether an agent may ask is what systems of one group differ in.
    """
    if tools is None:
        return _USUAL_TOOLS
    if not isinstance(tools, dict):
        return _shown(tools)
    others = [name for name in tools if name != ASK_TOOL]
    if set(others) == set(DEFAULT_TOOLS) and ASK_TOOL in tools:
        return _USUAL_TOOLS
    names: list[str] = []
    for name in others:
        # Most tools have only one version.
        if tools[name] != "1":
            name += f" (version {tools[name]})"
        names.append(name)
    return ", ".join(names) or "none"


def _agent_mode(settings: AgentSettings) -> str:
    if settings.mode != "mixed":
        return settings.mode
    return ", ".join(settings.switches)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)


def settings_agree(
    setting: Mapping[str, str], other: Mapping[str, str], facets: Sequence[str] | None = None
) -> bool:
    """Whether two settings contradict each other in none of the facets (all by default) that both have."""
    if facets is None:
        facets = list(setting.keys() & other.keys())
    for facet in facets:
        if facet in setting and facet in other and setting[facet] != other[facet]:
            return False
    return True
