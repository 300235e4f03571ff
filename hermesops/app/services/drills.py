"""Drills of runbooks: each has an agent of its own, on a machine of the warm pool that is destroyed at its end."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.base.waiting import Pending, until
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.plan import Plan
from hermesops.model.user import DRILLS
from hermesops.observability.runbook.faults import AtVendor, Fault
from hermesops.vendor.justavps.wire import MachineStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.model.audit import AuditEntry
    from hermesops.model.instance import Instance
    from hermesops.observability.runbook.drill import Drilled
    from hermesops.store.registry import Registry

_STOPPED_S = 300.0


@dataclass(frozen=True)
class LastDrill:
    """The newest drill of a fault; ``problem`` is empty where all was well at its end."""

    at: datetime
    problem: str
    after: "Mapping[str, object]"


def user_of(fault: Fault) -> str:
    """The alias of a drill's own agent; no user has such a one."""
    return f"{DRILLS}{fault.name}"


def left_over(registry: "Registry", fault: Fault) -> "Instance | None":
    """The agent of a drill that was killed."""
    try:
        instance = registry.instances.find(user_of(fault))
    except UsageError:
        return None
    return registry.instances.of_user(instance.user_id)


async def provision(session: "Runtime", fault: Fault) -> "Instance":
    """Give a drill an agent, on a machine of the warm pool.

    Raises:
        RefusedError: None is ready.
    """
    ready = next((row for plan in Plan for row in session.pools.ready(plan)), None)
    if ready is None:
        raise RefusedError(
            "no machine of a warm pool is ready, and a drill breaks no user's",
            hint=Hint(("pool", "refill"), "makes some, with the setting pool_size"),
        )
    # In its region: elsewhere no pool has one, and a machine would be made for the drill.
    instance, operation = await session.admission.admit(user_of(fault), ready.plan, region=ready.region, is_drill=True)
    await session.operations.run(operation)
    return session.app.registry.instances.get(instance.id)


async def at_vendor(session: "Runtime", instance: "Instance", action: AtVendor) -> None:
    """Do to a drill's machine what somebody might do at JustAVPS.

    Raises:
        WaitExpiredError: It was not done within minutes.
    """
    client, machine_id = session.client, instance.machine_id or ""
    if action.verb == "delete":
        await client.delete_machine(machine_id)
        return
    await client.stop_machine(machine_id)

    async def observe() -> bool | Pending[bool]:
        status = (await client.get_machine(machine_id)).status
        return status is MachineStatus.STOPPED or Pending(status)

    await until(observe, what=f"machine {instance.machine_name} to stop", timeout_s=_STOPPED_S)


def note(registry: "Registry", fault: Fault, drilled: "Drilled | None", problem: str) -> None:
    """Write what a drill found to the audit."""
    found = vars(drilled) if drilled else {}
    after = {"runbook": fault.runbook, "problem": problem, **found}
    registry.audit.append("drill_run", _subject(fault), why=f"drill {fault.name}", after=after)


def last(registry: "Registry", fault: Fault) -> LastDrill | None:
    """The newest drill of a fault."""
    entries = registry.audit.list(subject=_subject(fault), limit=1)
    return next(map(_last, entries), None)


def _last(entry: "AuditEntry") -> LastDrill:
    return LastDrill(entry.at, str(entry.after.get("problem", "")), entry.after)


def _subject(fault: Fault) -> str:
    return f"drill/{fault.name}"
