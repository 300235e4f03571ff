"""The keys that encrypt secrets in the registry (AES-256-GCM); they live outside the database."""

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hermesops.errors import RefusedError
from hermesops.private_file import make_secret, read_secret

_FORM = "hs1"
_NONCE_BYTES = 12
_KEY_BYTES = 32
_WHAT = "registry's key"


@dataclass(frozen=True)
class Ring:
    """Keys by their ids.

    Attributes:
        current: Id of the key that seals in a registry whose key was never changed.
        keys: 32 bytes each.
        retired: Since when each key is needed only for older copies of the registry.
    """

    current: str
    keys: Mapping[str, bytes] = field(repr=False)
    retired: Mapping[str, datetime] = field(default_factory=dict)

    @classmethod
    def fresh(cls) -> Self:
        """A ring of one new key."""
        key_id = secrets.token_hex(4)
        return cls(key_id, {key_id: secrets.token_bytes(_KEY_BYTES)})

    @classmethod
    def parse(cls, text: str) -> Self:
        """A ring from its text.

        Raises:
            ValueError: It is malformed; the message has none of it.
        """
        try:
            content = json.loads(text)
            keys = {key_id: urlsafe_b64decode(key) for key_id, key in content["keys"].items()}
            retired = {key_id: datetime.fromisoformat(at) for key_id, at in content.get("retired", {}).items()}
            current = str(content["current"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            # The cause would carry the text, which has the keys.
            raise ValueError("damaged") from None
        if current not in keys or any(len(key) != _KEY_BYTES for key in keys.values()):
            raise ValueError("the current key is missing, or a key has another length")
        return cls(current, keys, retired)

    def to_text(self) -> str:
        """As it is kept."""
        content: dict[str, object] = {
            "current": self.current,
            "keys": {key_id: urlsafe_b64encode(key).decode() for key_id, key in self.keys.items()},
        }
        if self.retired:
            content["retired"] = {key_id: at.isoformat() for key_id, at in self.retired.items()}
        return json.dumps(content)

    @property
    def prepared(self) -> str:
        """A key that was added and has sealed nothing yet; empty for none."""
        others = (key_id for key_id in self.keys if key_id != self.current and key_id not in self.retired)
        return next(others, "")

    def with_new(self) -> Self:
        """The same with one more key."""
        return replace(self, keys={**self.keys, secrets.token_hex(4): secrets.token_bytes(_KEY_BYTES)})

    def settled_on(self, key_id: str, now: datetime) -> Self:
        """The same once nothing is sealed with any other key than this one."""
        retired = {other: self.retired.get(other, now) for other in self.keys if other != key_id}
        return replace(self, current=key_id, retired=retired)

    def without_retired(self, needed_since: datetime | None) -> Self:
        """The same without retired keys that no copy needs.

        ``needed_since`` is when the oldest copy was made that may still be restored; ``None`` for no copy.
        """
        gone = {one for one, at in self.retired.items() if needed_since is None or at < needed_since}
        return replace(
            self,
            keys={one: key for one, key in self.keys.items() if one not in gone},
            retired={one: at for one, at in self.retired.items() if one not in gone},
        )


class KeyRing:
    """Several keys, one of which encrypts; the others still open what they sealed.

    A sealed value reads ``hs1.<key id>.<nonce and ciphertext>``; the form, the key's id and the place that the value
    belongs to are authenticated with it. The ring is read again when a value names a key that it lacks.

    Args:
        current: Id of the key that encrypts by default.
        keys: Every key by its id, 32 bytes each.
        source: Where they came from, for error messages.
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
        """The keys at hand."""
        return frozenset(self._ciphers)

    @property
    def current(self) -> str:
        """The key that encrypts by default."""
        return self._current

    @property
    def source(self) -> str:
        """Where the keys came from."""
        return self._source

    def reload(self) -> None:
        """Read the keys again.

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
        """Decrypt what was sealed for ``place``.

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
                f"{place} does not open with key {key_id} from {self._source}: another key, or a changed value",
                hint=f"put the key file that belongs to this registry back at {self._source}",
            ) from None
        return plain.decode()

    def _take(self, ring: Ring) -> None:
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
        raise RefusedError(f"the {_WHAT} in {source} is damaged", hint=f"put a copy of it back at {source}") from None


def _bound(key_id: str, place: str) -> bytes:
    return f"{_FORM}/{key_id}/{place}".encode()
