"""What the server does not do, in one line for a person."""

from __future__ import annotations


class Refused(Exception):
    """An HTTP status and what is wrong; never a path, never anybody's text but the asker's own."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status, self.problem = status, problem


NO_RUN = "no such run here"
NO_INSTANCE = "no such instance in this run"
CHANGED = "the file is another one by now: open the run again"
