"""Machines of a build: ordered by a known name, used, and deleted in every case.

Their names are the only thing by which a killed build's leftovers are found again. They follow the scheme of
``hermesops.model.ids.machine_name`` with a purpose in place of the cell, so no cell is called ``build`` or ``proof``.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from hermesops.base.waiting import Pending, WaitExpiredError, until
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.ids import MachineId, MachineName
from hermesops.vendor import justavps
from hermesops.vendor.channel import Channel
from hermesops.vendor.justavps.errors import NotFoundError
from hermesops.vendor.justavps.wire import Machine

Reporter = Callable[[str], None]
"""Takes a line of narration."""

ChannelTo = Callable[[MachineId], Channel]
"""Makes the channel to a machine."""


_ORDERED_S = 300.0
_READY_S = 600.0
"""The vendor promises less than two minutes; some machines took much longer."""

_GONE_S = 120.0
_BUILD_LASTS = timedelta(hours=2)

LENT_S = 9000.0
"""Seconds that a machine may be used: an hour for Ansible and scripts, an hour and a half to save its disk."""


@asynccontextmanager
async def borrowed(
    vendor: justavps.Client, channel_to: ChannelTo, order: justavps.MachineOrder, *, report: Reporter
) -> AsyncIterator[MachineId]:
    """A machine of that name whose toolbox answers; it is deleted at the end, also after a failure or when cancelled.

    One that a killed build left is used again. Whatever takes longer than ``LENT_S`` is cancelled.

    Raises:
        UnavailableError: It did not come up, or what was done with it took too long.
        RefusedError: The vendor reports an error for it.
    """
    machine = await _ordered(vendor, order, report)
    try:
        async with asyncio.timeout(LENT_S) as limit:
            await _usable(vendor, channel_to, MachineId(machine.id), order.name, report)
            yield MachineId(machine.id)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise UnavailableError(
            f"machine {order.name} was given up after {LENT_S:g} s", hint="run the same command again"
        ) from error
    finally:
        await _let_go(vendor, {machine.id: order.name}, report)


async def rented(
    vendor: justavps.Client, channel_to: ChannelTo, order: justavps.MachineOrder, *, report: Reporter
) -> MachineId:
    """A machine of that name whose toolbox answers, ordered unless there is one; it stays.

    Raises:
        UnavailableError: It did not come up.
        RefusedError: The vendor reports an error for it.
        UnknownOutcomeError: The order's answer was lost; the same call finds the machine by its name.
    """
    machine = await vendor.create_machine(order)
    await started(vendor, channel_to, MachineId(machine.id), order.name, report=report)
    return MachineId(machine.id)


async def started(
    vendor: justavps.Client, channel_to: ChannelTo, machine_id: MachineId, name: str, *, report: Reporter
) -> None:
    """Start a machine that is stopped, and wait until its toolbox answers; raises as ``rented``."""
    with suppress(NotFoundError):  # not listed for up to a minute after an order
        if (await vendor.get_machine(machine_id)).status is justavps.MachineStatus.STOPPED:
            await vendor.start_machine(machine_id)
    await _usable(vendor, channel_to, machine_id, name, report)


async def sweep(vendor: justavps.Client, environment: str, keep: Container[str], report: Reporter) -> None:
    """Delete machines that killed builds of this environment left. The caller holds the lease on building there.

    Args:
        environment: Machines of other environments are not touched.
        keep: Names that this build uses.
    """
    listed = await vendor.list_machines()
    left = {
        machine.id: machine.name
        for machine in listed
        if is_build_machine(machine.name, environment) and machine.name not in keep
    }
    for name in left.values():
        report(f"removing {name}, left by an earlier build")
    if left:
        await remove(vendor, left)


async def remove(vendor: justavps.Client, names: Mapping[str, str]) -> None:
    """Delete machines and wait until they are gone.

    Args:
        names: By the machines' ids.

    Raises:
        UnavailableError: Some are still listed after two minutes, however many there were.
    """

    async def gone() -> bool | Pending[bool]:
        try:
            for machine_id in names:
                await vendor.delete_machine(machine_id)
            listed = names.keys() & {machine.id for machine in await vendor.list_machines()}
        except (UnavailableError, UnknownOutcomeError) as error:
            return Pending(str(error))
        return Pending(f"{len(listed)} still listed") if listed else True

    first, *others = names.values()
    what = f"machine {first} and {len(others)} more" if others else f"machine {first}"
    await until(gone, what=f"{what} to be gone", timeout_s=_GONE_S, every_s=1)


async def _ordered(vendor: justavps.Client, order: justavps.MachineOrder, report: Reporter) -> justavps.Machine:
    try:
        return await until(
            partial(vendor.create_machine, order), what=f"the order of {order.name}", timeout_s=_ORDERED_S
        )
    except (UnknownOutcomeError, WaitExpiredError, asyncio.CancelledError):
        # It may have been rented all the same; only its name is known.
        try:
            ordered = {
                machine.id: machine.name for machine in await vendor.list_machines() if machine.name == order.name
            }
        except HermesError as error:
            report(f"{error.message}; the next build removes {order.name} if there is one")
        else:
            await _let_go(vendor, ordered, report)
        raise


async def _usable(
    vendor: justavps.Client, channel_to: ChannelTo, machine_id: MachineId, name: str, report: Reporter
) -> None:
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
        # "ready" is the vendor's belief; an answer from the machine is what counts.
        try:
            done = await channel_to(machine_id).run("true", timeout_s=10)
        except HermesError as error:
            return Pending(str(error))
        return True if done.exit_code == 0 else Pending("its shell does not work")

    await until(usable, what=f"machine {name}", timeout_s=_READY_S, every_s=0.2, report=report)


async def _let_go(vendor: justavps.Client, names: Mapping[str, str], report: Reporter) -> None:
    try:
        if names:
            await remove(vendor, names)
    except HermesError as error:
        # The build's own error matters more; the next build finds the machine by its name.
        report(f"{error.message}; the next build removes it")


PURPOSES = ("build", "proof")

_KEY_LENGTH = 12


@dataclass(frozen=True)
class BuildNames:
    """Names for one environment, image and digest of inputs: the same inputs always find the same leftovers.

    Attributes:
        builder: Machine the roles are applied to.
        proof: Machine that is booted from the image and checked.
    """

    builder: MachineName
    proof: MachineName
    image: str


def names_of(environment: str, image: str, digest: str) -> BuildNames:
    """The names a build uses.

    Args:
        digest: SHA-256 over the build's inputs, in hexadecimal.
    """
    prefix, key = _prefix(environment), digest[:_KEY_LENGTH]
    return BuildNames(
        builder=MachineName(f"{prefix}-build-{key}"),
        proof=MachineName(f"{prefix}-proof-{key}"),
        image=f"{image}-{key}",
    )


def is_build_machine(name: str, environment: str) -> bool:
    """Whether a machine was made by some build of an environment."""
    purposes = "|".join(PURPOSES)
    return re.fullmatch(rf"{re.escape(_prefix(environment))}-({purposes})-[0-9a-f]{{{_KEY_LENGTH}}}", name) is not None


def is_build_under_way(machine: Machine, environment: str, now: datetime) -> bool:
    """Whether a build may still use a machine; older ones were left behind by a killed build."""
    age = now - machine.created_at if machine.created_at else timedelta()
    return is_build_machine(machine.name, environment) and age < _BUILD_LASTS


def _prefix(environment: str) -> str:
    return f"hermes-{environment.replace('-', '')}"
