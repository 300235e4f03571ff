"""Where the vendor is and the key that opens it: taken from files nobody else may read."""

import json
from pathlib import Path

import pytest

from hermesops.access.secrets.endpoint import local_endpoint
from hermesops.access.secrets.environment import api_url_of, endpoint_of
from hermesops.errors import HermesError, RefusedError, UnavailableError, UsageError
from hermesops.settings.environment import Environment


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "api.key"
    file.write_text("sk_1\n")
    file.chmod(0o600)
    return file


def world_of(key_file: Path) -> Path:
    file = key_file.with_name("world.json")
    facts = {
        "api_url": "http://127.0.0.1:1",
        "api_key_file": str(key_file),
        "model_base_url": "http://10.0.0.1:2/v1",
        "model_secret_file": "model.key",
        "broker_address": "10.0.0.1",
        "daemon_port": 7070,
    }
    file.write_text(json.dumps(facts))
    return file


def production(monkeypatch: pytest.MonkeyPatch, key_file: Path) -> Environment:
    monkeypatch.setenv("HERMESOPS_API_URL", "https://vendor.example/api/v1")
    monkeypatch.setenv("HERMESOPS_API_KEY_FILE", str(key_file))
    return Environment.load("production")


def test_the_key_is_read_from_its_file(monkeypatch: pytest.MonkeyPatch, key_file: Path) -> None:
    assert local_endpoint(world_of(key_file)).api_key == "sk_1"
    endpoint = endpoint_of(production(monkeypatch, key_file))
    assert (endpoint.api_key, endpoint.api_key_file) == ("sk_1", key_file)
    assert "sk_1" not in repr(endpoint)


def test_what_needs_no_key_is_told_where_the_vendor_is_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert api_url_of(production(monkeypatch, tmp_path / "none")) == "https://vendor.example/api/v1"
    monkeypatch.setenv("HERMESOPS_API_URL", "")
    with pytest.raises(UsageError, match="production has no api_url"):
        api_url_of(Environment.load("production"))


def test_a_world_that_is_down_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="not up"):
        local_endpoint(tmp_path / "world.json")


@pytest.mark.parametrize(
    ("content", "mode", "error", "says"),
    [
        ("sk_1", 0o640, RefusedError, "may be read by others"),
        ("sk_1", 0o604, RefusedError, "may be read by others"),
        ("", 0o600, RefusedError, "empty"),
        ("sk_1\nsk_2", 0o600, UsageError, "does not hold one API key"),
    ],
)
def test_a_key_file_that_is_none_is_refused_in_every_environment(
    monkeypatch: pytest.MonkeyPatch, key_file: Path, content: str, mode: int, error: type[HermesError], says: str
) -> None:
    key_file.write_text(content)
    key_file.chmod(mode)
    with pytest.raises(error, match=says):
        local_endpoint(world_of(key_file))
    with pytest.raises(error, match=says):
        endpoint_of(production(monkeypatch, key_file))
