"""What a stranger gets: `python tests/clean_install.py dist/*` installs each file into an environment of its own.

For CI and releases, on every system and Python; nothing but the standard library is needed. In an empty folder the
baseline is played, compared, reported and exported, and each part that is optional has to be missed in one line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

WORKS = (
    "--version",
    "run --all baseline -k 1 -k 2 --limit 4 --gold-query",
    "run --all baseline -k 1 -k 2 --limit 4 --gold-query",
    "compare runs",
    "diagnose runs",
    "status runs",
    "report runs --tables tables",
    "view runs --export pages",
    "demo --no-view",
    "doctor",
)
MISSES = {
    "run": "local",
    "run --all baseline -k 1 --workers 2": "ray",
    "report runs --plots figures": "plots",
}
"""Commands that need an extra, by the extra that their message has to name."""


def main(distributions: list[str]) -> None:
    if not distributions:
        raise SystemExit("usage: clean_install.py DISTRIBUTION...")
    for name in distributions:
        with tempfile.TemporaryDirectory() as folder:
            check(Path(name).resolve(), Path(folder))


def check(distribution: Path, folder: Path) -> None:
    """Install a wheel or an sdist, and type the commands. Raises SystemExit for the first that fails."""
    began = time.monotonic()
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    install = [str(scripts / "python"), "-m", "pip", "install", "--quiet", str(distribution)]
    subprocess.run(install, check=True, cwd=folder)
    print(f"{distribution.name}: installed in {time.monotonic() - began:.0f} s", flush=True)
    place = folder / "place"
    place.mkdir()
    for words in WORKS:
        done = cts(scripts, place, words)
        if done.returncode != 0:
            raise SystemExit(f"cts {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        if "Warning" in done.stderr or "Traceback" in done.stderr:
            raise SystemExit(f"cts {words}: is not quiet\n{done.stderr}")
        print(f"  cts {words}: works", flush=True)
    for words, extra in MISSES.items():
        done = cts(scripts, place, words)
        last = done.stderr.splitlines()[-1:]
        if done.returncode != 2 or not re.search(
            rf"^cts: .*pip install 'cts-async\[{extra}\]'", "".join(last)
        ):
            raise SystemExit(f"cts {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"  cts {words}: {last[0]}", flush=True)


def cts(scripts: Path, place: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Type `cts WORDS` in a folder, without the keys, the browser and the packages of whoever calls this."""
    passed = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "SYSTEMROOT") if name in os.environ
    }
    passed["PYTHONUTF8"] = "1"
    command = [str(scripts / "cts"), *words.split()]
    return subprocess.run(
        command, cwd=place, env=passed, capture_output=True, text=True, timeout=300, check=False
    )


if __name__ == "__main__":
    main(sys.argv[1:])
