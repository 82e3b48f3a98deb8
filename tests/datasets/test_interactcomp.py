"""InteractComp's file, encrypted or plain: its tasks as instances, and its mistakes by line and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_interactcomp import DOMAINS, encrypted, encrypted_file, interactcomp_file, made_task, made_tasks

from cts_async.datasets.inspect import convert, open_to_inspect
from cts_async.datasets.kinds import open_dataset
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        open_dataset(f"interactcomp:{path}")
    return caught.value


def test_line_is_decrypted_to_values_worked_by_hand(tmp_path: Path) -> None:
    # sha256("abc") begins ba 78 16; "Hi?" is 48 69 3f. XORed f2 11 29, which is 8hEp in Base64. "It" gives f3 0c: 8ww=.
    line = {
        "id": 7,
        "domain": "8ww=",
        "question": "8hEp",
        "answer": "8ww=",
        "context": "8hEp",
        "canary": "abc",
    }
    path = interactcomp_file(tmp_path / "one.jsonl", [line])
    (instance,) = open_dataset(f"interactcomp:{path}").instances()
    assert instance == Instance(
        "7", "Hi?\nHi?", "Hi?", (Nugget("answer", "The answer is It", 3.0),), "Hi?", "It"
    )


def test_encrypted_plain_and_mixed_files_have_equal_instances(tmp_path: Path) -> None:
    tasks = made_tasks()
    plain = interactcomp_file(tmp_path / "plain.jsonl", tasks)
    half = [encrypted(task) if task["id"] % 2 else task for task in tasks]
    mixed = interactcomp_file(tmp_path / "mixed.jsonl", half)
    dataset = open_dataset(f"interactcomp:{encrypted_file(tmp_path / 'cipher.jsonl')}")
    instances = list(dataset.instances())
    assert dataset.count == len(instances) == 210
    for path in (plain, mixed):
        assert list(open_dataset(f"interactcomp:{path}").instances()) == instances
    task, chinese = tasks[1], tasks[2]
    assert instances[1].intent == f"{task['question']}\n{task['context']}"
    assert instances[1].query == instances[1].judged_by == task["question"]
    assert sum(instance.nuggets[0].text.startswith("答案是") for instance in instances) == 70
    assert instances[2].nuggets[0].text == f"答案是{chinese['answer']}"


def test_a_plain_file_needs_no_canary(tmp_path: Path) -> None:
    task = made_task(1)
    del task["canary"]
    assert open_dataset(f"interactcomp:{interactcomp_file(tmp_path / 'p.jsonl', [task])}").count == 1


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"id": True}, "id", "must be an integer or a text"),
        ({"id": 1}, "id", "'1' is already used on line 1"),
        ({"answer": " "}, "answer", "must be a text that is not empty"),
        ({"context": None}, "context", "must be a text that is not empty"),
        ({"canary": ""}, "canary", "must be a text that is not empty"),
        ({"answer": "not Base64"}, "answer", "is not Base64"),
        ({"canary": "another"}, "domain", "cannot be decrypted with the canary of its line"),
    ],
)
def test_mistake_names_line_and_field_and_quotes_no_text(
    tmp_path: Path, change: dict[str, Any], field: str, problem: str
) -> None:
    path = interactcomp_file(
        tmp_path / "f.jsonl", [encrypted(made_task(1)), encrypted(made_task(2)) | change]
    )
    error = refused(path)
    assert (error.line, error.field) == (2, field)
    assert problem in str(error)
    for text in ("Quillmere", "Ondrej", "quiet"):
        assert text not in str(error)


def test_empty_file_and_options_that_it_has_no_use_for_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert "contains no tasks" in str(refused(empty))
    path = encrypted_file(tmp_path / "f.jsonl", 2)
    for opening in (
        lambda: open_dataset("interactcomp"),
        lambda: open_dataset(f"interactcomp:{path}", path),
        lambda: open_dataset(f"interactcomp:{path}", fields={"id": "n"}),
    ):
        with pytest.raises(UsageError, match="interactcomp"):
            opening()


def test_domains_are_counted_and_the_file_is_not_converted(tmp_path: Path) -> None:
    inspected = open_to_inspect(f"interactcomp:{encrypted_file(tmp_path / 'f.jsonl', 10)}", None, {})
    facts = inspected.contents().facts
    # Ten tasks in nine domains: the first and the tenth have the same.
    assert facts["domains"] == {DOMAINS[1]: 2} | dict.fromkeys(sorted(set(DOMAINS) - {DOMAINS[1]}), 1)
    target = tmp_path / "plain.jsonl"
    with pytest.raises(UsageError, match="must not be published"):
        convert(inspected, target)
    assert not target.exists()


def test_made_up_file_hides_its_texts(tmp_path: Path) -> None:
    written = encrypted_file(tmp_path / "f.jsonl", 3).read_text()
    assert "Quillmere" not in written
    assert json.loads(written.splitlines()[0])["id"] == 1
