"""What is printed about MIMICS-Duo (Tavakoli et al., SIGIR 2022), by table, row and column, digit for digit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cts_async.analysis import label_correlations as correlations
from cts_async.analysis import pane_reranking as t7
from cts_async.analysis.figures import Key, Printed
from cts_async.analysis.pane_columns import ASPECTS

_COVERAGE, _DIVERSITY, _UNDERSTANDABILITY, _ORDER = ASPECTS


def _grid(columns: str, rows: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    """Cells of rows of white-space-separated values under `columns`, parted by `|`; "-" is no cell."""
    names = [name.strip() for name in columns.split("|")]
    for row, values in rows.items():
        for name, value in zip(names, values.split(), strict=True):
            if value != "-":
                yield (row, name), value


TABLE_6: Final[Printed] = {
    ("Queries", "number"): "306",
    ("Query-clarification pairs", "number"): "1034",
    **dict(
        _grid(
            "mean|sd|min|max",
            {"Clarifications per query": "3.38 0.68 3 8", "Candidate answers": "3.59 1.2 2 5"},
        )
    ),
}
"""Section 4.1."""

TABLE_7: Final[Printed] = {
    **dict(
        _grid(
            "|".join((t7.P_ALL, t7.MRR_ALL, t7.MRR_ONE, t7.P_UNTIED, t7.MRR_UNTIED)),
            {
                t7.RATING: "0.382 0.604 0.604 0.382 0.637",
                t7.QUALITY: "0.363 0.599 0.599 0.273 0.576",
                t7.RANDOM: "0.332 0.576 0.576 - -",
                t7.BY_RATING: "- - - 0.309 0.586",
                t7.BY_QUALITY: "- - - 0.306 0.581",
                t7.WORST: "0.0 0.437 - 0.0 0.307",
            },
        )
    ),
    **dict(
        _grid(
            "|".join(t7.SD + name for name in (t7.P_ALL, t7.MRR_ALL, t7.MRR_ONE, t7.P_UNTIED, t7.MRR_UNTIED)),
            {
                t7.RANDOM: "0.026 0.015 0.015 - -",
                t7.BY_RATING: "- - - 0.038 0.024",
                t7.BY_QUALITY: "- - - 0.041 0.025",
            },
        )
    ),
    (t7.RATING, t7.QUERIES): "152",
    (t7.RATING, t7.PANES): "500",
    (t7.QUALITY, t7.QUERIES): "139",
    (t7.QUALITY, t7.PANES): "465",
}
"""Section 5.1. The table has one MRR over all queries; it stands here beside both readings of it. Its line of standard
deviations is read as a pair (P@1, MRR) for each untied collection: in the order of the columns above it, an MRR would
vary more than the P@1 of the same draws."""
RANDOM_REPEATS: Final = 1000
"""The random ranker's cells of table 7 are means of so many draws (footnote 1)."""

TABLE_8: Final[Printed] = dict(
    _grid(
        "mean|var|1|2|3|4|5",
        {
            "Clarification Pane": "3.95 0.58 0.39 3.19 19.44 54.55 22.44",
            "Candidate Ans. #1": "4.12 0.83 1.16 3.48 19.05 35.11 41.20",
            "Candidate Ans. #2": "4.01 0.81 0.77 5.13 19.92 40.33 33.85",
            "Candidate Ans. #3": "3.93 0.84 0.78 5.09 25.59 37.60 30.94",
            "Candidate Ans. #4": "3.88 0.9 1.33 4.75 29.47 33.46 30.99",
            "Candidate Ans. #5": "3.89 0.94 1.15 7.45 24.07 36.39 30.95",
        },
    )
)
"""Section 5.2."""

TABLE_9: Final[Printed] = dict(
    _grid(
        "mean|var|1|2|3|4|5",
        {
            _COVERAGE: "3.78 1.18 3.00 14.02 12.19 43.23 27.56",
            _DIVERSITY: "3.74 1.15 1.45 16.73 15.09 40.14 26.60",
            _UNDERSTANDABILITY: "4.61 0.53 0.39 2.13 6.09 18.67 72.73",
            _ORDER: "3.43 0.87 1.55 12.86 40.23 31.62 13.73",
        },
    )
)
"""Section 5.3."""

_ENGAGEMENT: Final = {
    _COVERAGE: "-0.061",
    _DIVERSITY: "-0.029",
    _UNDERSTANDABILITY: "0.034",
    _ORDER: "0.003",
    "Quality Labelling": "-0.032",
    "Offline Rating": "-0.001",
    correlations.OPTION_COUNT: "-0.079",
}
TABLE_10: Final[Printed] = {
    **dict(
        _grid(
            "|".join((*correlations.MEASURES, correlations.OPTION_COUNT)),
            {
                _COVERAGE: "- 0.421 0.313 0.178 0.227 -0.061 0.273 0.306",
                _DIVERSITY: "- - 0.260 0.117 0.176 -0.029 0.245 0.269",
                _UNDERSTANDABILITY: "- - - 0.159 0.226 0.034 0.227 0.055",
                _ORDER: "- - - - 0.064 0.003 0.044 -0.178",
                "Quality Labelling": "- - - - - -0.032 0.225 0.165",
                correlations.ENGAGEMENT: "- - - - - - -0.001 -0.079",
                "Offline Rating": "- - - - - - - 0.262",
            },
        )
    ),
    **{(correlations.MISALIGNED, name): value for name, value in _ENGAGEMENT.items()},
}
"""Section 5.3; the seven cells of engagement again for the computation that gives them."""

OTHER_READINGS: Final = frozenset(
    {
        *((row, t7.MRR_ONE) for row in (t7.RATING, t7.QUALITY, t7.RANDOM)),
        (t7.RANDOM, t7.SD + t7.MRR_ONE),
        *((correlations.MISALIGNED, name) for name in _ENGAGEMENT),
    }
)
"""The cells of tables 7 and 10 whose printed value stands above beside another cell: it is one published cell."""

TABLE_11: Final[Printed] = dict(
    _grid(
        "P@1 engagement|MRR engagement|P@1 quality|MRR quality|P@1 rating|MRR rating",
        {
            _COVERAGE: "0.333 0.581 0.317 0.589 0.369 0.625",
            _DIVERSITY: "0.340 0.583 0.297 0.588 0.366 0.626",
            _UNDERSTANDABILITY: "0.376 0.601 0.340 0.608 0.350 0.613",
            _ORDER: "0.314 0.565 0.343 0.604 0.323 0.584",
            t7.RANDOM: "0.307 0.561 0.356 0.614 0.268 0.558",
        },
    )
)
"""Section 5.3."""

SECTION_5_2: Final[Printed] = {
    ("Mean option quality", "r, pane quality"): "0.708",
    ("Options by quality", "r, clicks"): "0.032",
    ("Options by quality", "P@1 clicks"): "0.338",
    ("Options by quality", "MRR clicks"): "0.597",
}
"""In the text: "a strong correlation (r=0.708)", "no correlation (p=0.032)", "P@1 and MRR were calculated"."""
