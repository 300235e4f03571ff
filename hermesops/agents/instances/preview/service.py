"""Previews changes of instances and new agents: observes, and writes nothing."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from hermesops.agents.cells.cost.prices import prices_of
from hermesops.agents.cells.scheduling import choose_cell
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.preview.change_preview import (
    ChangePreview,
    Decider,
    Facts,
    foresee,
    preview_of,
    sizes_of,
    usual_seconds,
)
from hermesops.agents.instances.preview.effects import NEW_MACHINE, Effects, SeenState
from hermesops.agents.instances.preview.opening import DRY_RUN, unwritten
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.agents.instances.requests.placement import latest_image
from hermesops.agents.instances.requests.provision import Policy, ProvisionPreflight, refuse_drill
from hermesops.agents.instances.workflows import configure, provision
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.fleet.user import parse_user
from hermesops.model.ids import CellName, ImageId, InstanceId
from hermesops.model.operation import Done, Lease, Operation, OperationKind, OperationStatus, OperationStep, Refused
from hermesops.model.plan import Plan
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import ConfigureIntent, ProvisionIntent, RelocateIntent
from hermesops.store.operations.kinds.table import KINDS
from hermesops.store.operations.runner import Handler
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.wire import MachineStatus

_NO_LEASE = Lease("", "dry run", 0, 0, datetime(1970, 1, 1, tzinfo=UTC))
"""Of a workflow that does nothing."""

_PAST = 60
"""Past operations whose steps are read, the newest first."""

_DIGEST = "payload"
"""Digest of the payload of an agent that has no secrets yet."""

NextClaim = Callable[[Plan, str, ImageId, str], Awaitable[UnassignedMachine | None]]
"""The machine of a warm pool that a new agent would get, by plan, server type, image and region."""


@dataclass(frozen=True)
class ChangePreviews:
    """Previews operations of instances.

    Attributes:
        previous_days: Days for which the previous machine is kept.
    """

    registry: Registry
    handlers: Mapping[OperationKind, Handler]
    client: InstanceClient
    vendor: Client
    previous_days: float

    async def of(self, operation: Operation) -> ChangePreview:
        """The preview of an operation that a dry run opened, or found unfinished.

        Raises:
            HermesError: Its workflow refuses it now.
        """
        intent = KINDS[operation.kind].of(operation)
        work = self.handlers[operation.kind](operation, _NO_LEASE)
        state = await work.observe()
        if isinstance(intent, ConfigureIntent) and operation.id == DRY_RUN and intent.changed:
            return await self.preview(operation, intent, _NewSettings(work), state, _digest)
        return await self.preview(operation, intent, work, state, self.client.payload_digest)

    async def preview(
        self,
        operation: Operation,
        intent: Intent,
        work: Decider,
        state: SeenState,
        digest: Callable[[Instance], str],
        place: Placement | None = None,
        server_type: str = "",
    ) -> ChangePreview:
        """The preview of an operation, from the observation that it begins with.

        Args:
            digest: As of ``Effects``.
            place: Cell of a new agent, which the operation may open.
            server_type: Its machine's; empty for an agent that has one.
        """
        effects = Effects(intent, digest, self.registry.now(), server_type)
        foreseen = foresee(work, state, effects.after)
        opened = Placement(intent.cell, intent.region, None) if isinstance(intent, RelocateIntent) else place
        regions = {cell.name: cell.region for cell in self.registry.cells.list()}
        regions |= {opened.cell: opened.region} if opened else {}
        both = [sizes_of(state, regions) for state in (foreseen.first, foreseen.last)]
        rented = [size for own, previous in both for size in (*own, *previous)]
        backups = self.registry.backups.list(operation.instance_id) if operation.instance_id else ()
        facts = Facts(
            usual=self._usual,
            prices=await prices_of(self.vendor, rented),
            regions=regions,
            newest=backups[0] if backups else None,
            kept_days=self.previous_days,
            continues=operation.id != DRY_RUN,
        )
        return preview_of(operation, intent, foreseen, facts)

    @cached_property
    def _usual(self) -> Mapping[str, float]:
        return usual_seconds(self._past())

    def _past(self) -> Iterable[tuple[str, datetime, Iterable[OperationStep]]]:
        for operation in self.registry.operations.list(limit=_PAST):
            if operation.status is OperationStatus.DONE and operation.instance_id:
                title = self.registry.instances.get(operation.instance_id).title
                yield title, operation.updated_at, self.registry.operations.steps(operation.id)


def _digest(_instance: Instance) -> str:
    return _DIGEST


@dataclass(frozen=True)
class _NewSettings:
    """The decisions about settings that are not in the registry: no machine has their payload."""

    work: Decider

    def decide(self, observation: Observation) -> configure.Step | Done | Refused:
        return configure.decide(observation, payload_digest=_DIGEST)

    def describe(self, step: configure.Step, observation: Observation) -> str:
        return self.work.describe(step, observation)


@dataclass(frozen=True)
class _FirstStart:
    """The decisions about an agent without rows."""

    def decide(self, observation: Observation) -> provision.Step | Done | Refused:
        return provision.decide(observation, payload_digest=_DIGEST)

    def describe(self, step: provision.Step, observation: Observation) -> str:
        return provision.describe(step, observation)


@dataclass(frozen=True)
class AgentPreviews:
    """Previews the provisioning of agents, with the checks of ``ProvisionAdmission.admit``."""

    registry: Registry
    preflight: ProvisionPreflight
    policy: Policy
    next_claim: NextClaim
    changes: ChangePreviews

    async def of(self, user_text: str, plan: Plan, *, region: str = "") -> ChangePreview:
        """The preview of a new agent, or of the rest of an earlier request.

        Raises:
            UsageError, RefusedError, UnavailableError: As ``admit``.
        """
        known = self.preflight.known(user_text, plan)
        if known is not None:
            return await self.changes.of(self._continued(user_text, known))
        refuse_drill(user_text)
        observation, place = await self._first(user_text, plan, region or self.policy.region_of(plan))
        intent = ProvisionIntent(user=user_text, plan=plan, machine_name=observation.instance.machine_name)
        operation = unwritten(self.registry, observation.instance, intent)
        size = self.policy.server_types[plan]
        return await self.changes.preview(operation, intent, _FirstStart(), observation, _digest, place, size)

    def _continued(self, user_text: str, known: Instance) -> Operation:
        begun = self.registry.operations.list(unfinished=True, instance_id=known.id, kind=OperationKind.PROVISION)
        intent = ProvisionIntent(user=user_text, plan=known.plan, machine_name=known.machine_name)
        return begun[0] if begun else unwritten(self.registry, known, intent)

    async def _first(self, user_text: str, plan: Plan, region: str) -> tuple[Observation, Placement]:
        policy, image = self.policy, latest_image(self.registry, self.policy.image)
        size = policy.server_types[plan]
        row = await self.next_claim(plan, size, image.id, region)
        if row is not None and row.machine_id is not None:
            instance = replace(
                self._instance(user_text, plan, row.cell), machine_name=row.name, machine_id=row.machine_id
            )
            machine = MachineState(row.machine_id, MachineStatus.READY, row.server_type)
            return Observation(instance, machine, NodeState(None, 0, "", "")), Placement(row.cell, row.region, None)
        await self.preflight.refuse_unrentable((plan, region))
        cells = self.registry.cells.list()
        place = choose_cell(cells, plan=plan, region=region, size=policy.cell_size, plans_apart=policy.plans_apart)
        return Observation(self._instance(user_text, plan, place.cell), None), place

    def _instance(self, user_text: str, plan: Plan, cell: CellName) -> Instance:
        user = parse_user(user_text)
        return Instance(
            id=InstanceId(""),
            user_id=user.id,
            user_alias=user.alias,
            plan=plan,
            status=InstanceStatus.PROVISIONING,
            cell=cell,
            machine_name=NEW_MACHINE,
            machine_id=None,
            epoch=1,
            created_at=self.registry.now(),
        )
