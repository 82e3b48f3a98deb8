"""The examples of CONTRIBUTING.md work as they stand: each is one new file in one folder."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from made_runs import Row, made_run

from cts_async.datasets.kinds import open_dataset
from cts_async.engine.events import Usage
from cts_async.errors import InputError, NoCompletion, RejectedError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import Client
from cts_async.records import Instance
from cts_async.tables import statistics
from cts_async.tables.diagnosis import diagnose_named, report_json

EXAMPLES = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL
)


@pytest.fixture
def example(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Put one example into a package, as a file of the given name."""
    position, package, name = request.param
    folder = tmp_path / "example"
    folder.mkdir()
    (folder / f"{name}.py").write_text(EXAMPLES[position], "utf-8")
    module = importlib.import_module(package)
    monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])
    statistics._statistics.cache_clear()
    yield
    statistics._statistics.cache_clear()
    sys.modules.pop(f"{package}.{name}", None)
    vars(module).pop(name, None)


@pytest.mark.parametrize("example", [(0, "cts_async.llm.apis", "ollama")], indirect=True)
async def test_wire_format_sends_and_reads_over_http(example: None) -> None:
    seen: list[tuple[str, object]] = []
    done = {"message": {"content": "hello"}, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2}
    answers = iter(
        [
            web.json_response(done | {"model": "llama3"}),
            web.json_response({"error": "no such model"}, status=400),
            web.json_response({"message": {}}),
        ]
    )

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, orjson.loads(await request.read())))
        return next(answers)

    server = web.Application()
    server.router.add_post("/{path:.*}", answer)
    question = ({"role": "user", "content": "hi"},)
    request = ChatRequest(question, params={"max_tokens": 9, "temperature": 0.0})
    async with TestServer(server) as running, Client({}) as client:
        spec = ModelSpec("mine", "ollama", str(running.make_url("")).rstrip("/"), "llama3", "", "mine", 4)
        assert await client.chat(spec, request) == Reply("hello", "llama3", "stop", Usage(7, 2))
        with pytest.raises(RejectedError, match="no such model"):
            await client.chat(spec, request)
        with pytest.raises(NoCompletion):
            await client.chat(spec, request)
    options = {"num_predict": 9, "temperature": 0.0}
    body = {"model": "llama3", "messages": list(question), "stream": False, "options": options}
    assert seen == [("/api/chat", body)] * 3


@pytest.mark.parametrize("example", [(1, "cts_async.datasets.kinds", "pairs")], indirect=True)
def test_dataset_is_read_and_a_bad_line_named(example: None, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("ferry to Skye in May\tferry\n", "utf-8")
    assert list(open_dataset(f"pairs:{path}").instances()) == [
        Instance("p1", "ferry to Skye in May", "ferry")
    ]
    path.write_text("ferry to Skye in May\tferry\nno tab\n", "utf-8")
    with pytest.raises(InputError, match=r"pairs\.tsv:2: needs INTENT<tab>QUERY"):
        open_dataset(f"pairs:{path}")


@pytest.mark.parametrize("example", [(2, "cts_async.tables.statistics", "all_answered")], indirect=True)
def test_statistic_is_part_of_a_diagnosis(example: None, tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row(id, score=10.0) for id in "abc"])
    rows = [
        Row("a", ["Which year?", "Which city?"], ["2024", "Oslo"], score=20.0),
        Row("b", ["Which year?", "Which city?"], ["2024", "unknown"], score=20.0),
        Row("c", ["Which year?", "Which city?"], ["2023", "Bergen"], score=20.0),
    ]
    made_run(tmp_path, label="gpt-k2", rows=rows)
    (row,) = report_json(diagnose_named([str(tmp_path)]))["all_answered"]
    assert (row["system"], row["n"], row["complete"]) == ("gpt-k2", 3, 2 / 3)
