"""What hermesops on a local platform's host is told, whatever was set here before."""

from dataclasses import fields
from pathlib import Path

from hermesops.access.secrets.endpoint import Endpoint
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.platform.parts.control import host_proof, host_settings
from hermesops.settings.environment import Environment

OUTPUTS: PlatformOutputs[str] = PlatformOutputs(
    **{field.name: f"its {field.name}" for field in fields(PlatformOutputs)}
)
ENDPOINT = Endpoint("http://127.0.0.1:1/api/v1", "key", None, "http://router", None, ("10.0.0.1",), 7070)
API = "http://127.0.0.1:1/api/v1"


def told(home: Path, **variables: str) -> dict[str, object]:
    given = {f"HERMESOPS_{name}": value for name, value in variables.items()}
    env = Environment.load("local", {"HOME": str(home), "HERMESOPS_HOME": str(home), **given})
    return host_settings(env, ENDPOINT, OUTPUTS, api_url=API)


def test_it_is_told_what_is_set_here_but_no_secret_and_no_file(tmp_path: Path) -> None:
    settings_file = told(tmp_path, GRACE_DAYS="2", API_KEY="secret", OPERATOR_KEY="/a/file", BACKUP_KEY_FILE="/a/key")
    assert settings_file["grace_days"] == 2
    assert "secret" not in str(settings_file)
    assert "/a/" not in str(settings_file)


def test_who_may_act_is_told_apart_with_the_files_that_belong_to_it(tmp_path: Path) -> None:
    signers = tmp_path / "allowed"
    given = {"OPERATORS": "verified", "APPROVALS": "required", "ALLOWED_SIGNERS": str(signers)}
    assert not {"operators", "approvals", "allowed_signers"} & told(tmp_path, **given).keys()
    variables = {f"HERMESOPS_{name}": value for name, value in given.items()}
    env = Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path), **variables})
    assert host_proof(env) == {
        "operators": "verified",
        "approvals": "required",
        "allowed_signers": str(signers),
        "revoked_signers": "",
    }


def test_settings_that_point_this_computer_at_the_platform_change_nothing_there(tmp_path: Path) -> None:
    before = told(tmp_path, GRACE_DAYS="2")
    after = told(tmp_path, GRACE_DAYS="2", PLATFORM_URL="https://10.0.0.1:1", RELEASES="s3://old", BACKUP_BUCKET="old")
    assert before == after
    assert str(before) == str(after), "in the same order: the file must not change"
