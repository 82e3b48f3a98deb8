"""bespokelabs-curator: an LLM class over a list of rows, its openai backend, limits on and out of reach.

It counts tokens with tiktoken, whose table is fetched from elsewhere; litellm, which it installs, ships it.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

_LITELLM = Path(importlib.util.find_spec("litellm").origin).parent
os.environ["TIKTOKEN_CACHE_DIR"] = str(_LITELLM / "litellm_core_utils" / "tokenizers")

from bespokelabs import curator  # noqa: E402
from given import IN_FLIGHT, KEY, MODEL, URL, conversations, verdicts  # noqa: E402


class Judge(curator.LLM):
    def prompt(self, row: dict) -> list[dict[str, str]]:
        return [{"role": "system", "content": row["system"]}, {"role": "user", "content": row["user"]}]

    def parse(self, row: dict, response: str) -> dict[str, str]:
        return {"text": response}


LIMITS = {"max_requests_per_minute": 60_000_000, "max_tokens_per_minute": 600_000_000_000}
ADDRESS = {"base_url": URL, "api_key": KEY, "max_concurrent_requests": IN_FLIGHT}

if __name__ == "__main__":
    rows = [{"system": system["content"], "user": user["content"]} for system, user in conversations()]
    judge = Judge(model_name=MODEL, backend="openai", backend_params={**ADDRESS, **LIMITS})
    with tempfile.TemporaryDirectory() as folder:
        found = judge(rows, working_dir=folder)
        print(verdicts([row["text"] for row in found.dataset]))
