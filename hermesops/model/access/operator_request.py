"""Requests of the served console's operators: rows that workers verify, decide and carry out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hermesops.errors import Hint, Parameter
from hermesops.model.ids import InstanceId, OperationId, instance_subject
from hermesops.model.rollout.records import RolloutId, rollout_subject

PREVIEW_STAYS = timedelta(hours=1)
ROW_STAYS = timedelta(days=90)
"""For how long the row of a decided request is kept."""

LONGEST_FORM = 16384
"""Characters of a request's values as JSON."""


class OperatorRequestState(StrEnum):
    """States of an operator's request."""

    QUEUED = "queued"
    """No worker has decided about it."""

    OPENED = "opened"
    """Its action has begun."""

    PREVIEWED = "previewed"
    """Its preview was made, and nothing was changed."""

    REFUSED = "refused"


@dataclass(frozen=True)
class NewOperatorRequest:
    """The part of a request that the console writes.

    Attributes:
        operator: Name of the operator; the proof alone counts.
        about, subject: Kind and id of the subject, as addresses of pages have them; no id for the fleet.
        form: Values of the action, by the names of its fields.
        proof: The operator's ID token.
        is_preview: Whether only the preview of the action is wanted.
    """

    operator: str
    about: str
    subject: str
    action: str
    form: Mapping[str, str]
    reason: str
    proof: str = field(repr=False)
    is_preview: bool


@dataclass(frozen=True)
class OperatorRequest:
    """A row of ``operator_requests``.

    Attributes:
        operator: The name that the console gave; workers believe the proof alone.
        about, subject: Kind and id of the subject, as addresses of pages have them; no id for the fleet.
        action: Its name; another one is of a newer hermesops, and refused.
        form: The values of the action, as JSON; workers read it as hostile.
        is_preview: Whether only the preview of the change is wanted.
        proof: The operator's ID token; empty once it was decided.
        detail: The refusal in words; empty for none.
        answer: The preview, or the hint of the refusal, as JSON; the path of the page of what has begun.
        code: Class of the refusal: ``usage``, ``refused``, ``unavailable`` or ``unknown``; empty for none.
    """

    id: str
    operator: str
    action: str
    about: str
    subject: str
    form: str
    is_preview: bool
    reason: str
    state: OperatorRequestState
    created_at: datetime
    proof: str = field(default="", repr=False)
    detail: str = ""
    answer: str = ""
    code: str = ""
    operation_id: OperationId | None = None

    @property
    def audit_subject(self) -> str:
        """The subject of the audit entry of its decision."""
        match self.about:
            case "instances":
                return instance_subject(InstanceId(self.subject))
            case "rollouts":
                return rollout_subject(RolloutId(self.subject))
            case _:
                return requests_lease(self.id)


@dataclass(frozen=True)
class OperatorOutcome:
    """A decision about a request; fields as of ``OperatorRequest``."""

    state: OperatorRequestState
    detail: str = ""
    answer: str = ""
    code: str = ""
    operation_id: OperationId | None = None


def parts_of(hint: Hint | str) -> list[list[str] | str]:
    """A hint as JSON has it: commands are lists of words."""
    parts = hint.parts if isinstance(hint, Hint) else (hint,)
    texts = (part.option() if isinstance(part, Parameter) else part for part in parts if part)
    return [list(part) if isinstance(part, tuple) else part for part in texts]


def hint_of(parts: Sequence[Sequence[str] | str]) -> Hint | str:
    """The hint of these parts; empty for none."""
    return Hint(*(part if isinstance(part, str) else tuple(part) for part in parts)) if parts else ""


def requests_lease(request_id: str) -> str:
    """Subject of the lease for carrying out a request."""
    return f"operator-request/{request_id}"
