"""What every home of secrets promises, and what is each one's own."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pyrage
import pytest
from moto import mock_aws

from hermesops.access.secrets.backends.age import AgeBackend
from hermesops.access.secrets.backends.aws import AwsBackend
from hermesops.access.secrets.backends.folder import EnvironmentBackend, FolderBackend, SecretBackend
from hermesops.access.secrets.store import home_of
from hermesops.base.files.private_file import make_secret
from hermesops.errors import RefusedError, UnavailableError

CANARY = "canary-5510"


def identity(folder: Path, name: str = "identity") -> tuple[Path, str]:
    key = pyrage.x25519.Identity.generate()
    make_secret(folder / name, f"# made for a test\n{key}\n")
    return folder / name, str(key.to_public())


def age_home(folder: Path, *more: str) -> AgeBackend:
    file, public = identity(folder)
    (folder / "secrets.age.recipients").write_text("\n".join(["# who may read them", public, *more]) + "\n")
    return AgeBackend(folder / "secrets.age", file)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    with mock_aws():
        yield


@pytest.fixture(params=["folder", "age", "aws"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> SecretBackend:
    if request.param == "aws":
        request.getfixturevalue("aws")
    backends: dict[str, Callable[[], SecretBackend]] = {
        "folder": lambda: FolderBackend(tmp_path / "keys"),
        "age": lambda: age_home(tmp_path),
        "aws": lambda: AwsBackend("hermesops/staging"),
    }
    return backends[request.param]()


def test_a_home_is_empty_at_first(home: SecretBackend) -> None:
    assert home.names() == frozenset()
    assert home.read("api.key") is None
    assert home.changed_at("api.key") is None


def test_what_is_written_is_read_and_replaces_what_was(home: SecretBackend) -> None:
    home.write("api.key", "one\n")
    home.write("router.key", "other")
    home.write("api.key", "two\nlines")
    assert home.read("api.key") == "two\nlines"
    assert home.read("router.key") == "other"
    assert home.names() == {"api.key", "router.key"}
    assert home.changed_at("api.key") is not None


def test_a_secret_is_made_once(home: SecretBackend) -> None:
    assert home.make("registry.key", "first") == "first"
    assert home.make("registry.key", "second") == "first"
    assert home.read("registry.key") == "first"


def test_an_age_file_shows_nothing_and_opens_for_each_recipient(tmp_path: Path) -> None:
    theirs, public = identity(tmp_path, "theirs")
    mine = age_home(tmp_path, public)
    mine.write("api.key", CANARY)
    text = (tmp_path / "secrets.age").read_text()
    assert text.startswith("-----BEGIN AGE ENCRYPTED FILE-----")
    assert CANARY not in text
    assert "api.key" not in text
    assert AgeBackend(tmp_path / "secrets.age", theirs).read("api.key") == CANARY
    stranger, _ = identity(tmp_path, "stranger")
    with pytest.raises(RefusedError, match="does not open"):
        AgeBackend(tmp_path / "secrets.age", stranger).read("api.key")


def test_an_ssh_key_opens_an_age_file(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - this test alone
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    make_secret(tmp_path / "id_ed25519", private)
    (tmp_path / "s.recipients").write_text(f"{public} ada@example.org\n")
    home = AgeBackend(tmp_path / "s", tmp_path / "id_ed25519")
    home.write("api.key", CANARY)
    assert home.read("api.key") == CANARY


@pytest.mark.parametrize(
    ("recipients", "says"),
    [("", "no recipients"), ("# nobody\n", "no recipients"), ("age1nonsense\n", "no recipient of age")],
)
def test_an_age_file_is_written_for_somebody(tmp_path: Path, recipients: str, says: str) -> None:
    file, _ = identity(tmp_path)
    (tmp_path / "s.recipients").write_text(recipients)
    with pytest.raises(RefusedError, match=says):
        AgeBackend(tmp_path / "s", file).write("api.key", CANARY)
    assert not (tmp_path / "s").exists()


def test_nobody_locks_themselves_out(tmp_path: Path) -> None:
    file, _ = identity(tmp_path)
    _, other = identity(tmp_path, "other")
    (tmp_path / "s.recipients").write_text(f"{other}\n")
    with pytest.raises(RefusedError, match="could not read the result"):
        AgeBackend(tmp_path / "s", file).write("api.key", CANARY)
    assert not (tmp_path / "s").exists()


def test_an_identity_that_others_may_read_is_refused(tmp_path: Path) -> None:
    home = age_home(tmp_path)
    home.write("api.key", CANARY)
    (tmp_path / "identity").chmod(0o644)
    with pytest.raises(RefusedError, match="read by others"):
        home.read("api.key")


@pytest.mark.parametrize("text", ["no key at all", "AGE-SECRET-KEY-1BROKEN"])
def test_a_broken_identity_is_refused_without_repeating_it(tmp_path: Path, text: str) -> None:
    home = age_home(tmp_path)
    home.write("api.key", CANARY)
    (tmp_path / "broken").touch(0o600)
    (tmp_path / "broken").write_text(text)
    with pytest.raises(RefusedError, match="broken holds no identity") as refused:
        AgeBackend(tmp_path / "secrets.age", tmp_path / "broken").read("api.key")
    assert text not in refused.value.message


def test_files_of_a_folder_are_the_owners_alone(tmp_path: Path) -> None:
    home = FolderBackend(tmp_path / "keys")
    home.write("api.key", CANARY)
    assert stat.S_IMODE((tmp_path / "keys/api.key").stat().st_mode) == 0o600
    (tmp_path / "keys/api.key").chmod(0o640)
    with pytest.raises(RefusedError, match="read by others"):
        home.read("api.key")


@pytest.mark.usefixtures("aws")
def test_homes_of_two_prefixes_do_not_see_each_other() -> None:
    AwsBackend("hermesops/staging").write("api.key", "one")
    AwsBackend("hermesops/staging2").write("router.key", "two")
    assert AwsBackend("hermesops/staging").names() == {"api.key"}
    assert AwsBackend("hermesops/staging2").read("api.key") is None


def test_aws_that_does_not_let_us_in_says_who_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(RefusedError, match="aws:x"):
        AwsBackend("x").read("api.key")


@pytest.mark.usefixtures("aws")
def test_aws_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import EndpointConnectionError  # noqa: PLC0415 - this test alone

    home = AwsBackend("x")

    def silence(**_asked: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://secretsmanager")

    monkeypatch.setattr(home._client, "get_secret_value", silence)
    with pytest.raises(UnavailableError, match="does not answer"):
        home.read("api.key")


def test_variables_are_read_and_never_written() -> None:
    home = EnvironmentBackend({"API_KEY": f" {CANARY}\n"}, prefix="HERMESOPS_SECRET_")
    assert home.names() == {"api.key"}
    assert home.read("api.key") == CANARY
    assert home.make("api.key", "other") == CANARY
    for change in (home.write, home.make):
        with pytest.raises(RefusedError, match="HERMESOPS_SECRET_ROUTER_KEY") as refused:
            change("router.key", CANARY)
        assert CANARY not in refused.value.message


@pytest.mark.parametrize("setting", ["vault", "age:", "aws:", "age", "environment:x"])
def test_a_home_that_is_none_is_refused(setting: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"secrets\.home"):
        home_of(setting, keys=tmp_path, identity=None, variables=EnvironmentBackend({}, prefix=""))
