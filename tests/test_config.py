"""Settings: which place wins, and what a mistake says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corrigenda.config import Settings, load, shown
from corrigenda.errors import ConfigError


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
    chosen = env | {"CORRIGENDA_API_KEY": "sk-2"}
    assert load({}, environ=chosen, cwd=tmp_path).settings.api_key == "sk-2"


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


def test_settings_hold_the_published_values() -> None:
    s = Settings()
    assert (s.k, s.temperature, s.top_p, s.max_answer_tokens, s.policy) == (0.7, 0.7, 0.9, 256, "bounded")
