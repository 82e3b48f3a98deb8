"""An InteractComp of one's own: 210 made-up tasks in the format of the published file, which none of them is from."""

from __future__ import annotations

import base64
import hashlib
import json
from itertools import cycle
from pathlib import Path
from typing import Any

N_TASKS = 210
"""As many as the published file has; every third is in Chinese, as a third of those is."""
DOMAINS = ("Ferries", "Lighthouses", "Markets", "Bridges", "Choirs", "Orchards", "Trams", "Kites", "Wells")
CANARY = "made-up:canary:c0ffee"

Task = dict[str, Any]


def made_task(number: int) -> Task:
    """Return the plain task with this id, from 1; every text of it is unlike those of all others."""
    domain = DOMAINS[number % len(DOMAINS)]
    if number % 3:
        question = f"Which quiet {domain.lower()} project no. {number} has a blue emblem and a yearly fair?"
        answer = f"Quillmere Works {number}"
        context = f"It was founded by the glassblower Ondrej{number} and lies beside lake Varn{number}."
    else:
        question = f"哪一个第{number}号民间团体有蓝色徽章并且每年举办集市？"
        answer = f"青梧社{number}"
        context = f"它由陶匠石砚{number}创办，位于雾湖{number}旁边。"
    return {
        "id": number,
        "domain": domain,
        "question": question,
        "answer": answer,
        "context": context,
        "canary": CANARY,
    }


def made_tasks(n: int = N_TASKS) -> list[Task]:
    """Return the first so many plain tasks."""
    return [made_task(number) for number in range(1, n + 1)]


def encrypted(task: Task) -> Task:
    """Return a task with its texts as the published file has them."""
    key = hashlib.sha256(task["canary"].encode()).digest()
    line = dict(task)
    for name in ("domain", "question", "answer", "context"):
        data = bytes(byte ^ mask for byte, mask in zip(task[name].encode(), cycle(key), strict=False))
        line[name] = base64.b64encode(data).decode()
    return line


def interactcomp_file(path: Path, tasks: list[Task]) -> Path:
    """Write tasks as they are, one a line; give the path."""
    lines = [json.dumps(task, ensure_ascii=False) for task in tasks]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def encrypted_file(path: Path, n: int = N_TASKS) -> Path:
    """Write the first so many tasks, encrypted."""
    return interactcomp_file(path, [encrypted(task) for task in made_tasks(n)])
