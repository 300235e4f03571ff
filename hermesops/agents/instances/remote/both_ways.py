"""Asks a machine by both ways that lead to it: hermes-node by the vendor's toolbox, the gateway by the vendor's proxy.

Whoever would reboot or replace a machine asks first: any answer, also an error, shows that it runs.
"""

import asyncio

from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.errors import HermesError
from hermesops.model.fleet.health import Answer, Answers, GatewayHealth
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.overview import GONE
from hermesops.model.ids import MachineId
from hermesops.vendor.channel import AnswerLostError, CommandExpiredError, MachineGoneError, MachineUnreachableError
from hermesops.vendor.justavps import errors as vendor
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from hermesops.wire.protocol import PROGRAM

_TOOLBOX_S = 10.0

_NOT_ASKED = (vendor.UnreachableError, vendor.RateLimitedError)
"""Causes by which a machine was not asked at all: the vendor itself did not answer, or did not want to."""


async def ask_both_ways(client: InstanceClient, instance: Instance) -> tuple[Answers, Machine | None]:
    """Ask, within some ten seconds; raises nothing of the vendor's.

    Returns:
        The answers, and the machine as the vendor lists it.
    """
    try:
        machine = await client.machine(instance)
    except HermesError:
        return Answers(""), None
    if machine is None or machine.status is MachineStatus.DELETED:
        return Answers(GONE, Answer.SILENT, Answer.SILENT), machine
    toolbox, proxy = await asyncio.gather(_toolbox(client, machine), _proxy(client, instance, machine))
    return Answers(machine.status.value, toolbox, proxy), machine


async def _toolbox(client: InstanceClient, machine: Machine) -> Answer:
    try:
        await client.channel(MachineId(machine.id)).run(f"{PROGRAM} status", timeout_s=_TOOLBOX_S)
    except CommandExpiredError:
        return Answer.YES  # the machine's own daemon ended the command
    except MachineUnreachableError as error:
        return Answer.UNKNOWN if isinstance(error.__cause__, _NOT_ASKED) else Answer.SILENT
    except (AnswerLostError, MachineGoneError):
        return Answer.SILENT
    except HermesError:
        return Answer.UNKNOWN
    return Answer.YES


async def _proxy(client: InstanceClient, instance: Instance, machine: Machine) -> Answer:
    try:
        health = await client.health(instance, machine)
    except HermesError:
        return Answer.UNKNOWN
    # A refusal may be the proxy's own: it counts as an answer, since nothing shows that it is not the gateway's.
    return Answer.SILENT if health is GatewayHealth.SILENT else Answer.YES
