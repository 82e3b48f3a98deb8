"""The page as a file: head with its policy, table of contents, sections. It needs nothing else and lets nothing out."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.report.html.element import Element, Node, Program, element, rendered, said

DOCTYPE: Final = "<!doctype html>\n"


NO_SCRIPT: Final = (
    "Figures are drawn by the scripts in this file, which do not run here; their numbers stand below."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page that its table of contents leads to."""

    anchor: str
    title: str
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says. `plotly` is empty where nothing is drawn; `data` is what the page's script draws."""

    title: str
    lead: tuple[Node, ...]
    """Below the title."""
    sections: Sequence[Section]
    foot: tuple[Node, ...]
    plotly: str = ""
    data: Element | None = None


def document(page: Page) -> Iterator[str]:
    """The page's HTML, in pieces. Every script in it is one of ours, and named by its hash in the policy."""
    scripts = [program_of(text) for text in (page.plotly, own_text("page.js")) if page.plotly and text]
    style = Program(own_text("page.css"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(scripts)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", page.title),
        element("style", style),
    )
    contents = [element("li", element("a", one.title, href=f"#{one.anchor}")) for one in page.sections]
    body = element(
        "body",
        element("a", "Skip to the results", href="#results", class_="skip"),
        element("header", said(page.title, "h1"), page.lead),
        element("noscript", element("p", NO_SCRIPT, class_="warning")) if page.plotly else None,
        element("nav", element("h2", "Contents"), element("ol", contents), aria_label="Contents"),
        element("main", (_section(one) for one in page.sections), id="results", tabindex=-1),
        element("footer", page.foot),
        page.data,
        (element("script", script) for script in scripts),
    )
    yield DOCTYPE
    yield from rendered(element("html", head, body, lang="en"))
    yield "\n"


def policy(scripts: Sequence[Program]) -> str:
    """Nothing is fetched, framed, sent or run but these very scripts; plotly sets styles as it draws."""
    allowed = " ".join(f"'sha256-{_digest(script.text)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def program_of(text: str) -> Program:
    """A script as a parser reads it, which makes one line break of two characters: its hash is of that."""
    return Program(text.replace("\r\n", "\n").replace("\r", "\n"))


def own_text(name: str) -> str:
    """A file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(one: Section) -> Element:
    title = f"{one.anchor}-title"
    return element(
        "section", element("h2", one.title, id=title), one.body, id=one.anchor, aria_labelledby=title
    )
