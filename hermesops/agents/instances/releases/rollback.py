"""Rolls one agent back to the release that it ran before; needs its machine, and no registry."""

from collections.abc import Callable, Sequence

from hermesops.agents.instances.remote import node_commands
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import Hint, RefusedError, UnavailableError, UsageError
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.slot import RollbackResult, SlotsState
from hermesops.model.ids import MachineId, is_machine_name, user_id_from_alias, user_id_of
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.unknown_name import shown, unknown_name
from hermesops.vendor.channel import Channel, understood
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.wire import Machine, MachineStatus

_AT_ONCE = 32
_LOOK_S = 10.0


async def roll_back_release(
    slots: ReleaseClient,
    machine_id: MachineId,
    bundle_of: Callable[[ReleaseId], HandedOut],
    *,
    to: str,
    loses: bool,
    title: str,
    even_revoked: bool = False,
) -> RollbackResult:
    """Roll a machine back; safe to call twice.

    Args:
        slots: Its releases, under the instance's lease or under none.
        bundle_of: A release as the store has it, for a machine that lost its slot.
        to: A release on it, or the beginning of its id; empty for the previous one.

    Raises:
        UsageError: There is no such release on it.
        RefusedError: Rows would be lost, the release was revoked, or the machine lost it and so did the store.
        UnavailableError: It does not answer, or it did not work.
    """
    state = await _observed(slots, machine_id, title)
    release = _chosen(state, to, title)
    if release == state.current and state.switch is None:
        return unchanged(release)
    if release not in state.slots:
        await slots.install(machine_id, bundle_of(release), python=state.python)
    return await slots.roll_back(machine_id, to=release, loses=loses, even_revoked=even_revoked)


async def preview_rollback(slots: ReleaseClient, machine_id: MachineId, *, to: str, title: str) -> RollbackResult:
    """The rows and settings that a rollback of a machine would migrate and lose now. Changes nothing.

    Args:
        to: A release on it, or the beginning of its id; empty for the previous one.

    Raises:
        UsageError: There is no such release on it.
        RefusedError: It lost the slot of that release, or its hermes-node is older than previews.
        UnavailableError: It does not answer.
    """
    state = await _observed(slots, machine_id, title)
    release = _chosen(state, to, title)
    if release == state.current and state.switch is None:
        return unchanged(release)
    return await slots.preview_rollback(machine_id, to=release)


async def _observed(slots: ReleaseClient, machine_id: MachineId, title: str) -> SlotsState:
    state = await slots.observe(machine_id)
    if state is None:
        raise UnavailableError(
            f"the machine of {title} does not report its releases", hint=Hint(("instance", "show", title))
        )
    return state


def unchanged(release: ReleaseId) -> RollbackResult:
    """The result where an agent runs the release already, or nothing of its state is replaced."""
    return RollbackResult(release, release, gap_s=0.0, migrated=0, listed=0, kept="")


async def find_machine(
    vendor: Client, channel_to: Callable[[MachineId], Channel], text: str, *, environment: str
) -> Machine:
    """Find a machine without a registry.

    Args:
        text: A machine's name or id, an instance's or a user's id, or a user's alias.
        environment: Only its machines are asked for their instance.

    Raises:
        UsageError: No machine matches, or several do.
    """
    machines = [machine for machine in await vendor.list_machines() if machine.status is not MachineStatus.DELETED]
    named = [machine for machine in machines if text in {machine.name, machine.id}]
    ours = [
        machine
        for machine in machines
        if is_machine_name(machine.name, environment) and machine.status is MachineStatus.READY
    ]
    matching = named or await _those_of(ours, channel_to, text)
    if len(matching) != 1:
        if not matching:
            names = [machine.name for machine in ours]
            raise unknown_name("machine", text, names, of="CELL", where=f" that answers in {environment}")
        several = ", ".join(sorted(machine.name for machine in matching))
        raise UsageError(
            f"{len(matching)} machines are {shown(text)} in {environment}: {several}",
            hint=Hint(("rollback", "--direct", "--machine", "NAME")),
        )
    return matching[0]


def _chosen(slots: SlotsState, to: str, title: str) -> ReleaseId:
    if not to:
        if slots.before is None:
            raise RefusedError(
                f"the machine of {title} does not say which of its releases was before: {', '.join(slots.slots)}",
                hint=Hint(("rollback", title, "--to", "RELEASE")),
            )
        return slots.before
    known = sorted({*slots.slots, *([slots.before] if slots.before else [])})
    matching = [slot for slot in known if slot == to] or [slot for slot in known if slot.startswith(to)]
    if len(matching) > 1:
        raise UsageError(
            f"{len(matching)} releases on the machine of {title} begin with {shown(to)}: {', '.join(matching)}",
            hint=Hint(("rollback", title, "--to", "RELEASE")),
        )
    if not matching:
        there = ", ".join(slots.slots) or "none"
        raise unknown_name("release", to, slots.slots, where=f" on the machine of {title}, which has {there}")
    return matching[0]


async def _names_on(channel: Channel, machine_id: MachineId) -> set[str]:
    """The instance and the user that a machine says it is of; none of one that does not answer."""
    status = await node_commands.status(channel, timeout_s=_LOOK_S)
    with understood(machine_id, "status"):
        identity = (status.get("identity") or {}) if status else {}
        return {str(identity[name]) for name in ("instance", "user") if name in identity}


async def _those_of(
    machines: Sequence[Machine], channel_to: Callable[[MachineId], Channel], text: str
) -> list[Machine]:
    """The machine must answer: its name contains only the beginning of its instance's id, and no user's id."""
    names = {text, user_id_of(text) or user_id_from_alias(text)}

    async def is_meant(machine: Machine) -> bool:
        return bool(names & await _names_on(channel_to(machine_id := MachineId(machine.id)), machine_id))

    answers = await fan_out(machines, is_meant, Limits(_AT_ONCE, slow_after_s=_LOOK_S, within_s=2 * _LOOK_S))
    # One that does not answer, or answers nonsense, is not the machine that is meant.
    return [machine for machine, meant in zip(machines, answers, strict=True) if meant is True]
