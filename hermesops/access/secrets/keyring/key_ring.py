"""The keys that encrypt secrets in the registry (AES-256-GCM); they live outside the database."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hermesops.access.secrets.keyring.ring import Ring
from hermesops.base.files.private_file import make_secret, read_secret
from hermesops.errors import RefusedError

_FORM = "hs1"
_NONCE_BYTES = 12
_MARK_LENGTH = 32
_WHAT = "registry's key"


class KeyRing:
    """Several keys: one encrypts, all decrypt.

    A sealed value reads ``hs1.<key id>.<nonce and ciphertext>``; the form, the key's id and the place that the value
    belongs to are authenticated with it. The ring is read again when a value names a key that it lacks.

    Args:
        current: Id of the key that encrypts by default.
        keys: Every key by its id, 32 bytes each.
        source: Place of the ring, for error messages.
        read: Reads the ring's text again; ``None`` where it cannot change.
    """

    def __init__(
        self,
        current: str,
        keys: Mapping[str, bytes],
        *,
        source: str = "memory",
        read: Callable[[], str] | None = None,
    ) -> None:
        self._source = source
        self._read = read
        self._take(Ring(current, keys))

    @classmethod
    def load(cls, path: Path, *, create: bool = False) -> Self:
        """Read the ring from its file.

        With ``create`` a ring of one fresh key is made where there is no file; two processes end up with the same ring.

        Raises:
            RefusedError: The file is missing, damaged, or readable by others.
        """
        if create and not path.exists():
            make_secret(path, Ring.fresh().to_text())
        return cls.kept(lambda: read_secret(path, what=_WHAT), source=str(path))

    @classmethod
    def kept(cls, read: Callable[[], str], *, source: str) -> Self:
        """Make a ring from its text.

        ``read`` is called again when a value names a key that the ring lacks; ``source`` is for error messages.

        Raises:
            RefusedError: It is damaged.
        """
        ring = parse_ring(read(), source)
        return cls(ring.current, ring.keys, source=source, read=read)

    @property
    def key_ids(self) -> frozenset[str]:
        """Ids of all keys in the ring."""
        return frozenset(self._ciphers)

    @property
    def current(self) -> str:
        """The key that encrypts by default."""
        return self._current

    @property
    def source(self) -> str:
        """Place of the ring, for messages."""
        return self._source

    def reload(self) -> None:
        """Read the ring again, for keys that another process added.

        Raises:
            RefusedError: They are damaged, or cannot be read.
        """
        if self._read is not None:
            self._take(parse_ring(self._read(), self._source))

    def seal(self, plain: str, *, place: str, key: str = "") -> str:
        """Encrypt ``plain`` for one place; the same text gives a different value each time.

        ``key`` is one of those at hand; empty for the current one.
        """
        key = key or self._current
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[key].encrypt(nonce, plain.encode(), _bound(key, place))
        return f"{_FORM}.{key}.{urlsafe_b64encode(nonce + sealed).decode()}"

    def unseal(self, sealed: str, *, place: str) -> str:
        """Decrypt a value that was sealed for ``place``.

        Raises:
            RefusedError: Its key is not in the ring, or it does not open with it at this place.
        """
        form, _, rest = sealed.partition(".")
        key_id, _, body = rest.partition(".")
        if form != _FORM or not body:
            raise RefusedError(f"{place} holds no sealed value")
        if key_id not in self._ciphers:
            self.reload()
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
                f"{place} cannot be decrypted with key {key_id} from {self._source}: another key, or a changed value",
                hint=f"put the key file that belongs to this registry back at {self._source}",
            ) from None
        return plain.decode()

    def mark(self, plain: str, *, place: str, key: str) -> str:
        """A keyed digest of ``plain``: equal for equal texts of one place and key, and of no use without the key.

        ``key`` is one of those at hand.
        """
        marking = hmac.digest(self._keys[key], b"hermesops/mark", "sha256")
        return hmac.digest(marking, f"{place}\0{plain}".encode(), "sha256").hex()[:_MARK_LENGTH]

    def _take(self, ring: Ring) -> None:
        self._keys = dict(ring.keys)
        self._ciphers = {key_id: AESGCM(key) for key_id, key in ring.keys.items()}
        self._current = ring.current


def parse_ring(text: str, source: str) -> Ring:
    """A ring from its text.

    Raises:
        RefusedError: It is damaged.
    """
    try:
        return Ring.parse(text)
    except ValueError:
        raise RefusedError(f"the {_WHAT} in {source} is damaged", hint=f"restore {source} from a copy") from None


def _bound(key_id: str, place: str) -> bytes:
    return f"{_FORM}/{key_id}/{place}".encode()
