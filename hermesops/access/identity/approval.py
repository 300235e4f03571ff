"""An approval: a second operator signs that something another one asked for may happen. Pure.

It names the request by a digest of its content, so it is valid for nothing else, and it expires. Nobody can approve a
request of their own.

The approver is always proved by a key. The requester is proved only where the environment verifies its operators;
elsewhere it is a name that a computer gave, and only the user part of that name is compared.
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.errors import Hint, RefusedError
from hermesops.model.access.signed_file import SignedContent, SignedFile, why_outdated

_HINT = Hint(("approval", "sign", "FILE", "--save", "APPROVAL"))


@dataclass(frozen=True)
class Asked:
    """Request of an operator that needs an approval.

    Attributes:
        what: Description, as ``preview of cell1``.
        digest: SHA-256 of the whole request.
        by: Identity of the signature, or one proved by a key or token; else the unproved name from the computer.
    """

    what: str
    environment: str
    digest: str
    by: str
    is_proved: bool = True


@dataclass(frozen=True)
class Approval(SignedContent):
    """Content that a second operator signs to approve a request."""

    asked: Asked
    at: datetime


FILE = SignedFile("hermesops-approval", Approval, field="approval", title="an approval", hint=_HINT)


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a content, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def is_own(request: Asked, signer: str) -> bool:
    """Return whether a signature may be the requester's, whatever the spelling of the names.

    ``signer`` names the signing key in the allowed signers; several names with commas are one person's.
    """
    by, names = _spelled(request.by), {_spelled(name) for name in signer.split(",")}
    if request.is_proved:
        return bool(names & {_spelled(name) for name in request.by.split(",")})
    return by.partition("@")[0] in {name.partition("@")[0] for name in names}


def _spelled(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def refuse_own(request: Asked, signer: str) -> None:
    """Refuse an approval by the requester.

    ``signer`` names the approving key in the allowed signers.

    Raises:
        RefusedError: It may be the requester's.
    """
    if is_own(request, signer):
        raise RefusedError(
            f"{signer} requested the {request.what} and cannot approve it", hint="another operator signs the approval"
        )


def refuse_other(approval: Approval, request: Asked, *, signer: str) -> None:
    """Refuse an approval of something else, or by the requester.

    The approval has a valid signature, by ``signer``.

    Raises:
        RefusedError: It is of something else, or may be the requester's own.
    """
    if approval.asked != request:
        raise RefusedError(
            f"the approval is for another {approval.asked.what} of {approval.asked.environment}, requested by "
            f"{approval.asked.by}",
            hint=_HINT,
        )
    refuse_own(request, signer)


def refuse_old(approval: Approval, *, now: datetime, life: timedelta) -> None:
    """Refuse an expired approval, or one of the future.

    ``life`` is for how long an approval is valid.

    Raises:
        RefusedError: It is not valid now.
    """
    if old := age_of(approval, now=now, life=life):
        raise RefusedError(old, hint=_HINT)


def age_of(approval: Approval, *, now: datetime, life: timedelta) -> str:
    """Why an approval is not valid now, as a sentence; empty when it is."""
    return why_outdated("the approval is of", approval.at, now=now, life=life)
