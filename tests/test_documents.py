"""Every fenced block of README.md and docs: what a reader can type, save or paste works, in the order of the document.

Each document has a folder of its own, with the files that it talks about in small. Models are played by the suite's
fakes, in this process; keys are made up. What needs more than that (a server, a cluster, a download) is parsed by the
command line instead, and `ONLY_PARSED` says why. A block in none of these classes fails the test.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import click
import fake_roles
import pytest
import typer
from golden_world import clean_environment, unpack
from golden_world import cts as typed_cts
from made_interactcomp import encrypted_file

from cts_async.cli.main import app
from cts_async.config import TABLES
from cts_async.engine.lane import LaneLimits
from cts_async.llm.apis import Message
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol import run as protocol_run
from cts_async.search.catalog import load_search

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")))

KEYS = ("OPENAI", "ANTHROPIC", "GEMINI", "QIANFAN", "DASHSCOPE", "DEEPSEEK", "MOONSHOT")
MINE = '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "my-model"\n'

REPLACED = (
    # What a block cannot have here, and what stands for it.
    ("--search serper", "--corpus docs.jsonl"),  # a key of Serper's
    ("--plots figures --plot-format pdf", ""),  # a browser to draw with; tests/pages/plots draw
    ("--plots figures", ""),
    # the line above has the rest
    (" ... --answers qulac", " --corpus documents.jsonl --no-judge --answers qulac"),
    (" -k 3 ...", " -k 3"),
    ("cts view runs", "cts view runs --export site"),
    ("cts status runs", "cts status runs --once"),  # shows until Ctrl-C
)
ONLY_PARSED = {
    "--ray": "a cluster of Ray; tests/cluster has one",
    "--batch": "waits for a provider's batches; tests/llm/test_batches.py has some",
    "--submit": "the same",
    "--workers": "processes, which the fakes of this one do not reach; tests/cluster has them",
    "cts doctor --ask": "asks a server; tests/cli/test_cli_machine.py has one",
    "smol.py": "downloads smolagents",
    "cts runs diff": "runs of other blocks; tests/cli/test_cli_runs.py has some",
    "cts runs rm": "asks on a terminal; tests/cli/test_cli_runs.py has one",
    "cts runs prune": "asks on a terminal; tests/cli/test_cli_runs.py has one",
    "cts demo": "plays for a while, and serves until Ctrl-C; tests/cli/test_cli_demo.py has it",
    "prompts import": "a clone of another repository; tests/cli/test_cli_prompts.py makes one",
    "prompts/webdancer": "what was imported from it; tests/protocol/test_published_requests.py runs with such prompts",
    "prompts/tongyi": "the same; tests/protocol/test_tongyi_requests.py",
    "part-": "files of 100,000,000 lines, which the shell cuts and names",
}
"""Words of a command, and why it is only parsed."""
NOT_COMMANDS = (
    "make ",
    ". .venv",
    "export ",
    "pip install",
    "git clone ",
    "split ",
    "everywhere$",
    "machine ",
)
"""Lines that are typed into a shell, and are no commands of ours; targets of make: tests/test_readme.py."""
PROSE = {
    "cli -> viewer": "which package imports which; tests/test_layering.py",
    "cli/run.py ": "the way of a command through the modules",
    "runs/manifest.py ": "the way of a run through the modules that read it",
    "q --Clarifier-->": "the protocol as a picture",
    "gold.jsonl\n{": "three files, written by `save_files`",
    "python3 -c": "converts a pickle of others, which runs what stands in it",
}
"""How a block begins that has no command in it."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines that begin with cts, without what is not ours around them."""
        found = []
        for line in self.text.splitlines():
            line = line.partition("$ ")[2].strip() if line.startswith(("everywhere$", "machine ")) else line
            # A loop of the shell: its command stands between `do` and the semicolon.
            line = line.partition("; do ")[2].partition(";")[0] if line.startswith("for ") else line
            if line.startswith("cts "):
                found.append(line)
        return found


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Block(text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in found]


# --- The world


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the documents name, three instances each, as the current one."""
    with patch.dict(os.environ, clean_environment(tmp_path), clear=True):
        for name in KEYS:
            monkeypatch.setenv(f"{name}_API_KEY", "sk-made-up-0123456789")
        monkeypatch.setenv("WEBDANCER_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        # The limits of shipped accounts would pace the fakes.
        free = lambda spec, max_outage_s: LaneLimits(max_concurrency=64, max_outage_s=max_outage_s)  # noqa: E731
        monkeypatch.setattr(protocol_run, "lane_limits_of", free)
        world = tmp_path / "world"
        unpack("0.7.0", world, "queries.csv", "gold.jsonl", "docs.jsonl", "candidates.jsonl", "near")
        place = tmp_path / "place"
        (place / "release" / "results").mkdir(parents=True)
        (place / "candidates").mkdir()
        monkeypatch.chdir(place)
        queries = (world / "queries.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        Path("release/hard_518_queries.csv").write_text("".join(queries[:4]), encoding="utf-8")
        shutil.copy(world / "gold.jsonl", "release/gold_public_hard518.jsonl")
        shutil.copy(world / "gold.jsonl", "gold_public_hard518.jsonl")
        shutil.copy(world / "docs.jsonl", "docs.jsonl")
        shutil.copy(world / "docs.jsonl", "documents.jsonl")
        shutil.copy(world / "near" / "qulac.json", "qulac.json")
        encrypted_file(Path("InteractComp210.jsonl"), 3)
        answers = (world / "candidates.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        for target in ("candidates/a.jsonl", "results/candidates/ebk1__cand_hard518.jsonl"):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).write_text("".join(answers[:2]), encoding="utf-8")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "own"))
        yield place


def replies(model: str, messages: Sequence[Message]) -> str:
    """What the fakes say; to a role of the user's, what models say who like to talk."""
    asked = str(messages[-1]["content"])
    if len(messages) == 1:
        return (
            "Sure! Here are the questions:\n\n1. **Which year do you mean?**\n2. Which place do you mean?\n"
        )
    return fake_roles.say(fake_roles.role_of(str(messages[1]["content"]) or asked), messages, 0.3)


def substituted(command: str) -> str:
    for words, other in REPLACED:
        if words in command and (not other.startswith(words) or other not in command):
            command = command.replace(words, other)
    return command


def shorter(words: list[str]) -> list[str]:
    """A run over two instances, where the document does not say over how many; by a fake for the embedded model."""
    searches = words[0] in ("run", "converse", "gold")
    if searches and "--limit" in words:  # the same command later with more is a document's point
        place = words.index("--limit") + 1
        words = [*words[:place], str(min(int(words[place]), 3)), *words[place + 1 :]]
    elif searches:
        words = [*words, "--limit", "2"]
    if searches and words[0] != "gold" and not {"-m", "--model", "--all", "--questions"} & set(words):
        words = [*words, "--all", "gpt"]
    return words


def parse(words: list[str]) -> None:
    """Raise an error of the command line for an unknown option, or a value that it refuses."""
    found: Any = typer.main.get_command(app)
    for word in words:
        found = found.commands[word]
        words = words[1:]
        if not hasattr(found, "commands"):
            break
    found.make_context(found.name, words)


def run(command: str) -> None:
    """Do what a reader of the document does who types a command."""
    if any(part in command for part in ONLY_PARSED):
        parse([word for word in shlex.split(command, comments=True)[1:] if word != "..."])
        return
    words = shorter(shlex.split(substituted(command), comments=True)[1:])
    result = typed_cts(*words, says=replies)
    assert result.exit_code == 0, f"{command}\n{result.output}\n{result.stderr}\n{result.exception!r}"
    edit_after(words)


def edit_after(words: list[str]) -> None:
    """Edit what a command wrote, as the document tells the reader: fill in a model, change prompts."""
    if words == ["init"]:
        with Path("cts.toml").open("a", encoding="utf-8") as file:
            file.write(MINE)
    if words[:2] == ["prompts", "copy"]:
        for name, role in (("short", "clarify"), ("mine", "clarify"), ("strict", "judge")):
            if not Path("prompts", name).exists():
                typed_cts("prompts", "copy", f"prompts/{name}", role)
            for file in Path("prompts", name).iterdir():
                text = file.read_text(encoding="utf-8")
                file.write_text(text.replace("## user", f"This is {name}.\n## user"), encoding="utf-8")


# --- Blocks


PRINTED = Path("printed.txt")
"""What the last cell of a notebook has printed."""


def save_python(block: Block) -> None:
    """Save a file of the reader's under the name in its first line, or run a cell of a notebook."""
    compile(block.text, f"line {block.line}", "exec")
    named = re.match(r"# ([\w.]+\.py)\b", block.text)
    if named:
        Path(named[1]).write_text(block.text, encoding="utf-8")
        return
    Path("cell.py").write_text(block.text, encoding="utf-8")
    table = ModuleType("pandas")  # which this project does not need
    table.DataFrame = dict  # type: ignore[attr-defined]
    table.Series = lambda values, dtype: values  # type: ignore[attr-defined]
    printed = io.StringIO()
    with patch.dict(sys.modules, {"pandas": table}), redirect_stdout(printed):
        runpy.run_path("cell.py")
    PRINTED.write_text(printed.getvalue(), encoding="utf-8")


def read_toml(block: Block) -> None:
    """Read tables of cts.toml as a command does."""
    tables = tomllib.loads(block.text)
    if tables.keys() <= set(TABLES):
        for name in ("short",):
            Path("prompts", name).mkdir(parents=True, exist_ok=True)
        file = Path("block.toml")
        file.write_text(block.text, encoding="utf-8")
        load_catalogue(file)
        load_search(file)
    else:
        assert list(tables) == ["project"], f"line {block.line}: neither cts.toml nor pyproject.toml"


def save_files(block: Block) -> None:
    """Save files that stand in a block one after the other, each below its name."""
    for name, content in re.findall(r"^([\w.]+\.jsonl)\n((?:\{.*\}\n)+)", block.text, re.MULTILINE):
        Path(name).write_text(content, encoding="utf-8")


def check(block: Block) -> None:
    """Raise an error for a block that does not work, and for one of no known class."""
    if block.language == "python":
        save_python(block)
    elif block.language == "text":
        assert block.text == PRINTED.read_text(encoding="utf-8")
    elif block.language == "toml":
        read_toml(block)
    elif block.language == "latex":
        assert r"\input{tables/results}" in block.text, "tests/tables/test_latex.py has what it inputs"
    elif block.commands:
        known = ("cts ", "for ", *NOT_COMMANDS)
        unknown = [line for line in block.text.splitlines() if line and not line.startswith(known)]
        assert not unknown, f"line {block.line}: {unknown}"
        for command in block.commands:
            run(command)
    elif block.text.startswith(tuple(PROSE)):
        save_files(block)
    else:
        raise AssertionError(f"line {block.line}: a block of no known class:\n{block.text}")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_a_document_works(document: str, folder: Path) -> None:
    if document == "README.md":
        shutil.copy("gold_public_hard518.jsonl", "gold.jsonl")
    for block in blocks(document):
        try:
            check(block)
        except Exception as error:
            raise AssertionError(f"{document}:{block.line}: {error}") from error


def test_blocks_are_found_and_a_wrong_one_fails(folder: Path) -> None:
    assert len(blocks("README.md")) >= 6
    assert len(blocks("docs/extending.md")) >= 12
    for text in ("cts run --modle gpt\n", "cts compare nowhere\n", "ls\n", "cts audit\n"):
        with pytest.raises((AssertionError, click.UsageError)):
            check(Block(1, "", text))
