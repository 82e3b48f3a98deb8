"""What stands in `live.json`: how a command is doing, as `doing` tells it and whoever looks on reads it."""

from __future__ import annotations

from typing import TypedDict


class Lane(TypedDict):
    """A provider's account just now."""

    name: str
    in_flight: int
    waiting: int
    places: int | None
    """How many may be in flight."""
    calls_per_min: float
    """Sent in the last minute."""
    calls_allowed: float | None
    tokens_per_min: float
    """Charged in the last minute."""
    tokens_allowed: float | None
    answers_429: int
    paused_s: float
    """How long nobody sends, after a 429; 0 else."""
    open_s: float | None
    """How long until the next probe while its circuit is open; None while it is closed."""
    reason: str
    """What the outage began with; where no circuit is open, why the provider is gone for good; "" else."""


class LiveWorker(TypedDict):
    """One of the processes that share the work, on this machine or another, just now."""

    name: str
    host: str
    """"" as long as nobody knows."""
    pid: int
    state: str
    """starting, working, idle, lost or ended."""
    in_hand: int
    """Pieces of work, most of them instances, that it has and that have not ended."""
    done: int
    """Pieces that it has finished."""
    calls: int
    calls_per_min: float
    """In the last minute."""
    heard_s: float
    """Seconds since its last word."""
    note: str
    """Why it is lost, or what a person should know of it besides; "" for nothing."""


class LiveCluster(TypedDict, total=False):
    """What stands there only where work is shared with other processes; all of the command's."""

    workers: list[LiveWorker]
    workers_wanted: int
    """How many there are to be at once."""
    cluster: str
    """Where they are found; "" for this machine."""


class _Doing(TypedDict):
    """How far work is, of one system or of all that goes into a directory."""

    n_expected: int
    n_done: int
    """Instances that ended, failures among them."""
    n_failed: int
    eta_s: float | None
    """Seconds that it will take yet at this process's own pace; None until that can be told."""
    mean: float | None
    """Of the judge that gives the score."""
    mean_low: float | None
    mean_high: float | None
    """95 % interval of the mean: Student's t over the instances."""
    n_scored: int
    calls: int
    replayed: int
    retries: int
    tokens: int
    note: str
    """Why it does not go on, or why it ends early; "" for nothing."""


class LivePart(_Doing):
    """What one command does for one system, or with one judge: a bar on the terminal."""

    name: str
    smoke_test: bool


class Live(_Doing, LiveCluster):
    """What the process that writes this run says about itself, some seconds old at most.

    Counts are of this process, but for instances (all there are in the run) and what is spent of a budget.
    """

    pid: int
    time: float
    """Seconds since 1970."""
    started: float
    spent_usd: float
    """Where there is a budget, of all sessions of the command; else by this process, as far as prices are known."""
    max_usd: float | None
    max_calls: int | None
    max_tokens: float | None
    lanes: list[Lane]
    """All of the process's."""


class LiveFile(Live):
    """All of `live.json`: with what a terminal shows besides."""

    spent_calls: int
    spent_tokens: float
    """What a budget counts, of all sessions of the command; 0 without one."""
    parts: list[LivePart]
    """What of the process's work goes into this directory; for several judges one for each."""
