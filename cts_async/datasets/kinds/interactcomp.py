"""InteractComp (Deng et al. 2025, arXiv 2510.24668): questions that only asking the user can resolve.

InteractComp210.jsonl has one object a line: {"id": int, "domain", "question", "answer", "context", "canary"}. The first
four texts are XORed byte by byte with the SHA-256 digest of the canary and Base64-encoded; a plain file has the same
fields unencrypted. Each line is read as what it is, and decrypted in memory only.

The question is q. What the user has in mind, q*, is the question with the hidden context, which tells the target from a
popular distractor; only the User Answerer and the reference point `gold` see it. The judge is asked about the question.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from cts_async.datasets.inspect import contents_of
from cts_async.datasets.io import Row, read_jsonl, short
from cts_async.datasets.kinds import RUN_COMMANDS, Contents, Dataset, Kind, make_dataset
from cts_async.errors import InputError, UsageError
from cts_async.records import ANSWER_IS, Instance, Nugget, language_of

TEXTS: Final = ("domain", "question", "answer", "context")
"""The fields that an encrypted line has in cipher."""
CANARY: Final = "canary"
RESTRICTION: Final = (
    "InteractComp is for non-commercial research, and its text must not be published in plain form"
)
ANSWER_WEIGHT: Final = 3.0
"""Of the only nugget, so that restore_score_100 is 100 x accuracy whatever the weight is; 3 marks a core statement."""

_CIPHER: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def open_interactcomp(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """Open `interactcomp:FILE`. UsageError without a path or with a gold file; InputError for the file's mistakes."""
    if not target:
        raise UsageError(
            "interactcomp needs a path: interactcomp:FILE, InteractComp210.jsonl of its repository"
        )
    if gold is not None:
        raise UsageError("--gold: interactcomp has its own answers; leave out --gold")
    if fields:
        raise UsageError("--field: interactcomp has fields of its own; leave out --field")
    path = Path(target).expanduser()
    return make_dataset(
        "interactcomp",
        path,
        None,
        partial(read_interactcomp, path),
        judge_form="match",
        restriction=RESTRICTION,
    )


def read_interactcomp(path: Path) -> Iterator[Instance]:
    """Stream the instances in file order. InputError names file, line and field, and quotes no text of the file."""
    for id, texts in _tasks(path):
        question, answer = texts["question"], texts["answer"]
        nugget = Nugget("answer", ANSWER_IS[language_of(question)] + answer, ANSWER_WEIGHT)
        intent = f"{question}\n{texts['context']}"
        domain = texts["domain"]
        yield Instance(id, intent, question, (nugget,), judged_query=question, domain=domain)


def interactcomp_contents(dataset: Dataset, fields: Mapping[str, str] | None = None) -> Contents:
    """Return what every dataset has, and the number of tasks of each domain."""
    # The most frequent first, as a reader looks for them.
    n_tasks: dict[str, int] = {}
    for _, texts in _tasks(dataset.path):
        n_tasks[texts["domain"]] = n_tasks.get(texts["domain"], 0) + 1
    ordered = sorted(n_tasks, key=lambda domain: (-n_tasks[domain], domain))
    domains = {domain: n_tasks[domain] for domain in ordered}
    return contents_of(dataset, fields).joined(Contents({"domains": domains}))


def _tasks(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the id and the texts of each line, in plain form."""
    line_of_id: dict[str, int] = {}
    for line, row in read_jsonl(path):
        id = _identifier(path, line, row)
        earlier = line_of_id.setdefault(id, line)
        if earlier != line:
            problem = f"{short(id)} is already used on line {earlier}"
            raise InputError(path, problem, line=line, field="id")
        texts: dict[str, str] = {}
        for name in TEXTS:
            texts[name] = _text(path, line, row, name)
        # A question has spaces or a question mark, or is Chinese: none of these is Base64.
        if _CIPHER.fullmatch(texts["question"]):
            texts = _decrypted(path, line, texts, _text(path, line, row, CANARY))
        yield id, texts
    if not line_of_id:
        raise InputError(path, "contains no tasks", field="question")


def _identifier(path: Path, line: int, row: Row) -> str:
    id = row.get("id")
    # True is an integer to Python.
    if isinstance(id, int) and not isinstance(id, bool):
        return str(id)
    if isinstance(id, str) and id.strip():
        return id.strip()
    raise InputError(path, "must be an integer or a text", line=line, field="id")


def _text(path: Path, line: int, row: Row, name: str) -> str:
    text: Any = row.get(name)
    if not isinstance(text, str) or not text.strip():
        raise InputError(path, "must be a text that is not empty", line=line, field=name)
    # The canary is a key: every character of it counts.
    return text if name == CANARY else text.strip()


def _decrypted(path: Path, line: int, cipher: Mapping[str, str], canary: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    key = hashlib.sha256(canary.encode(errors="surrogatepass")).digest()
    for name, encoded in cipher.items():
        problem = ""
        if not _CIPHER.fullmatch(encoded):
            problem = "is not Base64, though the question of this line is encrypted"
        else:
            data = bytes(
                byte ^ mask for byte, mask in zip(base64.b64decode(encoded), cycle(key), strict=False)
            )
            try:
                texts[name] = data.decode().strip()
            except UnicodeDecodeError:
                problem = f"cannot be decrypted with the {CANARY} of its line; is the file complete?"
            else:
                if not texts[name]:
                    problem = "is empty once it is decrypted"
        if problem:
            raise InputError(path, problem, line=line, field=name)
    return texts


KIND: Final = Kind(
    name="interactcomp",
    title="InteractComp",
    what="210 questions whose answer depends on a context that only the user knows; scored right or wrong",
    licence="non-commercial research; its text must not be published",
    source="https://github.com/FoundationAgents/InteractComp",
    paper="Deng et al. 2025, arXiv 2510.24668",
    spec="interactcomp:FILE",
    expects="InteractComp210.jsonl, encrypted or plain",
    uses=(RUN_COMMANDS, "cts judge"),
    open=open_interactcomp,
    read_own_gold=read_interactcomp,
    contents=interactcomp_contents,
    position=15,
)
