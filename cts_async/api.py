"""The Python API: `run`, `judge`, `compare` and `load`, from a script or a notebook.

    import cts_async

    runs = cts_async.run("gpt", k=2, limit=20)
    print(runs)                          # a line for each system
    frame = runs.to_pandas("instances")

All of them are ordinary functions, also where an event loop is running, as in a notebook.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, get_origin, get_type_hints

from cts_async.api_messages import api_function, in_parameters
from cts_async.config import (
    BatchFallback,
    BudgetConfig,
    Consent,
    Join,
    JudgeConfig,
    RunConfig,
    suggestion,
    user_config_file,
)
from cts_async.errors import RunStopped, UsageError
from cts_async.llm.parsing import questions_in as questions_in
from cts_async.records import (
    DEFAULT_TOOLS,
    AgentMode,
    AgentPrompt,
    AskTime,
    EmptyAnswers,
    JudgeForm,
    Mode,
    ReplyForm,
    Scheme,
    Stage,
)
from cts_async.runs.selection import JUDGE_OLDER, SHOW_OLDER_IN_PYTHON, find_runs
from cts_async.tables.rows import Tables as Tables
from cts_async.tables.rows import tables_of

T = TypeVar("T")
MOST_QUESTIONS: Final = 3
"""The largest `k`, as of -k."""
Player: TypeAlias = str | Callable[..., Any]
"""A name as on the command line, or a function (see `role`)."""
PathText: TypeAlias = str | Path
Budget: TypeAlias = BudgetConfig | Mapping[str, float]
"""Limits of a call, all its repetitions together: max_usd, max_tokens, max_calls; deadline in seconds since 1970."""


@api_function
def load(*runs: PathText, all_versions: bool = False) -> Tables:
    """Read runs as rows: run directories, folders of them, or patterns; without any, the folder `runs`.

    Of the runs in a folder the newest version of each, unless `all_versions`; a run that is named by its path is read
    in any case. The rows are those that `cts export --layout csv` writes; `Tables` and docs/usage.md say what they
    hold. Raises UsageError.
    """
    return _load(runs, all_versions=all_versions)


def _load(runs: Sequence[PathText], *, all_versions: bool = False) -> Tables:
    remarks: list[str] = []
    found_runs = find_runs(
        _words(runs), remarks.append, all_versions=all_versions, remedy=SHOW_OLDER_IN_PYTHON
    )
    tables = tables_of(found_runs)
    remarks += tables.remarks
    return replace(tables, remarks=tuple(map(in_parameters, remarks)))


def _words(runs: Sequence[PathText]) -> list[str]:
    """Return runs as commands name them: as texts, and without any the usual folder."""
    if not runs:
        return ["runs"]
    return [str(run) for run in runs]


@api_function
def run(
    model: Player | Sequence[Player] | None = None,
    k: int | Sequence[int] = 1,
    *,
    # Data and systems
    data: str = "sample",
    limit: int | None = None,
    fields: Mapping[str, str] | None = None,
    gold: PathText | None = None,
    skip_bad_gold: bool = False,
    references: str | Sequence[str] = ("orig",),
    schemes: Scheme | Sequence[Scheme] = ("cts",),
    modes: Mode | Sequence[Mode] = ("at-once",),
    ask: AskTime | Sequence[AskTime] = ("before",),
    max_asks: int = 3,
    min_asks: int = 0,
    replies: ReplyForm = "open",
    inject_at: float | Sequence[float] = (),
    given_questions: PathText | Sequence[PathText] = (),
    given_rewrites: PathText | Sequence[PathText] = (),
    stop_after: Stage | None = None,
    name: str | None = None,
    runs_dir: PathText = "runs",
    # Players
    every_role: Player | None = None,
    support: Player | None = None,
    answerer: Player | None = None,
    rewriter: Player | None = None,
    answers: str | None = None,
    agent: Player | None = None,
    judges: Player | Sequence[Player] = (),
    judge_form: JudgeForm | None = None,
    no_judge: bool = False,
    empty_answers: EmptyAnswers = "fail",
    as_published: bool = False,
    extractor: str | None = None,
    prompts: str | Sequence[str] = (),
    config_file: PathText | None = None,
    config_consent: Consent | None = None,
    user_config: PathText | bool = True,
    # The search
    agent_prompt: AgentPrompt | None = None,
    date: str | None = None,
    corpus: PathText | None = None,
    search: str | None = None,
    visit: str | None = None,
    visit_model: str | None = None,
    allow_addresses: str | Sequence[str] = (),
    replay: PathText | Sequence[PathText] = (),
    max_turns: int | None = None,
    agent_mode: AgentMode | None = None,
    agent_settings: str | Sequence[str] = (),
    tools: str | Sequence[str] = DEFAULT_TOOLS,
    # Versions and reuse
    new: bool = False,
    reuse: PathText | Sequence[PathText] = (),
    no_reuse: bool = False,
    share_sampled: bool = False,
    # The execution
    budget: Budget | None = None,
    in_flight: int | None = None,
    max_outage_s: float = 900.0,
    cheap: bool = False,
    batch: bool = False,
    submit: bool = False,
    batch_fallback: BatchFallback = "batch",
    retry_failed: bool = False,
    sync: bool = False,
    seed: int = 0,
    quiet: bool = False,
    verbose: bool = False,
    log_file: PathText | None = None,
    command: str = "cts run",
) -> Tables:
    """Run or resume systems, as `cts run` does, and load them.

    A system for each Clarifier `model` and number of questions `k`; without a `model`, `every_role` is the Clarifier,
    else the embedded model. Wherever a parameter names a model, a function will do, too (see `role`); a path may be a
    text, and one path or text stands for several. Raises UsageError, which names parameters, and RunStopped where the
    run ended early: then nothing is lost, and the same call resumes it.

    Data and systems:
        data: "sample", "hard518:DIR", "qulac:FILE", "clariq:PATH", or a .csv or .jsonl file
        limit: only the first so many instances
        fields: names of the file's columns that differ from ours: {"fused_query": "OQ"}
        gold: file of nuggets (JSONL)
        skip_bad_gold: leave out instances whose gold is missing, empty or invalid
        references: "orig" searches the underspecified query as it is, "gold" the hidden intent
        schemes: how a Clarifier is prompted: "cts", or AT-CoT's "standard", "at-standard", "cot" and "at-cot"
        modes: how it talks with the user: "at-once", "respond" or "select"
        ask: when the user is asked: "never", "before" the search, "during" it by the agent, or "both"
        max_asks, min_asks: questions that the agent may ask during a search, and has to ask before it answers
        replies: "open" (a short phrase) or "yes-no"
        inject_at: shares of the agent's turns after which it is given the answers that were asked for before
        given_questions, given_rewrites: files or runs whose questions are asked, or whose queries are searched
        stop_after: "questions", "answers" or "rewrite": no search, and no judges
        name: name of the run, where DATA-MODEL-kK is not wanted
        runs_dir: folder of the runs

    Players:
        every_role: plays every role that is not named
        support, answerer, rewriter: User Answerer and Rewriter, both or one by one
        answers: data whose recorded human answers replace the User Answerer's: "qulac" or "clariq"
        agent: the deep-search agent
        judges: the first one gives the score
        judge_form: "nuggets" (a label for each) or "match" (is it the right answer, yes or no); None: as the data says
        no_judge: search only, no scores
        empty_answers: "fail", or "zero" to score an empty answer 0
        as_published: play the paper's protocol to the letter
        extractor: model that builds gold
        prompts: folders of prompts, as "DIR" for all roles or "NAME=DIR" for MODEL@NAME
        config_file: a cts.toml, "./cts.toml" by default; naming it is consent to where it sends keys
        config_consent: "ask" on a terminal, or "remember" until that file changes
        user_config: False leaves out the user's own cts.toml, a path names another one

    The search:
        agent_prompt: "native", "tongyi", "en", "zh" or "query" (in the query's language)
        date: the date in the agent's prompt, YYYY-MM-DD
        corpus, search, visit: documents to search, or a search engine and a page reader
        visit_model: model that reads pages for the agent, or "lexical" for none
        allow_addresses: private hosts or networks that pages may come from
        replay: runs whose searches and visits are repeated, without the network
        max_turns: model calls of a search
        agent_mode: "strict", "as-published" as WebDancer's demo, which demands no answer, or "tongyi"
        agent_settings: switches of that mode by themselves: "free_end=false"
        tools: tools that the agent may call, or "none"

    Versions and reuse:
        new: make a new version of the run, and reuse nothing
        reuse: further folders whose runs' steps are reused, beside `runs_dir`
        no_reuse: reuse no step of another run
        share_sampled: reuse sampled steps of other systems, too

    The execution:
        budget: {"max_usd": 5}, also "max_tokens", "max_calls" and "deadline" (seconds since 1970)
        in_flight: most instances that are worked on at once
        max_outage_s: how long a provider may be down
        batch: ask judges by batches, at about half the price
        submit: as `batch`, but raise RunStopped once they are handed in; the same call collects them
        batch_fallback: "live", "batch" or "none": where a request goes that a batch has no reply to
        cheap: ask models in their cheaper, slower tier (flex, batch-chat), if they have one
        retry_failed: try again what failed permanently
        sync: force every step to the disk
        seed: random seed
        quiet, verbose: no progress on standard error, or a line for each event
        log_file: file to which these lines are appended
        command: what run.json records as the command
    """
    # All parameters by their names, before there is any other variable.
    options = dict(locals())
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.plan import make_plan
    from cts_async.protocol.run import run_plan
    from cts_async.runs.files import RESULTS
    from cts_async.watch.progress import RunGroup

    if model is None:
        model = every_role or "local"
    names = _Names()
    del options["model"]
    options["models"] = names.of_players("model", model)
    options["ks"] = _questions(options.pop("k"))
    del options["quiet"]
    config = _config(RunConfig, names, options)
    plan = make_plan(config, load_catalogue(*config.config_files), os.environ)
    groups = [
        RunGroup(directory.name, plan.n_instances, (directory,), directory / RESULTS, plan.embedded)
        for directory in plan.systems.values()
    ]
    used: list[Any] = list(plan.specs.values())
    used += plan.search.opened
    _drive(run_plan, plan, groups, used, quiet=quiet)
    return _load(list(plan.systems.values()))


@api_function
def judge(
    runs: PathText | Sequence[PathText] = (),
    judge: Player | Sequence[Player] = (),
    *,
    # Candidates, in the place of runs
    candidates: str | Sequence[str] = (),
    gold: PathText | None = None,
    out: PathText | None = None,
    join: Join = "id-and-query",
    fields: Mapping[str, str] | None = None,
    skip_bad_gold: bool = False,
    lexical: bool = False,
    # The judge
    limit: int | None = None,
    nuggets_per_call: int | None = None,
    judge_form: JudgeForm | None = None,
    empty_answers: EmptyAnswers = "fail",
    prompts: str | Sequence[str] = (),
    config_file: PathText | None = None,
    config_consent: Consent | None = None,
    user_config: PathText | bool = True,
    # Versions and reuse
    new: bool = False,
    reuse: PathText | Sequence[PathText] = (),
    no_reuse: bool = False,
    share_sampled: bool = False,
    # The execution
    budget: Budget | None = None,
    in_flight: int | None = None,
    max_outage_s: float = 900.0,
    cheap: bool = False,
    batch: bool = False,
    submit: bool = False,
    batch_fallback: BatchFallback = "batch",
    retry_failed: bool = False,
    sync: bool = False,
    seed: int = 0,
    quiet: bool = False,
    verbose: bool = False,
    log_file: PathText | None = None,
    command: str = "cts judge",
) -> Tables:
    """Judge the answers of finished runs again, as `cts judge RUN --judge NAME` does, and load them.

    Answers of other systems are judged as `candidates` against a `gold` file, into the folder `out`. Raises as `run`,
    which says what the parameters mean that are not named here.

    Candidates, in the place of runs:
        candidates: files, patterns, folders or runs with answers to judge (JSONL)
        gold: file of nuggets (JSONL)
        out: folder of the judgments
        join: match candidates with the gold by "id-and-query", or by "id" alone
        fields, skip_bad_gold: as in `run`
        lexical: add the lexical judge

    The judge:
        limit: only the first so many answers of each run or file
        nuggets_per_call: most nuggets in one call
        judge_form: "nuggets" or "match" for candidates; a run's own form is kept
        empty_answers, prompts, config_file, config_consent, user_config: as in `run`

    Versions and reuse, as in `run`:
        new, reuse, no_reuse, share_sampled

    The execution, as in `run`:
        budget, in_flight, max_outage_s, cheap, batch, submit, batch_fallback, retry_failed, sync, seed, quiet,
        verbose, log_file, command
    """
    # All parameters by their names, before there is any other variable.
    options = dict(locals())
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.watch.progress import RunGroup

    if isinstance(runs, str | Path):
        runs = [runs]
    names = _Names()
    notes: list[str] = []
    found_runs = find_runs([str(run) for run in runs], notes.append, remedy=JUDGE_OLDER)
    options["runs"] = tuple(run_path.path for run_path in found_runs)
    del options["judge"], options["quiet"]
    options["judges"] = ()
    if judge:
        options["judges"] = names.of_players("judge", judge)
    config = _config(JudgeConfig, names, options)
    plan = plan_judging(config, load_catalogue(*config.config_files), os.environ)
    directories = tuple(plan.directories())
    groups = [
        RunGroup(plan.group(name), plan.n_answers, directories, None, plan.embedded) for name in plan.judges
    ]
    _drive(run_judging, plan, groups, list(plan.specs.values()), quiet=quiet)
    tables = _load(directories)
    return replace(tables, remarks=(*notes, *tables.remarks))


@api_function
def compare(
    *runs: PathText,
    judges: str | Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    published: bool = False,
    all_versions: bool = False,
) -> Mapping[str, Any]:
    """Compare runs, as `cts compare --json` does: leaderboard, intervals, tests of every pair, agreement of judges.

    Differences are to orig, or to the system `baseline`. Of a folder the newest version of each run is shown, or with
    `all_versions` every one. Where there are runs of several agents, or over different data or gold, "groups" has the
    comparison of each, and the other fields are those of the first one. With `published` there is also ours beside the
    paper's values, under that name. Raises UsageError.
    """
    from cts_async.tables.comparison import compare_runs, comparison_json

    if isinstance(judges, str):
        judges = [judges]
    compared = compare_runs(
        _words(runs),
        judges=judges,
        baseline=baseline,
        seed=seed,
        partial=published,
        all_versions=all_versions,
        remedy=SHOW_OLDER_IN_PYTHON,
    )
    result = comparison_json(compared)
    groups = [result]
    groups += result.get("groups", ())
    for group in groups:
        group["notes"] = list(map(in_parameters, group["notes"]))
    if published:
        from cts_async.tables.published import published_json, published_of

        result["published"] = published_json(published_of(compared))
    return result


# --- Calling


class _Names:
    """Players of one command by the names that they can be chosen by: functions are made known."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def of_player(self, parameter: str, player: Player) -> str:
        """The name of a player, which a parameter was given."""
        from cts_async.protocol.custom.sources import remember_function

        if isinstance(player, str):
            return player
        if not callable(player):
            raise UsageError(f"{parameter}={player!r}: name a model or a role of yours, or give a function")
        name = remember_function(player, self._functions)
        self._functions[name] = player
        return name

    def of_players(self, parameter: str, players: Player | Sequence[Player]) -> tuple[str, ...]:
        """The names of one player or several, which a parameter was given."""
        if isinstance(players, str) or not isinstance(players, Sequence):
            return (self.of_player(parameter, players),)
        if not players:
            raise UsageError(f"{parameter}: name at least one model, or give a function")
        return tuple(self.of_player(parameter, player) for player in players)


_PLAYERS: Final = frozenset({"support", "answerer", "rewriter", "agent", "every_role"})
_COUNTS: Final = frozenset({"limit", "in_flight", "max_turns", "nuggets_per_call"})


def _config(kind: type[T], names: _Names, options: dict[str, Any]) -> T:
    """Return the configuration that the parameters of a function make, by field. UsageError names a wrong one."""
    from pydantic import TypeAdapter, ValidationError

    from cts_async.cli.options import config_consent, config_file, read_date

    types = get_type_hints(kind)
    settings: dict[str, Any] = {}
    user_config = options.pop("user_config")
    if user_config is True:
        settings["user_config"] = user_config_file(os.environ)
    elif user_config:
        settings["user_config"] = Path(user_config)
    _check_budget(options["budget"])
    for name, value in options.items():
        if value is None:  # the default, as where the option is left out
            continue
        if name in _PLAYERS:
            value = names.of_player(name, value)
        elif name == "judges" and not value:  # the first judge is that of the paper then
            value = ()
        elif name == "judges":
            value = names.of_players(name, value)
        elif get_origin(types[name]) is tuple and isinstance(value, str | Path | float):
            value = (value,)
        try:
            settings[name] = TypeAdapter(types[name]).validate_python(value)
        except ValidationError as error:
            # pydantic's words end in the class that it wanted, which says nothing to a user.
            problem = error.errors()[0]["msg"].removeprefix("Input ").partition(" for <")[0]
            raise UsageError(f"{name}: {problem}, not {value!r}") from None
        if name in _COUNTS and settings[name] < 1:
            raise UsageError(f"{name}: must be at least 1, not {value!r}")
    read_date(settings.get("date"))
    named_config = settings.get("config_file")
    settings["config_file"] = config_file(named_config)
    settings.setdefault("config_consent", config_consent(named_config, trust=False))
    return kind(**settings)


def _check_budget(budget: Any) -> None:
    """Raise UsageError for a limit that there is not: pydantic would leave it out, and nothing would be limited."""
    if not isinstance(budget, Mapping):
        return
    limits = [field.name for field in fields(BudgetConfig)]
    for name in budget:
        if name not in limits:
            raise UsageError(f"budget: there is no limit {name!r}{suggestion(str(name), limits)}")


def _questions(k: int | Sequence[int]) -> tuple[int, ...]:
    """Numbers of questions, as -k takes them. Raises UsageError."""
    ks: tuple[Any, ...] = (k,)
    if isinstance(k, Sequence) and not isinstance(k, str):
        ks = tuple(k)
    if not ks or not all(isinstance(n, int) and 1 <= n <= MOST_QUESTIONS for n in ks):
        raise UsageError(f"k: must be a number from 1 to {MOST_QUESTIONS}, or a list of them, not {k!r}")
    return ks


def _drive(run: Any, plan: Any, groups: Any, used: Any, *, quiet: bool) -> None:
    """Run a plan to its end; in a thread of its own where this one has a running event loop."""
    from cts_async.cli.drive import drive

    def main() -> RunStopped | None:
        return drive(run, plan, groups, used, quiet=quiet)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        stopped = main()
    else:  # a notebook
        stopped = _in_thread(main)
    if stopped is not None:
        raise stopped


def _in_thread(main: Callable[[], T]) -> T:
    """The result of `main` in another thread. Ctrl-C, which only this one gets, stops it as it stops a command."""
    from cts_async.engine.signals import interrupt

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(main)
        while not running.done():
            try:
                wait([running])
            except KeyboardInterrupt:
                interrupt()
        return running.result()
