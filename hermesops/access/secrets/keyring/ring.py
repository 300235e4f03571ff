"""The registry's keys as they are kept: one that seals by default, and others that still open. Pure."""

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

_KEY_BYTES = 32


@dataclass(frozen=True)
class Ring:
    """Keys by their ids, with the current one and the retired ones.

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
        """Return the ring as the JSON that ``parse`` reads."""
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
        """Return the ring with one more key."""
        return replace(self, keys={**self.keys, secrets.token_hex(4): secrets.token_bytes(_KEY_BYTES)})

    def settled_on(self, key_id: str, now: datetime) -> Self:
        """Return the ring with this key as the current one and all others retired."""
        retired = {other: self.retired.get(other, now) for other in self.keys if other != key_id}
        return replace(self, current=key_id, retired=retired)

    def without_retired(self, needed_since: datetime | None) -> Self:
        """Return the ring without retired keys that no copy needs.

        ``needed_since`` is the time of the oldest copy that may still be restored; ``None`` for no copy.
        """
        gone = {key_id for key_id, at in self.retired.items() if needed_since is None or at < needed_since}
        return replace(
            self,
            keys={key_id: key for key_id, key in self.keys.items() if key_id not in gone},
            retired={key_id: at for key_id, at in self.retired.items() if key_id not in gone},
        )
