"""Operators' commands to a rollout, and the approval of a second operator: a signature, kept with the rollout.

An approval is checked when it is given and again before each stage that needs it, against the rows as they are then.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from math import inf

from hermesops.access.identity.approval import Asked, digest_of, refuse_other
from hermesops.access.identity.operators import proved_identity
from hermesops.agents.cells.approvals import Approvals
from hermesops.agents.rollout import commands
from hermesops.agents.rollout.commands import OperatorCommand, Transition
from hermesops.agents.rollout.events import RolloutStarted, to_row
from hermesops.agents.rollout.ports import ApprovalState, Records
from hermesops.agents.rollout.store import records_of
from hermesops.base import waiting
from hermesops.base.waiting import cancel
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.rollout import Rollout, RolloutId
from hermesops.settings import Environment
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.rollouts.targets import to_json

Decide = Callable[[Records, OperatorCommand], Transition]
"""Calls one of ``hermesops.agents.rollout.commands``."""

Show = Callable[[Records], None]
"""Shows a rollout."""

_TRIES = 10
_OBSERVE_S = 1.0


def give_command(registry: Registry, rollout_id: RolloutId, decide: Decide, *, why: str) -> Rollout:
    """Apply a command to a rollout's row, by compare-and-swap.

    Raises:
        RefusedError: The rollout's state does not allow it.
        UnavailableError: Its row changed every time; give the command again.
    """
    for _ in range(_TRIES):
        found = records_of(registry, rollout_id)
        transition = decide(found, OperatorCommand(registry.actor, why, registry.now()))
        event = to_row(transition.event)
        if registry.rollouts.change(found.rollout, transition.rollout, event, targets=transition.targets):
            return registry.rollouts.get(rollout_id)
    raise UnavailableError(f"rollout {rollout_id} changed during each of {_TRIES} tries", hint="give the command again")


async def follow(registry: Registry, operations: Operations, rollout_id: RolloutId, show: Show) -> Rollout:
    """Run a rollout until it ends or halts. If another process runs it, watch that; if that stops, run it here.

    Raises:
        HermesError: A step failed; the same command goes on.
    """
    seen = await _read(registry, rollout_id, show)
    if not seen.rollout.state.has_runner:
        return seen.rollout
    operation = await in_db_thread(registry.rollouts.reopen_operation, seen.rollout)
    watching = asyncio.ensure_future(watch(registry, rollout_id, show))
    try:
        await operations.resume(operation, wait_s=inf)
    finally:
        await cancel(watching)
    return (await _read(registry, rollout_id, show)).rollout


async def watch(registry: Registry, rollout_id: RolloutId, show: Show) -> Rollout:
    """Show a rollout until it ends or halts, whichever process runs it."""
    while True:
        seen = await _read(registry, rollout_id, show)
        if not seen.rollout.state.has_runner:
            return seen.rollout
        await waiting.pause(_OBSERVE_S)


async def _read(registry: Registry, rollout_id: RolloutId, show: Show) -> Records:
    """Read a rollout and show it."""
    seen = await in_db_thread(records_of, registry, rollout_id)
    show(seen)
    return seen


def approve(env: Environment, registry: Registry, text: str, stage: int, *, why: str) -> tuple[Rollout, str]:
    """Approve stages with the operator's key; returns the rollout and the signer.

    Raises:
        UsageError: There is no such rollout.
        RefusedError: The key cannot sign, is no operator's here, or is that of who started it; or it has ended.
    """
    row = registry.rollouts.find(text)
    approval, approver = Approvals(env).sign(asked_for(records_of(registry, row.id), stage, env.name))

    def decide(records: Records, command: OperatorCommand) -> Transition:
        transition = commands.approve(records.rollout, stage, replace(command, who=approver), approval)
        event = replace(transition.event, evidence={**transition.event.evidence, "approval": json.loads(approval)})
        return replace(transition, event=event)

    return give_command(registry, row.id, decide, why=why), approver


async def check_approval(env: Environment, records: Records) -> ApprovalState:
    """Check a rollout's stored signature, and compare what was signed with the present rows."""
    settings = env.settings
    limit, decisions = settings.highest_two_person, records.rollout.decisions
    if not decisions.approved and not decisions.approval:
        return ApprovalState(limit=limit)
    if settings.allowed_signers is None:
        return ApprovalState(limit=limit, expired="no allowed_signers is set here to check the approval with")
    approvals = Approvals(env)
    asked = asked_for(records, decisions.approved, env.name)
    try:
        given, signer = await asyncio.to_thread(approvals.read, decisions.approval)
        refuse_other(given, asked, signer=signer)
    except (RefusedError, UsageError) as error:
        return ApprovalState(limit=limit, objection=error.message)
    expired = approvals.age_of(given)
    return ApprovalState(0 if expired else decisions.approved, limit, expired)


def asked_for(records: Records, stage: int, environment: str) -> Asked:
    """What is to be approved, by its content: this release to these instances up to that stage, in this way."""
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
