"""A second operator's word for stages of a rollout that touch many: a signature, kept with the rollout.

It is checked when it is given and again whenever a stage that needs it is entered: against the rows as they are then.
"""

import asyncio
import json
from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_store import records_of
from hermesops.app.services.approvals import Approvals
from hermesops.app.services.rollout_commands import steer
from hermesops.errors import RefusedError, UsageError
from hermesops.identity.approval import Asked, digest_of, refuse_other
from hermesops.identity.operators import proved_identity
from hermesops.model.rollout import Rollout
from hermesops.rollout.ports import ApprovalState, Records

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.rollout.commands import OperatorCommand, Transition
    from hermesops.settings import Environment


def approve(app: "Container", text: str, stage: int, *, why: str) -> tuple[Rollout, str]:
    """Approve stages with the operator's key; the rollout, and who that was.

    Raises:
        UsageError: There is no such rollout.
        RefusedError: The key does not sign, counts for nobody here, or is that of who started it; or it has ended.
    """
    from dataclasses import replace

    from hermesops.rollout import commands

    row = app.registry.rollouts.find(text)
    approval, approver = Approvals(app.env).sign(asked_for(records_of(app.registry, row.id), stage, app.env.name))

    def word(seen: "Records", said: "OperatorCommand") -> "Transition":
        transition = commands.approve(seen.rollout, stage, replace(said, who=approver), approval)
        event = replace(transition.event, evidence={**transition.event.evidence, "approval": json.loads(approval)})
        return replace(transition, event=event)

    return steer(app, row.id, word, why=why), approver


class RolloutApprovals:
    """Checks approvals of rollouts.

    Args:
        env: Where they count.
    """

    def __init__(self, env: "Environment") -> None:
        self._env = env

    async def check(self, records: Records) -> ApprovalState:
        """Check the signature that is kept with a rollout, and what was signed, against all that is written now."""
        settings = self._env.settings
        limit, decisions = settings.highest_two_person, records.rollout.decisions
        if not decisions.approved and not decisions.approval:
            return ApprovalState(limit=limit)
        if settings.allowed_signers is None:
            return ApprovalState(limit=limit, expired="no allowed_signers is set here to check the approval with")
        approvals = Approvals(self._env)
        asked = asked_for(records, decisions.approved, self._env.name)
        try:
            given, signer = await asyncio.to_thread(approvals.read, decisions.approval)
            refuse_other(given, asked, signer=signer)
        except (RefusedError, UsageError) as error:
            return ApprovalState(limit=limit, objection=error.message)
        expired = approvals.age_of(given)
        return ApprovalState(0 if expired else decisions.approved, limit, expired)


def asked_for(records: Records, stage: int, environment: str) -> Asked:
    """What is asked for, by its content: this release to these instances up to that stage, in this way."""
    from hermesops.registry.repositories.rollouts.encoding import to_json

    rollout, who = records.rollout, str(records.latest["start"].decision.get("who") or records.rollout.who)
    content = {
        "rollout": rollout.id,
        "release": rollout.release,
        "action": rollout.action.value,
        "spec": to_json(rollout.spec),
        "stage": stage,
        "targets": [[target.id, target.stage] for target in records.targets if target.stage < stage],
    }
    digest = digest_of(json.dumps(content, sort_keys=True).encode())
    identity = proved_identity(who)
    what = f"stage {stage} of rollout {rollout.id}"
    return Asked(what, environment, digest, identity or who, is_proved=bool(identity))
