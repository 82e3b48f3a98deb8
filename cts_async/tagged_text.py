"""Parse the tags in a model's text (WebDancer's format): thoughts, tool calls, tool responses and answers.

The agent's turns and files of candidate answers are read by this one parser. It accepts any text and never raises.
Thoughts in the marks of other formats (`thoughts`) at the head of a text are parts of the kind "think", too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from cts_async.thoughts import split_marks

__all__ = ["TAG_NAMES", "AnswerFrom", "Part", "find_answer", "split_parts"]

AnswerFrom = Literal["tag", "open_tag", "last_turn"]
TAG_NAMES: Final = ("think", "tool_call", "tool_response", "answer")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text: `raw` is the original from index `start` on, `body` is without tags and stripped.

    `closed` is false for a block without its closing tag. The body of plain text is not stripped.
    """

    kind: Literal["text", "think", "tool_call", "tool_response", "answer"]
    body: str
    raw: str
    start: int
    closed: bool = True


def find_answer(text: str) -> tuple[str, AnswerFrom]:
    """Return the answer, perhaps empty, and how it was found.

    In this order: the last closed `<answer>` outside thoughts; one left open outside thoughts; one within a thought,
    if there is no text outside; else all text outside the blocks.
    """
    if "<" not in text and split_marks(text, tags=False) is None:
        return text.strip(), "last_turn"
    parts = split_parts(text)
    outside = [part for part in parts if part.kind != "think"]
    answer, source = _tagged_answer(outside)
    text_outside = "".join(part.raw for part in outside)
    if answer is None and not _TAG.sub("", text_outside).strip():
        within: list[Part] = []
        for part in parts:
            if part.kind == "think":
                within += _segments(_find_tags(part.body), part.body, 0)
        answer, source = _tagged_answer(within)
    if answer is not None:
        return answer, source
    return "".join(part.body for part in parts if part.kind == "text").strip(), "last_turn"


def split_parts(text: str) -> list[Part]:
    """Split a text into its parts, in order; a tag cut off at the end of the text is left out.

    A chat template may have opened the first thought, so text before a first `</think>` is a thought.
    """
    split = split_marks(text, tags=False)
    if split:
        parts = [Part("think", "\n\n".join(split.thoughts), text[: split.start], 0)]
        for part in split_parts(text[split.start : split.end]):
            parts.append(replace(part, start=part.start + split.start))
        return parts
    text = _without_half_tag(text.rstrip())
    tags = _find_tags(text)
    for number, tag in enumerate(tags):
        if tag.name != "think":
            continue
        if tag.closing:
            head = Part("think", text[: tag.start].strip(), text[: tag.end], 0)
            return [head, *_segments(tags[number + 1 :], text, tag.end)]
        break
    return list(_segments(tags, text, 0))


@dataclass(frozen=True, slots=True)
class _Tag:
    start: int
    end: int
    name: str
    closing: bool


_TAG: Final = re.compile(rf"<(/?)({'|'.join(TAG_NAMES)})\s*>", re.IGNORECASE)
_WHOLE_TAGS: Final = (*(f"<{name}>" for name in TAG_NAMES), *(f"</{name}>" for name in TAG_NAMES))
_HALF_TAG: Final = re.compile(r"<[/a-z_]{0,15}\s*\Z", re.IGNORECASE)


def _without_half_tag(text: str) -> str:
    # At the end alone: in the whole of a long text, each "<" would be tried.
    match = _HALF_TAG.search(text, max(0, len(text) - 64))
    if match is None:
        return text
    half = match[0].strip().lower()
    for tag in _WHOLE_TAGS:
        if tag.startswith(half):
            return text[: match.start()]
    return text


def _find_tags(text: str) -> list[_Tag]:
    return [_Tag(*match.span(), match[2].lower(), bool(match[1])) for match in _TAG.finditer(text)]


def _segments(tags: Sequence[_Tag], text: str, start: int) -> Iterator[Part]:
    """Yield the parts of `text` from `start`, in order; `tags` are the tags after `start`."""
    at = 0
    while at < len(tags):
        tag = tags[at]
        yield Part("text", text[start : tag.start], text[start : tag.start], start)
        if tag.closing:
            start, at = tag.end, at + 1
            continue
        part, start, at = _block(tags, at, text)
        yield part
    yield Part("text", text[start:], text[start:], start)


def _block(tags: Sequence[_Tag], at: int, text: str) -> tuple[Part, int, int]:
    """Read the block that `tags[at]` opens: the part, the index of its end, and the number of the next tag."""
    opening = tags[at]
    kind: Any = opening.name
    closing_at = _closing_tag(tags, at)
    if closing_at is not None:
        closing = tags[closing_at]
        body, end, after = text[opening.end : closing.start], closing.end, closing_at + 1
    else:
        end, after = len(text), len(tags)
        if kind != "think":
            # A thought that is not closed ends with the text, other blocks end at the next one.
            for number in range(at + 1, len(tags)):
                if not tags[number].closing:
                    end, after = tags[number].start, number
                    break
        body = text[opening.end : end]
    if kind == "answer":
        body = _TAG.sub("", body)
    raw = text[opening.start : end]
    return Part(kind, body.strip(), raw, opening.start, closing_at is not None), end, after


def _closing_tag(tags: Sequence[_Tag], at: int) -> int | None:
    """The number of the tag that closes the block which `tags[at]` opens; None if it is not closed."""
    name = tags[at].name
    for number in range(at + 1, len(tags)):
        tag = tags[number]
        if tag.name != name:
            continue
        if tag.closing:
            return number
        # A block that starts again before it is closed is unclosed; within a thought, further ones are part of it.
        if name != "think":
            return None
    return None


def _tagged_answer(parts: Sequence[Part]) -> tuple[str | None, AnswerFrom]:
    answers = [part for part in parts if part.kind == "answer" and part.body]
    for answer in reversed(answers):
        if answer.closed:
            return answer.body, "tag"
    if answers:
        return answers[-1].body, "open_tag"
    return None, "last_turn"
