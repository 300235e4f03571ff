"""Operators' commands to a rollout, and the approval of a second operator: a signature, kept with the rollout.

An approval is checked when it is given and again before each stage that needs it, against the rows as they are then.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from hermesops.access.identity.approval import Asked, digest_of, refuse_other
from hermesops.access.identity.operators import proved_identity
from hermesops.agents.cells.changes.approvals import Approvals
from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.operators.commands import OperatorCommand, Transition
from hermesops.agents.rollout.ports import ApprovalState, Records
from hermesops.agents.rollout.records.directory import Rollouts
from hermesops.agents.rollout.records.events import RolloutStarted, to_row
from hermesops.base import waiting
from hermesops.base.waiting import cancel
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState, RolloutTarget
from hermesops.settings.environment import Environment
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.rollouts.targets import to_json

Decide = Callable[[Records, OperatorCommand], Transition]
"""Calls one of ``hermesops.agents.rollout.operators.commands``."""

Show = Callable[[Records], None]
"""Shows a rollout."""

_TRIES = 10
_OBSERVE_S = 1.0


@dataclass(frozen=True)
class Preview:
    """A command that was not given: the rollout before it and after it, and the targets that it would change."""

    before: Rollout
    after: Rollout
    targets: tuple[RolloutTarget, ...] = ()


@dataclass(frozen=True)
class RolloutCommands:
    """Commands of operators to the rollouts of one environment, each by the rollout's id or an empty text.

    Every command raises UsageError where there is no such rollout, RefusedError where its state does not allow the
    command, and UnavailableError where its row changed during each try: give the command again.
    """

    env: Environment
    registry: Registry

    def pause(self, text: str, *, why: str = "") -> Rollout:
        """Begin no more targets; those in progress are finished, and gates still count."""
        return self._give(text, commands.pause, why=why or "paused")

    def resume(self, text: str, *, why: str = "", despite_alerts: str = "") -> Rollout:
        """Continue a rollout that is paused or whose runner died; nothing changes where a process may run it.

        Args:
            despite_alerts: Reason to ignore open alerts from now on; empty to mind them.
        """
        if despite_alerts:
            return self._give(text, partial(commands.resume, despite_alerts=True), why=despite_alerts)
        rollout = self._rollouts.find(text)
        if _may_run(rollout):
            return rollout
        return self._give(rollout.id, commands.resume, why=why or "resumed")

    def promote(self, text: str, *, full: bool = False, why: str = "") -> Rollout:
        """Begin the next stage, or all with ``full``, without soak, approval or more data."""
        return self._give(text, partial(commands.promote, full=full), why=why or "promoted")

    def approve(self, text: str, stage: int, *, why: str = "") -> tuple[Rollout, str]:
        """Approve stages up to a number with the operator's key.

        Returns:
            The rollout and the signer.

        Raises:
            RefusedError: The key cannot sign, is no operator's here, or is that of the one who started it.
        """
        row = self._rollouts.find(text)
        approval, approver = Approvals(self.env).sign(asked_for(self._rollouts.records(row.id), stage, self.env.name))

        def decide(records: Records, command: OperatorCommand) -> Transition:
            transition = commands.approve(records.rollout, stage, replace(command, who=approver), approval)
            event = replace(transition.event, evidence={**transition.event.evidence, "approval": json.loads(approval)})
            return replace(transition, event=event)

        return self._give(row.id, decide, why=why or "approved"), approver

    def abort(self, text: str, *, why: str = "") -> Rollout:
        """Begin no more targets; those in progress finish or go back, others keep the release."""
        return self._give(text, commands.abort, why=why or "aborted")

    def retry(self, text: str, *, why: str = "") -> Rollout:
        """Give failed targets another try, before the others and through the same gates."""
        return self._give(text, commands.retry, why=why or "retried")

    def roll_back(self, text: str, *, lose: bool, even_revoked: bool, why: str = "") -> Rollout:
        """Roll back all targets that run the release because of a rollout."""
        decide = partial(commands.roll_back, lose=lose, even_revoked=even_revoked)
        return self._give(text, decide, why=why or "rolled back")

    def preview(self, text: str, decide: Decide) -> Preview:
        """The rows that a command would write now; every check of it runs, nothing is written.

        Args:
            decide: One of ``hermesops.agents.rollout.operators.commands``.
        """
        records = self._rollouts.records(self._rollouts.find(text).id)
        before = records.rollout
        if decide is commands.resume and _may_run(before):
            return Preview(before, before)
        transition = decide(records, OperatorCommand(self.registry.actor, "dry run", self.registry.now()))
        return Preview(before, transition.rollout, transition.targets)

    def preview_rollback(self, text: str, *, lose: bool, even_revoked: bool) -> Rollout:
        """The rollout that ``roll_back`` would roll back; raises as it does, and writes nothing."""
        return self.preview(text, partial(commands.roll_back, lose=lose, even_revoked=even_revoked)).before

    def allows(self, records: Records, decide: Decide) -> bool:
        """Whether the state of a rollout allows a command."""
        if decide is commands.resume and _may_run(records.rollout):
            return True
        try:
            decide(records, OperatorCommand("", "", self.registry.now()))  # who reads a page may have no key
        except RefusedError:
            return False
        return True

    async def follow(self, operations: Operations, rollout_id: RolloutId, show: Show) -> Rollout:
        """Run a rollout until it ends or halts. If another process runs it, watch that; if that stops, run it here.

        Raises:
            HermesError: A step failed; the same command goes on.
        """
        records = await self._read(rollout_id, show)
        if not records.rollout.state.has_runner:
            return records.rollout
        operation = await in_db_thread(self.registry.rollouts.reopen_operation, records.rollout)
        watching = asyncio.ensure_future(self.watch(rollout_id, show))
        try:
            await operations.resume(operation, wait_s=inf)
        finally:
            await cancel(watching)
        return (await self._read(rollout_id, show)).rollout

    async def watch(self, rollout_id: RolloutId, show: Show) -> Rollout:
        """Show a rollout until it ends or halts, whichever process runs it."""
        while True:
            records = await self._read(rollout_id, show)
            if not records.rollout.state.has_runner:
                return records.rollout
            await waiting.pause(_OBSERVE_S)

    async def _read(self, rollout_id: RolloutId, show: Show) -> Records:
        """Read a rollout and show it."""
        records = await in_db_thread(self._rollouts.records, rollout_id)
        show(records)
        return records

    def _give(self, text: str, decide: Decide, *, why: str) -> Rollout:
        """Apply a command to a rollout's row, by compare-and-swap."""
        rollout_id = self._rollouts.find(text).id
        for _ in range(_TRIES):
            records = self._rollouts.records(rollout_id)
            transition = decide(records, OperatorCommand(self.registry.actor, why, self.registry.now()))
            event = to_row(transition.event)
            if self.registry.rollouts.change(records.rollout, transition.rollout, event, targets=transition.targets):
                return self._rollouts.get(rollout_id)
        raise UnavailableError(
            f"rollout {rollout_id} changed during each of {_TRIES} tries", hint="give the command again"
        )

    @property
    def _rollouts(self) -> Rollouts:
        return Rollouts(self.registry)


def _may_run(rollout: Rollout) -> bool:
    """Whether a process may run a rollout, so that there is nothing to resume."""
    return rollout.state is not RolloutState.PAUSED and rollout.state.has_runner


async def check_approval(env: Environment, records: Records) -> ApprovalState:
    """Check the stored signature of a rollout, and compare its content with the present rows."""
    settings = env.settings
    limit, decisions = settings.highest_two_person, records.rollout.decisions
    if not decisions.approved and not decisions.approval:
        return ApprovalState(limit=limit)
    if settings.allowed_signers is None:
        return ApprovalState(limit=limit, expired="no allowed_signers is set here to check the approval with")
    approvals = Approvals(env)
    expected = asked_for(records, decisions.approved, env.name)
    try:
        signed, signer = await asyncio.to_thread(approvals.read, decisions.approval)
        refuse_other(signed, expected, signer=signer)
    except (RefusedError, UsageError) as error:
        return ApprovalState(limit=limit, objection=error.message)
    expired = approvals.age_of(signed)
    return ApprovalState(0 if expired else decisions.approved, limit, expired)


def asked_for(records: Records, stage: int, environment: str) -> Asked:
    """The content of an approval: this release to these instances up to that stage, with this spec."""
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
