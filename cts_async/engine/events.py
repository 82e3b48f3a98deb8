"""What the engine tells about itself while it works: frozen events for whoever subscribes.

The engine never prints. Progress, status files and metrics are subscribers; a subscriber must be
quick and must not raise.

How things stand at one provider account, for whoever looks on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cts_async.engine.worker_status import WorkerStatus
from cts_async.errors import StepError
from cts_async.values import value


@value
class Usage:
    """Tokens that one or more calls were charged, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Cost:
    """What a budget counts of one or more attempts: calls, tokens (in and out together), dollars."""

    calls: int = 0
    tokens: float = 0.0
    usd: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


@dataclass(frozen=True, slots=True)
class JobsFound:
    """So many jobs of a group ended in earlier sessions: they are not run again."""

    group: str
    jobs: int
    failed: int = 0
    """Those of them that failed, and are not tried again."""


@dataclass(frozen=True, slots=True)
class GroupBegan:
    """The first job of a group begins."""

    group: str


@value
class JobEnded:
    """`failure` is None when the job ended with a result."""

    group: str
    job_id: str
    result: object
    failure: StepError | None


@value
class StepEnded:
    """A step has a result; `replayed` says that the journal had it and nothing was executed."""

    group: str
    job_id: str
    step: str
    lane: str
    replayed: bool
    latency_s: float
    usage: Usage
    usd: float = 0.0
    """What the usage costs, as far as prices are known."""


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
class StepsCounted:
    """Many steps at once, for who does not see each: their results and failures stand for as many events.

    `lane` is "" for steps that are no calls. What is counted here is not told as `StepEnded` and `AttemptFailed` too.
    """

    group: str
    lane: str
    calls: int = 0
    """Steps that were executed and have a result."""
    replayed: int = 0
    retries: int = 0
    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class JobsCounted:
    """Many jobs that ended, at once, for who does not see each: they are not told as `JobEnded` too."""

    group: str
    jobs: int
    failed: int = 0
    """Those of them that failed."""
    executed: int = 0
    """Steps of theirs that were executed."""
    steps: int = 0
    """All steps of theirs, remembered ones among them."""


@dataclass(frozen=True, slots=True)
class WorkersInUse:
    """Other processes begin to share the work."""

    ask: Callable[[], Sequence[WorkerStatus]]
    """Says how things stand with each there is or was, oldest first; in any thread, and without emitting events."""
    wanted: int
    """How many there are to be at once."""
    address: str = ""
    """Where they are found; "" for this machine."""


@dataclass(frozen=True, slots=True)
class LaneInUse:
    """Its first request is sent. `ask` says how things stand there, in any thread, and costs calls nothing."""

    lane: str
    ask: Callable[[], LaneStatus]


@dataclass(frozen=True, slots=True)
class LanePaused:
    """A provider asked for less: nobody sends to it before `seconds` have passed."""

    lane: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LimitLearned:
    """A provider's own answers named a limit other than the one known: `per_min` requests or tokens."""

    lane: str
    what: str
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
    """What is spent by now, all sessions together, of the lines that were drawn (None: no line)."""

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
    """Something found that a person should know."""

    text: str


Event = (
    JobsFound
    | GroupBegan
    | JobEnded
    | StepEnded
    | AttemptFailed
    | StepsCounted
    | JobsCounted
    | WorkersInUse
    | LaneInUse
    | LanePaused
    | LimitLearned
    | CircuitChanged
    | GroupHeldUp
    | BudgetUsed
    | Stopping
    | Notice
)
Subscriber = Callable[[Event], None]


class Events:
    """Hands every event to every subscriber, in order of subscription."""

    __slots__ = ("_subscribers",)

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = list(subscribers)

    def __bool__(self) -> bool:
        """Whether anybody listens: what nobody hears need not be made."""
        return bool(self._subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Numbers of one moment. `sent`, `tokens` and `answers_429` only ever grow: who asks twice knows the pace."""

    name: str
    in_flight: int
    waiting: int
    """Callers that have asked for leave to send and not got it; those that rest before a retry are none."""
    places: int
    """How many may be in flight just now."""
    sent: int
    """Requests since the lane was made."""
    tokens: float
    """Tokens that answers were charged, as far as they say it."""
    requests_per_min: float | None
    tokens_per_min: float | None
    """What the gates let through just now, after what answers taught; None where no limit is known."""
    answers_429: int
    paused_s: float
    """Seconds until anybody sends again, after the provider asked for less; 0 where nobody has to wait."""
    probe_s: float | None
    """Seconds until the next look whether an outage is over; None where there is none."""
    reason: str
    """What the outage began with, or why nobody is admitted any more; "" where all is well."""
    gone: bool
    """Nobody is admitted any more, since the provider is gone."""


def merged(statuses: Sequence[LaneStatus]) -> LaneStatus:
    """One account in several processes, as one lane. At least one status, all of the same name.

    Counts are summed. Of the rest the worst counts: the lowest limit that any of them knows (each knows the
    account's, not a share of it), the longest pause, and what is wrong in any of them, a provider that is gone before
    an outage. Of several outages the next look is the earliest.
    """
    is_gone = [one for one in statuses if one.gone]
    is_out = [one for one in statuses if one.probe_s is not None]
    worst = next(iter([*is_gone, *is_out]), None)
    return LaneStatus(
        name=statuses[0].name,
        in_flight=sum(one.in_flight for one in statuses),
        waiting=sum(one.waiting for one in statuses),
        places=sum(one.places for one in statuses),
        sent=sum(one.sent for one in statuses),
        tokens=sum(one.tokens for one in statuses),
        requests_per_min=_lowest(one.requests_per_min for one in statuses),
        tokens_per_min=_lowest(one.tokens_per_min for one in statuses),
        answers_429=sum(one.answers_429 for one in statuses),
        paused_s=max(one.paused_s for one in statuses),
        probe_s=None if is_gone else _lowest(one.probe_s for one in is_out),
        reason=worst.reason if worst else "",
        gone=bool(is_gone),
    )


def at_rest(status: LaneStatus) -> LaneStatus:
    """What is left of a lane whose process is no more: what it sent, and what came of that."""
    return replace(
        status,
        in_flight=0,
        waiting=0,
        places=0,
        requests_per_min=None,
        tokens_per_min=None,
        paused_s=0.0,
        probe_s=None,
        reason="",
        gone=False,
    )


def _lowest(numbers: Iterable[float | None]) -> float | None:
    return min((number for number in numbers if number is not None), default=None)
