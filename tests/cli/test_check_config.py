"""`braidmq check-config`: what is right is said, what is wrong is named, secrets stay where they are."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from braidmq.cli.check_config import toml_lines
from braidmq.config import Config, load_config, without_secrets
from tests.cli.program import braidmq

TOKEN = "a-token-that-is-long-enough"
GOOD = f"""
[[listener]]
port = 1884
[limits]
inflight_max = 20
[auth.scram_users]
"Ada \\"the\\" first" = "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy"
[admin]
port = 9000
token = "{TOKEN}"
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    return path


def test_a_good_file_is_called_good(good: Path) -> None:
    checked = braidmq("check-config", str(good))
    assert (checked.returncode, checked.stdout.decode()) == (0, f"{good}: good\n")


def test_a_mistake_is_named_with_its_line_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[limits]\ninflight_mx = 3\n")
    checked = braidmq("check-config", str(path))
    assert checked.returncode == 1
    assert checked.stdout == b""
    assert checked.stderr.decode().startswith(f"braidmq: {path}:2: [limits] inflight_mx: unknown key")


@pytest.mark.parametrize(
    "setting",
    ['[auth]\npassword_file = "absent"\n', '[[listener]]\ncertificate = "absent"\nkey = "absent"\n'],
)
def test_a_file_that_is_named_and_absent_is_a_mistake(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(setting)
    checked = braidmq("check-config", str(path), cwd=tmp_path)
    assert checked.returncode == 1
    assert b"absent: No such file" in checked.stderr


def test_no_file_given_is_wrong_usage_and_an_absent_one_fails(tmp_path: Path) -> None:
    assert braidmq("check-config").returncode == 2
    assert braidmq("check-config", str(tmp_path / "absent.toml")).returncode == 1


def test_the_settings_in_effect_are_printed_without_secrets(good: Path) -> None:
    env = {"BRAIDMQ_LIMITS_PROPERTIES_MAX": "5"}
    checked = braidmq("check-config", str(good), "--json", env=env)
    shown = json.loads(checked.stdout)
    assert shown["limits"]["inflight_max"] == 20
    assert shown["limits"]["properties_max"] == 5
    assert shown["auth"]["scram_users"] == {'Ada "the" first': "***"}
    assert shown["admin"]["token"] == "***"
    assert TOKEN.encode() not in checked.stdout
    assert b"c3RvcmVk" not in checked.stdout
    as_toml = braidmq("check-config", str(good), "--toml", env=env)
    assert tomllib.loads(as_toml.stdout.decode())["auth"]["scram_users"] == {'Ada "the" first': "***"}


def test_what_is_printed_as_toml_is_read_back_as_the_same_configuration(tmp_path: Path) -> None:
    config = load_config(overrides={"limits.inflight_max": 7, "store.in_memory": True, "listener.port": 0})
    path = tmp_path / "printed.toml"
    path.write_text("\n".join(toml_lines(without_secrets(config))))
    assert load_config(path) == config
    assert msgspec.structs.replace(config, limits=Config().limits) != config
