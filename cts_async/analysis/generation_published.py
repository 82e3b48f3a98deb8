"""What AT-CoT (Tang et al., SIGIR 2025) prints of clarification generation, as data: tables 5, 6, 7 and section 7.

BERTScore x 100, Llama-3-8B, several questions a query. Datasets are called as here: "qulac", "clariq".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cts_async.records import AmbiguityType

TABLE_5: Final[Mapping[str, Mapping[str, float]]] = {
    "qulac": {"standard": 77.9, "at-standard": 77.0, "cot": 79.2, "at-cot": 80.6},
    "clariq": {"standard": 79.3, "at-standard": 78.8, "cot": 80.0, "at-cot": 82.0},
}
"""Dataset -> scheme -> mean. RaoCQ is not among the datasets here."""

TABLE_6: Final[Mapping[str, tuple[float, float, float, float]]] = {
    "standard": (78.7, 80.0, 78.9, 78.5),
    "at-standard": (77.6, 79.2, 78.4, 79.7),
    "cot": (78.6, 80.5, 80.7, 78.0),
    "at-cot": (80.9, 82.0, 82.1, 82.4),
}
"""ClariQ: scheme -> the means of ambiguity levels 1 to 4."""

TABLE_7: Final[Mapping[str, Mapping[AmbiguityType, tuple[float, float]]]] = {
    "qulac": {"semantic": (44.6, 1.3), "generalize": (1.7, -0.6), "specify": (53.7, 1.4)},
    "clariq": {"semantic": (45.9, 1.8), "generalize": (1.9, 1.4), "specify": (52.2, 2.0)},
}
"""Dataset -> type -> its share of the predictions in percent, and AT-CoT minus CoT in points."""

TABLE_8_RESPOND_TURN_1: Final[Mapping[str, float]] = {
    "standard": 0.232,
    "at-standard": 0.230,
    "cot": 0.238,
    "at-cot": 0.244,
}
"""TREC Web Track 2009-2012 (Qulac's topics): nDCG@10 after the first turn of `respond`."""

SECTION_7: Final = (0.92, 0.08)
"""The r and p that are printed; tables 5 and 8 themselves give r = 0.994, p = 0.006 (`scheme_correlation`)."""
