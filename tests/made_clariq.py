"""A ClariQ of one's own: two topics, three facets, in the release's format."""

from __future__ import annotations

from pathlib import Path

HEADER = "topic_id\tinitial_request\ttopic_desc\tclarification_need\tfacet_id\tfacet_desc\tquestion_id\tquestion\tanswer"
_NIGHT = "7\tferries\tAll about \\'ferries\\'.\t4\tF01\tWhen do night ferries leave?\t"
_COST = "7\tferries\tAll about \\'ferries\\'.\t4\tF02\tWhat does a ferry cost for a car?\t"
ROWS = (
    _NIGHT + "Q00010\twhich time of day\tat night",
    _NIGHT + "Q00011\tare you travelling by car\tno",
    _NIGHT + "Q00011\tare you travelling by car\ti dont know",
    _NIGHT + "Q00001\t\t",
    _COST + "Q00010\twhich time of day\tany",
    _COST + "Q00011\tare you travelling by car\tyes",
    '9\tWho was Ada Lovelace?\t\t1\tF03\t"What did ""Ada"" write?"\tQ00012\tdo you want her letters\tno her notes',
)
REWORDED = (*ROWS[:4], *(row.replace("7\tferries", "7\tabout ferries") for row in ROWS[4:6]), ROWS[6])
"""A topic whose second facet has another request text and the same need, as topic 260 of the release."""
BANK = "question_id\tquestion\nQ00001\t\nQ00010\twhich time of day\nQ00011\tare you travelling by car\n"
BANK += "Q00012\tdo you want her letters\nQ00013\twho was her mother\n"


def clariq_file(path: Path, rows: tuple[str, ...] = ROWS, header: str = HEADER) -> Path:
    """Write rows under a header as `path`, and give it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path
