"""Rents a machine exactly once: the vendor has no idempotency key, so the name takes its place."""

import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

from hermesops.base.waiting import Pending, pause, until
from hermesops.vendor.justavps.errors import (
    CommandTimedOutError,
    LostAnswerError,
    LostReadError,
    NotFoundError,
    NotJsonError,
    OrderUnknownError,
    ReadServerError,
    ServerError,
    UnreachableError,
)
from hermesops.vendor.justavps.wire import Machine, MachineOrder, MachineStatus

_ATTEMPTS = 5
_ATTEMPT_EVERY_S = 2.0
_ABSENT_GRACE_S = 60.0
_POLL_S = 0.25
_EAGER_S = 20.0
_PATIENT_POLL_S = 3.0
"""The vendor's own client polls every three seconds; a local machine is up before that."""

_ANCIENT = datetime(1970, 1, 1, tzinfo=UTC)


def newest_named(machines: Iterable[Machine], name: str) -> Machine | None:
    """The newest of the machines of exactly that name that are not deleted."""
    named = [m for m in machines if m.name == name and m.status is not MachineStatus.DELETED]
    return max(named, key=lambda m: m.created_at or _ANCIENT, default=None)


Find = Callable[[str], Awaitable[Machine | None]]
"""Reads the newest machine of a name."""


async def order_once(order: MachineOrder, find: Find, post: Callable[[MachineOrder], Awaitable[Machine]]) -> Machine:
    """Find a machine of the order's name, else order it once, else find it after all; see ``Client.create_machine``.

    Because no machine of that name existed before the order, one that exists after it is the order's: no clock of
    theirs or ours is compared.
    """
    existing = await find(order.name)
    if existing is not None:
        return existing
    try:
        return await post(order)
    except (ServerError, LostAnswerError, NotJsonError, CommandTimedOutError) as lost:
        cause = lost
    machine = await _find(find, order.name)
    if machine is not None:
        return machine
    raise OrderUnknownError(
        cause.call,
        f"the order of {order.name} has no clear answer ({cause.said}), and no machine of that name has appeared",
        name=order.name,
        request_id=cause.request_id,
        hint="repeat the same command: it looks for the machine by name before it orders",
    ) from cause


async def _find(find: Find, name: str) -> Machine | None:
    attempts = 0

    async def observe() -> Machine | Pending[Machine | None] | None:
        nonlocal attempts
        attempts += 1
        try:
            machine = await find(name)
        except (UnreachableError, LostReadError, ReadServerError) as failure:
            return Pending(failure.said) if attempts < _ATTEMPTS else None
        if machine is None and attempts < _ATTEMPTS:
            return Pending("none of that name yet")
        return machine

    return await until(observe, what=f"machine {name}", timeout_s=3600, every_s=_ATTEMPT_EVERY_S)


async def wait_ready(
    get_machine: Callable[[str], Awaitable[Machine]],
    machine_id: str,
    *,
    timeout_s: float,
    report: Callable[[str], None] | None = None,
) -> Machine:
    """Wait until the vendor calls a machine ready. That says only that its daemon is up: ask the machine itself next.

    A 404 is tolerated for the first minute, as the vendor answers so about machines that it just accepted; ``error``
    until the deadline, as machines have recovered from it by themselves.

    Raises:
        NotFoundError: Deleted, or still unknown after a minute.
        WaitExpiredError: Not ready in time; it carries the last status and stage.

    Source:
        kortix-ai/suna at 6695999 (404 for 60 s) and its sandbox-provision-poller.ts (recovery from ``error``), 2026.
    """
    started = time.monotonic()

    async def observe() -> Machine | Pending[Machine]:
        waited = time.monotonic() - started
        if waited > _EAGER_S:
            await pause(_PATIENT_POLL_S)
        try:
            machine = await get_machine(machine_id)
        except NotFoundError:
            if waited > _ABSENT_GRACE_S:
                raise
            return Pending("not known to JustAVPS yet")
        except (UnreachableError, LostReadError, ReadServerError) as failure:
            return Pending(failure.said)
        if machine.status is MachineStatus.DELETED:
            raise NotFoundError(f"GET /machines/{machine_id}", "it was deleted", status=404)
        if machine.status is MachineStatus.READY:
            return machine
        return Pending(f"{machine.status} {machine.provisioning_stage}".strip())

    return await until(
        observe, what=f"machine {machine_id} to be ready", timeout_s=timeout_s, every_s=_POLL_S, report=report
    )
