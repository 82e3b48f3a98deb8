"""inspect_ai: a task that is nothing but `generate()`, scored by whether the reply holds results."""

from __future__ import annotations

import tempfile

from given import IN_FLIGHT, KEY, MODEL, URL, conversations, verdicts
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

samples = [
    Sample(
        input=[ChatMessageSystem(content=system["content"]), ChatMessageUser(content=user["content"])],
        target="results",
    )
    for system, user in conversations()
]
model = get_model(f"openai-api/bench/{MODEL}", base_url=URL, api_key=KEY)
with tempfile.TemporaryDirectory() as folder:
    (log,) = eval(
        Task(dataset=samples, solver=generate(), scorer=includes()),
        model=model,
        max_connections=IN_FLIGHT,
        max_samples=IN_FLIGHT,
        display="none",
        log_dir=folder,
    )
    print(verdicts([sample.output.completion for sample in log.samples]))
