"""Hand a machine its payload, which makes it a user's or changes settings: the steps, and the payload. Pure."""

import hashlib
from dataclasses import dataclass, replace

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.steps import OnMachine
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceSecrets, InstanceSettings
from hermesops.model.ids import MachineId
from hermesops.model.operation import Refused
from hermesops.model.providers.choice import ProviderChoice
from hermesops.wire import protocol
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.settings import Settings


@dataclass(frozen=True)
class Personalise:
    """Send the machine the user's identity, keys, settings, and a certificate with the user's names.

    Attributes:
        request: The machine's signing request; ``None`` if it takes no certificate.
    """

    machine_id: MachineId
    request: str | None = None


class AwaitGateway(OnMachine):
    """Wait until the gateway answers through the proxy."""


@dataclass(frozen=True)
class MarkRunning:
    """Write the status ``running`` into the registry."""


def next_step(
    observation: Observation, machine: MachineState, node: NodeState, *, payload_digest: str
) -> Personalise | AwaitGateway | Refused | None:
    """The next step towards a machine with its payload and a healthy gateway; ``None`` when it has both."""
    if node.instance_id not in (None, observation.instance.id):
        return Refused(refusals.other_instance(observation.instance, node.instance_id))
    is_its_users = (
        node.instance_id is not None and node.epoch >= observation.instance.epoch and node.digest == payload_digest
    )
    if not is_its_users or lacks_certificate(observation.instance, machine, node):
        return Personalise(machine.id, node.request)
    return None if observation.gateway is GatewayHealth.OK else AwaitGateway(machine.id)


def lacks_certificate(instance: Instance, machine: MachineState, node: NodeState) -> bool:
    """Whether a machine could prove that it is this instance's, and does not yet."""
    named = node.names
    its_own = named and (named.machine_id, named.cell, named.instance_id) == (machine.id, instance.cell, instance.id)
    return node.request is not None and not its_own


def payload_of(
    instance: Instance,
    settings: InstanceSettings,
    secrets: InstanceSecrets,
    *,
    model_base_url: str,
    connector: protocol.Connector | None = None,
) -> protocol.Payload:
    """The input of ``hermes-node personalise``. It holds secrets: its file is on a tmpfs, mode 0600, and unlinked.

    Args:
        connector: For the platform's bots, beside the user's own messengers in ``settings``, whose variables have
            other names; ``None`` for none.
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
            endpoint=endpoint_of(settings.provider) if settings.provider else None,
        ),
        connector=connector,
    )


def endpoint_of(choice: ProviderChoice) -> ModelEndpoint:
    """What a machine has to know of a user's provider."""
    return ModelEndpoint(choice.provider, choice.address, choice.facts.api_mode, choice.model, choice.key)


def digest_of(payload: protocol.Payload) -> str:
    """The digest that hermes-node reports of its last payload; shows whether a machine has the current one.

    It does not cover the certificate in it.
    """
    return hashlib.sha256(replace(payload, credential=None).to_json()).hexdigest()
