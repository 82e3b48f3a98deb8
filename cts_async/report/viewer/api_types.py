"""What the viewer's server sends to its page: every JSON object of its interface, by address.

All text in here is anybody's: models', pages', datasets'. The page shows it as text and never as markup. Numbers are
unrounded; None is "there is none". A run is named by its path below the folder of runs, with "/" between ("a/b").

    GET /                                                                  index.html
    GET /static/NAME                                                       the page's other files
    GET /api/runs                                                          Runs
    GET /api/leaderboard?data=SHA                                          Leaderboard
    GET /api/run?run=NAME                                                  RunPage
    GET /api/instances?run=NAME&judge=&sort=&min=&max=&unknown=&failed=&text=&after=&limit=    InstanceList
    GET /api/instance?run=NAME&id=ID                                       InstancePage
    GET /api/trace?run=NAME&id=ID&after=N                                  TracePage
    GET /api/steps?run=NAME&id=ID&after=N                                  StepList
    GET /api/step?run=NAME&at=OFFSET                                       the journal's line, as it stands there
    GET /api/text?run=NAME&at=OFFSET&part=PART                             one long text, whole, as text/plain;
                                                                           &download=1: as a file
    GET /api/download?run=NAME&id=ID                                       the instance's journal lines, as a file
    GET /api/events?run=NAME                                               server-sent events: `changed` (RunRow)

Of the instances asked for: `judge` is whose scores count (the scoring one's without it); `sort` is "" (as in the file),
"score", "-score" (highest first) or "-unknown"; `min` and `max` include themselves; `unknown` is "none", "some" (at
least one) or "all"; `failed` is "1" (only those) or "0" (all others); `limit` is 200 at most. A page found by `text` may
have no rows and a `next` all the same: the search goes on there.

Without `run` events are those of all runs; `gone` says {"name": NAME} of a run that is there no longer.

What is wrong is {"error": "one line"} with 400, 403, 404, 405, 409 (the file is another one by now) or 503 (too much at
once).
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from cts_async.report.live import Live

Kind = Literal["run", "talk", "judged"]
"""A run of the benchmark; conversations without an agent (`cts converse`); somebody's answers that were judged."""


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
    """Runs with the same one are over the same data, and can be set side by side."""
    k: int | None
    scheme: str | None
    mode: str | None
    started: str | None
    ended: str | None
    running: bool
    smoke_test: bool
    """Played by the embedded model: its scores show that everything works, and nothing else."""
    n_expected: int
    n_done: int
    """Instances that have ended, the failed ones among them; so it is in Live, too."""
    n_failed: int
    scores: list[Scored]
    """The scoring judge first."""
    unknown_rate: float | None
    cost_usd: float | None
    """None while the run goes on: what `live` says is spent is spent by all runs of its command."""
    wall_s: float | None
    """Of all sessions, the one that goes on included."""
    live: Live | None
    ready: float
    """How much of its results is counted, 0 to 1; below 1 `n_done`, `n_failed` and `scores` are those of what is."""


class Runs(TypedDict):
    folder: str
    version: str
    runs: list[RunRow]
    damaged: list[str]
    """Folders that hold no readable run, each with the reason."""


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
    """To the baseline, over the instances that both have."""
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
    """Why there is none; "" where there is one."""
    computing: bool
    """It is being worked out: ask again in a second. `boards` are those of before, if there were any."""


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
    """Of the answers asked for, those that are `unknown`."""
    failed: str
    """The failure's kind; "" for none."""


class InstanceList(TypedDict):
    rows: list[InstanceRow]
    next: str | None
    """`after` of the following page; None at the end."""
    total: int | None
    """Instances that fit the filter; None while only a search for text would tell."""
    n: int
    """Instances in the run that have a line."""
    ready: float
    """How much of the files is indexed, 0 to 1; below 1 the list holds what is known by now."""


class Segment(TypedDict):
    text: str
    added: bool
    """Not in the blurred query."""


class Turn(TypedDict):
    """A question with its answer; in a conversation by turns one turn of it."""

    n: int
    offered: list[str]
    """The questions put, or in mode "select" the queries shown."""
    answers: list[str]
    chosen: int | None
    types: list[str]
    reasoning: str
    query: str


class NuggetRow(TypedDict):
    id: str
    weight: float
    text: str | None
    """None where the gold is not where the manifest says."""
    sources: list[str]
    """Addresses where the gold has them, else its names for its sources."""
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
    """Ids of its neighbours in the file."""
    beside: list[str]
    """Other runs over the same data, in which this instance may stand too."""
    trace_turns: int | None
    steps: int | None
    """None while the journal is not indexed yet."""


class Source(TypedDict):
    url: str
    title: str


class TraceTurn(TypedDict):
    """One event of the agent's search (`records.Turn`); `page` is the text of a page that was fetched for a visit."""

    n: int
    kind: str
    request: str
    text: str
    """At most 4,000 characters of it."""
    length: int
    """UTF-16 units in all, as a browser counts: it is cut if it is longer than `text`."""
    at: int | None
    part: str
    """Where the whole text is to be had (/api/text), if it is cut."""
    failed: str
    sources: list[Source]
    """What a search found, or the page of a visit."""


class TracePage(TypedDict):
    """`total` is None while the journal is not indexed yet: `turns` are then those known by now: ask again."""

    turns: list[TraceTurn]
    next: int | None
    total: int | None


class StepRow(TypedDict):
    n: int
    at: int
    """Where its line begins in steps.jsonl."""
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
    """`total` is None while the journal is not indexed yet, as in TracePage."""

    steps: list[StepRow]
    next: int | None
    total: int | None
