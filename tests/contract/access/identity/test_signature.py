"""Signatures by real ssh-keygen with keys made here and now."""

import subprocess
from pathlib import Path

import pytest

from hermesops.access.identity.signatures import Signers
from hermesops.errors import RefusedError

SPACE = "hermesops-preview"
DATA = b"what is meant"


def make_key(folder: Path, name: str, passphrase: str = "") -> Path:
    key = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", str(key)], check=True, timeout=30
    )
    return key


def allow(folder: Path, **keys: Path) -> Path:
    file = folder / "allowed"
    lines = [
        f'{name}@example.net namespaces="{SPACE}" {key.with_suffix(".pub").read_text()}' for name, key in keys.items()
    ]
    file.write_text("".join(lines))
    return file


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path, "ada")


def test_who_signed_is_told(tmp_path: Path, key: Path) -> None:
    signers = Signers(key, allow(tmp_path, ada=key))
    assert signers.verify(DATA, signers.sign(DATA, namespace=SPACE), namespace=SPACE) == "ada@example.net"


def test_other_words_another_namespace_or_junk_do_not_hold(tmp_path: Path, key: Path) -> None:
    signers = Signers(key, allow(tmp_path, ada=key))
    signature = signers.sign(DATA, namespace=SPACE)
    for data, text, space, problem in (
        (DATA + b"!", signature, SPACE, "incorrect signature"),
        (DATA, signature, "hermesops-release", "namespace does not match"),
        (DATA, signature.replace("\n", "", 3), SPACE, "by no signer that"),
        (DATA, "", SPACE, "by no signer that"),
    ):
        with pytest.raises(RefusedError, match=problem):
            signers.verify(data, text, namespace=space)


def test_who_is_not_allowed_or_no_longer_is_refused(tmp_path: Path, key: Path) -> None:
    other = make_key(tmp_path, "eve")
    signature = Signers(other).sign(DATA, namespace=SPACE)
    with pytest.raises(RefusedError, match="by no signer that"):
        Signers(None, allow(tmp_path, ada=key)).verify(DATA, signature, namespace=SPACE)
    mine = Signers(key).sign(DATA, namespace=SPACE)
    revoked = tmp_path / "revoked"
    revoked.write_text(key.with_suffix(".pub").read_text())
    with pytest.raises(RefusedError, match="does not hold"):
        Signers(None, allow(tmp_path, ada=key), revoked).verify(DATA, mine, namespace=SPACE)


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path, key: Path) -> None:
    signature = Signers(key).sign(DATA, namespace=SPACE)
    nowhere = tmp_path / "nowhere"
    with pytest.raises(RefusedError, match="no operator_key"):
        Signers().sign(DATA, namespace=SPACE)
    with pytest.raises(RefusedError, match="no file"):
        Signers(nowhere).sign(DATA, namespace=SPACE)
    for signers, problem in (
        (Signers(), "no allowed_signers is set"),
        (Signers(None, nowhere), "the allowed signers are missing"),
        (Signers(None, allow(tmp_path, ada=key), nowhere), "the revoked signers are missing"),
    ):
        with pytest.raises(RefusedError, match=problem):
            signers.verify(DATA, signature, namespace=SPACE)


def test_a_key_that_asks_for_a_passphrase_is_refused_where_nobody_can_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = make_key(tmp_path, "locked", "correct horse")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(RefusedError, match="failed to sign") as refused:
        Signers(locked).sign(DATA, namespace=SPACE)
    assert "ssh-add" in str(refused.value.hint)


def test_the_agent_signs_for_a_public_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = make_key(tmp_path, "held")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        subprocess.run(["ssh-add", "-q", str(locked)], check=True, timeout=30)
        allowed = allow(tmp_path, ada=locked)
        locked.unlink()
        signers = Signers(locked.with_suffix(".pub"), allowed)
        assert signers.verify(DATA, signers.sign(DATA, namespace=SPACE), namespace=SPACE) == "ada@example.net"
    finally:
        agent.terminate()
        agent.wait(10)
