"""The engine's events and status snapshots, for progress displays, status files and metrics.

The engine never prints: it emits frozen events to its subscribers, which must be quick and must not raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

from cts_async.errors import StepError
from cts_async.records import message, value


@value
class Usage:
    """Tokens charged for one or more calls, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of the input that were read from the provider's cache."""
    cache_write_tokens: int = 0
    """Those of the input that were written to it, where that has a price of its own."""
    tiers: tuple[tuple[str, Usage], ...] = ()
    """What of all this was charged in a tier other than the ordinary one, by its name, which may come twice."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.tiers + other.tiers,
        )

    def in_tier(self, tier: str) -> Usage:
        """The same tokens, all charged in a tier."""
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.cached_tokens,
            self.cache_write_tokens,
            ((tier, self),),
        )

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one or more attempts: calls, tokens (input and output together), US dollars."""

    calls: int = 0
    tokens: float = 0.0
    usd: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


@dataclass(frozen=True, slots=True)
class JobsFound:
    """The number of a group's jobs that ended in earlier sessions and are not run again."""

    group: str
    jobs: int
    failed: int = 0
    """Those that failed, and are not tried again."""


@dataclass(frozen=True, slots=True)
class GroupBegan:
    """The first job of a group begins."""

    group: str


@value
class JobEnded:
    """`failure` is None when the job ended with a result."""

    group: str
    job_id: str
    failure: StepError | None


@value
class StepEnded:
    """A step has a result; `replayed` if the journal had it, or another run's, and nothing was executed."""

    group: str
    job_id: str
    step: str
    lane: str
    replayed: bool
    latency_s: float
    usage: Usage
    usd: float = 0.0
    """The price of the usage, as far as prices are known."""
    reused: bool = False
    """Whether it was taken from another run."""


@message
class EndedSums:
    """Ends of steps and jobs of one group, as sums: what is counted of them where nobody asks for each."""

    group: str
    jobs: int = 0
    failed: int = 0
    """Those of the jobs that ended without a result."""
    steps: int = 0
    executed: int = 0
    """Those of the steps that were not replayed."""
    lanes: set[str] = field(default_factory=set)
    """Lanes of the steps; the next five count only steps with a lane, since the others asked nobody."""
    calls: int = 0
    replayed: int = 0
    reused: int = 0
    """Steps that were taken from other runs; they are no part of `replayed`."""
    tokens: int = 0
    usd: float = 0.0

    def add_step(self, step: StepEnded) -> None:
        """Add the end of a step."""
        self.steps += 1
        self.executed += not step.replayed
        if not step.lane:
            return
        self.lanes.add(step.lane)
        if not step.replayed:
            self.calls += 1
            self.tokens += step.usage.total
            self.usd += step.usd
        elif step.reused:
            self.reused += 1
        else:
            self.replayed += 1

    def add_job(self, *, failed: bool) -> None:
        """Add the end of a job."""
        self.jobs += 1
        self.failed += failed


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """One attempt failed; `wait_s` is None when the step has now failed for good."""

    group: str
    job_id: str
    step: str
    lane: str
    kind: str
    message: str
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class WorkersInUse:
    """Worker processes begin to share the work."""

    ask: Callable[[], Sequence[WorkerStatus]]
    """Returns the status of each worker there is or was, oldest first; may be called in any thread, emits no events."""
    n_workers: int
    """How many there are to be at once."""
    address: str = ""
    """Where they are found; "" for this machine."""


@dataclass(frozen=True, slots=True)
class LaneInUse:
    """A lane's first request is sent. `ask` returns the lane's status; it may be called in any thread."""

    lane: str
    ask: Callable[[], LaneStatus]


@dataclass(frozen=True, slots=True)
class BatchesInUse:
    """A model is asked by batches from now on. `ask` returns the status of each; it may be called in any thread."""

    model: str
    ask: Callable[[], Sequence[BatchStatus]]


@dataclass(frozen=True, slots=True)
class LanePaused:
    """A provider refuses requests for its limits: none is sent for `seconds`."""

    lane: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LimitLearned:
    """A provider's responses name another limit than the known one: `per_min` requests or tokens."""

    lane: str
    unit: str
    per_min: float


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """A provider's circuit opened (an outage) or closed (it is back)."""

    lane: str
    open: bool
    reason: str


@dataclass(frozen=True, slots=True)
class GroupHeldUp:
    """A group's jobs are not run any more in this process: a provider it needs is gone (`lane`, "" if unknown)."""

    group: str
    lane: str


@dataclass(frozen=True, slots=True)
class BudgetUsed:
    """The amount spent in all sessions together, and the budget's limits (None: unlimited)."""

    spent: Cost
    max_calls: int | None
    max_tokens: float | None
    max_usd: float | None


@dataclass(frozen=True, slots=True)
class Stopping:
    """The run will end early; what is in flight is still finished."""

    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user."""

    text: str


Event = (
    JobsFound
    | GroupBegan
    | JobEnded
    | StepEnded
    | AttemptFailed
    | WorkersInUse
    | LaneInUse
    | BatchesInUse
    | LanePaused
    | LimitLearned
    | CircuitChanged
    | GroupHeldUp
    | BudgetUsed
    | Stopping
    | Notice
)
Subscriber = Callable[[Event], None]


class BatchSubscriber(Protocol):
    """A subscriber that takes ends of steps and jobs together where many come at once, as from other processes."""

    def __call__(self, event: Event) -> None: ...

    def take_ends(self, ends: Sequence[StepEnded | JobEnded]) -> None:
        """As if it were called with each of them."""

    def take_sums(self, sums: EndedSums) -> None:
        """As if it were called with each of the ends."""


class Events:
    """Passes every event to every subscriber, in their order."""

    __slots__ = ("_held_back", "_subscribers")

    def __init__(self, *subscribers: Subscriber | BatchSubscriber) -> None:
        self._subscribers = subscribers
        self._held_back: list[StepEnded | JobEnded] = []

    def __bool__(self) -> bool:
        """True if there are subscribers: without any, events need not be made."""
        return bool(self._subscribers)

    @property
    def takes_sums(self) -> bool:
        """True if no subscriber asks for each end of a step or job: then `emit_sums` may tell of them."""
        return all(hasattr(subscriber, "take_sums") for subscriber in self._subscribers)

    def emit(self, event: Event) -> None:
        if self._held_back:
            self.flush()
        for subscriber in self._subscribers:
            subscriber(event)

    def emit_soon(self, end: StepEnded | JobEnded) -> None:
        """Emit the end of a step or job, in order, together with all others of this turn of the event loop."""
        if not self._held_back:
            asyncio.get_running_loop().call_soon(self.flush)
        self._held_back.append(end)

    def flush(self) -> None:
        """Emit what `emit_soon` holds back."""
        held_back, self._held_back = self._held_back, []
        if held_back:
            self.emit_ends(held_back)

    def emit_ends(self, ends: Sequence[StepEnded | JobEnded]) -> None:
        """Emit ends of steps and jobs, in order for each subscriber."""
        if self._held_back:
            self.flush()
        for subscriber in self._subscribers:
            take_ends = getattr(subscriber, "take_ends", None)
            if take_ends is not None:
                take_ends(ends)
                continue
            for event in ends:
                subscriber(event)

    def emit_sums(self, sums: EndedSums) -> None:
        """Emit ends of steps and jobs as sums, if all subscribers take those (`takes_sums`)."""
        if self._held_back:
            self.flush()
        for subscriber in self._subscribers:
            cast(BatchSubscriber, subscriber).take_sums(sums)


WorkerState = Literal["starting", "working", "idle", "lost", "ended"]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A snapshot of one of the processes that share the work. `ended` and `calls` only grow, so two give the rate."""

    name: str
    """Unique among a run's workers."""
    host: str
    """"" while it is not known."""
    pid: int
    state: WorkerState
    in_hand: int = 0
    """Tasks that it has and that have not ended."""
    ended: int = 0
    """Tasks that it has finished."""
    calls: int = 0
    """Calls that it has made; steps from the journal are none."""
    heard_s: float = 0.0
    """Seconds since its last message."""
    note: str = ""
    """Why it is lost; "" for nothing."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A snapshot of one batch of requests; the numbers of done and failed ones are as its provider counts them."""

    model: str
    id: str
    """The provider's id; "" while it is not known."""
    state: str
    """The provider's word, or "filling", "creating", "looked for"."""
    n_requests: int
    n_done: int
    n_failed: int
    since: float
    """When it was handed in, in seconds since 1970."""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """A snapshot of one provider account. `sent`, `tokens` and `answers_429` only grow, so two give the rate."""

    name: str
    in_flight: int
    waiting: int
    """Callers that wait for permission to send, without those that sleep before a retry."""
    places: int
    """The number of requests that may be in flight at present."""
    sent: int
    """Requests since the lane was made."""
    tokens: float
    """Tokens charged for replies, as far as they say it."""
    requests_per_min: float | None
    tokens_per_min: float | None
    """What the gates let through at present, as learned from responses; None where no limit is known."""
    answers_429: int
    paused_s: float
    """Seconds until the end of a pause after rate limits; 0 without one."""
    probe_s: float | None
    """Seconds until the next probe in an outage; None without one."""
    reason: str
    """The failure that began the outage, or the reason why nobody is admitted any more; "" if all is well."""
    gone: bool
    """True if nobody is admitted any more, since the provider is gone."""
