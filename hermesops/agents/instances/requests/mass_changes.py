"""Limits terminations and changes of plan: beyond a daily number a second operator must approve them, by name.

They are counted at the request and again when their work begins, so that a row that was written by hand
counts like any other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermesops.access.identity.approval import refuse_old, refuse_other
from hermesops.access.identity.current_operator import signers_of
from hermesops.access.identity.mass_change import (
    APPROVED,
    FILE,
    HINT,
    KINDS,
    MassChange,
    asked_by,
    refuse_many,
)
from hermesops.agents.cells.changes.approvals import Approvals
from hermesops.errors import HermesError, RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind
from hermesops.settings.environment import Environment
from hermesops.store.operations.kinds.agents import ApprovedList
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class MassChanges:
    """Lets agents end or change their plan, unless they are too many.

    Attributes:
        approved: The list and the approval that an operator passed; ``None`` for none.
    """

    env: Environment
    registry: Registry
    approved: ApprovedList | None = None

    @property
    def limit(self) -> int:
        """So many agents may end or change their plan in 24 hours without an approval."""
        return self.env.settings.unapproved_changes

    def request(self, instances: Sequence[InstanceId], *, reason: str) -> str:
        """A list of agents that shall end or change their plan, signed by the operator.

        Raises:
            RefusedError: The operator's key does not sign.
        """
        change = MassChange(self.env.name, tuple(sorted(instances)), reason, datetime.now(UTC))
        return signers_of(self.env).sign_file(FILE, change)

    def open(self, text: str) -> tuple[MassChange, str]:
        """A list, and who signed it.

        Raises:
            UsageError: It is none.
            RefusedError: Its signature does not hold, or it is another environment's.
        """
        change, signer = signers_of(self.env).verify_file(FILE, text)
        if change.environment != self.env.name:
            raise RefusedError(f"the list is of environment {change.environment}, this is {self.env.name}", hint=HINT)
        return change, signer

    def admit(self, kind: OperationKind, instance_id: InstanceId) -> ApprovedList | None:
        """The list that an operation is approved by, ``None`` for few agents; asked before its row is written.

        Raises:
            RefusedError: Too many end or change their plan, and there is no approval of this one.
        """
        if not self._is_required:
            return None
        for begun in self.registry.operations.list(unfinished=True, instance_id=instance_id, kind=kind):
            self.refuse_unapproved(begun)
            return None
        for listed, is_new in self._at_hand(instance_id):
            self._refuse_unlisted(listed, instance_id, is_new=is_new)
            return listed
        self._refuse_many(instance_id, self.registry.now())
        return None

    def refuse_unapproved(self, operation: Operation) -> None:
        """Go on with an operation that is one of few, or that a second operator approved.

        Raises:
            RefusedError: It is one of many, and its approval does not hold for it, or there is none.
        """
        if not self._is_required or operation.instance_id is None:
            return
        listed = _held(operation.intent)
        if listed is not None:
            self._refuse_unlisted(listed, operation.instance_id, is_new=False)
        else:
            self._refuse_many(operation.instance_id, operation.created_at)

    @property
    def _is_required(self) -> bool:
        return self.env.settings.approvals == "required"

    def _at_hand(self, instance_id: InstanceId) -> Iterator[tuple[ApprovedList, bool]]:
        """The list that was passed, else the one that its days of grace were approved with; whether it is new."""
        if self.approved is not None:
            yield self.approved, True
        for operation in self.registry.operations.list(
            instance_id=instance_id, kind=OperationKind.SCHEDULE_TERMINATION, limit=1
        ):
            if (listed := _held(operation.intent)) is not None:
                yield listed, False

    def _refuse_unlisted(self, listed: ApprovedList, instance_id: InstanceId, *, is_new: bool) -> None:
        approvals = Approvals(self.env)
        try:
            change, asker = self.open(listed.change)
            approval, approver = approvals.read(listed.approval)
            refuse_other(approval, asked_by(change, asker), signer=approver)
            if is_new:
                refuse_old(approval, now=datetime.now(UTC), life=approvals.life)
        except HermesError as error:
            raise RefusedError(f"the approval does not count: {error.message}", hint=HINT) from error
        if instance_id not in change.instances:
            raise RefusedError(f"the approval is not about instance {instance_id}", hint=HINT)

    def _refuse_many(self, instance_id: InstanceId, at: datetime) -> None:
        rows = (operation for kind in KINDS for operation in self.registry.operations.list(kind=kind))
        refuse_many(rows, instance_id, at, limit=self.limit, environment=self.env.name)


def _held(intent: Mapping[str, Any]) -> ApprovedList | None:
    stored = intent.get(APPROVED)
    if stored is None:
        return None
    fields = stored if isinstance(stored, dict) else {}
    return ApprovedList(str(fields.get("change", "")), str(fields.get("approval", "")))
