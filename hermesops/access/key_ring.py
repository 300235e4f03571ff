"""The keys that encrypt secrets in the registry (AES-256-GCM); they live in a file, never in the database."""

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hermesops.access.secret_file import make_secret, read_secret
from hermesops.errors import RefusedError

_FORM = "hs1"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_WHAT = "registry's key"


class KeyRing:
    """Several keys, one of which encrypts; the others still open what they sealed.

    A sealed value reads ``hs1.<key id>.<nonce and ciphertext>``; the form, the key's id and the place that the value
    belongs to are authenticated with it.

    Args:
        current: Id of the key that encrypts.
        keys: Every key by its id, 32 bytes each.
        source: Where they came from, for error messages.
    """

    def __init__(self, current: str, keys: Mapping[str, bytes], *, source: str = "memory") -> None:
        self._current = current
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._source = source

    @classmethod
    def load(cls, path: Path, *, create: bool = False) -> Self:
        """Read the ring from its file.

        Args:
            path: A file of mode 0600.
            create: Make a ring with one fresh key when there is no file; two processes end up with the same ring.

        Raises:
            RefusedError: The file is missing, damaged, or readable by others.
        """
        if create and not path.exists():
            make_secret(path, _fresh())
        text = read_secret(path, what=_WHAT)
        try:
            current, keys = _parse(text)
        except (ValueError, TypeError, KeyError, AttributeError):
            # The cause would carry the file's text, that is, the keys.
            raise RefusedError(f"the {_WHAT} in {path} is damaged", hint=f"put a copy of it back at {path}") from None
        return cls(current, keys, source=str(path))

    @property
    def key_ids(self) -> frozenset[str]:
        """The keys at hand."""
        return frozenset(self._ciphers)

    def seal(self, plain: str, *, place: str) -> str:
        """Encrypt ``plain`` for one place; twice the same text gives two different values."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, plain.encode(), _bound(self._current, place))
        return f"{_FORM}.{self._current}.{urlsafe_b64encode(nonce + sealed).decode()}"

    def unseal(self, sealed: str, *, place: str) -> str:
        """Decrypt what was sealed for ``place``.

        Raises:
            RefusedError: Its key is not in the ring, or it does not open with it at this place.
        """
        form, _, rest = sealed.partition(".")
        key_id, _, body = rest.partition(".")
        if form != _FORM or not body:
            raise RefusedError(f"{place} holds no sealed value")
        if key_id not in self._ciphers:
            raise RefusedError(
                f"{place} is sealed with key {key_id}, which is not in {self._source}",
                hint=f"put the key file that belongs to this registry back at {self._source}",
            )
        try:
            raw = urlsafe_b64decode(body)
            plain = self._ciphers[key_id].decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _bound(key_id, place))
        except (InvalidTag, ValueError):
            raise RefusedError(
                f"{place} does not open with key {key_id} from {self._source}: another key, or a changed value",
                hint=f"put the key file that belongs to this registry back at {self._source}",
            ) from None
        return plain.decode()


def _fresh() -> str:
    key_id = secrets.token_hex(4)
    key = urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    return json.dumps({"current": key_id, "keys": {key_id: key}})


def _parse(text: str) -> tuple[str, Mapping[str, bytes]]:
    content = json.loads(text)
    keys = {key_id: urlsafe_b64decode(key) for key_id, key in content["keys"].items()}
    if content["current"] not in keys or any(len(key) != _KEY_BYTES for key in keys.values()):
        raise ValueError("the current key is missing, or a key has another length")
    return content["current"], keys


def _bound(key_id: str, place: str) -> bytes:
    return f"{_FORM}/{key_id}/{place}".encode()
