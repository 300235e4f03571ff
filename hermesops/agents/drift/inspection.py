"""Asks machines about themselves, a bounded number at once. One that does not answer is recorded, not an error."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hermesops.agents.drift.fleet_snapshot import MachineSnapshot
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.narration import counted
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.model.check import Check, Verdict
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.overview import Ordered
from hermesops.model.ids import InstanceId, MachineId
from hermesops.vendor.channel import Channel
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from hermesops.wire import foreign_text

_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_BOOT_ID_LENGTH = 36
_QUICK_S = 10.0
_LONGEST_S = 120.0
"""Seconds for everything that is asked of one machine."""

_FIRST_LINE_S, _NEXT_LINE_S = 2.0, 5.0
_NAMED, _NAME_LENGTH = 5, 60
"""Machines that a line of progress names, and characters of each name."""


@dataclass(frozen=True)
class RolesReport:
    """Changes that Ansible would make on one machine.

    Attributes:
        unseen: Why that is not known; empty when it is.
    """

    changed: tuple[str, ...] = ()
    unseen: str = ""


@dataclass(frozen=True)
class Asked:
    """Functions that ask one machine each.

    Attributes:
        node: Asks hermes-node; ``None`` while it does not answer.
        roles: Finds the changes that the roles would make, on all machines in one run.
    """

    channel: Callable[[MachineId], Channel]
    node: Callable[[MachineId], Awaitable[NodeState | None]]
    payload_digest: Callable[[Instance], str]
    verify: Callable[[Instance], Awaitable[Sequence[Check]]]
    roles: Callable[[Sequence[Instance]], Awaitable[Mapping[InstanceId, RolesReport]]]


async def inspect(
    probes: Asked,
    machines: Sequence[tuple[Ordered | None, Machine]],
    *,
    at_once: int = 16,
    report: Callable[[str], None] = lambda _: None,
) -> dict[MachineId, MachineSnapshot]:
    """Ask each machine for its state; machines that the vendor does not call ready are not asked.

    Decision: a slow machine delays the report, and lines of progress name it; a report without it would hide drift.

    Args:
        machines: Each with the row of its instance; an orphan has none.
        report: Gets lines of progress: after 2 s, then every 5 s, which machines have not answered.
    """
    ready = [(row, machine) for row, machine in machines if machine.status is MachineStatus.READY]
    answered: set[str] = set()

    async def ask(asking: tuple[Ordered | None, Machine]) -> MachineSnapshot:
        row, machine = asking
        try:
            return await _snapshot_of(probes, row, MachineId(machine.id))
        finally:
            answered.add(machine.id)

    async def narrate() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await pause(_FIRST_LINE_S)
        while silent := [machine.name for _, machine in ready if machine.id not in answered]:
            report(waiting_line(silent, waited_s=loop.time() - began, at_most_s=limits.longest_s(len(ready))))
            await pause(_NEXT_LINE_S)

    report(f"asking {counted(len(ready), 'machine')}")
    limits = Limits(at_once, slow_after_s=_QUICK_S, within_s=_LONGEST_S)
    narration = asyncio.ensure_future(narrate())
    try:
        answers = await fan_out(ready, ask, limits)
    finally:
        await cancel(narration)
    snapshots = {
        MachineId(machine.id): MachineSnapshot(silence=answer.message) if isinstance(answer, HermesError) else answer
        for (_, machine), answer in zip(ready, answers, strict=True)
    }
    answering = {
        row.instance.id: MachineId(machine.id)
        for row, machine in ready
        if row and snapshots[MachineId(machine.id)].instance_id == row.instance.id
    }
    instances = [row.instance for row, _ in ready if row and row.instance.id in answering]
    if instances:
        report(f"checking the roles of {counted(len(instances), 'machine')} with Ansible")
        for instance_id, roles in (await probes.roles(instances)).items():
            machine_id = answering[instance_id]
            snapshots[machine_id] = replace(snapshots[machine_id], changed=roles.changed, roles_unseen=roles.unseen)
    return snapshots


def waiting_line(names: Sequence[str], *, waited_s: float, at_most_s: float) -> str:
    """One line of progress about machines that have not answered; five of their names, quoted and cut.

    Args:
        names: As the vendor lists them; their text is not trusted.
        waited_s: Seconds since the first machine was asked.
        at_most_s: Seconds after which the last of them is cancelled.
    """
    shown = ", ".join(foreign_text.quoted(name, longest=_NAME_LENGTH) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"waiting for {counted(len(names), 'machine')}: {shown}{more} ({waited_s:.0f} of at most {at_most_s:.0f} s)"


async def _snapshot_of(probes: Asked, row: Ordered | None, machine_id: MachineId) -> MachineSnapshot:
    node = await probes.node(machine_id)
    if node is None:
        return MachineSnapshot(silence="hermes-node does not answer")
    booted = await probes.channel(machine_id).run(_BOOT_ID, timeout_s=_QUICK_S)
    boot_id = booted.text if booted.exit_code == 0 and len(booted.text) == _BOOT_ID_LENGTH else ""
    snapshot = MachineSnapshot(instance_id=node.instance_id, boot_id=boot_id)
    if row is None or node.instance_id != row.instance.id:
        return snapshot
    is_current = node.epoch >= row.instance.epoch and node.digest == probes.payload_digest(row.instance)
    checks = await probes.verify(row.instance)
    broken = tuple(check for check in checks if check.verdict is not Verdict.OK)
    return replace(snapshot, is_current=is_current, checks=broken)
