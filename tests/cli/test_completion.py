"""What the tab key offers, as the scripts of the shells ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed_commands import Cts

from cts_async.cli.completion import SHELLS


def test_tab_offers_commands_options_names_and_runs(
    cts: Cts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But nothing that a shell would take for more than a name."""
    evil = "e$(touch pwned)"
    Path("cts.toml").write_text(f'[models.mine]\n[models."{evil}"]\n[search.searx]\nurl = "http://h"\n')
    home = tmp_path / "home/cts"
    home.mkdir(0o700, parents=True)
    (home / "cts.toml").write_text("[models.of-all]\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent))
    for run in ("runs/a-gpt-k1", f"runs/{evil}", "mine/b"):
        Path(run).mkdir(parents=True)
        Path(run, "run.json").touch()
    Path("runs/no-run").mkdir()

    def offered(*words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(["cts", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_CTS_COMPLETE", "complete_bash")
        done = cts()
        assert (done.code, done.err) == (0, "")
        return done.out.split()

    assert offered("ru") == ["run", "runs"]
    assert offered("runs", "") == ["list", "diff", "rm", "prune"]
    assert offered("runs", "rm", "") == offered("runs", "diff", "x", "a") == ["a-gpt-k1"]
    assert offered("runs", "rm", "mine/") == ["mine/b"]
    assert offered("run", "-m", "m") == ["mine"]
    assert offered("judge", "--judge", "lex") == ["lexical"]
    assert offered("run", "--all", "o") == ["of-all"]
    assert offered("run", "--all", "e") == ["ernie"]
    assert offered("run", "--search", "s") == ["searx", "serper"]
    assert offered("run", "--scheme", "at") == ["at-cot", "at-standard"]
    assert offered("run", "--stop") == ["--stop-after"]
    assert offered("compare", "r") == ["runs/a-gpt-k1"]
    assert offered("audit", "mine/") == ["mine/b"]
    assert offered("run", "--gold", "g") == [], "so the shell completes files"
    Path("cts.toml").write_text("not = TOML = at all")
    (home / "cts.toml").chmod(0o666)
    assert offered("models", "g") == ["gemini", "gpt"]


def test_script_is_printed_for_each_shell(cts: Cts) -> None:
    for shell in SHELLS:
        done = cts("completion", shell)
        assert (done.code, f"_CTS_COMPLETE=complete_{shell}" in done.out) == (0, True)
    assert (
        cts("completion", "tcsh").err == "cts: tcsh: no completion for this shell; known: bash, zsh, fish\n"
    )
