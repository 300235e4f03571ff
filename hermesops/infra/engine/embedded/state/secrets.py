"""The passphrase secrets manager of Pulumi's state: PBKDF2-HMAC-SHA256, AES-256-GCM.

The key takes about a second to derive, so it is derived only when a state is first written, and when a secret is
really read or written.
Source: recordings, semantics §6 (every secret of a recorded state was decrypted by this scheme).
"""

import base64
import hashlib
import secrets
import threading
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hermesops.errors import BrokenInvariantError, RefusedError

ROUNDS = 1_000_000
KEY_BYTES = 32
SALT_BYTES = 8
NONCE_BYTES = 12
CHECK_WORD = "pulumi"


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _derive(passphrase: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, ROUNDS, KEY_BYTES)


def _encrypt(key: bytes, plaintext: str) -> str:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return f"v1:{_b64(nonce)}:{_b64(AESGCM(key).encrypt(nonce, plaintext.encode(), None))}"


def _decrypt(key: bytes, ciphertext: str) -> str:
    version, nonce, sealed = ciphertext.split(":")
    if version != "v1":
        raise ValueError(version)
    return AESGCM(key).decrypt(base64.b64decode(nonce), base64.b64decode(sealed), None).decode()


class PassphraseVault:
    """Encrypts and decrypts the secrets of one stack.

    Args:
        passphrase: Asked for at most once, and only when a key is needed.
        salt: The salt line of the state; empty for a stack that was never written.
        keys: Keys already derived, by salt line; shared between the vaults of one engine.
        stack: How the stack is called, for errors.
    """

    def __init__(self, passphrase: Callable[[], str], *, salt: str, keys: dict[str, bytes], stack: str) -> None:
        self._passphrase = passphrase
        self._keys = keys
        self._stack = stack
        self._lock = threading.Lock()
        self.salt = salt

    @property
    def provider(self) -> dict[str, object] | None:
        """The ``secrets_providers`` entry of the state; none while it is not sealed."""
        return {"type": "passphrase", "state": {"salt": self.salt}} if self.salt else None

    def seal(self) -> None:
        """Bind the state to this passphrase, if it is not bound to one yet.

        The CLI would bind a state without secrets to whatever passphrase its first user has.
        """
        if not self.salt:
            self.unlock()

    def unlock(self) -> bytes:
        """Derive the key and check it against the salt line; a second call is free.

        Raises:
            RefusedError: The passphrase is not the one that the state was written with, or there is none.
        """
        with self._lock:
            if self.salt in self._keys:
                return self._keys[self.salt]
            key = self._opened() if self.salt else self._begun()
            self._keys[self.salt] = key
            return key

    def _begun(self) -> bytes:
        salt = secrets.token_bytes(SALT_BYTES)
        key = _derive(self._passphrase(), salt)
        self.salt = f"v1:{_b64(salt)}:{_encrypt(key, CHECK_WORD)}"
        return key

    def _opened(self) -> bytes:
        try:
            _, salt, check = self.salt.split(":", 2)
            key = _derive(self._passphrase(), base64.b64decode(salt))
        except ValueError as error:
            raise BrokenInvariantError(
                f"stack {self._stack}: the state's salt line is damaged",
                hint="restore the state from its backups folder",
            ) from error
        try:
            right = _decrypt(key, check) == CHECK_WORD
        except (InvalidTag, ValueError):
            right = False
        if not right:
            raise RefusedError(
                f"stack {self._stack}: incorrect passphrase",
                hint="use the passphrase with which the stack was created; nothing was changed",
            )
        return key

    def encrypt(self, plaintext: str) -> str:
        """Encrypt JSON text for the state."""
        return _encrypt(self.unlock(), plaintext)

    def decrypt(self, ciphertext: str) -> str:
        """Decrypt a value of the state into JSON text.

        Raises:
            BrokenInvariantError: The value was damaged or encrypted with another key.
        """
        try:
            return _decrypt(self.unlock(), ciphertext)
        except (InvalidTag, ValueError) as error:
            raise BrokenInvariantError(
                f"stack {self._stack}: a secret of the state cannot be decrypted with the state's own key",
                hint="restore the state from its backups folder",
            ) from error
