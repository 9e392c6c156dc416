"""Settings: which place wins, and what a mistake says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corrigenda.config import load, override, shown
from corrigenda.errors import ConfigError
from corrigenda.settings import ADDRESSES, SECRETS, Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.fixture(autouse=True)
def no_user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    write(tmp_path / "corrigenda.toml", 'k = 0.1\nreferences = 2\npolicy = "paper"\n')
    got = load({"k": "0.3", "seed": None}, environ={"CORRIGENDA_K": "0.2", "CORRIGENDA_REFERENCES": "3"}, cwd=tmp_path)
    s = got.settings
    assert (s.k, s.references, s.policy, s.decomposer) == (0.3, 3, "paper", "auto")
    where = {name: got.sources[name] for name in ("k", "references", "policy", "decomposer")}
    assert where == {
        "k": "flag",
        "references": "environment CORRIGENDA_REFERENCES",
        "policy": str(tmp_path / "corrigenda.toml"),
        "decomposer": "default",
    }


def test_project_file_beats_the_users_and_a_named_file_replaces_both(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(tmp_path / "user" / "corrigenda" / "corrigenda.toml", "k = 0.1\nseed = 7\n")
    write(project / "corrigenda.toml", "k = 0.2\n")
    both = load({}, environ={}, cwd=project).settings
    assert (both.k, both.seed) == (0.2, 7)
    named = write(tmp_path / "other.toml", "references = 4\n")
    for got in (
        load({}, config_file=str(named), environ={}, cwd=project),
        load({}, environ={"CORRIGENDA_CONFIG": str(named)}, cwd=project),
    ):
        assert (got.settings.k, got.settings.seed, got.settings.references) == (0.7, None, 4)


def test_variables_of_other_tools_are_honoured_below_our_own(tmp_path: Path) -> None:
    env = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://localhost:1/v1", "HF_ENDPOINT": "https://hub.example"}
    s = load({}, environ=env, cwd=tmp_path).settings
    assert (s.api_key, s.base_url, s.hub_url) == ("sk-1", "http://localhost:1/v1", "https://hub.example")
    own = env | {"CORRIGENDA_API_KEY": "sk-2", "CORRIGENDA_BASE_URL": "http://localhost:2/v1"}
    s = load({}, environ=own, cwd=tmp_path).settings
    assert (s.api_key, s.base_url) == ("sk-2", "http://localhost:2/v1")


def test_the_openai_key_is_not_sent_where_a_found_project_file_points(tmp_path: Path) -> None:
    """A corrigenda.toml that came with somebody's repository must not be able to collect keys."""
    write(tmp_path / "corrigenda.toml", 'base_url = "https://collector.example/v1"\n')
    env = {"OPENAI_API_KEY": "sk-1"}
    assert load({}, environ=env, cwd=tmp_path).settings.api_key is None
    assert load({"base_url": "https://mine.example/v1"}, environ=env, cwd=tmp_path).settings.api_key == "sk-1"
    named = load({}, config_file=str(tmp_path / "corrigenda.toml"), environ=env, cwd=tmp_path)
    assert named.settings.api_key == "sk-1"


SECRET_SOURCES: list[tuple[dict[str, str], str, str, str]] = [
    ({"OPENAI_API_KEY": "s3cret"}, "", "api_key", "environment OPENAI_API_KEY"),
    ({"CORRIGENDA_API_KEY": "s3cret"}, "", "api_key", "environment CORRIGENDA_API_KEY"),
    ({"CORRIGENDA_HEADERS": "X-Key: s3cret"}, "", "headers", "environment CORRIGENDA_HEADERS"),
    ({"HF_TOKEN": "s3cret"}, "", "hub_token", "environment HF_TOKEN"),
    ({"CORRIGENDA_HUB_TOKEN": "s3cret"}, "", "hub_token", "environment CORRIGENDA_HUB_TOKEN"),
    ({}, 'api_key = "s3cret"', "api_key", "user/corrigenda/corrigenda.toml"),
    ({}, 'hub_token = "s3cret"', "hub_token", "user/corrigenda/corrigenda.toml"),
    ({}, '[headers]\nX-Key = "s3cret"', "headers", "user/corrigenda/corrigenda.toml"),
]


@pytest.mark.parametrize(("env", "own", "name", "source"), SECRET_SOURCES)
def test_no_secret_goes_where_only_a_found_file_points(
    env: dict[str, str], own: str, name: str, source: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    write(tmp_path / "user" / "corrigenda" / "corrigenda.toml", own)
    found = write(project / "corrigenda.toml", 'base_url = "https://evil.example"\nhub_url = "https://evil.example"\n')
    got = load({}, environ=env, cwd=project)
    assert "s3cret" not in str([getattr(got.settings, secret) for secret in SECRETS])
    assert list(got.held_back) == [name]
    address = ADDRESSES[name]
    remedy = {"base_url": "pass --base-url URL", "hub_url": "set CORRIGENDA_HUB_URL"}[address]
    (warning,) = got.warnings
    assert warning.startswith(f"{name} (")
    assert warning.endswith(
        f"{source}) is held back: {address} comes from {str(found)!r}, which was found in the working folder and may "
        f"be somebody else's; to send it there all the same, {remedy}, or --config {found}"
    )
    shown_source = got.sources[name]
    assert shown_source.endswith(source)
    assert (name, "(held back, not used)", shown_source) in shown(got)
    # The same address from anywhere else is the user's own choice.
    for chosen in (
        load({address: "https://evil.example"}, environ=env, cwd=project),
        load({}, environ=env | {f"CORRIGENDA_{address.upper()}": "https://evil.example"}, cwd=project),
    ):
        assert "s3cret" in str(getattr(chosen.settings, name))
        assert chosen.warnings == ()


def test_a_found_file_may_bring_its_own_secrets(tmp_path: Path) -> None:
    write(tmp_path / "corrigenda.toml", 'base_url = "https://mine.example/v1"\napi_key = "sk-file"\n')
    env = {"OPENAI_API_KEY": "sk-env"}
    got = load({}, environ=env, cwd=tmp_path)
    assert (got.settings.api_key, got.warnings) == ("sk-file", ())
    got = load({}, environ={"CORRIGENDA_API_KEY": "sk-env"}, cwd=tmp_path)
    assert (got.settings.api_key, list(got.held_back)) == ("sk-file", ["api_key"])
    assert got.sources["api_key"] == str(tmp_path / "corrigenda.toml")


def test_a_found_file_that_names_no_address_holds_nothing_back(tmp_path: Path) -> None:
    write(tmp_path / "corrigenda.toml", 'llm = "openai:gpt-4o-mini"\n')
    got = load({}, environ={"OPENAI_API_KEY": "sk-1", "HF_TOKEN": "hf-1"}, cwd=tmp_path)
    assert (got.settings.api_key, got.settings.hub_token, got.warnings) == ("sk-1", "hf-1", ())


def test_the_users_own_file_is_his_own_in_its_folder_too(tmp_path: Path) -> None:
    own = write(tmp_path / "user" / "corrigenda" / "corrigenda.toml", 'base_url = "https://mine.example/v1"\n')
    got = load({}, environ={"OPENAI_API_KEY": "sk-1"}, cwd=own.parent)
    assert (got.settings.api_key, got.warnings) == ("sk-1", ())


def test_a_found_file_names_no_file_to_write_to(tmp_path: Path) -> None:
    found = write(tmp_path / "corrigenda.toml", 'script_log = "/home/me/.bashrc"\n')
    with pytest.raises(ConfigError, match=r"script_log is not taken from a file found in the working folder.*--script"):
        load({}, environ={}, cwd=tmp_path)
    assert load({"script_log": "a.jsonl"}, environ={}, cwd=tmp_path).settings.script_log == "a.jsonl"
    assert load({}, config_file=str(found), environ={}).settings.script_log == "/home/me/.bashrc"


def test_a_variable_that_sets_nothing_is_warned_about_without_its_value(tmp_path: Path) -> None:
    env = {"CORRIGENDA_POLCIY": "hush", "CORRIGENDA_EVAL_SEED": "hush", "CORRIGENDA_CONFIG": "", "CORRIGENDA_X": ""}
    assert load({}, environ=env | {"OTHER": "1"}, cwd=tmp_path).warnings == (
        "the environment variable CORRIGENDA_EVAL_SEED sets nothing; the nearest that does is CORRIGENDA_SEED",
        "the environment variable CORRIGENDA_POLCIY sets nothing; the nearest that does is CORRIGENDA_POLICY",
    )
    assert load({}, environ={"CORRIGENDA_POLICY": "paper"}, cwd=tmp_path).warnings == ()


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    env = {
        "OPENAI_API_KEY": "sk-secret",
        "CORRIGENDA_HEADERS": "X-Token: hush\nX-Other: quiet",
        "HF_TOKEN": "hf-secret",
    }
    got = load({}, environ=env, cwd=tmp_path)
    assert dict(got.settings.headers) == {"X-Token": "hush", "X-Other": "quiet"}
    rows = {name: value for name, value, _ in shown(got)}
    assert rows["api_key"] == rows["headers"] == rows["hub_token"] == "(set, not shown)"
    assert list(rows) == sorted(rows)
    text = repr(got.settings) + repr(rows)
    assert not [s for s in ("sk-secret", "hush", "hf-secret") if s in text]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"policy": "strict"}, "unknown policy 'strict'; there are bounded, conformal, fixed, paper"),
        ({"k": float("nan")}, "k must be a finite number of at least 0, got nan"),
        ({"k": "many"}, "flag --k: k must be a number, got 'many'"),
        ({"threshold": 1.2, "policy": "fixed"}, r"threshold must be a number from 0 to 1, got 1\.2"),
        ({"threshold": 0.8}, "threshold is used by the policies fixed and conformal, not by 'bounded'"),
        ({"ceiling": 1.0}, "ceiling must be below 1"),
        ({"references": 0}, "references must be from 1 to 20, got 0"),
        ({"references": 1.5}, "flag --references: references must be a whole number, got 1.5"),
        ({"references": True}, "references must be a whole number, got True"),
        ({"timeout": 0}, "timeout must be from 0.001 to 86400, got 0.0"),
        ({"k": True}, "k must be a number, got True"),
        ({"llm": "gpt-4o"}, "unknown llm 'gpt-4o'; it must have one of the forms local:…, openai:…, scripted:…, none"),
        ({"llm": "openai:"}, "unknown llm 'openai:'"),
        ({"llm": "none:x"}, "unknown llm 'none:x'"),
        ({"nli": "chat:none"}, "unknown nli 'chat:none'; it must have one of the forms chat:local:…, chat:openai:…"),
        ({"nli": "chat:gpt-4o"}, "unknown nli 'chat:gpt-4o'; it must have one of the forms chat:local:…"),
        ({"nli": "chat:openai:"}, "unknown nli 'chat:openai:'"),
        ({"k": 10**400}, "flag --k: k must be a number, got 1000"),
        ({"sensitivity": 1}, "unknown setting 'sensitivity'; known are alpha, api_key, .*, unrepaired$"),
        ({"base_url": "ftp://me:hush@x/v1?key=hush"}, r"must start with .*, got 'ftp://\*\*\*@x/v1\?key=\*\*\*'$"),
        ({"hub_url": "me:hush@hub"}, r"hub_url must start with http:// or https://, got '\*\*\*@hub'$"),
        ({"nli": "deberta"}, "unknown nli 'deberta'"),
        ({"nli": "onnx"}, "unknown nli 'onnx'"),
        ({"language": "english"}, "language must be auto or an ISO 639-1 code such as en or it, got 'english'"),
        ({"base_url": "localhost:11434"}, "base_url must start with http:// or https://, got 'localhost:11434'"),
        ({"decomposer": "regex"}, "unknown decomposer 'regex'; there are auto, deterministic, model"),
        ({"api_key": 5}, "api_key must be a text, got the value given"),
    ],
)
def test_a_wrong_value_is_named_with_its_remedy(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        load(values, environ={}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"k = ", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"sensitivity = 0.7", "unknown setting 'sensitivity'; known are alpha, api_key"),
        (b'k = "much"', r"c\.toml: k must be a number, got 'much'"),
        (b"k = -1", r"c\.toml: k must be a finite number of at least 0, got -1\.0"),
        (b"references = 99", r"c\.toml: references must be from 1 to 20, got 99"),
        (b'policy = "strict"', r"c\.toml: unknown policy 'strict'"),
        (b"threshold = 0.5", r"c\.toml: threshold is used by the policies fixed and conformal"),
    ],
)
def test_a_broken_file_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load({}, config_file=str(path), environ={})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"configuration file .*none\.toml' cannot be read: No such file"):
        load({}, config_file=str(tmp_path / "none.toml"), environ={})


def test_a_value_out_of_range_names_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^environment CORRIGENDA_TOP_P: top_p must be from 1e-06 to 1, got 3\.0$"):
        load({}, environ={"CORRIGENDA_TOP_P": "3"}, cwd=tmp_path)
    with pytest.raises(ConfigError, match=r"^environment OPENAI_BASE_URL: base_url must start with"):
        load({}, environ={"OPENAI_BASE_URL": "localhost"}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": "x"}, "^k must be a number, got 'x'$"),
        ({"timeout": "5"}, "^timeout must be a number, got '5'$"),
        ({"k": None}, "^k must be a number, got None$"),
        ({"k": True}, "^k must be a number, got True$"),
        ({"seed": 1.5}, r"^seed must be a whole number, got 1\.5$"),
        ({"language": None}, "^language must be a text, got None$"),
        ({"nli": None}, "^nli must be a text, got None$"),
        ({"api_key": 12345678}, "^api_key must be a text, got the value given$"),
        ({"headers": {"X-Key": 12345678}}, "^headers must be a table of header names and values, got the value given$"),
    ],
)
def test_settings_of_a_wrong_type_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings(**values)


def test_overriding_converts_as_flags_do() -> None:
    base = Settings(seed=7)
    got = override(base, k="0.5", timeout="5", references="3", headers="X-A: b", language=None)
    assert got == Settings(seed=7, k=0.5, timeout=5.0, references=3, headers={"X-A": "b"})
    assert base == Settings(seed=7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"foo": 1}, "^unknown setting 'foo'; known are alpha, api_key, "),
        ({"foo": None}, "^unknown setting 'foo'; known are alpha, api_key, "),
        ({"k": "x"}, "^argument: k must be a number, got 'x'$"),
        ({"k": "-1"}, r"^k must be a finite number of at least 0, got -1\.0$"),
    ],
)
def test_overriding_refuses_what_is_wrong(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(Settings(), **values)


def test_addresses_are_shown_without_what_may_be_secret(tmp_path: Path) -> None:
    env = {"CORRIGENDA_BASE_URL": "https://me:hush@h/v1?api_key=hush&x", "HF_ENDPOINT": "https://tok@hub"}
    rows = {name: value for name, value, _ in shown(load({}, environ=env, cwd=tmp_path))}
    assert (rows["base_url"], rows["hub_url"]) == ("https://***@h/v1?api_key=***&***", "https://***@hub")


def test_settings_hold_the_published_values() -> None:
    s = Settings()
    assert (s.k, s.temperature, s.top_p, s.max_answer_tokens, s.policy) == (0.7, 0.7, 0.9, 256, "bounded")
