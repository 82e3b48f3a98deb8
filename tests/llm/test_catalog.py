"""The catalogue: what is shipped, what a user may change, and what each mistake is told."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from written_files import write_config

from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import Catalogue, load_catalogue

MINE = """
[models.mine]
api = "openai"
base_url = "http://127.0.0.1:8000/v1"
model = "my-model"
key_env = "MY_API_KEY"
requests_per_min = 1200
tokens_per_min = 2_000_000
max_concurrency = 256
limit = "sliding"
window_s = 60
timeout_s = 60
input_usd_per_mtok = 0.0
output_usd_per_mtok = 0.0
params = { temperature = 0.0 }
[roles]
support = "mine"
judge = "mine"
agent = "gpt:gpt-4.1-mini"
"""


@pytest.fixture(scope="module")
def shipped() -> Catalogue:
    return load_catalogue()


def test_shipped_names_resolve(shipped: Catalogue) -> None:
    assert shipped.resolve("gpt", {}).model == "gpt-5.2"
    assert shipped.resolve("gemini", {}).base_url == "https://generativelanguage.googleapis.com/v1beta/openai"
    for alias in shipped.models.keys() - {"webdancer", "tongyi"}:
        spec = shipped.resolve(alias, {})
        key_env = spec.key_env
        assert spec.api == ("anthropic" if alias == "claude" else "openai")
        assert (spec.limit, spec.window_s, spec.account) == ("paced", 60, key_env or "local")
        missing = () if key_env is None else (key_env,)
        assert shipped.missing_variables(alias, {}) == missing
        assert shipped.missing_variables(alias, {str(key_env): " "}) == missing
        assert shipped.missing_variables(alias, {str(key_env): "x"}) == ()
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert len({spec, spec}) == 1


def test_every_model_but_the_agents_decodes_deterministically(shipped: Catalogue) -> None:
    """Paper, section 5.2; GPT-5.2 takes a temperature only where it does not reason."""
    sent = {name: spec.sent({}) for name, spec in shipped.models.items()}
    assert [name for name, params in sent.items() if params.get("temperature") != 0.0] == [
        "webdancer",
        "tongyi",
    ]
    assert sent["gpt"] == {"reasoning_effort": "none", "temperature": 0.0}
    assert shipped.models["gpt"].max_tokens_field == "max_completion_tokens"
    assert shipped.models["claude"].params["max_tokens"] == 4096
    assert {"top_p", "top_k", "repetition_penalty"} <= set(shipped.models["gpt"].drops)


def test_drops_apply_to_own_and_request_parameters(tmp_path: Path) -> None:
    text = "[models.gpt]\nparams = { temperature = 0.5, reasoning_effort = 'low' }\ndrops = ['temperature', 'top_p']\n"
    spec = load_catalogue(write_config(tmp_path, text)).resolve("gpt", {})
    assert spec.sent({}) == {"reasoning_effort": "low"}
    assert spec.sent({"top_p": 0.95, "max_tokens": 9}) == {"reasoning_effort": "low", "max_tokens": 9}
    freed = load_catalogue(write_config(tmp_path, text.replace("['temperature', 'top_p']", "[]"))).resolve(
        "gpt:gpt-4.1", {}
    )
    assert freed.sent({"top_p": 0.9}) == {"temperature": 0.5, "reasoning_effort": "low", "top_p": 0.9}


def test_embedded_model_is_small_constrained_and_unlimited(shipped: Catalogue) -> None:
    spec = shipped.resolve("local", {})
    assert (spec.embedded, spec.structured, spec.prompt_size) == (True, "llama", "small")
    limits = spec.requests_per_min, spec.tokens_per_min, spec.context_tokens, spec.max_concurrency
    assert limits == (None, None, 4096, 2)
    assert spec.agent["max_turns"] <= 4, "long conversations are beyond it"
    assert set(spec.text_params) == {"repeat_penalty", "repeat_last_n"}


def test_webdancer_samples_and_needs_an_address(shipped: Catalogue) -> None:
    with pytest.raises(UsageError, match="set WEBDANCER_BASE_URL, or base_url"):
        shipped.resolve("webdancer", {})
    spec = shipped.resolve("webdancer", {"WEBDANCER_BASE_URL": "http://gpu:8000/v1/"})
    assert (spec.base_url, spec.account) == ("http://gpu:8000/v1", "http://gpu:8000/v1")
    assert (spec.params["temperature"], spec.params["top_p"], spec.timeout_s) == (0.6, 0.95, 3000)


def test_release_variables_override_ernie(shipped: Catalogue) -> None:
    environ = {"QIANFAN_BASE_URL": "http://127.0.0.1:9/v2", "EVAL_MODEL_NAME": "ernie-5"}
    spec = shipped.resolve("ernie", environ)
    assert (spec.base_url, spec.model) == ("http://127.0.0.1:9/v2", "ernie-5")
    assert spec.account == "QIANFAN_API_KEY"
    assert spec.input_usd_per_mtok is None
    assert shipped.resolve("ernie:ernie-6", environ).model == "ernie-6"
    assert shipped.resolve("ernie", {"EVAL_MODEL_NAME": " "}).model == "ernie-4.5-turbo-128k"


@pytest.mark.parametrize(
    "url", ["ftp://x/y", "qianfan", "https://user:pw@host/v1", "https://host/v1?key=abc"]
)
def test_an_address_from_the_environment_is_checked_and_not_repeated(shipped: Catalogue, url: str) -> None:
    with pytest.raises(UsageError, match=r"^QIANFAN_BASE_URL ") as caught:
        shipped.resolve("ernie", {"QIANFAN_BASE_URL": url})
    assert url not in str(caught.value)


def test_another_model_at_a_known_endpoint_has_no_known_price(shipped: Catalogue) -> None:
    spec = shipped.resolve("gpt:ft:gpt-4.1-mini", {})
    assert (spec.name, spec.model) == ("gpt:ft:gpt-4.1-mini", "ft:gpt-4.1-mini")
    assert (spec.base_url, spec.account) == ("https://api.openai.com/v1", "OPENAI_API_KEY")
    assert (spec.input_usd_per_mtok, spec.output_usd_per_mtok) == (None, None)
    assert shipped.resolve("gpt:gpt-5.2", {}).input_usd_per_mtok is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gtp", "unknown model 'gtp'; did you mean 'gpt'? known: claude, deepseek, ernie"),
        ("openrouter:x", "unknown model 'openrouter:x'"),
        ("mine", "unknown model 'mine'; known: claude"),  # not gemini
        ("gpt:", "names no model id"),
        ("", "unknown model ''"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(shipped: Catalogue, name: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        shipped.resolve(name, {})
    assert said in str(caught.value)


def test_a_user_s_table_and_roles_are_read(tmp_path: Path) -> None:
    catalogue = load_catalogue(write_config(tmp_path, MINE))
    spec = catalogue.resolve("mine", {})
    assert (spec.base_url, spec.requests_per_min, spec.limit) == ("http://127.0.0.1:8000/v1", 1200, "sliding")
    assert (spec.params, spec.account) == ({"temperature": 0.0}, "MY_API_KEY")
    assert catalogue.roles == {"support": "mine", "judge": "mine", "agent": "gpt:gpt-4.1-mini"}


def test_user_table_overrides_single_fields_and_accounts_are_shared_by_address(tmp_path: Path) -> None:
    text = '[models.{0}]\nbase_url = "http://h:1/v1"\nmodel = "{0}"\n'
    kimi = '[models.kimi]\nmodel = "kimi-k3"\nparams = {}\n'
    catalogue = load_catalogue(write_config(tmp_path, kimi + text.format("a") + text.format("b")))
    spec = catalogue.resolve("kimi", {})
    assert (spec.model, spec.params) == ("kimi-k3", {})
    assert (spec.base_url, spec.key_env) == ("https://api.moonshot.cn/v1", "MOONSHOT_API_KEY")
    assert {catalogue.resolve(name, {}).account for name in "ab"} == {"http://h:1/v1"}


BASE = '[models.m]\nbase_url = "http://h/v1"\nmodel = "x"\n'


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        (BASE + "max_concurency = 3", 4, "models.m.max_concurency", "did you mean 'max_concurrency'?"),
        (BASE + "requests_per_min = 0", 4, "models.m.requests_per_min", "greater than 0"),
        (BASE + "window_s = inf", 4, "models.m.window_s", "finite"),
        (BASE + "max_concurrency = true", 4, "models.m.max_concurrency", "integer"),
        (BASE + "max_concurrency = 1.5", 4, "models.m.max_concurrency", "integer"),
        (BASE + 'tokens_per_min = "9"', 4, "models.m.tokens_per_min", "number"),
        (BASE + 'drops = "top_p"', 4, "models.m.drops", "should be a valid array"),
        (BASE + "params = 3", 4, "models.m.params", "should be a table"),
        (BASE + "params = { max_tokens = -1000000 }", 4, "models.m.params.max_tokens", "integer from 1 to"),
        (BASE + "params = { max_tokens = 300.0 }", 4, "models.m.params.max_tokens", "leave it out for no"),
        (BASE + "text_params = { n = 8 }", 4, "models.m.text_params.n", "only the first is read"),
        (BASE + "params = { messages = [] }", 4, "models.m.params.messages", "the request has its own"),
        (
            "[models.gpt]\ninput_usd_per_mtok = -1",
            2,
            "models.gpt.input_usd_per_mtok",
            "greater than or equal",
        ),
        (BASE + 'name = "x"', 4, "models.m.name", "unknown field"),
        (BASE + 'limit = "burst"', 4, "models.m.limit", "'paced', 'sliding', 'bucket' or 'auto'"),
        (BASE + 'api = "grpc"', 4, "models.m.api", "known: anthropic, "),
        (BASE + 'api_key = "sk-1"', 4, "models.m.api_key", "keys come from the environment: use key_env"),
        (BASE + 'key = "sk-1"', 4, "models.m.key", "keys come from the environment: use key_env"),
        (BASE + 'params = { Authorization = "sk-1" }', 4, "models.m.params.Authorization", "use key_env"),
        (BASE + 'key_env = "sk-proj-1"', 4, "models.m.key_env", "the NAME of an environment variable"),
        ('[models.m]\nmodel = "x"', 1, "models.m.base_url", "is missing"),
        ('[models.m]\nbase_url = "http://h/v1"', 1, "models.m.model", "is missing"),
        ('[models.m]\nmodel = "x"\nbase_url = "h/v1"', 3, "models.m.base_url", "not an http(s) address"),
        ('[models.m]\nmodel = "x"\nbase_url = "https://sk-1@h/v1"', 3, "models.m.base_url", "use key_env"),
        ("[models.gpt]\n\n# slow\nmax_concurrency = 0", 4, "models.gpt.max_concurrency", "greater than 0"),
        ('[models."a:b"]\nmodel = "x"', None, "a:b", "letters, digits"),
        ("models = 3", None, "models", "expected a table"),
        ("[models]\nm = 3", None, "models.m", "expected a table"),
        ("[model.m]", None, "model", "did you mean 'models'?"),
        ('[roles]\njugde = "gpt"', 2, "roles.jugde", "did you mean 'judge'?"),
        ('[roles]\njudge = "gtp"', 2, "roles.judge", "unknown model 'gtp'; did you mean 'gpt'?"),
        ("[roles]\njudge = 3", 2, "roles.judge", "in quotes"),
    ],
)
def test_mistake_is_reported_with_file_line_and_field(
    tmp_path: Path, text: str, line: int | None, field: str, said: str
) -> None:
    path = write_config(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_catalogue(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), line, field)
    assert said in error.problem
    assert "sk-" not in str(error)
    assert "\n" not in str(error)


PLACES = {
    "params = {{ extra_body = {{ {} = {} }} }}": "params.extra_body",
    "text_params = {{ a = [{{ {} = {} }}] }}": "text_params.a",
    "agent = {{ {} = {} }}": "agent",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "apiKey", "apikey", "X-API-Key", "X-Token", "Authorization", "Proxy-Authorization"),
        *("bearer_token", "bearer", "auth", "X-Auth", "sig", "X-Amz-Signature", "X-Amz-Security-Token"),
        *("password", "db_password", "passwd", "client_secret", "secret", "credentials", "AccessToken"),
        *("Ocp-Apim-Subscription-Key", "Cookie", "sessiontoken", "privatekey", "api_keys"),
    ],
)
def test_a_secret_is_refused_at_any_depth_and_not_repeated(tmp_path: Path, place: str, name: str) -> None:
    path = write_config(tmp_path, BASE + place.format(f'"{name}"', '"hunter2-hunter2"'))
    with pytest.raises(InputError, match="keys come from the environment: use key_env") as caught:
        load_catalogue(path)
    assert (caught.value.line, caught.value.field) == (4, f"models.m.{PLACES[place]}.{name}")
    assert "hunter2" not in str(caught.value)


URLS = (
    "https://user:hunter2@h/v1",
    *(f"https://h/v1?x=1&{name}=hunter2" for name in ("auth", "sig", "token")),
)


@pytest.mark.parametrize(
    "value",
    [
        *("Bearer 0123456789abcdefgh", "basic dXNlcjpwYXNzd29yZDEyMw==", "sk-proj-0123456789abcdef", *URLS),
        *(f"https://h/v1?x=1&{name}=hunter2" for name in ("api_key", "X-Amz-Credential")),
    ],
)
def test_a_value_that_looks_like_a_secret_is_refused_whatever_its_name(tmp_path: Path, value: str) -> None:
    with pytest.raises(InputError, match="use key_env") as caught:
        load_catalogue(write_config(tmp_path, f'{BASE}params = {{ extra = [1, "{value}"] }}'))
    assert caught.value.field == "models.m.params.extra"
    assert not any(text in str(caught.value) for text in ("hunter2", "0123456789", "dXNlcjp"))


def test_parameters_that_only_sound_like_secrets_are_accepted(tmp_path: Path) -> None:
    numbers = ["max_tokens", "max_completion_tokens", "min_tokens", "top_logprobs", "thinking_token_budget"]
    texts = ["prompt_cache_key", "author", "design", "monkey", "tokenizer"]
    params = "\n".join([*(f"{name} = 9" for name in numbers), *(f'{name} = "me"' for name in texts)])
    params += """
    stop_token_ids = [1, 2]
    skip_special_tokens = true
    logit_bias = { "50256" = -100 }
    include_stop_str_in_output = false
    eos_token = "</s>"
    stop_token = "<|im_end|>"
    keywords = ["a"]
    response_format = { type = "json_schema", schema = { properties = { key = { type = "string" } } } }
    see = "https://h/docs?page=token"
    signal = "Basic but quite sufficient"
    """
    note = 'note = "token streaming is on, and basic authentication is off"\n'
    path = write_config(tmp_path, f"{BASE}{note}[models.m.params]\n{params}")
    assert len(load_catalogue(path).models["m"].params) == 20


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("9" * 38, "is an integer beyond 64 bits"),
        (f"-{2**63}", "is an integer beyond 64 bits"),
        ("1979-05-27", "is a date or a time; write it in quotes"),
        ("07:32:00", "is a date or a time"),
        ("nan", "must be a finite number"),
        ("-inf", "must be a finite number"),
        ("[" * 40 + "]" * 40, "is nested more than 32 levels deep"),
        (f"{{ {'.'.join('a' * 300)} = 1 }}", "is nested more than 32 levels deep"),
    ],
)
def test_values_that_json_cannot_hold_are_refused(tmp_path: Path, value: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load_catalogue(write_config(tmp_path, f"{BASE}params = {{ seed = {value} }}"))
    assert caught.value.line == 4
    assert str(caught.value.field).startswith("models.m.params.seed")
    assert load_catalogue(write_config(tmp_path, f"{BASE}params = {{ seed = {2**63 - 1} }}"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{BASE}params = {{ seed = {'[' * 600 + ']' * 600} }}", "is nested more than 32 levels deep"),
        (f"{BASE}params = {{ seed = {'9' * 5000} }}", "has too many digits"),
        ("[models.m]\nmodel = \n", "cts.toml:2: not valid TOML"),
        (b"# \xff", "not UTF-8"),
        (None, r"cts.toml: cannot be read"),
    ],
)
def test_unreadable_file_is_one_line(tmp_path: Path, content: str | bytes | None, said: str) -> None:
    path = tmp_path / "cts.toml"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        load_catalogue(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    path = write_config(tmp_path, "")
    with path.open("r+b") as file:
        file.truncate(3 << 30)
    with pytest.raises(InputError, match="cts.toml: cannot be read: is larger than 4,194,304 bytes"):
        load_catalogue(path)


def test_name_of_prompts_may_follow_a_model_s(tmp_path: Path) -> None:
    catalogue = load_catalogue(write_config(tmp_path, MINE + '[prompts]\nshort = "p/short"\n'))
    assert catalogue.prompts == {"short": tmp_path / "p/short"}
    for name in ("mine", "ernie", "deepseek:deepseek-x"):
        environ = {"QIANFAN_BASE_URL": "http://q.example/v1"}
        plain = catalogue.resolve(name, environ)
        assert catalogue.resolve(f"{name}@short", environ) == replace(plain, name=f"{name}@short")
    assert catalogue.resolve("mine:claude@2025", {}).model == "claude@2025", "an @ of the model's own"
    with pytest.raises(UsageError, match=r"no prompts are called 'shrot' .*; did you mean 'short'"):
        catalogue.resolve("mine@shrot", {})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            '[prompts]\nout = "../elsewhere"',
            "cts.toml:2: field 'prompts.out': lies outside the folder of this",
        ),
        ('[prompts]\nout = "/etc"', "cts.toml:2: field 'prompts.out': lies outside the folder of this"),
        ('[prompts]\nout = "link/mine"', "cts.toml:2: field 'prompts.out': lies outside the folder of this"),
        (
            '[prompts]\n"a b" = "x"',
            "cts.toml:2: field 'prompts.a b': a name has letters, digits, _ and - only",
        ),
        ("[prompts]\na = 3", "cts.toml:2: field 'prompts.a': must be a folder, in quotes"),
        (
            '[roles]\nsupport = "gpt@a"\n[prompts]\na = "x"',
            "cts.toml:2: field 'roles.support': 'gpt@a' names prompts, which only options can",
        ),
    ],
)
def test_folder_of_prompts_lies_within_that_of_the_file(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "link").symlink_to("..")
    with pytest.raises(InputError) as caught:
        load_catalogue(write_config(tmp_path / "lab", table + "\n"))
    assert said in str(caught.value)
