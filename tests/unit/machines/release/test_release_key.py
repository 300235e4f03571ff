"""Releases are signed with the key that settings name, with a secret, or with one that the first release makes."""

from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.release.signing import ReleaseKey
from hermesops.settings.environment import Environment
from tests.support.fakes.parts import part


def key(home: Path, name: str = "staging", secret: str | None = None, **variables: str) -> ReleaseKey:
    given = {"HOME": str(home), "HERMESOPS_HOME": str(home)}
    if name != "local":
        given["HERMESOPS_API_URL"] = "https://api.example.org/api/v1"
    given |= {f"HERMESOPS_{text}": value for text, value in variables.items()}
    secrets: Any = part(find=lambda _: secret, lend=lambda _needed, text: home / f"lent-{text.strip()}")
    return ReleaseKey(Environment.load(name, given), secrets)


def test_a_key_that_is_set_is_taken_before_a_secret(tmp_path: Path) -> None:
    signers = key(tmp_path, secret="s", RELEASE_KEY_FILE=str(tmp_path / "mine")).find()
    assert signers is not None
    assert signers.key == tmp_path / "mine"


def test_a_secret_is_lent_as_a_file(tmp_path: Path) -> None:
    signers = key(tmp_path, secret="s").find()
    assert signers is not None
    assert signers.key == tmp_path / "lent-s"


def test_the_local_environment_makes_its_key_later_and_others_refuse(tmp_path: Path) -> None:
    assert key(tmp_path, "local").find() is None
    assert key(tmp_path, "local").is_available
    assert not key(tmp_path).is_available
    with pytest.raises(RefusedError, match="no key that signs releases in environment staging"):
        key(tmp_path).find()


def test_the_first_signers_are_whom_the_environment_allows(tmp_path: Path) -> None:
    (tmp_path / "allowed").write_text("ada@example.org ssh-ed25519 AAAA\n")
    given = key(tmp_path, ALLOWED_SIGNERS=str(tmp_path / "allowed"))
    assert given.first_signers() == "ada@example.org ssh-ed25519 AAAA\n"
    with pytest.raises(RefusedError, match="cannot be read"):
        key(tmp_path, ALLOWED_SIGNERS=str(tmp_path / "none")).first_signers()
