"""An approval: a second operator says that something another one signed may happen. Pure.

It names what it is about by its content, so that it counts for that and for nothing else, and it grows old. Whoever
asked cannot approve: of two people, two have to want it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from pydantic import TypeAdapter

from hermesops.errors import RefusedError, UsageError

NAMESPACE = "hermesops-approval"
"""Of its signature."""

KIND, VERSION = "hermesops-approval", 1
_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Asked:
    """What somebody wants to happen.

    Attributes:
        what: In words, as ``preview of cell1``.
        environment: Where.
        digest: SHA-256 of all of it.
        by: The identity that signed it.
    """

    what: str
    environment: str
    digest: str
    by: str


@dataclass(frozen=True)
class Approval:
    """What a second operator signs."""

    asked: Asked
    at: datetime

    def to_bytes(self) -> bytes:
        """What is signed; the same for the same approval."""
        fields = {"asked": asdict(self.asked), "at": self.at.isoformat()}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def digest_of(content: bytes) -> str:
    """Names a content by itself."""
    return hashlib.sha256(content).hexdigest()


def to_file(approval: Approval, signature: str) -> str:
    """The file that is handed round."""
    content = json.loads(approval.to_bytes())
    return json.dumps({"kind": KIND, "version": VERSION, "approval": content, "signature": signature}, indent=2) + "\n"


def from_file(text: str) -> tuple[Approval, str]:
    """An approval and its signature, which nobody has checked yet.

    Raises:
        UsageError: It is no such file.
    """
    hint = "hermesops approval sign FILE --save APPROVAL"
    try:
        envelope = json.loads(text)
        if (envelope["kind"], envelope["version"]) != (KIND, VERSION):
            raise UsageError(f"not an approval of version {VERSION}", hint=hint)
        return TypeAdapter(Approval).validate_python(envelope["approval"]), str(envelope["signature"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError("not an approval, or a damaged one", hint=hint) from error


def refuse_own(asked: Asked, signer: str) -> None:
    """Let nobody approve what they asked for.

    Raises:
        RefusedError: They are the same.
    """
    if signer == asked.by:
        raise RefusedError(
            f"{signer} asked for the {asked.what}, and cannot approve it", hint="another operator signs the approval"
        )


def refuse_other(approval: Approval, asked: Asked, *, signer: str, now: datetime, life: timedelta) -> None:
    """Let something happen only if just that was approved, by somebody else, and not long ago.

    Args:
        approval: Whose signature holds.
        asked: What is about to happen.
        signer: Who signed the approval.
        now: What time it is.
        life: For how long an approval counts.

    Raises:
        RefusedError: It is about something else, too old, or by who asked.
    """
    hint = "hermesops approval sign FILE --save APPROVAL"
    if approval.asked != asked:
        raise RefusedError(
            f"the approval is about another {approval.asked.what} of {approval.asked.environment}, asked for by "
            f"{approval.asked.by}",
            hint=hint,
        )
    if not -_SKEW <= now - approval.at <= life:
        raise RefusedError(
            f"the approval is of {approval.at:%Y-%m-%d %H:%M} UTC; it counts for {life.total_seconds() / 3600:g} h",
            hint=hint,
        )
    refuse_own(asked, signer)
