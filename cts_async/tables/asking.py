"""Tables of systems that ask during the search, beside those that never ask, ask before it, or are told everything.

Every number has its formula in docs/asking.md; a caption says whether its definition is published or ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from cts_async.analysis.asking import QUARTERS, Asking, AskingSystem, Care, GivenLater
from cts_async.analysis.original_replies import ReplyReadings
from cts_async.analysis.stats import ALPHA
from cts_async.errors import cut_end
from cts_async.tables.output import counted
from cts_async.tables.table import (
    MISSING,
    Column,
    DataTable,
    Row,
    estimate,
    interval_fields,
    number,
    p_value,
    text,
    text_columns,
    with_short_note,
)

_EXAMPLE_CHARS: Final = 40

_SYSTEM: Final = (
    Column("system", text("system"), numeric=False),
    Column("asked", text("asked"), numeric=False),
)


def asking_tables(asking: Asking) -> tuple[DataTable, ...]:
    """All tables of one group, in their usual order; some may have no rows."""
    return (
        _counts(asking),
        _worth(asking),
        _by_count(asking),
        _timing(asking),
        _first_question(asking),
        _care(asking),
        _given_away(asking),
        _regret(asking),
        _tests(asking),
        _given_later(asking),
    )


def replies_table(readings: Sequence[ReplyReadings], *, with_examples: bool) -> DataTable:
    """How InteractComp's own program would have read the replies of yes-no users; examples have words of the user."""
    rows: list[Row] = []
    n_turned = n_failed = n = 0
    for run in readings:
        n_turned, n_failed, n = n_turned + run.n_turned, n_failed + run.n_failed, n + run.n
        for (reading, original), count in sorted(run.counts.items()):
            row: dict[str, Any] = {"system": run.system, "reading": reading, "original": original}
            row |= {"replies": count, "share": count / run.n, "turned": reading != original}
            if with_examples:
                row["examples"] = run.examples.get((reading, original), [])
            rows.append(row)
    columns = [
        Column("system", text("system"), numeric=False),
        *text_columns("reading", "original"),
        Column("replies", number("replies", ",")),
        Column("share", number("share", ".1%")),
    ]
    if with_examples:
        columns.append(Column("such as", _shown_examples, numeric=False))
    caption = (
        "yes-no replies as they are read here, and by the parser of InteractComp's program (Deng et al. 2025), which "
        "looks for yes, no and don't know anywhere in the first line"
    )
    remarks: tuple[str, ...] = ()
    if n:
        remark = f"{n_turned:,} of {n:,} replies ({n_turned / n:.1%}) would have been turned round"
        if n_failed:
            remark += f"; {n_failed:,} failed here, and would have become a word there"
        remarks = (f"{remark}.",)
    title = "Replies as the original program reads them"
    return DataTable("original_replies", title, caption, columns, rows, group="system", remarks=remarks)


def _shown_examples(row: Row) -> str:
    if not row["turned"]:
        return ""
    return "; ".join(repr(cut_end(example, _EXAMPLE_CHARS)) for example in row["examples"])


def _row_of(system: AskingSystem) -> dict[str, Any]:
    return {"system": system.label, "asked": system.way}


def _counts(asking: Asking) -> DataTable:
    rows: list[Row] = []
    remarks: list[str] = []
    for system in asking.systems:
        row = _row_of(system)
        row["answered"] = system.n_answered
        row["failed"] = system.n_failed
        row["missing"] = system.n_missing
        row["unscored"] = system.n_unscored
        row["without_orig"] = None
        if asking.orig:
            row["without_orig"] = system.n_without_orig
        row["mean"] = system.mean
        row["questions"] = system.n_questions
        row["questions_per_instance"] = None
        row["tokens_per_instance"] = None
        row["silent"] = None
        if system.way not in ("never", "told") and system.n_answered:
            row["questions_per_instance"] = system.n_questions / system.n_answered
            row["tokens_per_instance"] = system.n_tokens / system.n_answered
            row["silent"] = system.n_silent
        row["asks_refused"] = system.n_refused
        row["early_answers"] = system.n_early
        rows.append(row)
        remarks += _left_out(system, asking)
    columns = (
        *_SYSTEM,
        Column("answered", text("answered")),
        Column("failed", text("failed")),
        Column("unscored", text("unscored")),
        Column("mean", number("mean", ".2f")),
        Column("questions", number("questions_per_instance", ".2f")),
        Column("tokens", number("tokens_per_instance", ".1f")),
        Column("no question", text("silent")),
    )
    caption = (
        "For each answered instance: questions that the user is asked, and tokens of these that she reads (estimated "
        "from bytes). no question: instances in which nothing was asked. both: before and during; later: before, and "
        "given to the agent later; told: everything. Definitions: ours (docs/asking.md)."
    )
    return DataTable("asking", "When the user is asked", caption, columns, rows, remarks=tuple(remarks))


def _left_out(system: AskingSystem, asking: Asking) -> Iterator[str]:
    """Say which instances of a system are in no gain, and what the rules kept from the user."""
    parts: list[str] = []
    if system.n_failed:
        parts.append(f"{counted(system.n_failed, 'instance')} failed")
    if system.n_missing:
        parts.append(f"{system.n_missing:,} without a result yet")
    if system.n_unscored:
        parts.append(f"{system.n_unscored:,} answered without a score")
    if asking.orig and system.n_without_orig:
        parts.append(f"{system.n_without_orig:,} scored without a score of {asking.orig}")
    if parts:
        yield f"{system.label}: {', '.join(parts)}; no gain counts these."
    if system.n_refused:
        n_refused = counted(system.n_refused, "question")
        yield f"{system.label}: {n_refused} beyond those allowed, which the user never saw."
    if system.n_early:
        n_early = counted(system.n_early, "answer")
        yield f"{system.label}: {n_early} sent back, since more questions had to be asked first."


def _worth(asking: Asking) -> DataTable:
    rows: list[Row] = []
    for system in asking.systems:
        worth = system.worth
        if worth is None or system.way == "never":
            continue
        row = _row_of(system)
        row["n"] = worth.gain.n
        row |= interval_fields("gain", worth.gain)
        row["questions"] = worth.n_questions
        row |= interval_fields("gain_per_question", worth.per_question)
        row["tokens"] = worth.n_tokens
        row |= interval_fields("gain_per_1000_tokens", worth.per_1000_tokens)
        rows.append(row)
    columns = (
        _SYSTEM[0],
        Column("n", text("n")),
        Column("gain", estimate("gain", "+.2f")),
        Column("questions", text("questions"), optional=True),
        Column("per question", estimate("gain_per_question", "+.2f")),
        Column("per 1,000 tokens", estimate("gain_per_1000_tokens", "+.0f")),
    )
    caption = (
        f"gain: mean paired difference of restore_score_100 to {asking.orig or 'orig'} over n instances. The sum of "
        "these differences by the number of questions, and by thousands of tokens that the user reads; bootstrap 95 % "
        "intervals over instances. Definitions: ours."
    )
    title = "What questions are worth"
    return DataTable("asking_worth", title, with_short_note(caption, rows), columns, rows)


def _by_count(asking: Asking) -> DataTable:
    rows: list[Row] = []
    for system in asking.systems:
        for ask_count in system.by_count:
            row = _row_of(system)
            row["asks"] = ask_count.n_asks
            row["n"] = ask_count.n
            row |= interval_fields("score", ask_count.score)
            row |= interval_fields("gain", ask_count.gain)
            rows.append(row)
    columns = (
        _SYSTEM[0],
        Column("asks", text("asks")),
        Column("n", text("n")),
        Column("score", estimate("score", ".2f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    caption = (
        "Instances by the number of questions that the agent asked in its search. An agent asks where it is at a loss: "
        "this describes, and proves no cause. Definitions: ours."
    )
    title = "Score by number of questions during the search"
    return DataTable("asking_counts", title, with_short_note(caption, rows), columns, rows, group="system")


def _timing(asking: Asking) -> DataTable:
    rows: list[Row] = []
    for system in asking.systems:
        timing = system.timing
        if timing is None:
            continue
        row = _row_of(system)
        row["n"] = timing.n
        row["mean_share"] = timing.mean_share
        row["mean_first_share"] = timing.mean_first_share
        row["n_with_gain"] = timing.n_with_gain
        row["rho"] = timing.rho
        rows.append(row)
    columns = (
        _SYSTEM[0],
        Column("asked in", text("n")),
        Column("all questions at", _percent("mean_share")),
        Column("the first at", _percent("mean_first_share")),
        Column("n", text("n_with_gain")),
        Column("rho", number("rho", "+.3f")),
    )
    caption = (
        "Mean share of the agent's turns: the turn of a question / all turns of that search. rho: Spearman's rank "
        "correlation of the share at the first question and the gain; below 0, earlier questions go with greater gains. "
        "Definitions: ours but rho (Spearman 1904)."
    )
    return DataTable("asking_timing", "When agents ask", caption, columns, rows)


def _first_question(asking: Asking) -> DataTable:
    rows: list[Row] = []
    for system in asking.systems:
        if system.timing is None:
            continue
        for share_bin in system.timing.bins:
            row = _row_of(system)
            row["share_low"] = share_bin.low
            row["share_high"] = share_bin.high
            row["n"] = share_bin.n
            row["mean_share"] = share_bin.mean_share
            row |= interval_fields("gain", share_bin.gain)
            rows.append(row)
    columns = (
        _SYSTEM[0],
        Column("first question at", _share_range),
        Column("n", text("n")),
        Column("mean", _percent("mean_share")),
        Column("gain", estimate("gain", "+.2f")),
    )
    caption = (
        f"Instances by the share of turns at the first question, in {QUARTERS} parts. An agent chooses when to ask: "
        "this describes, and proves no cause. Definitions: ours."
    )
    title = "Gain by the time of the first question"
    return DataTable("asking_first", title, with_short_note(caption, rows), columns, rows, group="system")


def _share_range(row: Row) -> str:
    return f"{100 * row['share_low']:.0f}–{100 * row['share_high']:.0f} %"


def _percent(key: str) -> Any:
    show_number = number(key, ".1%")

    def show(row: Row) -> str:
        return show_number(row).replace("%", " %")

    return show


def _care(asking: Asking) -> DataTable:
    rows: list[Row] = []
    for system in asking.systems:
        if system.care is not None:
            rows.append(_row_of(system) | _care_fields(system.care))
    columns = (
        _SYSTEM[0],
        Column("repeated", _part("repeated", "questions")),
        Column("in query", _part("in_query", "with_words")),
        Column("needless", _part("needless", "decided")),
        Column("wrongly not", _part("not_asked", "to_ask")),
        Column("precision", number("precision", ".3f")),
        Column("recall", number("recall", ".3f")),
        Column("Ask-F1", number("ask_f1", ".3f")),
    )
    caption = (
        "repeated: equal to an earlier question of the instance. in query: the reply's content words all stand in the "
        "query. needless: that, or orig has the full score already. wrongly not: instances on which gold beats orig, "
        "and nothing was asked. Ask-F1: harmonic mean of question precision and blocker recall (HiL-Bench, arXiv "
        "2604.09408); a blocker is here an instance on which gold beats orig. Other definitions: ours (docs/asking.md)."
    )
    title = "Asked needlessly, and wrongly not asked"
    return DataTable("asking_care", title, caption, columns, rows)


def _given_away(asking: Asking) -> DataTable:
    rows: list[Row] = []
    for system in asking.systems:
        disclosed = system.given_away
        if disclosed is None:
            continue
        row = _row_of(system)
        row["known"] = disclosed.n_known
        row["over_informing"] = disclosed.n_over_informing
        row["named"] = disclosed.n_named
        row["told"] = disclosed.mean_share
        row["over_informing_rate"] = disclosed.rate
        rows.append(row)
    columns = (
        _SYSTEM[0],
        Column("known", text("known")),
        Column("told", number("told", ".3f")),
        Column("over-informing", _part("over_informing", "known")),
        Column("named", text("named")),
    )
    caption = (
        "Known replies to the agent's own questions, equal questions once. told: mean share of the intent's content "
        "words, beyond those of query and question, that a reply has. over-informing: replies that tell more than 0.8 "
        "of at least 4 such words, or that cts audit names. Definitions: ours (docs/usage.md)."
    )
    title = "What the user gave away during the search"
    return DataTable("asking_given_away", title, caption, columns, rows)


def _care_fields(care: Care) -> dict[str, Any]:
    return {
        "questions": care.n_questions,
        "repeated": care.n_repeated,
        "repeated_rate": care.repeated_rate,
        "with_words": care.n_with_words,
        "in_query": care.n_in_query,
        "in_query_rate": care.in_query_rate,
        "decided": care.n_decided,
        "needless": care.n_needless,
        "needless_rate": care.needless_rate,
        "to_ask": care.n_open,
        "not_asked": care.n_not_asked,
        "not_asked_rate": care.not_asked_rate,
        "weighed": care.n_weighed,
        "hits": care.n_hits,
        "to_ask_hit": care.n_open_hit,
        "precision": care.precision,
        "recall": care.recall,
        "ask_f1": care.ask_f1,
    }


def _part(key: str, whole: str) -> Any:
    """Show `3 of 12`; "-" where there is nothing to take a part of."""

    def show(row: Row) -> str:
        if not row[whole]:
            return MISSING
        return f"{row[key]:,} of {row[whole]:,}"

    return show


def _regret(asking: Asking) -> DataTable:
    rows: list[Row] = []
    regrets = asking.regrets
    caption = ""
    remarks: tuple[str, ...] = ()
    if regrets is not None:
        for regret in regrets.systems:
            row: dict[str, Any] = {"system": regret.label, "asked": regret.way}
            row["n"] = regret.regret.n
            row["mean"] = regret.mean
            row["best"] = regrets.best_mean
            row |= interval_fields("regret", regret.regret)
            row["n_best"] = regret.n_best
            rows.append(row)
        caption = (
            f"Mean points below the best of {', '.join(regrets.candidates)} on each instance, over the "
            f"{counted(regrets.n, 'instance')} that all of these have a score for"
        )
        if regrets.best_mean is None:
            remarks = (f"No regret: {', '.join(regrets.candidates)} share no scored instance.",)
        else:
            caption += f"; the mean of the best is {regrets.best_mean:.2f}"
        caption += (
            ". It is chosen with the scores in view, which nobody can who decides before. best on: instances on which a "
            "system has the best score, or shares it. Definition: ours."
        )
    columns = (
        *_SYSTEM,
        Column("n", text("n")),
        Column("mean", number("mean", ".2f")),
        Column("regret", estimate("regret", ".2f")),
        Column("best on", text("n_best")),
    )
    title = "Regret against the best of never, before and during"
    return DataTable("asking_regret", title, with_short_note(caption, rows), columns, rows, remarks=remarks)


def _tests(asking: Asking) -> DataTable:
    n_tests = len(asking.tests)
    columns = (
        Column("during", text("system"), numeric=False),
        Column("minus before", text("other"), numeric=False),
        Column("n", text("n")),
        Column("differ", text("n_differ")),
        Column("Δ", number("difference", "+.3f")),
        Column("p", p_value("p", 4)),
        Column("p Holm", p_value("p_holm", 4)),
    )
    n_hopeless = sum(test.hopeless for test in asking.tests)
    caption = (
        f"Sign-flip tests of paired differences, Holm over {counted(n_tests, 'pair')}: published methods"
    )
    if n_hopeless:
        level = f"{ALPHA}"
        if n_tests > 1:
            level += f" / {n_tests}"
        caption += f". Too few instances differ in {n_hopeless} of {counted(n_tests, 'test')} for any p to reach {level}"
    rows = list(map(asdict, asking.tests))
    title = "Asking during the search against asking before it"
    return DataTable("asking_tests", title, f"{caption}.", columns, rows)


def _given_later(asking: Asking) -> DataTable:
    rows: list[Row] = []
    remarks: list[str] = []
    for system in asking.given_later:
        row: dict[str, Any] = {"system": system.label, "asked_before": system.asked_before}
        row["share"] = system.share
        row["answered"] = system.n_answered
        row["not_delivered"] = None
        if system.share is not None:
            row["not_delivered"] = system.n_not_delivered
        row["mean_share"] = system.mean_share
        row |= interval_fields("score", system.score)
        row |= interval_fields("gain", system.gain)
        row |= interval_fields("over_rewriting", system.over_rewriting)
        rows.append(row)
        if system.n_not_delivered:
            remarks.append(_not_delivered(system))
    columns = (
        Column("system", text("system"), numeric=False),
        Column("given at", _given_at),
        Column("n", text("answered")),
        Column("not given", text("not_delivered")),
        Column("score", estimate("score", ".2f")),
        Column("gain", estimate("gain", "+.2f")),
        Column("Δ rewriting", estimate("over_rewriting", "+.2f")),
    )
    caption = (
        "Questions and answers of before the search: rewritten into the query, or given to the agent when a share of "
        "the turns that it may take is used up. Scores of all answered instances, those included whose search had ended "
        "before (not given). Definitions: ours; the design is that of arXiv 2605.07937."
    )
    title = "Answers given later"
    return DataTable(
        "given_later",
        title,
        with_short_note(caption, rows),
        columns,
        rows,
        group="asked_before",
        remarks=tuple(remarks),
    )


def _given_at(row: Row) -> str:
    if row["share"] is None:
        return "rewritten"
    return f"{100 * row['share']:g} %"


def _not_delivered(system: GivenLater) -> str:
    n_answered = counted(system.n_answered, "instance")
    return f"{system.label}: in {system.n_not_delivered:,} of {n_answered} the search ended before the answers were due."
