"""What each switch of the agent mode changes on the sample world: calls, tokens, answers, scores; no time.

The agent, and the model that reads pages for it, is the embedded one or the GGUF file in CTS_LOCAL_MODEL, at
temperature 0. It searches the hidden intents, as the reference point `gold` does: among the results of the blurred
queries the evidence is not there, and each score would be 0. Once strict, once as published, and once for each switch
that has anything to do here. A request that an earlier row has made already is not made again, so that a row differs
from `strict` by its switch alone. LIMIT=N takes another number of instances than 8; with RUNS=FOLDER the runs stay
there, and an interrupted benchmark goes on.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.shared.process import CTS, spent_by
from benchmarks.shared.result import Result, Table
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.journal import read_records
from cts_async.errors import UsageError
from cts_async.llm.local import model_file
from cts_async.llm.model import FIRST_PER_BYTE
from cts_async.protocol.roles import PAGE_TOKENS
from cts_async.search.agent import TURN_STEP
from cts_async.search.toolbox.visit import READING_STEP
from cts_async.search.tools import SWITCHES
from cts_async.search.turn_format import parse_turn

LIMIT: Final = int(os.environ.get("LIMIT", "8"))
DATE, NEXT_DATE = "2026-11-26", "2026-11-27"
"""The date in the prompts, and Beijing's from 16:00 UTC on."""
SNIPPET_CHARS: Final = 160
CONFIG: Final = f"""\
[models.local]
agent = {{ max_turns = 4, max_input_tokens = 900, results_per_query = 3, snippet_chars = {SNIPPET_CHARS}, \
page_chars = 120, think_chars = 60, answer_chars = 300, repeat_question = true }}
"""
"""Budgets as small as the sample's pages (81 to 411 characters), so that these are cut as pages of the web are."""
VISIT_PROMPT: Final = """\
## system
Copy from a page what it says about a goal. Reply in JSON.

Example:
<page>The tower. Ann Lee designed the tower in 1960. It is 80 metres high. It opens at 9.</page>
<goal>designer</goal>
{"rational": "It names the designer.", "evidence": "Ann Lee designed the tower in 1960.", \
"summary": "The designer is Ann Lee."}
## user
<page>{page}</page>
<goal>{goal}</goal>
"""
"""A model this small copies the words by which the shipped prompt describes the reply; it follows an example."""
COLUMNS: Final = (
    *("switch", "searches that differ", "model calls", "tool calls", "tokens in", "tokens out"),
    *("forced", "unanswered", "mean score"),
)


def bench() -> Result:
    title = f"agent_switches: the sample world, {LIMIT} instances, each switch of the agent mode by itself"
    try:
        model = model_file(os.environ)
    except UsageError as error:
        return Result(title, skipped=str(error))
    folder = os.environ.get("RUNS")
    if folder:
        return _measured(title, Path(folder).absolute(), model.stem)
    with tempfile.TemporaryDirectory() as temporary:
        return _measured(title, Path(temporary), model.stem)


def _measured(title: str, folder: Path, model: str) -> Result:
    write_inputs(folder)
    strict = searched(folder, "strict", ["--agent-mode", "strict"])
    rows = [strict.row(strict)]
    rows.append(searched(folder, "as-published", ["--agent-mode", "as-published"]).row(strict))
    unused = unused_switches(strict)
    for switch in SWITCHES:
        if switch in unused:
            rows.append([f"`{switch}`", f"not used here: {unused[switch]}"])
            continue
        options = ["--agent-mode", "strict", "--agent-setting", f"{switch}=true"]
        date = NEXT_DATE if switch == "beijing_date" else DATE
        rows.append(searched(folder, switch, options, date).row(strict))
    remarks = [
        f"Model: {model}, as the agent and as the page reader. Judge: lexical. An unanswered search scores 0.",
        "A smoke test: the scores of so small a model show that everything works, and say nothing about a switch.",
        f"beijing_date: {NEXT_DATE} in the place of {DATE}, which all other rows have.",
    ]
    return Result(title, remarks=remarks, table=Table(COLUMNS, rows))


def write_inputs(folder: Path) -> None:
    """Write the catalogue, the page reader's prompt, and the intents as queries to search."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cts.toml").write_text(CONFIG, encoding="utf-8")
    prompts = folder / "prompts"
    prompts.mkdir(exist_ok=True)
    for language in ("en", "zh"):
        (prompts / f"visit.{language}.txt").write_text(VISIT_PROMPT, encoding="utf-8")
    with (folder / "intents.jsonl").open("w", encoding="utf-8") as out:
        for line in (sample_dir() / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            instance = json.loads(line)
            query = {"id": instance["id"], "query": instance["fused_query"]}
            out.write(json.dumps(query, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class Searches:
    """What the searches of one run took. A step that was reused counts as it did where it was made."""

    name: str
    turns: dict[str, list[str]]
    """By instance, the agent's turns in their order."""
    model_calls: int
    tool_calls: int
    tokens_in: int
    tokens_out: int
    forced: int
    unanswered: int
    mean: float

    def row(self, strict: Searches) -> list[str]:
        """The cells of COLUMNS."""
        name = self.name
        if name in SWITCHES:
            name = f"`{name}`"
        n_differing = 0
        for instance, turns in self.turns.items():
            if turns != strict.turns[instance]:
                n_differing += 1
        differing = f"{n_differing} of {len(self.turns)}"
        if self is strict:
            differing = "-"
        return [
            name,
            differing,
            f"{self.model_calls}",
            f"{self.tool_calls}",
            f"{self.tokens_in:,}",
            f"{self.tokens_out:,}",
            f"{self.forced}",
            f"{self.unanswered}",
            f"{self.mean:.1f}",
        ]


def searched(folder: Path, name: str, options: Sequence[str], date: str = DATE) -> Searches:
    """Run the searches in `folder`/runs/`name`, reusing what the other runs there have."""
    runs = folder / "runs"
    command = [*CTS, "run", "--rewrites", "intents.jsonl", "--no-orig", "--limit", f"{LIMIT}", "-q"]
    command += ["--agent", "local", "--visit-model", "local", "--judge", "lexical", "--date", date]
    command += ["--config", "cts.toml", "--prompts", "prompts", "--empty-answers", "zero", *options]
    for other in sorted(runs.glob("*")):
        if other.name != name:
            command += ["--reuse", str(other)]
    spent_by([*command, "--runs-dir", str(runs / name), "--name", "intents"], cwd=folder)
    return searches_of(name, runs / name / "intents")


def searches_of(name: str, run: Path) -> Searches:
    """Read what the searches of a finished run took."""
    turns: dict[str, list[str]] = defaultdict(list)
    model_calls = tokens_in = tokens_out = 0
    for record in read_records(run / "steps.jsonl"):
        step = record["step"]
        if not step.startswith((TURN_STEP, READING_STEP)):
            continue
        model_calls += record.get("attempts", 1)
        usage = record.get("usage") or {}
        tokens_in += usage.get("input", 0)
        tokens_out += usage.get("output", 0)
        if step.startswith(TURN_STEP) and record["ok"]:
            turns[record["instance"]].append(record["response"]["text"])
    tool_calls = forced = unanswered = 0
    for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines():
        search = json.loads(line).get("search", {})
        tools = search.get("tools", {})
        tool_calls += tools.get("searches", 0) + tools.get("visits", 0)
        forced += search.get("forced", False)
        unanswered += search.get("unanswered", False)
    mean = json.loads((run / "summary.json").read_text(encoding="utf-8"))["mean"]
    return Searches(
        name, turns, model_calls, tool_calls, tokens_in, tokens_out, forced, unanswered, mean or 0.0
    )


def unused_switches(strict: Searches) -> dict[str, str]:
    """The switches that nothing in the sample world, or in the strict run's turns, depends on, each with the reason."""
    reasons = {"bare_queries": "needs the web (Serper)", "plain_pages": "needs the web (Jina)"}
    longest_page = 0
    addresses = ""
    for line in (sample_dir() / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        page = json.loads(line)
        longest_page = max(longest_page, len(page["text"]))
        addresses += page["url"]
    # A character has four bytes at most.
    if longest_page * 4 * FIRST_PER_BYTE < PAGE_TOKENS:
        limit = f"{PAGE_TOKENS:,} estimated tokens"
        reasons["whole_pages"] = f"the longest page has {longest_page} characters, and strict cuts at {limit}"
    reasons["whole_snippets"] = (
        f"no snippet has more than {SNIPPET_CHARS} characters, and strict cuts at 1,000"
    )
    if not any(mark in addresses for mark in "() "):
        reasons["raw_addresses"] = "no address has a parenthesis or a blank"
    n_turns = n_differing = 0
    for turns in strict.turns.values():
        for text in turns:
            n_turns += 1
            published = parse_turn(text, after_thoughts=True)
            n_differing += published.calls != parse_turn(text).calls
    if not n_differing:
        reasons["calls_after_thoughts"] = (
            f"a grammar holds this model to one thought and one call a turn; all {n_turns} turns read the same"
        )
    return reasons
