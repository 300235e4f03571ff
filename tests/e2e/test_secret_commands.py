"""Secrets are listed, given, rotated and checked; no command shows one."""

from pathlib import Path

import pyrage
import pytest

from hermesops.base.files.private_file import make_secret
from tests.support.real.commands.command import Command

CANARY = "canary-8842"


@pytest.fixture
def age(tmp_path: Path) -> Command:
    """An environment whose secrets are in an age file."""
    identity = pyrage.x25519.Identity.generate()
    make_secret(tmp_path / "identity", f"{identity}\n")
    (tmp_path / "secrets.age.recipients").write_text(f"{identity.to_public()}\n")
    home = {
        "HERMESOPS_SECRETS_HOME": f"age:{tmp_path / 'secrets.age'}",
        "HERMESOPS_SECRETS_IDENTITY": str(tmp_path / "identity"),
        "HERMESOPS_ENV": "staging",
    }
    return Command(tmp_path / "home", home)


async def test_secrets_live_in_an_age_file_and_nowhere_else(age: Command, tmp_path: Path) -> None:
    assert (await age.run("registry", "check")).exit_code == 0
    assert (await age.run("secrets", "set", "api.key", typed=CANARY)).exit_code == 0
    listed = (await age.run("secrets", "list", "--json")).json["secrets"]
    there = {row["name"]: row["is_there"] for row in listed}
    assert there["registry.key"]
    assert there["api.key"]
    assert not there["router.key"]
    assert {row["home"] for row in listed} == {f"age:{tmp_path / 'secrets.age'}"}
    assert not (tmp_path / "home/staging/keys").exists()
    refused = await age.run("secrets", "set", "api.key", typed="another")
    assert refused.exit_code == 3
    rotated = await age.run("secrets", "rotate", "registry.key", "--reason", "yearly", "--json")
    assert rotated.exit_code == 0, str(rotated)
    checked = await age.run("secrets", "check", "registry.key", "--json")
    assert checked.exit_code == 0, str(checked)
    assert rotated.json["key"] in checked.json["checks"][0]["seen"]
    audit = (await age.run("audit", "log", "--json")).json["entries"]
    assert [entry["action"] for entry in audit] == ["registry_key_rotated", "registry_key_changed", "secret_set"]
    assert not [ran for ran in age.said if CANARY in ran.stdout + ran.stderr]


async def test_what_a_person_has_to_do_is_said_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    command = Command(tmp_path, {"HERMESOPS_ENV": "staging"})
    ran = await command.run("secrets", "rotate", "api.key", "--json")
    assert ran.exit_code == 7
    assert "hermesops --env staging secrets set api.key --from FILE" in ran.json["steps"]
    unknown = await command.run("secrets", "rotate", "apikey")
    assert unknown.exit_code == 2
    assert "api.key" in unknown.stderr


async def test_a_secret_in_a_variable_opens_and_is_not_changed(tmp_path: Path) -> None:
    variables = {
        "HERMESOPS_ENV": "staging",
        "HERMESOPS_API_URL": "http://127.0.0.1:9/api/v1",
        "HERMESOPS_SECRETS_HOME": "environment",
        "HERMESOPS_SECRET_API_KEY": CANARY,
    }
    command = Command(tmp_path, variables)
    secrets_check = await command.run("secrets", "check", "api.key", "--json")
    assert secrets_check.json["checks"][0]["verdict"] == "unknown", "the key was found, the vendor is silent"
    refused = await command.run("registry", "check")
    assert refused.exit_code == 3
    assert "HERMESOPS_SECRET_REGISTRY_KEY" in refused.stderr
    assert not [ran for ran in command.said if CANARY in ran.stdout + ran.stderr]


async def test_keys_are_not_lost_by_setting_another_ring(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    (tmp_path / "other" / "staging").mkdir(parents=True)
    command = Command(tmp_path, {"HERMESOPS_ENV": "staging"})
    assert (await command.run("registry", "check")).exit_code == 0
    held = (tmp_path / "staging/keys/registry.key").read_text()
    other = Command(tmp_path / "other", {"HERMESOPS_ENV": "staging"})
    assert (await other.run("registry", "check")).exit_code == 0
    refused = await command.run(
        "secrets", "set", "registry.key", "--yes", "--from", str(tmp_path / "other/staging/keys/registry.key")
    )
    assert refused.exit_code == 3
    assert "lacks" in refused.stderr
    assert (tmp_path / "staging/keys/registry.key").read_text() == held
