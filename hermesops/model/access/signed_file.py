"""Files that operators sign and pass on: their format, and how long one is valid. Pure.

A file has a kind, a version, a content and a signature. The kind is also the namespace of the signature, so that a
signature for one kind is not valid for another.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from hermesops.errors import Hint, UsageError

VERSION = 1
_SKEW = timedelta(minutes=5)
"""By how much the clocks of two computers may differ."""


@dataclass(frozen=True)
class SignedContent:
    """Content that an operator signs; its fields are JSON values and moments."""

    def to_bytes(self) -> bytes:
        """The signed bytes; equal contents have equal bytes."""
        return json.dumps(asdict(self), default=_timestamp, sort_keys=True, separators=(",", ":")).encode()


Content = TypeVar("Content", bound=SignedContent)


@dataclass(frozen=True)
class SignedFile(Generic[Content]):
    """The format of one kind of file.

    Attributes:
        kind: Names the kind in the file, and is the namespace of its signature.
        field: The key of the content in the file.
        title: What such a file is, for messages, as ``a saved preview``.
    """

    kind: str
    content: type[Content]
    field: str
    title: str
    hint: Hint

    def to_text(self, content: Content, signature: str) -> str:
        """Serialise content and signature as the JSON text of a file."""
        head = {"kind": self.kind, "version": VERSION}
        return json.dumps({**head, self.field: json.loads(content.to_bytes()), "signature": signature}, indent=2) + "\n"

    def is_kind_of(self, text: str) -> bool:
        """Whether a text names this kind."""
        try:
            return bool(json.loads(text)["kind"] == self.kind)
        except (KeyError, TypeError, ValueError, RecursionError):
            return False

    def parse(self, text: str) -> tuple[Content, str]:
        """The content and the signature of a file; the signature is not checked.

        Raises:
            UsageError: The text is no such file.
        """
        try:
            envelope = json.loads(text)
            if (envelope["kind"], envelope["version"]) != (self.kind, VERSION):
                raise UsageError(f"not {self.title} of version {VERSION}", hint=self.hint)
            return TypeAdapter(self.content).validate_python(envelope[self.field]), str(envelope["signature"])
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UsageError(f"not {self.title}, or a damaged one", hint=self.hint) from error


def why_outdated(subject: str, at: datetime, *, now: datetime, life: timedelta) -> str:
    """Why a signature is not valid any more, or not yet, as a sentence; empty when it is.

    ``made`` begins the sentence, as ``the preview was made at``.
    """
    if -_SKEW <= now - at <= life:
        return ""
    return f"{subject} {at:%Y-%m-%d %H:%M} UTC; it is valid for {life.total_seconds() / 3600:g} h"


def _timestamp(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be signed")
