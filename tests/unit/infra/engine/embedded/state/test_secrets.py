import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.infra.engine.embedded.state import secrets
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rounds take a second; what is tested here does not depend on their number."""
    monkeypatch.setattr(secrets, "ROUNDS", 10)


def vault(words: str = "right", salt: str = "") -> PassphraseVault:
    return PassphraseVault(lambda: words, salt=salt, keys={}, stack="dev")


def test_the_rounds_are_pulumis() -> None:
    assert secrets.__dict__["ROUNDS"] == 10, "the fixture shortens them"
    source = secrets.__spec__.loader.get_source(secrets.__name__)  # type: ignore[union-attr]
    assert "ROUNDS = 1_000_000" in source


def test_a_secret_opens_again_with_the_salt_line() -> None:
    first = vault()
    sealed = first.encrypt('"hidden"')
    again = vault(salt=first.salt)
    assert again.decrypt(sealed) == '"hidden"'
    assert again.provider == {"type": "passphrase", "state": {"salt": first.salt}}


def test_the_scheme_is_the_recorded_one() -> None:
    sealed = vault()
    version, nonce, ciphertext = sealed.encrypt("text").split(":")
    prefix, salt, check = sealed.salt.split(":", 2)
    key = hashlib.pbkdf2_hmac("sha256", b"right", base64.b64decode(salt), 10, 32)
    cipher = AESGCM(key)
    assert (version, prefix, len(base64.b64decode(salt))) == ("v1", "v1", 8)
    assert cipher.decrypt(base64.b64decode(nonce), base64.b64decode(ciphertext), None) == b"text"
    _, nonce, word = check.split(":")
    assert cipher.decrypt(base64.b64decode(nonce), base64.b64decode(word), None) == b"pulumi"


def test_a_state_is_sealed_once() -> None:
    passphrase_vault = vault()
    passphrase_vault.seal()
    salt = passphrase_vault.salt
    passphrase_vault.seal()
    assert passphrase_vault.salt == salt
    with pytest.raises(RefusedError, match="incorrect passphrase"):
        vault("wrong", salt).unlock()
    sealed = vault("wrong", salt)
    sealed.seal()  # bound already: whether by this passphrase is asked where a secret is
    assert sealed.salt == salt


def test_every_encryption_differs() -> None:
    passphrase_vault = vault()
    assert passphrase_vault.encrypt("x") != passphrase_vault.encrypt("x")


def test_a_wrong_passphrase_is_refused() -> None:
    first = vault()
    sealed = first.encrypt("x")
    with pytest.raises(RefusedError, match="stack dev: incorrect passphrase") as caught:
        vault("wrong", first.salt).decrypt(sealed)
    assert "wrong" not in str(caught.value.hint)


def test_a_damaged_secret_is_no_matter_of_passphrases() -> None:
    passphrase_vault = vault()
    sealed = passphrase_vault.encrypt("x")
    for damaged in (sealed[:-4] + "AAA=", "v1:onlytwo", "v2" + sealed[2:]):
        with pytest.raises(BrokenInvariantError, match="a secret of the state cannot be decrypted"):
            passphrase_vault.decrypt(damaged)


def test_a_damaged_salt_line_is_said() -> None:
    with pytest.raises(BrokenInvariantError, match="salt"):
        vault(salt="v1").decrypt("x")


def test_the_passphrase_is_asked_for_once_and_only_when_needed() -> None:
    calls: list[int] = []

    def passphrase() -> str:
        calls.append(1)
        return "right"

    keys: dict[str, bytes] = {}
    passphrase_vault = PassphraseVault(passphrase, salt="", keys=keys, stack="dev")
    assert passphrase_vault.provider is None
    assert calls == []
    passphrase_vault.decrypt(passphrase_vault.encrypt("x"))
    PassphraseVault(passphrase, salt=passphrase_vault.salt, keys=keys, stack="dev").encrypt("y")
    assert calls == [1]
