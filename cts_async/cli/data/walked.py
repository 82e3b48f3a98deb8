"""How far a long command is: a bar on a terminal, else a line every few seconds; on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

EVERY_S: Final = 5.0


def walked(items: Iterable[T], total: int, what: str, *, quiet: bool = False) -> Iterator[T]:
    """Yield the items and show how many of `total` there were; `what` names them: "facets"."""
    from rich.console import Console

    console = Console(stderr=True, quiet=quiet)
    if console.is_terminal and not quiet:
        from rich.progress import track

        yield from track(items, what, total=total, console=console, transient=True)
        return
    last = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            console.print(f"{done:,}/{total:,} {what}", markup=False, highlight=False, soft_wrap=True)
        yield item
