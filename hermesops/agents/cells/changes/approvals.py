"""Signs and checks approvals by a second operator."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hermesops.access.identity.approval import (
    FILE,
    Approval,
    Asked,
    age_of,
    digest_of,
    refuse_old,
    refuse_other,
    refuse_own,
)
from hermesops.access.identity.current_operator import signers_of
from hermesops.agents.cells.changes.preview import SavedPreview
from hermesops.errors import Hint, Parameter, RefusedError
from hermesops.settings.environment import Environment


@dataclass(frozen=True)
class Approvals:
    """Signs approvals with the operator's key, and verifies approvals of other operators."""

    env: Environment

    @property
    def are_required(self) -> bool:
        """Whether this environment requires approvals by a second operator."""
        return self.env.settings.approvals == "required"

    def sign(self, subject: Asked) -> tuple[str, str]:
        """Sign an approval with the operator's key; returns its file and the signer.

        Raises:
            RefusedError: The key cannot sign, is no operator's here, or belongs to the person who asked for approval.
        """
        text = signers_of(self.env).sign_file(FILE, Approval(subject, datetime.now(UTC)))
        _, signer = self.read(text)
        refuse_own(subject, signer)
        return text, signer

    def read(self, text: str) -> tuple[Approval, str]:
        """Read an approval; its content and the signer.

        Raises:
            UsageError: It is none.
            RefusedError: Its signature does not hold.
        """
        return signers_of(self.env).verify_file(FILE, text)

    def require(self, subject: Asked, text: str) -> str:
        """Refuse a subject that needs an approval and has none; returns the signer, empty if none is needed.

        Raises:
            UsageError: The text is no approval.
            RefusedError: There is none, or it does not count for this.
        """
        if not text:
            if self.are_required:
                raise RefusedError(
                    f"the {subject.what} needs another operator's approval in {self.env.name}",
                    hint=Hint(
                        ("approval", "sign", "FILE", "--save", "APPROVAL"),
                        ", then",
                        Parameter("approved_by", "APPROVAL"),
                    ),
                )
            return ""
        approval, signer = self.read(text)
        refuse_other(approval, subject, signer=signer)
        refuse_old(approval, now=datetime.now(UTC), life=self.life)
        return signer

    def age_of(self, approval: Approval) -> str:
        """Why an approval has expired, as a sentence; empty if it has not."""
        return age_of(approval, now=datetime.now(UTC), life=self.life)

    @property
    def life(self) -> timedelta:
        """How long an approval is valid."""
        return timedelta(hours=self.env.settings.preview_life_h)


def asked_by_preview(preview: SavedPreview, signer: str) -> Asked:
    """The subject of an approval of a saved preview."""
    return Asked(f"preview of {preview.cell}", preview.environment, digest_of(preview.to_bytes()), signer)
