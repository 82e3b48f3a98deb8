"""What a service's answer means that holds no results, and what sites send in the place of a page.

Services say in their own words that they are unpaid, too busy or broken, some of them with status 200; sites show
captchas and walls with status 200. Counted as "no results" or as evidence they would become a score of 0 in silence.
All wordings stand in unusable_answers.toml; the functions here are pure and know no service by name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from cts_async.errors import ToolError

Meaning = Literal["no results", "unpaid", "wait", "key"]
"""What an error means: an empty list of results, a bill or quota that only the user can settle, a rate that passes by
itself, a key that is refused."""

MAX_WORDS_CHARS: Final = 2_000
"""Of a message, so many characters are searched for words: a service's error is short."""
_TABLE: Final = Path(__file__).with_name("unusable_answers.toml")
_ADDRESS: Final = re.compile(r"\S*[./]\w\S*")
_WARNED_CHARS: Final = 1_000
"""A reader's warnings stand in the first lines of its text."""
_BEGINS: Final = r"(?:\A|\n|[.!?。！？]\s+)[\s#>*_\-|\[\]()]*"
"""Where a line or a sentence begins, after the marks of Markdown."""


@dataclass(frozen=True, slots=True)
class _ErrorForm:
    means: Meaning
    statuses: frozenset[int]
    words: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class _PageForm:
    reason: str
    title: re.Pattern[str] | None
    text: re.Pattern[str] | None
    max_chars: int


@dataclass(frozen=True, slots=True)
class _Forms:
    """The table, compiled."""

    fields: Mapping[str, Sequence[str]]
    good_codes: frozenset[str]
    good_message: re.Pattern[str]
    errors: tuple[_ErrorForm, ...]
    reader: Mapping[str, Any]
    warned_status: re.Pattern[str]
    warned_captcha: re.Pattern[str]
    pages: tuple[_PageForm, ...]


def _compiled(words: str | None, *, before: str = "") -> re.Pattern[str] | None:
    if words is None:
        return None
    return re.compile(f"{before}(?:{words})", re.IGNORECASE)


@lru_cache(maxsize=1)
def _forms() -> _Forms:
    table = tomllib.loads(_TABLE.read_text("utf-8"))
    errors = []
    for row in table["answer"]:
        statuses = frozenset(row.get("status", ()))
        errors.append(_ErrorForm(row["means"], statuses, _compiled(row.get("words"))))
    pages = []
    for row in table["page"]:
        text = _compiled(row.get("text"), before=_BEGINS)
        pages.append(_PageForm(row["reason"], _compiled(row.get("title")), text, row["max_chars"]))
    return _Forms(
        fields=table["fields"],
        good_codes=frozenset(table["good"]["code"]),
        good_message=re.compile(table["good"]["message"], re.IGNORECASE),
        errors=tuple(errors),
        reader=table["reader"],
        warned_status=re.compile(table["reader"]["warned_status"], re.IGNORECASE),
        warned_captcha=re.compile(table["reader"]["warned_captcha"], re.IGNORECASE),
        pages=tuple(pages),
    )


# --- JSON of services


def text_value(value: object) -> str:
    """Return a JSON string or number as text, "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()


def value_at(data: Any, path: str) -> Any:
    """Return the value at a dotted path in JSON `data`, where numbers index lists; None if there is none."""
    if not path:
        return data
    for part in path.split("."):
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data


def _first_text(body: Any, paths: Sequence[str]) -> str:
    for path in paths:
        text = text_value(value_at(body, path))
        if text:
            return text
    return ""


def error_message(body: Any) -> str:
    """Return the message of an error's JSON, "" if it has none."""
    if not isinstance(body, Mapping):
        return ""
    return _first_text(body, _forms().fields["message"])


def error_codes(body: Any) -> str:
    """Return the codes of an error's JSON, separated by spaces; "" if it has none."""
    if not isinstance(body, Mapping):
        return ""
    codes = [text_value(value_at(body, path))[:100] for path in _forms().fields["code"]]
    return " ".join(dict.fromkeys(filter(None, codes)))


def meaning_of(status: int, message: str, codes: str = "", *, echo: str = "") -> Meaning | None:
    """Return what an error means by its status and words, None if the table does not know it.

    Addresses in the message, and the query or address asked for (`echo`), are not the service's words: a page that is
    called "payment" is no unpaid bill.
    """
    words = message[:MAX_WORDS_CHARS]
    if echo:
        words = words.replace(echo, " ")
    words = f"{_ADDRESS.sub(' ', words)} {codes}"
    # The order of the table decides: "rate limit of your plan per day" is a quota, no rate.
    for form in _forms().errors:
        if form.statuses and status not in form.statuses:
            continue
        if form.words is None or form.words.search(words):
            return form.means
    return None


def bad_code(body: Any) -> str:
    """Return the code with which JSON of status 200 says that the request failed; "" if it says no such thing."""
    forms = _forms()
    if not isinstance(body, Mapping):
        return ""
    for path in forms.fields["verdict"]:
        value = value_at(body, path)
        if value is False:  # "success": false
            return "false"
        code = text_value(value)
        good = code.lower() in forms.good_codes
        # Services count their codes as they like: most good ones lie in the range of HTTP.
        if code.isdecimal() and len(code) < 10:
            good = good or 200 <= int(code) < 300
        if code and not good and not forms.good_message.fullmatch(error_message(body)):
            return code[:100]
    return ""


def http_status(code: str) -> int | None:
    """Return a code as an HTTP status of an error, None if it is none."""
    if re.fullmatch(r"[45]\d\d", code):
        return int(code)
    return None


def has_only_a_message(body: Any) -> bool:
    """True if JSON without a list of results has a message that is not "success"."""
    if not isinstance(body, Mapping):
        return False
    words = text_value(value_at(body, "message")) or text_value(value_at(body, "msg"))
    # FastAPI has its errors there.
    words = words or text_value(value_at(body, "detail"))
    return bool(words) and not _forms().good_message.fullmatch(words)


def failed_sources(body: Any) -> str:
    """Return what did not answer a search without results: "brave (Suspended: CAPTCHA), bing"; "" if none is named."""
    for path in _forms().fields["failed_sources"]:
        rows = value_at(body, path)
        if not isinstance(rows, list):
            continue
        sources: list[str] = []
        for row in rows[:10]:
            # SearXNG names each engine with its reason, others the source alone.
            parts = row
            if not isinstance(row, list):
                parts = [row]
            texts = list(filter(None, map(text_value, parts)))
            if len(texts) > 1:
                sources.append(f"{texts[0]} ({texts[1]})")
            else:
                sources += texts
        if sources:
            return ", ".join(sources)
    return ""


# --- Pages


def check_report(body: Any, text: str, host: str) -> None:
    """Raise ToolError if a reader's JSON says that the page's own host refused, or why there is no text."""
    reader = _forms().reader
    for path in reader["page_status"]:
        status = value_at(body, path)
        if isinstance(status, int) and 400 <= status < 600:
            raise ToolError(f"the page answered HTTP {status}", reason=f"http {status}", host=host)
    problem = _first_text(body, reader["page_error"])
    # Beside a text it is a remark: the page was read.
    if problem and not text.strip():
        line = " ".join(problem[:200].split())
        raise ToolError(f"the page could not be read: {line}", reason="no text", host=host)


def check_warnings(warning: str, text: str, host: str) -> None:
    """Raise ToolError for a page whose host answered with an error or a captcha, by the Jina reader's `warning`."""
    forms = _forms()
    refused = forms.warned_status.search(warning)
    if refused:
        raise ToolError(f"the page answered HTTP {refused[1]}", reason=f"http {refused[1]}", host=host)
    # It warns of any page with a captcha in it, such as one in a form for comments: only a page without text is one.
    if forms.warned_captcha.search(warning) and len(text) <= _WARNED_CHARS:
        raise ToolError("the site shows a captcha instead of the page", reason="captcha", host=host)


def check_page(title: str, text: str, host: str) -> None:
    """Raise ToolError if a page is what a site shows in the place of one: a captcha, a wall, a refusal.

    Only short pages can be: an article about captchas, or one below a banner about cookies, is a page.
    """
    for form in _fitting(title.strip(), text.strip()):
        shown = _SHOWN.get(form.reason, form.reason)
        raise ToolError(f"the site shows {shown} instead of the page", reason=form.reason, host=host)


_SHOWN: Final[Mapping[str, str]] = {
    "captcha": "a captcha",
    "access denied": "'access denied'",
    "cookie wall": "a cookie wall",
    "needs javascript": "a request to turn on JavaScript",
    "not found": "'page not found'",
}


def _fitting(title: str, text: str) -> Iterator[_PageForm]:
    for form in _forms().pages:
        if len(text) > form.max_chars:
            continue
        if form.title is not None and not form.title.fullmatch(title):
            continue
        if form.text is not None and not form.text.search(text):
            continue
        yield form
