"""What one of several workers does of what one process would do."""

from __future__ import annotations

from typing import Final

LEAST: Final = 4
SPARE: Final = 2
"""Times its even share: demand moves between workers, and what is dealt has to be there already."""


def share_in_flight(asked: int | None, usual: int, workers: int) -> int:
    """How many jobs one of `workers` works on at once: of those `asked` for its part, else of the `usual` more."""
    if asked is not None:
        return max(1, -(-asked // workers))
    return min(usual, max(LEAST, -(-usual * SPARE // workers)))
