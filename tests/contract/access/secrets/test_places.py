"""Whatever home an environment's secrets have, those who need them find them there; a file that is set wins."""

import stat
from pathlib import Path

import pytest

from hermesops.access.secrets.catalog import API_KEY, CATALOG, PULUMI_PASSPHRASE
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.app import Container
from hermesops.base.files.private_file import make_secret
from hermesops.errors import RefusedError, UsageError
from hermesops.model.check import Verdict
from hermesops.model.operation import LeaseHeldError
from hermesops.settings.environment import Environment
from hermesops.store.registry.open import migrate_registry

CANARY = "canary-7731"
URL = "https://api.example.org/api/v1"


def app_of(home: Path, **variables: str) -> Container:
    given = {f"HERMESOPS_{name}": value for name, value in variables.items()}
    environ = {"HOME": str(home), "HERMESOPS_HOME": str(home), "HERMESOPS_API_URL": URL, **given}
    return Container(Environment.load("staging", environ), lambda _line: None)


def test_a_key_of_any_home_opens_the_vendor_and_is_lent_to_programs_as_a_file(tmp_path: Path) -> None:
    app = app_of(tmp_path, SECRETS_HOME="environment", SECRET_API_KEY=CANARY)
    assert (app.endpoint.api_key, app.endpoint.api_key_file) == (CANARY, None)
    file = app.api_key_file
    assert file.read_text() == CANARY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.is_relative_to(tmp_path)
    assert CANARY not in repr(app.env)


def test_a_key_that_is_a_variable_is_lent_too(tmp_path: Path) -> None:
    assert app_of(tmp_path, API_KEY=CANARY).api_key_file.read_text() == CANARY


def test_a_key_in_the_environments_folder_is_handed_on_where_it_lies(tmp_path: Path) -> None:
    make_secret(tmp_path / "staging/keys/api.key", CANARY)
    app = app_of(tmp_path)
    assert app.endpoint.api_key == CANARY
    assert app.api_key_file == tmp_path / "staging/keys/api.key"


def test_a_file_that_is_set_wins_over_the_home(tmp_path: Path) -> None:
    make_secret(tmp_path / "mine", CANARY)
    app = app_of(tmp_path, SECRETS_HOME="environment", SECRET_API_KEY="other", API_KEY_FILE=str(tmp_path / "mine"))
    assert app.endpoint.api_key == CANARY
    assert app.secrets.held(API_KEY).where == str(tmp_path / "mine")
    (tmp_path / "mine").unlink()
    with pytest.raises(RefusedError, match="mine"):
        assert app_of(tmp_path, SECRETS_HOME="environment", API_KEY_FILE=str(tmp_path / "mine")).endpoint


def test_no_key_anywhere_says_where_one_would_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no secret api\.key in environment") as refused:
        assert app_of(tmp_path, SECRETS_HOME="environment").endpoint
    assert "secrets set" in str(refused.value.hint)


def test_the_routers_key_may_live_there_and_may_not_be_short(tmp_path: Path) -> None:
    variables = {"SECRETS_HOME": "environment", "SECRET_API_KEY": "k"}
    assert app_of(tmp_path, SECRET_ROUTER_KEY="r" * 32, **variables).router_key == b"r" * 32
    with pytest.raises(RefusedError, match="shorter than 32 bytes") as refused:
        assert app_of(tmp_path, SECRET_ROUTER_KEY=CANARY, **variables).router_key
    assert CANARY not in refused.value.message
    with pytest.raises(UsageError, match=r"router\.key_file"):
        assert app_of(tmp_path, **variables).router_key


def test_pulumis_passphrase_is_made_once_where_the_home_takes_it(tmp_path: Path) -> None:
    passphrase = app_of(tmp_path).pulumi_passphrase()
    assert app_of(tmp_path).pulumi_passphrase() == passphrase
    assert app_of(tmp_path).secrets.read(PULUMI_PASSPHRASE) == passphrase
    with pytest.raises(RefusedError, match="HERMESOPS_SECRET_PULUMI_PASSPHRASE"):
        app_of(tmp_path, SECRETS_HOME="environment").pulumi_passphrase()


def test_pulumis_passphrase_is_not_made_before_something_needs_it(tmp_path: Path) -> None:
    assert app_of(tmp_path, PULUMI_ENGINE="embedded").engine.name == "embedded"
    assert not (tmp_path / "staging/keys").exists()


def test_the_registrys_key_is_made_in_its_home_and_found_there_again(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    app.registry.close()
    ring = (tmp_path / "staging/keys/registry.key").read_text()
    assert app_of(tmp_path, SECRETS_HOME="environment", SECRET_REGISTRY_KEY=ring).registry.instances.list() == ()
    with pytest.raises(RefusedError, match="damaged"):
        assert app_of(tmp_path, SECRETS_HOME="environment", SECRET_REGISTRY_KEY=CANARY).registry


async def test_the_registrys_key_is_rotated_where_it_lives(tmp_path: Path, registry_url: str) -> None:
    if not registry_url.startswith("sqlite"):
        migrate_registry(registry_url)
    app = app_of(tmp_path, REGISTRY_URL=registry_url)
    before = app.registry.sealing.key()
    prepared = await app.secret_changes.prepare_registry_key()
    assert app.registry.sealing.key() == before, "nothing is sealed with it yet"
    assert await app.secret_changes.rotate_registry_key(why="yearly") == prepared
    ring = Ring.parse((tmp_path / "staging/keys/registry.key").read_text())
    assert (ring.current, set(ring.keys)) == (prepared, {prepared, before}), "a copy from before may be wanted back"
    taken = app.registry.leases.take("registry/key", "another")
    with pytest.raises(LeaseHeldError, match="registry/key is being worked on by another"):
        await app.secret_changes.rotate_registry_key(why="at once")
    app.registry.leases.release(taken)
    variables = {"REGISTRY_URL": registry_url, "SECRETS_HOME": "environment", "SECRET_REGISTRY_KEY": ring.to_text()}
    with pytest.raises(RefusedError, match="HERMESOPS_SECRET_REGISTRY_KEY"):
        await app_of(tmp_path, **variables).secret_changes.rotate_registry_key(why="in a variable")
    assert app.registry.sealing.key() == prepared


def test_what_no_one_needs_is_named(tmp_path: Path) -> None:
    assert app_of(tmp_path, SECRETS_HOME="environment", SECRET_API_KYE="x").checks.unneeded_secrets() == ["api.kye"]


async def test_every_secret_that_is_needed_is_checked(tmp_path: Path) -> None:
    checks = await app_of(tmp_path, API_URL="http://127.0.0.1:9/api/v1").checks.check_secrets()
    assert [check.name for check in checks] == [secret.name for secret in CATALOG]
    assert {check.name: check.verdict for check in checks}["registry.key"] is Verdict.OK
