"""Previews of stacks that operators save and sign: their contents, age and approvals."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import hermesops
from hermesops.access.identity.current_operator import signers_of
from hermesops.agents.cells.changes.approvals import Approvals, asked_by_preview
from hermesops.agents.cells.changes.preview import (
    FILE,
    ChangePreview,
    SavedPreview,
    refuse_stale,
    saved,
    saved_platform,
)
from hermesops.agents.cells.cost.bill import Cost
from hermesops.errors import Hint, RefusedError
from hermesops.model.stack import Change, Preview
from hermesops.settings.environment import Environment


@dataclass(frozen=True)
class ApprovedPreview:
    """A saved preview that may be applied.

    Attributes:
        approver: Empty where nobody had to approve it.
    """

    preview: SavedPreview
    signer: str
    approver: str

    def __str__(self) -> str:
        approved = f", approved by {self.approver}" if self.approver else ""
        return f"as previewed at {self.preview.made_at:%Y-%m-%d %H:%M} UTC, signed by {self.signer}{approved}"


@dataclass(frozen=True)
class SavedPreviews:
    """Saved previews of one environment.

    Attributes:
        engine_name: Name of the engine that makes previews; the engine itself takes long to load.
    """

    env: Environment
    engine_name: Callable[[], str]

    def of_cell(self, change_preview: ChangePreview, cost: Cost | None = None) -> SavedPreview:
        """The document to sign for a cell in its present state."""
        words = str(cost.after) if cost else ""
        return saved(
            change_preview, environment=self.env.name, versions=self._versions(), cost=words, now=datetime.now(UTC)
        )

    def of_platform(
        self, program: object, state: Mapping[str, Any], preview: Preview, drift: tuple[Change, ...]
    ) -> SavedPreview:
        """The document to sign for the platform in its present state.

        Args:
            program: A dataclass with every input of the platform's program.
            drift: Changes that a refresh would write.
        """
        return saved_platform(
            program,
            state,
            preview,
            drift,
            environment=self.env.name,
            versions=self._versions(),
            now=datetime.now(UTC),
        )

    def sign(self, preview: SavedPreview) -> str:
        """The file of a saved preview, signed by the operator.

        Raises:
            RefusedError: The operator's key does not sign.
        """
        return signers_of(self.env).sign_file(FILE, preview)

    def open(self, text: str) -> tuple[SavedPreview, str]:
        """Read a saved preview that is still valid; its content and the signer.

        Raises:
            UsageError: It is none.
            RefusedError: Its signature does not hold, or it is too old or another environment's.
        """
        preview, signer = signers_of(self.env).verify_file(FILE, text)
        life = timedelta(hours=self.env.settings.preview_life_h)
        refuse_stale(preview, environment=self.env.name, now=datetime.now(UTC), life=life)
        return preview, signer

    def approved(self, text: str, approval: str) -> ApprovedPreview:
        """Read a saved preview that may be applied.

        Args:
            approval: Another operator's, empty for none.

        Raises:
            UsageError: It is none.
            RefusedError: It does not count, or needs an approval that is not there.
        """
        preview, signer = self.open(text)
        approver = Approvals(self.env).require(asked_by_preview(preview, signer), approval)
        return ApprovedPreview(preview, signer, approver)

    def refuse_unapproved(self, stack: str, what: str = "a change") -> None:
        """Refuse a run of a stack without a saved preview, where another operator has to approve it.

        Args:
            what: Of the stack, for the message.

        Raises:
            RefusedError: One has to.
        """
        if Approvals(self.env).are_required:
            raise RefusedError(
                f"{stack}: {what} needs an approved preview in {self.env.name}",
                hint=Hint(
                    ("stack", "preview", stack, "--save", "FILE"),
                    "; another operator:",
                    ("approval", "sign", "FILE", "--save", "APPROVAL"),
                ),
            )

    def _versions(self) -> Mapping[str, str]:
        """Versions of everything that makes previews."""
        return {"hermesops": hermesops.__version__, "engine": self.engine_name(), "program": _program_digest()}


@cache
def _program_digest() -> str:
    """Digest of the code of stacks and of the provider, which decides the effect of changes."""
    package = Path(hermesops.__file__).parent
    files = sorted(file for folder in ("stacks", "provider") for file in (package / folder).rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
