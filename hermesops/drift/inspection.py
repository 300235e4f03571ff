"""Asks machines about themselves, a bounded number at once. One that does not answer is an account, not an error."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hermesops.channel import Channel
from hermesops.drift.fleet_snapshot import MachineSnapshot
from hermesops.errors import HermesError
from hermesops.fan_out import Limits, fan_out
from hermesops.justavps.wire import Machine, MachineStatus
from hermesops.model.check import Check, Verdict
from hermesops.model.fleet import Ordered
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance

_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_BOOT_ID_LENGTH = 36
_QUICK_S = 10.0
_LONGEST_S = 120.0
"""Seconds for everything that is asked of one machine."""


class NodeReport(Protocol):
    """What hermes-node says of its machine."""

    @property
    def instance_id(self) -> InstanceId | None:
        """Whose it is."""

    @property
    def epoch(self) -> int:
        """Of its instance's machine."""

    @property
    def digest(self) -> str:
        """Of what it was handed in full."""


@dataclass(frozen=True)
class RolesReport:
    """What Ansible would change on one machine.

    Attributes:
        unseen: Why that is not known; empty when it is.
    """

    changed: tuple[str, ...] = ()
    unseen: str = ""


@dataclass(frozen=True)
class Asked:
    """How machines are asked.

    Attributes:
        channel: A way to run commands there.
        node: Asks hermes-node; ``None`` while it does not answer.
        payload_digest: Digest of what an instance's node should have been handed.
        verify: Checks what the roles promise, all checks of one machine.
        roles: Checks what the roles would change, all machines in one run.
    """

    channel: Callable[[MachineId], Channel]
    node: Callable[[MachineId], Awaitable[NodeReport | None]]
    payload_digest: Callable[[Instance], str]
    verify: Callable[[Instance], Awaitable[Sequence[Check]]]
    roles: Callable[[Sequence[Instance]], Awaitable[Mapping[InstanceId, RolesReport]]]


async def inspect(
    asked: Asked,
    machines: Sequence[tuple[Ordered | None, Machine]],
    *,
    at_once: int = 16,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[MachineId, MachineSnapshot]:
    """What each of the machines says of itself; those that the vendor does not call ready are not asked.

    Args:
        asked: How.
        machines: Each with the row of its instance; an orphan has none.
        at_once: How many are asked side by side.
        tell: Narration.
    """
    ready = [(row, machine) for row, machine in machines if machine.status is MachineStatus.READY]

    async def one(asking: tuple[Ordered | None, Machine]) -> MachineSnapshot:
        return await _account_of(asked, asking[0], MachineId(asking[1].id))

    tell(f"asking {len(ready)} machines")
    answers = await fan_out(ready, one, Limits(at_once, slow_after_s=_QUICK_S, within_s=_LONGEST_S))
    snapshot = [MachineSnapshot(silence=said.message) if isinstance(said, HermesError) else said for said in answers]
    told = {MachineId(machine.id): account for (_, machine), account in zip(ready, snapshot, strict=True)}
    answering = {
        row.instance.id: MachineId(machine.id)
        for row, machine in ready
        if row and told[MachineId(machine.id)].instance_id == row.instance.id
    }
    instances = [row.instance for row, _ in ready if row and row.instance.id in answering]
    if instances:
        tell(f"asking Ansible what the roles would change on {len(instances)} machines")
        for instance_id, said in (await asked.roles(instances)).items():
            machine_id = answering[instance_id]
            told[machine_id] = replace(told[machine_id], changed=said.changed, roles_unseen=said.unseen)
    return told


async def _account_of(asked: Asked, row: Ordered | None, machine_id: MachineId) -> MachineSnapshot:
    node = await asked.node(machine_id)
    if node is None:
        return MachineSnapshot(silence="hermes-node says nothing")
    booted = await asked.channel(machine_id).run(_BOOT_ID, timeout_s=_QUICK_S)
    boot_id = booted.text if booted.exit_code == 0 and len(booted.text) == _BOOT_ID_LENGTH else ""
    account = MachineSnapshot(instance_id=node.instance_id, boot_id=boot_id)
    if row is None or node.instance_id != row.instance.id:
        return account
    is_current = node.epoch >= row.instance.epoch and node.digest == asked.payload_digest(row.instance)
    checks = await asked.verify(row.instance)
    broken = tuple(check for check in checks if check.verdict is not Verdict.OK)
    return replace(account, is_current=is_current, checks=broken)
