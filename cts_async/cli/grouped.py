"""Help that a person can find something in: a command's many options under a few headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typer.core import TyperCommand

HEADINGS: Final[Mapping[str, Sequence[str]]] = {
    "Data and systems": (
        *(
            "model",
            "k",
            "scheme",
            "mode",
            "data",
            "gold",
            "candidates",
            "field",
            "join",
            "skip_bad_gold",
            "limit",
            "orig",
            "with_gold",
        ),
    ),
    "Models": (
        *("every_role", "support", "answers", "judge", "no_judge", "lexical", "agent", "extractor"),
        *("agent_prompt", "date", "nuggets_per_call", "empty_answers", "config", "trust_config"),
    ),
    "Conversations": ("turns", "questions", "topics", "intents"),
    "Evaluation": ("baseline", "qrels", "relevance_level", "measure", "reranker", "encoder"),
    "Searching": ("corpus", "search", "visit", "visit_model", "allow_address", "replay", "max_turns"),
    "Evidence": ("max_sources", "source_chars", "total_chars"),
    "Results": (
        "out",
        "force",
        "name",
        "runs_dir",
        "csv",
        "tables",
        "plots",
        "plot_format",
        "quiet",
        "as_json",
    ),
    "Budgets": (
        "dry_run",
        "max_usd",
        "max_tokens",
        "max_calls",
        "deadline",
        "max_outage",
        "in_flight",
    ),
    "Beyond one process": ("ray", "workers"),
    "Other options": ("retry_failed", "sync", "seed", "help"),
}
"""Heading to the options under it, by the names of their parameters; each shows what the command has of them."""


class Grouped(TyperCommand):
    """A command whose help has its options under `HEADINGS`, and under "Options" those that stand in none."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, heading by heading."""
        records: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        records |= {heading: [] for heading in [*HEADINGS, "Options"]}
        places = {name: (heading, n) for heading, names in HEADINGS.items() for n, name in enumerate(names)}
        params = sorted(self.get_params(ctx), key=lambda one: places.get(str(one.name), ("", 0))[1])
        for param in params:
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                records[places.get(str(param.name), (usual, 0))[0]].append(record)
        for heading, written in records.items():
            if written:
                with formatter.section(heading):
                    formatter.write_dl(written)
