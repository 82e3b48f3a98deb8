"""Single instances in the report, folded: from the blurred query to every nugget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from cts_async.analysis.compare import Extreme
from cts_async.analysis.stability import segments
from cts_async.protocol.run_files import MANIFEST
from cts_async.report.gathered import Opened, OpenedRun
from cts_async.report.html import Element, Node, element, said

VIEWER: Final = "http://127.0.0.1:8518/#/instance?"
"""The address of an instance in `cts view`, on its default port."""
ANSWER_CHARS: Final = 2_000
_TEXT_CHARS: Final = 1_000
_SIGNS: Final = {"full": "●", "partial": "◐", "none": "○"}


def run_section(run: OpenedRun, number: int) -> Element:
    """A system's instances, each with the reason why it is shown."""
    title = f"run-{number}"
    instances = (_instance(one, run, f"{title}-{n}") for n, one in enumerate(run.instances, start=1))
    name = run.system + (" (smoke test)" if run.embedded else "")
    return element("section", said(name, "h3", id=title), instances, aria_labelledby=title)


def _instance(one: Opened, run: OpenedRun, anchor: str) -> Element:
    line, query = one.line, _text(one.line.get("blurred_query")) or _text(one.line.get("fused_query"))
    summary = element(
        "summary",
        element("span", ", ".join(one.extreme.why), class_="why"),
        " ",
        element("span", _points(one.extreme, run), class_="points"),
        " ",
        said(_cut(query, _TEXT_CHARS), "span", class_="query"),
    )
    parts = [
        ("Blurred query (q)", _quoted(line.get("blurred_query"))),
        ("Intent query (q*)", _quoted(line.get("fused_query"))),
        ("Questions and answers", _conversation(line)),
        ("Rewritten query", _rewritten(line)),
        ("Answer", _quoted(line.get("answer"), "div", class_="answer")),
        ("Nuggets", _nuggets(one)),
    ]
    details = element("dl", ([element("dt", name), element("dd", part)] for name, part in parts if part))
    return element("details", summary, details, _link(one, run), id=anchor, class_="instance")


def _points(extreme: Extreme, run: OpenedRun) -> Iterator[Node]:
    yield f"{extreme.score:.{run.decimals}f}"
    if extreme.gain is not None:
        yield from (f", {extreme.gain:+.{run.decimals}f} over ".replace("-", "−"), said(run.baseline))


def _link(one: Opened, run: OpenedRun) -> Element:
    where = urlencode({"run": _viewer_name(run.directory), "id": one.extreme.id}, errors="replace")
    name = element("span", "Instance ", said(one.extreme.id), ": ")
    return element("p", name, element("a", "open it in the viewer", href=VIEWER + where), class_="link")


def viewer_folder(directory: Path) -> Path:
    """The folder that the viewer must show, so that the run has the name used in links."""
    place = directory if len(directory.parts) > _viewer_depth(directory) else directory.resolve()
    return place.parents[_viewer_depth(directory) - 1]


def _viewer_name(directory: Path) -> str:
    """A run's name in the viewer: its folder, after that of its judging if it is one of several candidates."""
    return "/".join(directory.resolve().parts[-_viewer_depth(directory) :])


def _viewer_depth(directory: Path) -> int:
    return 2 if (directory.resolve().parent / MANIFEST).is_file() else 1


def _quoted(value: object, tag: str = "p", **attributes: str) -> Node:
    text = _text(value)
    return said(_cut(text, ANSWER_CHARS), tag, **attributes) if text else None


def _conversation(line: Mapping[str, Any]) -> Node:
    """Turn by turn; without turns, each question with its answer."""
    turns = [turn for turn in _list(line.get("turns")) if isinstance(turn, Mapping)]
    if not turns:
        questions, answers = _texts(line.get("questions")), _texts(line.get("answers"))
        turns = [{"offered": [one], "answers": answers[n : n + 1]} for n, one in enumerate(questions)]
    return element("ol", (element("li", _turn(turn)) for turn in turns)) if turns else None


def _turn(turn: Mapping[str, Any]) -> Iterator[Node]:
    """Questions with their answers, or offered queries; and the query after it."""
    offered, answers = _texts(turn.get("offered")), _texts(turn.get("answers"))
    if (chosen := turn.get("chosen")) is not None:
        yield element("ul", (_offer(text, chosen=i == chosen) for i, text in enumerate(offered)))
    else:
        for question, answer in zip_longest(offered, answers[: len(offered)], fillvalue=""):
            yield said(_cut(question, _TEXT_CHARS), "p", class_="asked")
            if answer:
                kind = "unknown" if answer == "unknown" else "answered"
                yield said(_cut(answer, _TEXT_CHARS), "p", class_=kind)
    if query := _text(turn.get("query")):
        yield element("p", "Query now: ", said(_cut(query, _TEXT_CHARS)), class_="now")


def _offer(text: str, *, chosen: bool) -> Element:
    cut = said(_cut(text, _TEXT_CHARS))
    return element("li", element("strong", cut, " (chosen)") if chosen else cut)


def _rewritten(line: Mapping[str, Any]) -> Node:
    text = _cut(_text(line.get("rewritten_query")), ANSWER_CHARS)
    if not text:
        return None
    marked = segments(_text(line.get("blurred_query")), text)
    words = [element("mark", one["text"]) if one["added"] else one["text"] for one in marked]
    language = said(text).attributes.get("lang")
    return element("p", words, dir="auto", lang=language)


def _nuggets(one: Opened) -> Node:
    labels = {judge: _labels(verdict) for judge, verdict in one.verdicts.items()}
    ids = list(dict.fromkeys(id for of in labels.values() for id in of))
    if not ids:
        return None
    head = [element("th", name, scope="col") for name in ("nugget", "weight", "text")]
    head += [element("th", said(judge), scope="col") for judge in labels]
    rows = (element("tr", _nugget(one, id, list(labels.values()))) for id in ids)
    scores = (f"{judge} {_score(verdict)}" for judge, verdict in one.verdicts.items())
    table = element(
        "table",
        element("caption", element("span", "Coverage by judge; scores: ", said(", ".join(scores)), ".")),
        element("thead", element("tr", head)),
        element("tbody", rows),
    )
    return element(
        "div",
        table,
        class_="box nuggets",
        tabindex=0,
        role="region",
        aria_label=f"Nuggets of {one.extreme.id}",
    )


def _nugget(one: Opened, id: str, labels: Sequence[Mapping[str, tuple[str, str]]]) -> Iterator[Element]:
    weight = next(of[id][0] for of in labels if id in of)
    nugget = one.nuggets.get(id)
    yield element("th", said(id), scope="row")
    yield element("td", weight, class_="number")
    yield element("td", said(_cut(nugget.text, _TEXT_CHARS)) if nugget else "-")
    for of in labels:
        label = of[id][1] if id in of else "-"
        kind = f"label {label}" if label in _SIGNS else None
        yield element("td", f"{_SIGNS.get(label, '')} ", said(label), class_=kind)


def _labels(verdict: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Weight and label by nugget, as text."""
    rows = [row for row in verdict["nuggets"] if isinstance(row, Mapping)]
    return {
        _text(row.get("id")): (
            f"{row['weight']:g}" if _is_number(row.get("weight")) else "-",
            _text(row.get("coverage")),
        )
        for row in rows
    }


def _score(verdict: Mapping[str, Any]) -> str:
    score = verdict.get("restore_score_100")
    return f"{score:.2f}" if _is_number(score) else "-"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [_text(one) for one in _list(value)]


def _text(value: object) -> str:
    """A value of unknown type as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"
