"""Actions of rollouts: their start, an operator's commands to one that has not ended, its rollback, and freezes."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hermesops.agents.rollout.operators import commands
from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.agents.rollout.plan.specs import chosen_spec
from hermesops.base.typed_values import seconds, share, until
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.console.actions.operations import DRY_RUN
from hermesops.model.access.console_operator import Role
from hermesops.model.rollout.records import RolloutId
from hermesops.model.rollout.spec import Action as RolloutAction
from hermesops.model.rollout.spec import DrillPolicy, HaltRollback, Spec
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.agents import rollout_previews
from hermesops.views.agents import rollouts as shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from hermesops.agents.rollout.operators.service import Decide, RolloutCommands
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.rollout.records import Freeze, Rollout

_SEARCHED = 20
"""Newest rollouts among which the one of a request is looked for."""


@dataclass(frozen=True)
class CommandWork:
    """A command to a rollout.

    Attributes:
        decide: The pure command of ``agents.rollout.operators.commands``, for a preview.
        give: Gives it.
    """

    decide: "Callable[[ActionRequest], Decide]"
    give: "Callable[[RolloutCommands, ActionRequest], Rollout]"

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The state after the command, and the agents that it changes."""
        commands = container.rollout_commands
        preview = await in_db_thread(commands.preview, request.subject.id, self.decide(request))
        return Preview("rollout_command", shapes.command_preview(preview))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Give the command; the rollout goes on in this process where no other has it."""
        return begun(await in_db_thread(self.give, connected.container.rollout_commands, request), connected)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The rollout, where a command was given to it for the same reason."""
        return await in_db_thread(_commanded, connected, request)


@dataclass(frozen=True)
class StartWork:
    """The start of a rollout.

    Attributes:
        kind: What it brings to agents, unless a value of the request says otherwise.
    """

    kind: RolloutAction = RolloutAction.SLOT

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """Stages, first agents, faults that gates catch, the worst case, and the settings that agents would lose."""
        start = _start(container, replace(request, reason=DRY_RUN), self.kind)
        ahead = await container.rollout_requests.preview(start)
        losses = await container.rollout_losses.preview(start)
        return Preview("rollout", rollout_previews.start(ahead, losses))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Freeze the targets and write the rollout, or find the same one that has not ended."""
        return begun(await connected.rollouts.start(_start(connected.container, request, self.kind)), connected)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The rollout that was started for the same reason, one of the newest."""
        return await in_db_thread(_started, connected, request)


@dataclass(frozen=True)
class RollBackWork:
    """The rollback of all agents that a rollout deployed."""

    def decide(self, request: ActionRequest) -> "Decide":
        """The pure command; the state allows it whatever may be lost."""
        del request
        return commands.roll_back

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The losses of each agent that goes back; machines are asked for them."""
        lose, even_revoked = request.is_on("lose"), request.is_on("even_revoked")
        foresee = partial(container.rollout_commands.preview_rollback, lose=lose, even_revoked=even_revoked)
        losses = await container.rollbacks.preview_rollout(await in_db_thread(foresee, request.subject.id))
        shape = {"agents": [shapes.losses(agent) for agent in losses]}
        return Preview("rollback", shape)

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Give the command."""
        give = partial(
            connected.container.rollout_commands.roll_back,
            request.subject.id,
            lose=request.is_on("lose"),
            even_revoked=request.is_on("even_revoked"),
            why=request.reason,
        )
        return begun(await in_db_thread(give), connected)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The rollout, where it is or was rolled back for the same reason."""
        return await in_db_thread(_commanded, connected, request)


@dataclass(frozen=True)
class FreezeWork:
    """The begin or the end of a freeze of all rollouts.

    Attributes:
        foresee: Returns the rollouts that it concerns; raises where it is refused.
        write: Writes it.
    """

    foresee: "Callable[[Container, ActionRequest], Sequence[Rollout]]"
    write: "Callable[[Container, ActionRequest], Freeze]"

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The rollouts that it stops, or that continue."""
        return Preview("freeze", shapes.freeze_preview(await in_db_thread(self.foresee, container, request)))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Write it, from now on."""
        await in_db_thread(self.write, connected.container, request)
        return Begun("rollouts")

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The page of freezes, where one began for the same reason; its end is safe to repeat."""
        freezes = await in_db_thread(partial(connected.container.freezes.list, past=True))
        return Begun("rollouts") if any(freeze.reason == request.reason for freeze in freezes) else None


def _preview_freeze(container: "Container", request: ActionRequest) -> "Sequence[Rollout]":
    return container.freezes.preview_set(begins_at=None, ends_at=_ends_at(container, request))


def _preview_unfreeze(container: "Container", request: ActionRequest) -> "Sequence[Rollout]":
    return container.freezes.preview_lift(request.subject.id)


def _freeze(container: "Container", request: ActionRequest) -> "Freeze":
    return container.freezes.set(begins_at=None, ends_at=_ends_at(container, request), reason=request.reason)


def _unfreeze(container: "Container", request: ActionRequest) -> "Freeze":
    return container.freezes.lift(request.subject.id, reason=request.reason)


def begun(rollout: "Rollout", connected: "Connected") -> Begun:
    """A rollout that goes on in this process, or is watched where another one has it."""
    commands, operations = connected.container.rollout_commands, connected.operations
    go_on = partial(commands.follow, operations, rollout.id, _unseen) if rollout.state.has_runner else None
    return Begun(f"rollouts/{rollout.id}", go_on, partial(_leave, rollout.id))


def _started(connected: "Connected", request: ActionRequest) -> Begun | None:
    rollouts = connected.container.rollouts
    is_its = (row for row in rollouts.list()[:_SEARCHED] if rollouts.start(row.id).why == request.reason)
    rollout = next(is_its, None)
    return begun(rollout, connected) if rollout else None


def _commanded(connected: "Connected", request: ActionRequest) -> Begun | None:
    """A rollout to which a command was given for the reason of a request; ``None`` where there was none."""
    rollouts, rollout_id = connected.container.rollouts, RolloutId(request.subject.id)
    is_given = any(change.why == request.reason for _, change in rollouts.changes(rollout_id))
    return begun(rollouts.get(rollout_id), connected) if is_given else None


def _unseen(_records: object) -> None:
    """Show nothing: pages read the rows themselves."""


def _leave(rollout_id: "RolloutId", connected: "Connected") -> str:
    """Leave a rollout to the workers, unless it has ended."""
    rollout = connected.container.rollouts.get(rollout_id)
    if not rollout.state.has_runner:
        return ""
    connected.rollouts.leave_unless_held(rollout)
    return f"rollout {rollout_id}"


def _start(container: "Container", request: ActionRequest, kind: RolloutAction) -> RolloutRequest:
    """The request that the command makes of the same options.

    Raises:
        UsageError: A value cannot be read, or no rollout can be carried out with it.
    """
    spec = replace(_spec(request), two_person_above=container.env.settings.two_person_above)
    spec = chosen_spec(spec, vitals=request.value("vitals"))
    action = RolloutAction(request.value("action") or kind)
    everybody = request.is_on("everybody")
    return RolloutRequest(request.value("release"), request.value("where"), everybody, spec, action, request.reason)


def _spec(request: ActionRequest) -> Spec:
    """The spec of the fields of a page; every other value is the command's default."""
    values: dict[str, Any] = {name: request.value(name) for name in ("despite_alerts", "emergency")}
    if stages := request.value("stages"):
        values["stages"] = tuple(share(part, "--stages") for part in stages.split(","))
    if soak := request.value("soak"):
        values["soak_s"] = seconds(soak, "--soak")
    if settle := request.value("settle"):
        values["settle_s"] = seconds(settle, "--settle")
    if max_unavailable := request.value("max_unavailable"):
        values["max_unavailable"] = share(max_unavailable, "--max-unavailable")
    if drill := request.value("drill"):
        values["drill"] = DrillPolicy(drill)
    if on_halt := request.value("on_halt"):
        values["on_halt"] = HaltRollback(on_halt)
    return replace(Spec(), **values)


def _ends_at(container: "Container", request: ActionRequest) -> "datetime | None":
    text = request.value("until")
    return until(text, now=container.now()) if text else None


ACTIONS = (
    Action(
        About.FLEET,
        "start-rollout",
        "Start a rollout",
        ("rollout", "start"),
        StartWork(),
        (
            ActionValue("release", "Release or agent version", is_required=True),
            ActionValue("where", "Only instances, as cell=cell1,plan=heavy", "--where"),
            ActionValue("everybody", "All running instances", "--all", is_flag=True),
            ActionValue("stages", "Stages, as 5%,25%,100% (default)", "--stages"),
            ActionValue("soak", "Soak time of a stage, as 10m (default)", "--soak"),
            ActionValue("settle", "Pause between batches, as 10s (default)", "--settle"),
            ActionValue("max_unavailable", "Share that changes at once, as 10% (default)", "--max-unavailable"),
            ActionValue("vitals", "Vitals of the health gate; empty: all, none: no gate", "--vitals"),
            ActionValue("despite_alerts", "Reason to ignore open alerts", "--despite-alerts", is_served=False),
            ActionValue(
                "emergency",
                "Reason of an emergency: ignores windows, freezes, alerts and quiet hours",
                "--emergency",
                is_served=False,
            ),
            ActionValue("drill", "Rehearsal on a warm-pool machine", "--drill", tuple(DrillPolicy)),
            ActionValue("on_halt", "Agents to roll back after a halt", "--on-halt", tuple(HaltRollback)),
            ActionValue("action", "Change the slot or the machine", "--action", ("slot", "machine")),
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.FLEET,
        "rotate-tokens",
        "Rotate model tokens",
        ("token", "rotate"),
        StartWork(RolloutAction.TOKENS),
        (
            ActionValue("where", "Only instances, as cell=cell1,plan=heavy", "--where"),
            ActionValue("everybody", "All running instances", "--all", is_flag=True),
            ActionValue("stages", "Stages, as 5%,25%,100% (default)", "--stages"),
            ActionValue("soak", "Soak time of a stage, as 10m (default)", "--soak"),
            ActionValue("settle", "Pause between batches, as 10s (default)", "--settle"),
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.ROLLOUT,
        "pause",
        "Pause",
        ("rollout", "pause"),
        CommandWork(
            lambda _: commands.pause, lambda given, request: given.pause(request.subject.id, why=request.reason)
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.ROLLOUT,
        "resume",
        "Resume",
        ("rollout", "resume"),
        CommandWork(
            lambda _: commands.resume, lambda given, request: given.resume(request.subject.id, why=request.reason)
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.ROLLOUT,
        "promote",
        "Promote",
        ("rollout", "promote"),
        CommandWork(
            lambda request: partial(commands.promote, full=request.is_on("full")),
            lambda given, request: given.promote(request.subject.id, full=request.is_on("full"), why=request.reason),
        ),
        (ActionValue("full", "Promote all stages, not only the next", "--full", is_flag=True),),
        role=Role.OPERATOR,
    ),
    Action(
        About.ROLLOUT,
        "retry",
        "Retry failed agents",
        ("rollout", "retry"),
        CommandWork(
            lambda _: commands.retry, lambda given, request: given.retry(request.subject.id, why=request.reason)
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.ROLLOUT,
        "abort",
        "Abort",
        ("rollout", "abort"),
        CommandWork(
            lambda _: commands.abort, lambda given, request: given.abort(request.subject.id, why=request.reason)
        ),
        role=Role.OPERATOR,
    ),
    Action(
        About.ROLLOUT,
        "roll-back",
        "Roll back",
        ("rollback",),
        RollBackWork(),
        (
            ActionValue("lose", "Roll back even if rows are lost", "--lose", is_flag=True, is_served=False),
            ActionValue(
                "even_revoked", "Roll back even to a revoked release", "--even-revoked", is_flag=True, is_served=False
            ),
        ),
        subject_option="--rollout",
        destroys=True,
        role=Role.OPERATOR,
    ),
    Action(
        About.FLEET,
        "freeze",
        "Freeze all rollouts",
        ("rollout", "freeze"),
        FreezeWork(_preview_freeze, _freeze),
        (ActionValue("until", "End, as 12h from now or a date; empty: no end", "--until"),),
        role=Role.OPERATOR,
    ),
    Action(
        About.FREEZE,
        "unfreeze",
        "End the freeze",
        ("rollout", "unfreeze"),
        FreezeWork(_preview_unfreeze, _unfreeze),
        role=Role.OPERATOR,
    ),
)
