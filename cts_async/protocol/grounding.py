"""Is each nugget said by the sources it cites? Term recall, in both languages; no model is asked.

A nugget of the gold has to be traceable to evidence (paper, section 4.2). The share of its terms that occur in its
cited sources, taken together, is its recall (terms as the lexical judge makes them, see `lexical`). This finds
nuggets that were made up or cite the wrong source; it does not understand, so a negated or rearranged statement
passes, and a nugget in another language than its source is suspected without cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from cts_async.protocol.lexical import spelling, terms_of
from cts_async.protocol.sources import NumberedSource
from cts_async.records import Nugget

GROUNDED_AT: Final = 0.5
"""Recall from which a nugget counts as grounded, provided that none of its numbers is missing.

A faithful paraphrase changes one word in four to six, and a nugget names its subject, which a source about it may
leave to its title: with half of its words elsewhere, a nugget is more than a paraphrase.
"""


@dataclass(frozen=True, slots=True)
class Grounding:
    """What a nugget's cited sources say of it.

    `recall` is in [0, 1]; the missing terms and numbers are those that occur in no cited source, as the nugget
    writes them. `better_source` is a source not cited that alone has a higher recall than all cited ones together.
    """

    id: str
    recall: float
    missing_terms: tuple[str, ...] = ()
    missing_numbers: tuple[str, ...] = ()
    better_source: str | None = None
    better_recall: float | None = None

    @property
    def grounded(self) -> bool:
        """Whether there is enough of it in its sources, and every number and year."""
        return self.recall >= GROUNDED_AT and not self.missing_numbers


def ground(nuggets: Sequence[Nugget], sources: Sequence[NumberedSource]) -> tuple[Grounding, ...]:
    """Check every nugget, in order, against the sources; those it cites and nobody knows say nothing."""
    found = {source.id: terms_of(source.evidence).every for source in sources}
    return tuple(_ground(nugget, found) for nugget in nuggets)


def _ground(nugget: Nugget, found: Mapping[str, frozenset[str]]) -> Grounding:
    terms = terms_of(nugget.text)
    wanted = terms.content or terms.every
    said = _union(found[id] for id in nugget.source_ids if id in found)
    recall = _recall(wanted, said)
    better = max(
        ((_recall(wanted, of), id) for id, of in found.items() if id not in nugget.source_ids),
        key=lambda pair: pair[0],
        default=(0.0, ""),
    )
    written = spelling(nugget.text)
    missing = [term for term in written if term not in said]
    return Grounding(
        id=nugget.id,
        recall=recall,
        missing_terms=tuple(written[term] for term in missing if term not in terms.numbers),
        missing_numbers=tuple(written[term] for term in missing if term in terms.numbers),
        better_source=better[1] if better[0] > recall else None,
        better_recall=better[0] if better[0] > recall else None,
    )


def _union(parts: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*parts)


def _recall(wanted: frozenset[str], said: frozenset[str]) -> float:
    """The share of `wanted` that is said; 0 where nothing is wanted: an empty statement is not grounded."""
    return len(wanted & said) / len(wanted) if wanted else 0.0


def grounding_json(checked: Sequence[Grounding]) -> dict[str, Any]:
    """The check as a record keeps it: the mean recall, and every nugget's part; `checked` is not empty."""
    return {
        "threshold": GROUNDED_AT,
        "mean": round(fmean(one.recall for one in checked), 4),
        "ungrounded": [one.id for one in checked if not one.grounded],
        "nuggets": [_json(one) for one in checked],
    }


def _json(one: Grounding) -> dict[str, Any]:
    value: dict[str, Any] = {"id": one.id, "recall": round(one.recall, 4)}
    if one.missing_terms:
        value["missing_terms"] = list(one.missing_terms)
    if one.missing_numbers:
        value["missing_numbers"] = list(one.missing_numbers)
    if one.better_source is not None and one.better_recall is not None:
        value["better_source"] = one.better_source
        value["better_recall"] = round(one.better_recall, 4)
    return value
