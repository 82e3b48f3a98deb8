"""What the viewer's server sends to its page: every JSON object of its interface, by address.

All text is of unknown origin: models', web pages', datasets'. The page shows it as text, never as markup. Numbers are
not rounded; None means that there is none. A run is named by its path below the folder, with "/" between ("a/b").

    GET /                                                                  index.html
    GET /static/NAME                                                       the page's other files
    GET /api/runs                                                          Runs
    GET /api/leaderboard?data=SHA                                          Leaderboard
    GET /api/run?run=NAME                                                  RunPage
    GET /api/instances?run=NAME&judge=&sort=&min=&max=&unknown=&failed=&text=&after=&limit=    InstanceList
    GET /api/instance?run=NAME&id=ID                                       InstancePage
    GET /api/trace?run=NAME&id=ID&after=N                                  TracePage
    GET /api/steps?run=NAME&id=ID&after=N                                  StepList
    GET /api/step?run=NAME&at=OFFSET                                       the journal line at an offset, verbatim
    GET /api/text?run=NAME&at=OFFSET&part=PART                             one long text, whole, as text/plain;
                                                                           &download=1: as a file
    GET /api/download?run=NAME&id=ID                                       the instance's journal lines, as a file
    GET /api/events?run=NAME                                               server-sent events: `changed` (RunRow)

Filters of instances: `judge` is the judge whose scores count (default: the scoring judge); `sort` is "" (file order),
"score", "-score" (highest first) or "-unknown"; `min` and `max` are inclusive; `unknown` is "none", "some" (at least
one) or "all"; `failed` is "1" (failed ones only) or "0" (all others); `limit` is 200 at most. A page found by `text`
may have no rows and still a `next`: the search continues there.

Without `run`, events are those of all runs; `gone` sends {"name": NAME} for a run that was removed.

Errors are {"error": "one line"} with status 400, 403, 404, 405, 409 (the file was replaced) or 503 (overload).
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from cts_async.report.live import Live

Kind = Literal["run", "talk", "judged"]
"""A run of the benchmark; conversations without an agent (`cts converse`); judged candidate answers."""


class Scored(TypedDict):
    """One judge's scores of a run, on 0 to 100."""

    judge: str
    n_scored: int
    mean: float | None
    p50: float | None
    p90: float | None


class RunRow(TypedDict):
    """A run in the list of runs."""

    name: str
    kind: Kind
    system: str
    data: str
    data_sha: str
    """Runs with equal values are over the same data and can be compared."""
    k: int | None
    scheme: str | None
    mode: str | None
    started: str | None
    ended: str | None
    running: bool
    smoke_test: bool
    """Played by the embedded model: its scores only prove that the installation works."""
    n_expected: int
    n_done: int
    """Finished instances, failed ones included; the same in Live."""
    n_failed: int
    scores: list[Scored]
    """The scoring judge first."""
    unknown_rate: float | None
    cost_usd: float | None
    """None while the run is running: `live` reports the cost of all runs of its command."""
    wall_s: float | None
    """Of all sessions, the current one included."""
    live: Live | None
    ready: float
    """Share of its results that is indexed, 0 to 1; `n_done`, `n_failed` and `scores` cover this share."""


class Runs(TypedDict):
    folder: str
    version: str
    runs: list[RunRow]
    damaged: list[str]
    """Folders without a readable run, each with the reason."""


class Standing(TypedDict):
    """A system in the leaderboard (paper, tables 2 and 3)."""

    run: str
    system: str
    smoke_test: bool
    n_scored: int
    n_expected: int
    n_failed: int
    mean: float | None
    p50: float | None
    p90: float | None
    delta: float | None
    """To the baseline, over the instances scored in both."""
    delta_low: float | None
    delta_high: float | None


class LeaderboardOf(TypedDict):
    judge: str
    baseline: str | None
    standings: list[Standing]


class Leaderboard(TypedDict):
    data: str
    data_sha: str
    boards: list[LeaderboardOf]
    problem: str
    """Why there is none; "" if there is one."""
    computing: bool
    """It is being computed: ask again in a second. `boards` are out of date, or empty."""


class RunPage(TypedDict):
    row: RunRow
    manifest: dict[str, Any]
    summary: dict[str, Any] | None
    beside: list[str]
    """Other runs over the same data."""


class InstanceRow(TypedDict):
    id: str
    blurred_query: str
    fused_query: str
    """Both cut to 300 characters."""
    score: float | None
    asked: int
    unknown: int
    """Answers that are `unknown`."""
    failed: str
    """The kind of its failure; "" for none."""


class InstanceList(TypedDict):
    rows: list[InstanceRow]
    next: str | None
    """`after` of the next page; None at the end."""
    total: int | None
    """Instances that pass the filter; None while a search for text has not reached the end."""
    n: int
    """Instances of the run that have a line."""
    ready: float
    """Share of the files that is indexed, 0 to 1; the list covers this share."""


class Segment(TypedDict):
    text: str
    added: bool
    """Not in the blurred query."""


class Turn(TypedDict):
    """A question with its answer; in a conversation, a turn."""

    n: int
    offered: list[str]
    """The questions asked, or in mode "select" the queries offered."""
    answers: list[str]
    chosen: int | None
    types: list[str]
    reasoning: str
    query: str


class NuggetRow(TypedDict):
    id: str
    weight: float
    text: str | None
    """None if the gold cannot be found."""
    sources: list[str]
    """URLs, or the ids of sources without one."""
    coverage: dict[str, str]
    """By judge: full, partial or none."""


class JudgeScore(TypedDict):
    judge: str
    score: float | None
    smoke_test: bool


class Failed(TypedDict):
    step: str
    kind: str
    message: str


class InstancePage(TypedDict):
    run: str
    id: str
    fused_query: str
    blurred_query: str
    mode: str
    scheme: str
    turns: list[Turn]
    rewritten_query: str | None
    rewritten: list[Segment]
    answer: str | None
    answer_from: str | None
    search: dict[str, Any] | None
    scores: list[JudgeScore]
    nuggets: list[NuggetRow]
    error: Failed | None
    previous: str | None
    next: str | None
    """Ids of the neighbours in the file."""
    beside: list[str]
    """Other runs over the same data, which may have this instance."""
    trace_turns: int | None
    steps: int | None
    """None while the journal is being indexed."""


class Source(TypedDict):
    url: str
    title: str


class TraceTurn(TypedDict):
    """An event of the agent's search (`records.Turn`); the kind `page` is the text of a page fetched for a visit."""

    n: int
    kind: str
    request: str
    text: str
    """Its first 4,000 characters."""
    length: int
    """UTF-16 units of the whole text, as JavaScript counts them."""
    at: int | None
    part: str
    """Parameters of /api/text for the whole text."""
    failed: str
    sources: list[Source]
    """The results of a search, or the page of a visit."""


class TracePage(TypedDict):
    """`total` is None while the journal is being indexed, and `turns` may be incomplete."""

    turns: list[TraceTurn]
    next: int | None
    total: int | None


class StepRow(TypedDict):
    n: int
    at: int
    """Offset of its line in steps.jsonl."""
    bytes: int
    step: str
    model: str
    ok: bool
    latency_s: float | None
    input_tokens: int
    output_tokens: int
    attempts: int
    time: float | None
    error: str


class StepList(TypedDict):
    """`total` is None while the journal is being indexed."""

    steps: list[StepRow]
    next: int | None
    total: int | None
