"""What a machine is handed to become a user's or to learn of a change: the payload, and the steps to it. Pure."""

import hashlib
from dataclasses import dataclass

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.lifecycle.sight import MachineSeen, NodeSeen, Sight
from hermesops.model.health import GatewayHealth
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance, InstanceSecrets, InstanceSettings
from hermesops.model.operation import Impossible, Operation
from hermesops.node import protocol


@dataclass(frozen=True)
class Personalise:
    """Hand the machine its user: identity, keys, settings."""

    machine_id: MachineId


@dataclass(frozen=True)
class AwaitGateway:
    """Wait until the gateway answers through the proxy."""

    machine_id: MachineId


def next_step(
    seen: Sight, machine: MachineSeen, node: NodeSeen, *, payload_digest: str
) -> Personalise | AwaitGateway | Impossible | None:
    """The next step towards a machine that has its payload and a gateway that is well with it; ``None`` when it is so.

    Args:
        seen: The instance as it is now.
        machine: Its machine.
        node: What hermes-node there says.
        payload_digest: Digest of what the node should have been given.
    """
    if node.instance_id not in (None, seen.instance.id):
        return Impossible(
            BrokenInvariantError(
                f"machine {seen.instance.machine_name} belongs to instance {node.instance_id} by its own account, "
                f"to {seen.instance.id} by the registry's",
                hint="touch neither before a person has looked: hermesops instance show",
            )
        )
    if node.instance_id is None or node.epoch < seen.instance.epoch or node.digest != payload_digest:
        return Personalise(machine.id)
    return None if seen.gateway is GatewayHealth.OK else AwaitGateway(machine.id)


def silence(instance: Instance) -> UnavailableError:
    """What an operator is told of a machine that has to answer and does not."""
    return UnavailableError(
        f"machine {instance.machine_name} of {instance.title} does not answer",
        hint=f"hermesops instance show {instance.title}",
    )


def terminated(instance: Instance) -> RefusedError:
    """What an operator is told who wants to change what has ended."""
    return RefusedError(
        f"instance {instance.id} was terminated", hint="hermesops provision USER gives the user a new one"
    )


def payload_of(
    instance: Instance, settings: InstanceSettings, secrets: InstanceSecrets, *, model_base_url: str
) -> bytes:
    """The file that ``hermes-node personalise`` reads. It holds secrets: mode 0600, on a tmpfs, unlinked after use.

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
        settings=protocol.Settings(
            model=settings.model,
            personality=settings.personality,
            messengers=settings.messengers,
            mcp_servers=settings.mcp_servers,
            cron=settings.cron,
            disabled_tools=settings.disabled_tools,
        ),
    ).to_json()


def digest_of(payload: bytes) -> str:
    """What hermes-node reports of the payload it was last handed; tells whether a machine has the current one."""
    return hashlib.sha256(payload).hexdigest()


def under_way(instance: Instance, operation: Operation) -> RefusedError:
    """What an operator is told who wants something of an agent that is being changed otherwise."""
    return RefusedError(
        f"operation {operation.id} ({operation.kind}) of {instance.title} has not ended",
        hint=f"hermesops operation continue {operation.id} ends it",
    )


def asleep(instance: Instance) -> RefusedError:
    """What an operator is told who wants something of an agent that was put to sleep."""
    if instance.grace_until is None:
        return RefusedError(
            f"the agent of {instance.title} is suspended", hint=f"hermesops instance resume {instance.title}"
        )
    return RefusedError(
        f"the agent of {instance.title} ends at {instance.grace_until:%Y-%m-%d %H:%M} UTC",
        hint=f"hermesops instance terminate {instance.title} --undo has it back until then",
    )
