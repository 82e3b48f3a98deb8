"""Which model answered in place of the one asked for, and without which parameters, in words.

A reply that does not name its model counts as the model asked for: nothing says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cts_async.llm.model import another_model, shown
from cts_async.report.summary import RunSummary


def other_models(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """A line for each (asked, served) pair of different models, all runs together; none where all is well."""
    replies: Counter[str] = Counter()
    others: dict[tuple[str, str], Counter[str]] = {}
    for summary in summaries:
        for asked, served in summary.spent.served.items():
            replies[asked] += served.total()
            for model, n in served.items():
                if another_model(asked, model):
                    others.setdefault((asked, model), Counter())[summary.label] += n
    for (asked, model), runs in others.items():
        share = f"{runs.total()} of {replies[asked]} replies"
        yield f"Another model: {shown(model)} gave {share} that {shown(asked)} was asked for ({', '.join(runs)})"


def dropped_parameters(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """A line for each model and parameter that its server refused, all runs together; none where all is well."""
    replies: Counter[tuple[str, str]] = Counter()
    of: Counter[str] = Counter()
    for summary in summaries:
        for model, dropped in summary.spent.dropped.items():
            replies.update({(model, name): n for name, n in dropped.items()})
        of.update({model: served.total() for model, served in summary.spent.served.items()})
    for (model, name), n in replies.items():
        yield f"Without {shown(name)}: {shown(model)} refuses it, {n} of {of[model]} replies were made without"
