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
    answer, found = _tagged_answer(outside)
    if answer is None and not _TAG.sub("", "".join(part.raw for part in outside)).strip():
        thoughts = [part.body for part in parts if part.kind == "think"]
        within = [inner for thought in thoughts for inner in _segments(_tokens(thought), thought, 0)]
        answer, found = _tagged_answer(within)
    if answer is not None:
        return answer, found
    return "".join(part.body for part in parts if part.kind == "text").strip(), "last_turn"


def split_parts(text: str) -> list[Part]:
    """Split a text into its parts, in order; a tag cut off at the end of the text is left out.

    A chat template may have opened the first thought, so text before a first `</think>` is a thought.
    """
    if split := split_marks(text, tags=False):
        head = Part("think", "\n\n".join(split.thoughts), text[: split.start], 0)
        rest = split_parts(text[split.start : split.end])
        return [head, *(replace(part, start=part.start + split.start) for part in rest)]
    text = _without_half_tag(text.rstrip())
    tags = _tokens(text)
    think = next((tag for tag in tags if tag.name == "think"), None)
    if think is None or not think.closing:
        return list(_segments(tags, text, 0))
    head = Part("think", text[: think.start].strip(), text[: think.end], 0)
    return [head, *_segments(tags[tags.index(think) + 1 :], text, think.end)]


@dataclass(frozen=True, slots=True)
class _Tag:
    start: int
    end: int
    name: str
    closing: bool


_TAG: Final = re.compile(rf"<(/?)({'|'.join(TAG_NAMES)})\s*>", re.IGNORECASE)
_WHOLE_TAGS: Final = tuple(f"<{slash}{name}>" for name in TAG_NAMES for slash in ("", "/"))
_HALF_TAG: Final = re.compile(r"<[/a-z_]{0,15}\s*\Z", re.IGNORECASE)


def _without_half_tag(text: str) -> str:
    match = _HALF_TAG.search(text, max(0, len(text) - 64))
    if match and any(whole.startswith(match.group().strip().lower()) for whole in _WHOLE_TAGS):
        return text[: match.start()]
    return text


def _tokens(text: str) -> list[_Tag]:
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
    opening, later = tags[at], range(at + 1, len(tags))
    kind: Any = opening.name
    # A block that starts again before it is closed is unclosed; within a thought, further ones are part of it.
    same = (i for i in later if tags[i].name == kind and (tags[i].closing or kind != "think"))
    at_end = next(same, None)
    closed = at_end is not None and tags[at_end].closing
    if at_end is not None and closed:
        body, end, after = text[opening.end : tags[at_end].start], tags[at_end].end, at_end + 1
    else:
        # A thought ends with the text, others end at the next block.
        after = next((i for i in later if kind != "think" and not tags[i].closing), len(tags))
        end = tags[after].start if after < len(tags) else len(text)
        body = text[opening.end : end]
    body = _TAG.sub("", body) if kind == "answer" else body
    return Part(kind, body.strip(), text[opening.start : end], opening.start, closed), end, after


def _tagged_answer(parts: Sequence[Part]) -> tuple[str | None, AnswerFrom]:
    answers = [part for part in parts if part.kind == "answer" and part.body]
    if closed := [part.body for part in answers if part.closed]:
        return closed[-1], "tag"
    return (answers[-1].body, "open_tag") if answers else (None, "last_turn")
