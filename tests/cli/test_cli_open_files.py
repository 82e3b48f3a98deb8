"""More calls at once than a process may have files open to begin with: no connection is refused for that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fake_provider import provider_process

import cts_async
from cts_async.engine.journal import read_jsonl

OURS = str(Path(cts_async.__file__).parents[1])
FEW, MANY = 50, 80
LIMITED = f"""
import resource
from cts_async.cli.start import start

resource.setrlimit(resource.RLIMIT_NOFILE, ({FEW}, 4096))
start()
"""


def test_a_small_limit_on_open_files_is_no_outage(tmp_path: Path) -> None:
    with provider_process(latency_s=0.5) as provider:
        table = f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "mine-1"\nmax_concurrency = {MANY}\n'
        (tmp_path / "cts.toml").write_text(table)
        command = ["run", "--all", "mine", "-k", "3", "--no-orig", "--name", "r", "--max-outage", "5"]
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": OURS},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert provider.stats()["max_in_flight"] > FEW
    assert not [
        record for record in read_jsonl(tmp_path / "runs/r/steps.jsonl") if "failed_attempts" in record
    ]
