"""Machines that live no longer than a build: ordered by a known name, used, and gone whatever happens."""

from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager

from hermesops import justavps
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.image.names import is_build_machine
from hermesops.image.ports import ChannelTo, Tell, Vendor
from hermesops.justavps.errors import NotFoundError
from hermesops.model.ids import MachineId
from hermesops.waiting import Pending, until

_READY_S = 600.0
"""The vendor promises less than two minutes; some machines took much longer and came all the same."""

_GONE_S = 120.0


@asynccontextmanager
async def borrowed(
    vendor: Vendor, channel_to: ChannelTo, order: justavps.MachineOrder, *, tell: Tell
) -> AsyncIterator[MachineId]:
    """A machine of that name whose toolbox answers; it is destroyed on leaving, also after a failure.

    One that a killed build left is used again.

    Raises:
        UnavailableError: It did not come up.
        RefusedError: The vendor gave it up.
    """
    machine = await vendor.create_machine(order)
    try:
        await _usable(vendor, channel_to, MachineId(machine.id), order.name, tell)
        yield MachineId(machine.id)
    finally:
        await _let_go(vendor, machine.id, order.name, tell)


async def sweep(vendor: Vendor, environment: str, keep: Container[str], tell: Tell) -> None:
    """Destroy what killed builds of this environment left. The caller holds the lease on building there.

    Args:
        vendor: Where.
        environment: Machines of other environments are not touched.
        keep: Names that this build will use itself.
        tell: Told of each machine.
    """
    for machine in await vendor.list_machines():
        if is_build_machine(machine.name, environment) and machine.name not in keep:
            tell(f"removing {machine.name}, left by an earlier build")
            await remove(vendor, machine.id, machine.name)


async def remove(vendor: Vendor, machine_id: str, name: str) -> None:
    """Destroy a machine and see that it is gone.

    Raises:
        UnavailableError: It is still listed after two minutes.
    """

    async def gone() -> bool | Pending[bool]:
        try:
            await vendor.delete_machine(machine_id)
            listed = any(machine.id == machine_id for machine in await vendor.list_machines())
        except (UnavailableError, UnknownOutcomeError) as error:
            return Pending(str(error))
        return Pending("still listed") if listed else True

    await until(gone, what=f"machine {name} to be gone", timeout_s=_GONE_S, every_s=1)


async def _usable(vendor: Vendor, channel_to: ChannelTo, machine_id: MachineId, name: str, tell: Tell) -> None:
    async def usable() -> bool | Pending[bool]:
        try:
            machine = await vendor.get_machine(machine_id)
        except NotFoundError:
            return Pending("not listed yet")  # seen for up to a minute after an order
        except UnavailableError as error:
            return Pending(str(error))
        if machine.status in {justavps.MachineStatus.ERROR, justavps.MachineStatus.DELETED}:
            raise RefusedError(f"JustAVPS gave machine {name} up: {machine.status}", hint="run the same command again")
        if machine.status is not justavps.MachineStatus.READY:
            return Pending(machine.provisioning_stage or str(machine.status))
        # "ready" says that the vendor believes so; an answer from the machine is what counts.
        try:
            done = await channel_to(machine_id).run("true", timeout_s=10)
        except HermesError as error:
            return Pending(str(error))
        return True if done.exit_code == 0 else Pending("its shell does not work")

    await until(usable, what=f"machine {name}", timeout_s=_READY_S, every_s=0.2, tell=tell)


async def _let_go(vendor: Vendor, machine_id: str, name: str, tell: Tell) -> None:
    try:
        await remove(vendor, machine_id, name)
    except HermesError as error:
        # What the build itself ended with matters more; the next build finds the machine by its name.
        tell(f"{error.message}; the next build removes it")
