"""What version 0.11 and before left out of the line of a failed instance, as far as the journal still has it.

Those versions recorded the error of an instance alone, whatever had failed: its questions and answers if the search
failed, its answer and the other judges' labels if one judge failed. Since then such a line has what was made before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from cts_async.engine.journal import read_records
from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import ShortPhrase
from cts_async.records import JUDGING
from cts_async.runs.files import RESULTS
from cts_async.runs.manifest import Manifest
from cts_async.runs.results import answered, failed, read_results

_AFTER_ANSWERS: Final = ("rewrite", "reformulate", "search", "judge")
"""The first words of the steps that follow once all questions are answered."""
_MOST_IDS: Final = 10
"""Instances that a note names."""


class Asked(NamedTuple):
    """What an instance was asked, and what the user answered: texts of equal number."""

    questions: tuple[str, ...]
    answers: tuple[str, ...]


def failed_step(line: Mapping[str, Any]) -> str:
    """The name of the step that an instance failed at; "" if it is not known."""
    error = line.get("error")
    if not isinstance(error, Mapping):
        return ""
    return str(error.get("step") or "")


def lost_judging(line: Mapping[str, Any]) -> bool:
    """Whether a judge's failure took away the answer and the labels of the others."""
    return failed(line) and not answered(line) and failed_step(line).startswith(JUDGING)


def lost_answers(line: Mapping[str, Any]) -> bool:
    """Whether an instance failed after its questions were answered, and its line has neither."""
    if not failed(line) or line.get("questions") or line.get("turns"):
        return False
    return failed_step(line).partition("/")[0] in _AFTER_ANSWERS


def loss_notes(manifest: Manifest) -> Iterator[str]:
    """Say which of a run's instances version 0.11 or before left out of scores and of tables; nothing for others."""
    without_labels: set[str] = set()
    without_answers: set[str] = set()
    for line in read_results(manifest.directory / RESULTS):
        # The last line of an id counts: a retried failure is none any more.
        without_labels.discard(line["id"])
        without_answers.discard(line["id"])
        if lost_judging(line):
            without_labels.add(line["id"])
        if lost_answers(line):
            without_answers.add(line["id"])
    if without_labels:
        yield lost_judging_note(manifest.directory, sorted(without_labels), manifest.command)
    # Questions that are only selected are never answered.
    if without_answers and manifest.identity.k and manifest.identity.mode != "select":
        yield (
            f"{manifest.directory}: {len(without_answers)} instance(s) failed after their questions were asked and "
            "answered; tables 4, 5, 7, 8 and 10 of version 0.11 or before left them out. cts diagnose counts them, "
            "from the journal."
        )


def lost_judging_note(directory: Path, ids: Sequence[str], command: str) -> str:
    """Say which answers of an old run have no score because another judge failed, and how to get them back."""
    retry_command = "the run's command with --retry-failed"
    if command:
        # The manifest has the command of the last session, which may have been a retry itself.
        retry_command = f"`{command.removesuffix(' --retry-failed')} --retry-failed`"
    shown_ids = ", ".join(map(repr, ids[:_MOST_IDS]))
    if len(ids) > _MOST_IDS:
        shown_ids += f" and {len(ids) - _MOST_IDS} more"
    return (
        f"{directory}: one judge failed on {len(ids)} answer(s), and version 0.11 or before dropped the answer and the "
        f"other judges' labels with it: {shown_ids}. The scores and n of all its judges lack them; "
        f"{retry_command} takes them from the journal and asks only the judge that failed."
    )


def asked_in_journal(journal: Path, ids: Collection[str]) -> dict[str, Asked]:
    """The questions and answers that the journal has of these instances; none of one that was asked nothing.

    Of a step that was repeated the latest record counts, as it does for a run that is resumed.
    """
    answers: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    if not ids:
        return {}
    wanted_ids = frozenset(ids)
    for record in read_records(journal):
        step, instance = record.get("step"), record.get("instance")
        if record.get("ok") is True and instance in wanted_ids and str(step).startswith("answer/"):
            answers[str(instance)][str(step)] = record
    asked_by_id: dict[str, Asked] = {}
    for id, by_step in answers.items():
        pairs = list(_pairs(by_step))
        # Steps such as answer/1/llm are what a custom role asked by itself.
        n_turns = sum(step.removeprefix("answer/").isdecimal() for step in by_step)
        # A turn that cannot be read would shift all later ones: rather none of this instance.
        if pairs and len(pairs) == n_turns:
            questions = tuple(question for question, _ in pairs)
            asked_by_id[id] = Asked(questions, tuple(answer for _, answer in pairs))
    return asked_by_id


def _pairs(by_step: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each question with its answer, in order, up to the first that cannot be read."""
    for turn in count(1):
        record = by_step.get(f"answer/{turn}")
        if record is None:
            return
        request, response = record.get("request"), record.get("response")
        if not isinstance(request, Mapping) or not isinstance(response, Mapping):
            return
        # A model's request has the fields of its prompt, a custom role's the view; both hold the question.
        fields, view = request.get("fields"), request.get("view")
        question = None
        if isinstance(fields, Mapping):
            question = fields.get("clarification_question")
        if question is None and isinstance(view, Mapping):
            question = view.get("question")
        answer = _answer(response)
        if not isinstance(question, str) or answer is None:
            return
        yield question, answer


def _answer(response: Mapping[str, Any]) -> str | None:
    """The user's answer in a recorded reply, read as it was when it was given; None if it cannot be."""
    text = response.get("text")
    if not isinstance(text, str):
        return None
    with suppress(UnusableOutput):
        # People's answers name the question that they were given to, and are taken as they are. Marks of thoughts, which
        # the versions that lost these answers took for a part of them, stay.
        return ShortPhrase(strict="question" in response, with_marks=True).parse(text).text
    return None
