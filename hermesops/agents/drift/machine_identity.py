"""Reads back the payload that a machine has of its instance, as root. See decision 0009.

It writes nowhere: ``rebuild`` and ``orphans`` judge the answers.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from hermesops.errors import HermesError
from hermesops.model.access.certificate import MachineNames
from hermesops.model.billing.route import ModelToken
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, UserId
from hermesops.model.plan import Plan
from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.providers.table import BY_ID
from hermesops.model.recovery.recovered import Recovered
from hermesops.vendor.channel import Channel, NoSuchFileError
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from hermesops.wire.errors import BadRequestError
from hermesops.wire.layout import Layout
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.protocol import Credential, Payload, identity_from_json
from hermesops.wire.settings import Settings

_LAYOUT = Layout()

Generation = Callable[[str], ModelToken | None]
"""Reads a token for the model router, expired or not; ``None`` when it is not genuine."""


@dataclass(frozen=True)
class Forgotten:
    """A machine whose instance could not be read.

    Attributes:
        is_nobodys: Whether it answered that it has no instance; otherwise it may hold a user's memory.
    """

    machine_id: MachineId
    machine_name: MachineName
    why: str
    is_nobodys: bool = False


async def read_identity(channel: Channel, machine: Machine, generation_of: Generation) -> Recovered | Forgotten:
    """Ask a machine for its instance and payload; raises nothing, ``Forgotten`` says why there is no answer."""

    def forgotten(why: str, *, is_nobodys: bool = False) -> Forgotten:
        return Forgotten(MachineId(machine.id), MachineName(machine.name), why, is_nobodys)

    if machine.status is not MachineStatus.READY:
        return forgotten(f"JustAVPS status: {machine.status.value}")
    try:
        identity = identity_from_json(await channel.get(str(_LAYOUT.identity)))
    except NoSuchFileError:
        return forgotten("it reports no instance", is_nobodys=True)
    except BadRequestError as error:
        return forgotten(f"its identity cannot be read: {error}")
    except HermesError as error:
        return forgotten(error.message)
    try:
        payload = Payload.from_json(await channel.get(str(_LAYOUT.payload)))
    except (BadRequestError, HermesError) as error:
        return forgotten(f"its payload cannot be read: {error}")
    if payload.identity != identity:
        return forgotten("its identity and its payload contradict each other")
    try:
        return recovered_from(payload, machine, generation_of, await _certified(channel))
    except ValueError as error:
        return forgotten(f"its payload is from another version of hermesops: {error}")


async def _certified(channel: Channel) -> MachineNames | None:
    """The names in the machine's certificate; ``None`` where it has none that can be read."""
    try:
        certificate = await channel.get(str(_LAYOUT.machine_certificate))
        authority = await channel.get(str(_LAYOUT.authority))
        return MachineNames.parse(Credential.from_pem(certificate, authority).names)
    except (BadRequestError, HermesError):
        return None


def recovered_from(
    payload: Payload, machine: Machine, generation_of: Generation, certified: MachineNames | None = None
) -> Recovered:
    """The instance that a payload and the vendor's list describe. Pure.

    A token that is not genuine (the router's key was changed, or somebody forged it) counts as of the first generation,
    and the machine as doubtful: root on a machine can write any instance's id and epoch, but no such token.

    Raises:
        ValueError: The payload names an unknown plan.
    """
    identity, instance_id = payload.identity, InstanceId(payload.identity.instance)
    issued = generation_of(payload.secrets.model_token)
    its_own = issued if issued and issued.instance_id == instance_id else None
    return Recovered(
        id=instance_id,
        user_id=UserId(identity.user),
        plan=Plan(identity.plan),
        status=InstanceStatus.RUNNING,
        cell=CellName(identity.cell),
        epoch=identity.epoch,
        machine_id=MachineId(machine.id),
        machine_name=MachineName(machine.name),
        server_type=machine.server_type,
        region=machine.region,
        image_id=ImageId(machine.image_id) if machine.image_id else None,
        created_at=machine.created_at or datetime.now(UTC),
        settings=_settings(payload.settings),
        api_server_key=payload.secrets.api_server_key,
        model_token_generation=its_own.generation if its_own else 1,
        model_token_expires_at=datetime.fromtimestamp(its_own.expires_at, UTC) if its_own else None,
        doubt=_doubt(MachineId(machine.id), instance_id, issued, certified),
    )


def _settings(settings: Settings) -> InstanceSettings:
    """The settings that a payload describes; when its key was verified is not in it."""
    values = {name: value for name, value in asdict(settings).items() if name != "endpoint"}
    return replace(InstanceSettings(**values), provider=_choice(settings.endpoint) if settings.endpoint else None)


def _choice(endpoint: ModelEndpoint) -> ProviderChoice | None:
    facts = BY_ID.get(endpoint.provider)
    if facts is None:
        return None
    own = endpoint.base_url if facts.needs_address else ""
    return ProviderChoice(facts.id, endpoint.model, endpoint.key, own)


def _doubt(
    machine_id: MachineId,
    instance_id: InstanceId,
    issued: ModelToken | None,
    certified: MachineNames | None,
) -> str:
    """Why a machine does not prove that it is of the instance it reports; empty when it does."""
    if issued is None:
        return "its token for the model router was not issued by this environment"
    if issued.instance_id != instance_id:
        return f"its token for the model router belongs to instance {issued.instance_id}"
    if certified is None:
        return ""
    if certified.machine_id != machine_id:
        return f"its certificate belongs to machine {certified.machine_id}"
    return (
        ""
        if certified.instance_id in {None, instance_id}
        else f"its certificate belongs to instance {certified.instance_id}"
    )
