"""Shapes of approvals: a second operator's signature on a list or a saved preview of another one."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.access.identity.approval import Approval, Asked


def signed(requested: "Asked", signer: str, approver: str) -> dict[str, object]:
    """A request that was approved now."""
    return {"what": requested.what, "asked_by": signer, "approved_by": approver, "digest": requested.digest}


def approval(document: "Approval", signer: str) -> dict[str, object]:
    """An approval whose signature was verified; ``signer`` made it."""
    return {
        "what": document.asked.what,
        "environment": document.asked.environment,
        "asked_by": document.asked.by,
        "approved_by": signer,
        "at": timestamp(document.at),
        "digest": document.asked.digest,
    }
