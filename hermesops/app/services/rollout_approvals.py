"""A second operator's approval of stages with a large blast radius: a signature, kept with the rollout.

It is checked when it is given and again before each stage that needs it, against the rows as they are then.
"""

import asyncio
import json
from typing import TYPE_CHECKING

from hermesops.app.adapters.rollout_store import records_of
from hermesops.app.services.approvals import Approvals
from hermesops.app.services.rollout_commands import give_command
from hermesops.errors import RefusedError, UsageError
from hermesops.identity.approval import Asked, digest_of, refuse_other
from hermesops.identity.operators import proved_identity
from hermesops.model.rollout import Rollout
from hermesops.rollout.events import RolloutStarted
from hermesops.rollout.ports import ApprovalState, Records

if TYPE_CHECKING:
    from hermesops.app.container_parts.unconnected import Unconnected
    from hermesops.rollout.commands import OperatorCommand, Transition
    from hermesops.settings import Environment


def approve(app: "Unconnected", text: str, stage: int, *, why: str) -> tuple[Rollout, str]:
    """Approve stages with the operator's key; the rollout, and who that was.

    Raises:
        UsageError: There is no such rollout.
        RefusedError: The key does not sign, is no operator's here, or is that of who started it; or it has ended.
    """
    from dataclasses import replace

    from hermesops.rollout import commands

    row = app.registry.rollouts.find(text)
    approval, approver = Approvals(app.env).sign(asked_for(records_of(app.registry, row.id), stage, app.env.name))

    def decide(records: "Records", command: "OperatorCommand") -> "Transition":
        transition = commands.approve(records.rollout, stage, replace(command, who=approver), approval)
        event = replace(transition.event, evidence={**transition.event.evidence, "approval": json.loads(approval)})
        return replace(transition, event=event)

    return give_command(app, row.id, decide, why=why), approver


class RolloutApprovals:
    """Checks approvals of rollouts in one environment."""

    def __init__(self, env: "Environment") -> None:
        self._env = env

    async def check(self, records: Records) -> ApprovalState:
        """Check the signature that is kept with a rollout, and what was signed, against the rows of now."""
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
    """What is to be approved, by its content: this release to these instances up to that stage, in this way."""
    from hermesops.registry.repositories.rollouts.encoding import to_json

    rollout, started = records.rollout, records.newest(RolloutStarted)
    who = (started.event.who if started else "") or rollout.who
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
