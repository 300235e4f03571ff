"""Makes, resizes, reads and deletes one machine at the vendor, and waits until it is done.

Every action reads before it acts, so it may be repeated after any interruption. None trusts a status right after a
request: the vendor answers 404 for a while after an order, and calls machines broken that recover by themselves.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.base.waiting import Pending, WaitExpiredError
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError
from hermesops.infra.provider import values
from hermesops.infra.provider.backoff import (
    Actions,
    Reporter,
    delete_and_wait,
    poll,
    refuse_if_stopping,
    refuse_other_name,
    unless_stopped,
)
from hermesops.infra.provider.observation import HalfMadeError, InterruptedWorkError, MachineSpec, ObservedMachine
from hermesops.infra.provider.resource_types import MACHINE


class Machines(Actions):
    """Creates, reads, resizes and deletes machines at the vendor."""

    type = MACHINE

    async def order(self, inputs: Mapping[str, object], *, timeout_s: float, report: Reporter) -> ObservedMachine:
        """Create a machine from a resource's inputs."""
        names = ("name", "server_type", "region", "image_id", "data_gb")
        spec = MachineSpec(**{name: values.text(inputs, name) for name in names})
        return await self.create(spec, timeout_s=timeout_s, report=report)

    async def create(self, spec: MachineSpec, *, timeout_s: float, report: Reporter) -> ObservedMachine:
        """Rent a machine, or adopt the one of that name, and wait until it is ready.

        The timeout is for the order and for it to become ready. An order in flight is never cancelled: its answer has
        the id.

        Raises:
            HalfMadeError: The machine exists and did not become ready.
            RefusedError: The vendor refused, or another machine has the name.
            InterruptedWorkError: The engine stopped before it was ordered.
        """
        refuse_if_stopping(self.stopping, f"machine {spec.name} was not ordered")
        began = time.monotonic()
        machine = await self.vendor.create_machine(spec)
        _refuse_other_machine(spec, machine)
        await report(f"{spec.name} is machine {machine.id}")
        left_s = (timeout_s or self.timeouts.ready) - (time.monotonic() - began)
        return await self._settled(machine, timeout_s=max(left_s, 0), report=report, newborn=True)

    async def update(
        self, machine_id: str, name: str, news: Mapping[str, object], *, timeout_s: float, report: Reporter
    ) -> ObservedMachine:
        """Resize a machine, or finish a half-made one.

        Raises:
            HalfMadeError: The vendor accepted and it is not done.
            RefusedError: It is gone, has another name, or cannot be resized.
        """
        refuse_if_stopping(self.stopping, f"machine {name} was not changed")
        machine = await self.read(machine_id, name)
        if machine is None:
            raise RefusedError(
                f"machine {name} ({machine_id}) is gone", hint=Hint(("stack", "preview"), "shows what is left")
            )
        refuse_other_name("machine", machine, name)
        server_type = values.text(news, "server_type")
        if machine.server_type != server_type:
            await report(f"resizing {name} from {machine.server_type} to {server_type}; it reboots")
            await self.vendor.resize_machine(machine_id, server_type)
        timeout_s = timeout_s or self.timeouts.ready
        return await self._settled(machine, timeout_s=timeout_s, report=report, server_type=server_type)

    async def read(self, machine_id: str, name: str) -> ObservedMachine | None:
        """Read a machine; ``None`` if it is gone.

        A machine that the vendor does not know by id is searched in its list as well: right after an order the two
        disagree, and believing the 404 would forget a billed machine. Without an id the machine of that name is
        returned: so the embedded engine finds the result of an interrupted create. In an import the name is empty.
        """
        machine = await self.vendor.get_machine(machine_id) if machine_id else None
        if machine is None and name:
            listed = await self.vendor.find_machine(name)
            machine = listed if listed is not None and machine_id in {"", listed.id} else None
        return None if machine is None or machine.status == "deleted" else machine

    async def delete(self, machine_id: str, name: str, *, timeout_s: float = 0) -> None:
        """Destroy a machine for good; see ``delete_and_wait``."""
        await delete_and_wait(
            "machine",
            name,
            read=lambda: self.read(machine_id, name),
            delete=lambda: self.vendor.delete_machine(machine_id),
            timeout_s=timeout_s or self.timeouts.gone,
            stopping=self.stopping,
        )

    async def _settled(
        self,
        machine: ObservedMachine,
        *,
        timeout_s: float,
        report: Reporter,
        server_type: str = "",
        newborn: bool = False,
    ) -> ObservedMachine:
        """Wait until a machine is ready (or stopped, if that is how it was found) and of the size asked for."""
        statuses = {"ready", "stopped"} if machine.status == "stopped" else {"ready"}
        watch = _Watch(self, machine, statuses, server_type, report, newborn=newborn)
        what = f"machine {machine.name}"
        try:
            return await unless_stopped(poll(watch.observe, what=what, timeout_s=timeout_s), self.stopping, what)
        except InterruptedWorkError as error:
            raise HalfMadeError(
                watch.last, f"interrupted while waiting for machine {machine.name} ({machine.id}); it exists"
            ) from error
        except WaitExpiredError as error:
            raise HalfMadeError(
                watch.last, f"machine {machine.name} ({machine.id}) did not become ready in time: {error.observed}"
            ) from error


@dataclass
class _Watch:
    """Observes one machine until it is settled, and remembers the last observation."""

    machines: Machines
    last: ObservedMachine
    statuses: set[str]
    server_type: str
    report: Reporter
    newborn: bool
    reported: str = ""
    broken_since: float | None = None
    began: float = field(default_factory=time.monotonic)

    async def observe(self) -> ObservedMachine | Pending[ObservedMachine]:
        name, machine_id = self.last.name, self.last.id
        try:
            machine = await self.machines.read(machine_id, name)
        except UnavailableError as error:
            return await self._pending(f"no answer ({error.message})")
        except HermesError as error:
            raise HalfMadeError(self.last, f"machine {name} ({machine_id}) exists, but: {error.message}") from error
        if machine is None:
            return await self._missing()
        self.last = machine
        if machine.status == "error":
            return await self._broken()
        self.broken_since = None
        if machine.status in self.statuses and self.server_type in {"", machine.server_type}:
            return machine
        size = f", still {machine.server_type}" if self.server_type not in {"", machine.server_type} else ""
        return await self._pending(f"{machine.status} {machine.stage}".strip() + size)

    async def _missing(self) -> Pending[ObservedMachine]:
        if self.newborn and time.monotonic() - self.began < self.machines.timeouts.newborn:
            return await self._pending("not in the vendor's list yet")
        raise RefusedError(
            f"machine {self.last.name} ({self.last.id}) is gone: the vendor knows no such machine",
            hint="run the same command again; it orders another one",
        )

    async def _broken(self) -> Pending[ObservedMachine]:
        now = time.monotonic()
        self.broken_since = self.broken_since or now
        if now - self.broken_since < self.machines.timeouts.broken:
            return await self._pending("error; some recover by themselves")
        raise HalfMadeError(
            self.last, f"machine {self.last.name} ({self.last.id}) has status error and did not recover"
        )

    async def _pending(self, status: str) -> Pending[ObservedMachine]:
        if status != self.reported:
            self.reported = status
            await self.report(f"waiting for {self.last.name} to be ready: {status}")
        return Pending(status)


def _refuse_other_machine(spec: MachineSpec, machine: ObservedMachine) -> None:
    """Refuse a machine of that name that cannot be the one ordered: adopting it would hide the difference."""
    for what, ordered, actual in (
        ("region", spec.region, machine.region),
        ("image", spec.image_id, machine.image_id),
    ):
        if actual and ordered != actual:
            raise RefusedError(
                f"a machine named {spec.name} exists already ({machine.id}), with {what} {actual}"
                f" and not {ordered or 'the base'}",
                hint="delete it or take another name",
            )
