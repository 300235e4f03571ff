"""An approval: a second operator says that something another one signed may happen. Pure.

It names what it is about by its content, so that it counts for that and for nothing else, and it grows old. Whoever
asked cannot approve: of two people, two have to want it.

Who approves is always proved by a key. Who asked is proved only where the environment verifies its operators; elsewhere
it is the name that a computer gave, of which the host says nothing about the person: only the user's name is compared.
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.errors import RefusedError
from hermesops.model.signed_file import SignedContent, SignedFile, why_outdated

_HINT = "hermesops approval sign FILE --save APPROVAL"


@dataclass(frozen=True)
class Asked:
    """What somebody wants to happen.

    Attributes:
        what: In words, as ``preview of cell1``.
        environment: Where.
        digest: SHA-256 of all of it.
        by: The identity that signed it, or that a key or token proved; else the name that a computer gave.
        is_proved: Whether it is such an identity.
    """

    what: str
    environment: str
    digest: str
    by: str
    is_proved: bool = True


@dataclass(frozen=True)
class Approval(SignedContent):
    """What a second operator signs."""

    asked: Asked
    at: datetime


FILE = SignedFile("hermesops-approval", Approval, field="approval", title="an approval", hint=_HINT)


def digest_of(content: bytes) -> str:
    """Names a content by itself."""
    return hashlib.sha256(content).hexdigest()


def is_own(asked: Asked, signer: str) -> bool:
    """Whether somebody's signature may be that of who asked, however the two are spelled.

    Args:
        asked: What somebody wants.
        signer: Whom the allowed signers name for the key that signed; several names with commas are one person's.
    """
    by, names = _spelled(asked.by), {_spelled(name) for name in signer.split(",")}
    if asked.is_proved:
        return bool(names & {_spelled(name) for name in asked.by.split(",")})
    return by.partition("@")[0] in {name.partition("@")[0] for name in names}


def _spelled(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def refuse_own(asked: Asked, signer: str) -> None:
    """Let nobody approve what they asked for.

    Args:
        asked: What somebody wants.
        signer: Whose key signed the approval, as the allowed signers call it.

    Raises:
        RefusedError: They are the same.
    """
    if is_own(asked, signer):
        raise RefusedError(
            f"{signer} asked for the {asked.what}, and cannot approve it", hint="another operator signs the approval"
        )


def refuse_other(approval: Approval, asked: Asked, *, signer: str) -> None:
    """Let something happen only if just that was approved, by somebody else.

    Args:
        approval: Whose signature holds.
        asked: What is about to happen.
        signer: Who signed the approval.

    Raises:
        RefusedError: It is about something else, or by who asked.
    """
    if approval.asked != asked:
        raise RefusedError(
            f"the approval is about another {approval.asked.what} of {approval.asked.environment}, asked for by "
            f"{approval.asked.by}",
            hint=_HINT,
        )
    refuse_own(asked, signer)


def refuse_old(approval: Approval, *, now: datetime, life: timedelta) -> None:
    """Let something happen only if it was approved not long ago.

    Args:
        approval: The approval.
        now: What time it is.
        life: For how long an approval counts.

    Raises:
        RefusedError: It was, or it will be.
    """
    if old := age_of(approval, now=now, life=life):
        raise RefusedError(old, hint=_HINT)


def age_of(approval: Approval, *, now: datetime, life: timedelta) -> str:
    """Why an approval counts no more, or not yet, as a sentence; empty when it counts."""
    return why_outdated("the approval is of", approval.at, now=now, life=life)
