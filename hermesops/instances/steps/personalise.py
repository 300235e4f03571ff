"""What a machine is handed to become a user's or to learn of a change: the payload, and the steps to it. Pure."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.instances.observation import MachineState, NodeState, Observation
from hermesops.model.health import GatewayHealth
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance, InstanceSecrets, InstanceSettings, InstanceStatus
from hermesops.model.operation import Operation, OperationKind, Refused
from hermesops.node import protocol
from hermesops.node.instance.settings import Settings

AT_REST = frozenset(
    {
        OperationKind.SUSPEND,
        OperationKind.RESUME,
        OperationKind.RESIZE,
        OperationKind.RELOCATE,
        OperationKind.SCHEDULE_TERMINATION,
        OperationKind.TERMINATE,
        OperationKind.RESTORE,
        OperationKind.SNAPSHOT,
    }
)
"""Kinds of operations during which a gateway rests on purpose."""


@dataclass(frozen=True)
class Personalise:
    """Hand the machine its user: identity, keys, settings, and a certificate with the user's names.

    Attributes:
        request: What the machine asks for the certificate with; ``None`` where it takes none.
    """

    machine_id: MachineId
    request: str | None = None


@dataclass(frozen=True)
class AwaitGateway:
    """Wait until the gateway answers through the proxy."""

    machine_id: MachineId


@dataclass(frozen=True)
class MarkRunning:
    """Write ``running`` into the registry."""


def next_step(
    seen: Observation, machine: MachineState, node: NodeState, *, payload_digest: str
) -> Personalise | AwaitGateway | Refused | None:
    """The next step towards a machine that has its payload and a gateway that is well with it; ``None`` when it is so.

    Args:
        seen: The instance as it is now.
        machine: Its machine.
        node: What hermes-node there says.
        payload_digest: Digest of what the node should have been given.
    """
    if node.instance_id not in (None, seen.instance.id):
        return Refused(not_its_own(seen.instance, node.instance_id))
    is_its_users = node.instance_id is not None and node.epoch >= seen.instance.epoch and node.digest == payload_digest
    if not is_its_users or lacks_certificate(seen.instance, machine, node):
        return Personalise(machine.id, node.request)
    return None if seen.gateway is GatewayHealth.OK else AwaitGateway(machine.id)


def lacks_certificate(instance: Instance, machine: MachineState, node: NodeState) -> bool:
    """Whether a machine could prove that it is this instance's, and does not yet."""
    named = node.names
    its_own = named and (named.machine_id, named.cell, named.instance_id) == (machine.id, instance.cell, instance.id)
    return node.request is not None and not its_own


def not_its_own(instance: Instance, holder: str) -> BrokenInvariantError:
    """What is said of a machine that calls itself somebody else's."""
    return BrokenInvariantError(
        f"machine {instance.machine_name} belongs to instance {holder} by its own account, "
        f"to {instance.id} by the registry's",
        hint=f"touch neither before a person has looked: hermesops instance show {instance.title}",
    )


def never_lived(instance: Instance) -> RefusedError:
    """What is said of an instance whose first gateway has not started."""
    return RefusedError(
        f"the agent of {instance.title} has not lived yet",
        hint=f"hermesops provision {instance.title} finishes what was begun",
    )


def silence(instance: Instance) -> UnavailableError:
    """What an operator is told of a machine that has to answer and does not."""
    return UnavailableError(
        f"machine {instance.machine_name} of {instance.title} does not answer",
        hint=f"hermesops instance show {instance.title}",
    )


def machine_gone(seen: Observation) -> RefusedError:
    """What an operator is told of an instance whose machine does not exist any more: never to end what can be restored.

    Args:
        seen: The instance, with whether there is a backup of it.
    """
    instance = seen.instance
    told = f"machine {instance.machine_name} of {instance.title} is gone at JustAVPS"
    if seen.is_backed_up:
        return RefusedError(told, hint=f"hermesops backup restore {instance.title} --onto-new-machine")
    return RefusedError(
        f"{told}, and there is no backup of it: what the agent knew was on that machine only",
        hint=f"ask JustAVPS for machine {instance.machine_id} first; to begin anew without memory: hermesops instance "
        f"terminate {instance.title} --now --without-backup, then hermesops provision {instance.title} "
        f"--plan {instance.plan}",
    )


def terminated(instance: Instance) -> RefusedError:
    """What an operator is told who wants to change what has ended."""
    return RefusedError(
        f"instance {instance.id} was terminated", hint="hermesops provision USER gives the user a new one"
    )


def payload_of(
    instance: Instance, settings: InstanceSettings, secrets: InstanceSecrets, *, model_base_url: str
) -> protocol.Payload:
    """What ``hermes-node personalise`` reads. It holds secrets: its file has mode 0600, on a tmpfs, and is unlinked.

    Args:
        instance: Whose machine it will be.
        settings: What the user chose.
        secrets: The instance's keys.
        model_base_url: The model router as machines reach it.
    """
    return protocol.Payload(
        identity=protocol.Identity(
            instance=instance.id,
            user=instance.user_id,
            plan=instance.plan.value,
            cell=instance.cell,
            epoch=instance.epoch,
        ),
        secrets=protocol.Secrets(api_server_key=secrets.api_server_key, model_token=secrets.model_token),
        model_base_url=model_base_url,
        settings=Settings(
            model=settings.model,
            personality=settings.personality,
            messengers=settings.messengers,
            mcp_servers=settings.mcp_servers,
            cron=settings.cron,
            disabled_tools=settings.disabled_tools,
        ),
    )


def digest_of(payload: protocol.Payload) -> str:
    """What hermes-node reports of the payload it was last handed; tells whether a machine has the current one.

    The certificate that came with it is not of it.
    """
    return hashlib.sha256(replace(payload, credential=None).to_json()).hexdigest()


def under_way(instance: Instance, operation: Operation) -> RefusedError:
    """What an operator is told who wants something of an agent that is being changed otherwise."""
    one = operation.id
    return RefusedError(
        f"operation {one} ({operation.kind}) of {instance.title} has not ended",
        hint=f"hermesops operation continue {one} ends it, hermesops operation abandon {one} gives it up",
    )


def refuse_at_rest(instance: Instance, unfinished: Iterable[Operation], *, but: OperationKind | None = None) -> None:
    """Let nothing start an instance's gateway while something else keeps it at rest, and has copied its state already.

    Args:
        instance: Which.
        unfinished: Its operations that have not ended.
        but: The kind that is continued.

    Raises:
        RefusedError: One has not ended during which the gateway rests.
    """
    for operation in unfinished:
        if operation.kind in AT_REST and operation.kind is not but:
            raise under_way(instance, operation)


def out_of_reach(instance: Instance) -> RefusedError | UnavailableError:
    """Why nothing can be done on an agent's machine: it may answer later, but not while the agent is suspended.

    What was asked for before it was suspended must not wait for that to end: resuming it waits for that in turn.
    """
    return asleep(instance) if instance.status is InstanceStatus.SUSPENDED else silence(instance)


def asleep(instance: Instance) -> RefusedError:
    """What an operator is told who wants something of a suspended agent."""
    if instance.grace_until is None:
        return RefusedError(
            f"the agent of {instance.title} is suspended", hint=f"hermesops instance resume {instance.title}"
        )
    return RefusedError(
        f"the agent of {instance.title} ends at {instance.grace_until:%Y-%m-%d %H:%M} UTC",
        hint=f"hermesops instance terminate {instance.title} --undo cancels that",
    )
