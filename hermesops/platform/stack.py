"""The platform of an environment: its Pulumi stack, and on one machine of the local world the roles of its services."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import httpx

from hermesops.agents.cells.changes.preview import SavedPreview, refuse_moved
from hermesops.agents.cells.changes.saved_previews import SavedPreviews
from hermesops.agents.cells.stack.state import machines_in
from hermesops.base.extras import Extra, require
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import Progress
from hermesops.infra.stacks.platform.local import LocalPlatformArgs, LocalPlatformProgram
from hermesops.infra.stacks.platform.outputs import PlatformOutputs, platform_outputs
from hermesops.infra.stacks.platform.spec import PROJECT
from hermesops.localcloud.drivers.interface import PlatformService
from hermesops.localcloud.world.files import WorldFiles, write_private
from hermesops.machines.image.machines import Reporter, started
from hermesops.model.ids import MachineId, MachineName, platform_machine_name
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.model.stack import Preview, StackRef, UpResult
from hermesops.platform.host import HostAddress, Part, PlatformHost
from hermesops.platform.local.roles import RolesRecord
from hermesops.vendor import justavps

T = TypeVar("T")

UP = Hint(("stack", "up", "platform"))

DATABASE = "hermesops"
RELEASES_BUCKET, BACKUP_BUCKET, STATE_BUCKET = "releases", "backups", "pulumi-state"
"""Of role ``hermes_platform_object_store``; each has a user of its name."""

DATABASE_BUCKET = "postgresql"

REGION = "us-east-1"
"""The region that versitygw's signatures name."""


class HeldLease(Protocol):
    """Port to a lease that this process holds."""

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``, and stop it when the lease is lost."""


@dataclass(frozen=True)
class PlatformStack:
    """The stack of an environment's platform, named as the environment.

    Args:
        make_program: Makes its Pulumi program, from its state as Pulumi exports it; empty before its first run.
        check: Refuses, by the verb that is asked for, what cannot run here, before anything is read.
        serves: Waits until the users' half answers at the URL of its API; raises where it does not in time.
        hold_lease: Holds the lease of a subject while the context lasts.
    """

    environment: str
    engine: Callable[[], Engine]
    make_program: Callable[[Mapping[str, Any]], Awaitable[Callable[[], Any]]]
    previews: SavedPreviews
    hold_lease: Callable[[str], AbstractAsyncContextManager[HeldLease]]
    report: Reporter
    check: Callable[[str], None] = lambda _: None
    serves: Callable[[str], Awaitable[None]] | None = None

    @property
    def ref(self) -> StackRef:
        """Pulumi's project and the stack of this environment."""
        return StackRef(PROJECT, self.environment)

    @property
    def lease(self) -> str:
        """Subject of the lease under which it is changed."""
        return f"stack/{PROJECT}/{self.environment}"

    async def exists(self) -> bool:
        """Whether Pulumi's backend has the stack."""
        return self.ref in await self.engine().stacks(PROJECT)

    async def state(self) -> Mapping[str, Any]:
        """Its state as Pulumi exports it; empty before its first run."""
        return await self.engine().export(self.ref) if await self.exists() else {}

    async def preview(self) -> Preview:
        """Preview ``up``: the changes that it would make. Changes nothing."""
        self.check("preview")
        return await self.engine().preview(self.ref, await self.make_program(await self.state()))

    async def save_preview(self) -> tuple[Preview, str]:
        """Preview ``up`` against the vendor's state and sign the preview; the file is the last result.

        Raises:
            RefusedError: The operator's key does not sign.
        """
        self.check("preview")
        state = await self.state()
        preview, saved = await self._seen(await self.make_program(state), state)
        return preview, self.previews.sign(saved)

    async def _seen(self, program: Callable[[], Any], state: Mapping[str, Any]) -> tuple[Preview, SavedPreview]:
        preview = await self.engine().preview(self.ref, program)
        drift = (await self.preview_refresh()).changes if state else ()
        return preview, self.previews.of_platform(program, state, preview, tuple(drift))

    async def up(self, signed: SavedPreview | None = None) -> UpResult:
        """Apply the program; the caller holds the stack's lease. Destroys nothing.

        Args:
            signed: All that may happen; ``None`` for whatever the program says.

        Raises:
            RefusedError: Something would be destroyed, or something else would happen than was signed.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """
        self.check("up")
        state = await self.state()
        program = await self.make_program(state)
        if signed:
            refuse_moved(signed, (await self._seen(program, state))[1])
        return await self.engine().up(self.ref, program, may_destroy=lambda _: False, report=self._told)

    async def up_alone(self, signed: SavedPreview | None = None) -> "PlatformUp":
        """Bring up a platform without a machine of its own, under the stack's lease.

        Raises:
            UnavailableError: The stack is up, and its users' half does not answer; safe to repeat.
        """
        begun = time.monotonic()
        self.check("up")  # before the registry is asked for a lease
        async with self.hold_lease(self.lease) as turn:
            done = await turn.guard(self.up(signed))
        links = _links_in(done.outputs)
        if self.serves and links:
            await self.serves(links["api"])
        return PlatformUp(done, "", (), round(time.monotonic() - begun, 1), links=links)

    async def refresh(self) -> UpResult:
        """Update the stack's state from the vendor.

        Raises:
            UsageError: There is no such stack.
        """
        async with self.hold_lease(self.lease) as turn:
            return await turn.guard(self.engine().refresh(self.ref, report=self._told))

    async def preview_refresh(self) -> Preview:
        """Preview ``refresh``: the changes that it would write into the state. Changes nothing."""
        return await self.engine().preview_refresh(self.ref)

    async def export(self) -> Mapping[str, Any]:
        """Its state as Pulumi exports it.

        Raises:
            RefusedError: It was never brought up.
        """
        await self._require()
        return await self.engine().export(self.ref)

    async def outputs(self) -> PlatformOutputs[str]:
        """Addresses of the platform's services.

        Raises:
            RefusedError: It was never brought up.
        """
        return platform_outputs(await self._outputs())

    async def addresses(self) -> tuple[PlatformOutputs[str], Mapping[str, str]]:
        """Addresses of the platform's services, and those of its users' half by what is there; raises as ``outputs``.

        The second are none where it serves no users, and where it is on a machine of a local world.
        """
        outputs = await self._outputs()
        return platform_outputs(outputs), _links_in(outputs)

    async def _outputs(self) -> Mapping[str, Any]:
        await self._require()
        return await self.engine().outputs(self.ref)

    async def _require(self) -> None:
        if not await self.exists():
            raise RefusedError(f"environment {self.environment} has no platform", hint=UP)

    def _told(self, progress: Progress) -> None:
        if progress.kind == "begun" and progress.change != "same":
            self.report(f"platform: {progress.change} {progress.name}")
        elif progress.kind in {"warning", "error", "failed"}:
            self.report(": ".join(part for part in ("platform", progress.name, progress.message) if part))


def _links_in(outputs: Mapping[str, Any]) -> Mapping[str, str]:
    """The output ``links`` of a stack; none of a stack without users."""
    links = outputs.get("links")
    return {str(name): str(url) for name, url in links.items()} if isinstance(links, Mapping) else {}


@dataclass(frozen=True)
class PlatformUp:
    """A platform that is up.

    Attributes:
        stack: What the Pulumi stack changed.
        machine: Its name; empty where the platform is on no single one.
        changed: Tasks of the roles that changed something.
        image: What its machine was booted from; empty for the vendor's base, or where the platform is on no single one.
        links: Addresses of the users' half, by what is there; none where it serves no users.
    """

    stack: UpResult
    machine: str
    changed: tuple[str, ...]
    seconds: float
    image: str = ""
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_machine_new(self) -> bool:
        """Whether the stack ordered its machine just now."""
        return any(change.kind == "create" and change.name == self.machine for change in self.stack.changes)


@dataclass(frozen=True)
class LocalPlatforms:
    """Brings the platform of a local world up, on one machine of it.

    Killed anywhere, the same once more finishes: machine and state are found by their names, and roles may be applied
    again.

    Args:
        services: ``HOST:PORT`` at which machines and this computer find each service.
        extend_base: Gives new machines the platform's packages.
        parts: Roles of the playbook, in its order.
        links: Addresses of the users' half, by what is there; none where the parts serve no users.
        opens_door: Takes the door's URL and that of the API, once both answer: the world's vendors send reports there.
        roles: Notes how they were applied.
    """

    environment: str
    stack: PlatformStack
    world: WorldFiles
    services: Mapping[PlatformService, str]
    client: justavps.Client
    host: PlatformHost
    extend_base: Callable[[], Awaitable[None]]
    parts: Callable[[], Awaitable[Sequence[Part]]]
    links: Callable[[], Mapping[str, str]]
    opens_door: Callable[[str, str], None]
    roles: RolesRecord
    report: Reporter

    async def up(self, signed: SavedPreview | None = None) -> PlatformUp:
        """Bring it up, or find it up.

        Args:
            signed: All that may happen to its stack; ``None`` for whatever the program says.

        Raises:
            RefusedError: The vendor, Pulumi or a role refused, or something else would happen than was signed.
            LeaseHeldError: Another process brings it up.
            UnavailableError: Something did not answer in time; the same command goes on from there.
            UsageError: The extra that its host is installed with is missing.
        """
        require(Extra.BUILD, "bringing the platform up")
        async with self.stack.hold_lease(self.stack.lease) as turn:
            return await turn.guard(self._up(signed))

    async def apply(
        self, machine_id: MachineId, parts: Sequence[Part], *, has_packages: bool = False
    ) -> tuple[str, ...]:
        """Apply these roles alone to its machine, as ``PlatformHost.apply`` does; the tasks that changed something."""
        require(Extra.BUILD, "applying roles of the platform")
        url = httpx.URL(f"https://{self.services[PlatformService.MONITORING]}")
        at = HostAddress(platform_machine_name(self.environment), machine_id, url.host)
        return await self.host.apply(at, parts, has_packages=has_packages)

    async def _up(self, signed: SavedPreview | None) -> PlatformUp:
        begun = time.monotonic()
        if not self.world.platform.exists():
            await self.extend_base()
        done = await self.stack.up(signed)
        name, machine_id = platform_machine_name(self.environment), MachineId(str(done.outputs["machine_id"]))
        self.report(f"machine {name}")
        await started(self.client, self.host.channel_to, machine_id, name, report=self.report)
        write_private(self.world.platform, machine_id.encode())  # the machine's way to the vendor's API opens
        image = (await self.client.get_machine(machine_id)).image_id or ""
        changed = await self._apply_noted(machine_id, has_packages=bool(image))
        await self.host.wait_for_monitoring(f"https://{self.services[PlatformService.MONITORING]}")
        write_private(self.world.monitoring, b"")
        links = self.links()
        if links:
            url = f"https://{self.services[PlatformService.USERS]}"
            has = {"has_connections": "agents" in links, "has_connector": "sockets" in links}
            await self.host.wait_for_users(url, links["api"], **has)
            self.opens_door(url, links["api"])
        return PlatformUp(done, name, changed, round(time.monotonic() - begun, 1), image, links)

    async def _apply_noted(self, machine_id: MachineId, *, has_packages: bool) -> tuple[str, ...]:
        at = self.roles.begin()
        try:
            changed = await self.apply(machine_id, await self.parts(), has_packages=has_packages)
        except HermesError as error:
            self.roles.end(at, error)
            raise
        self.roles.end(at)
        return changed


@dataclass(frozen=True)
class LocalPrograms:
    """Makes the program of a local world's platform.

    Args:
        newest_image: Of the platform, or empty where none was built; a new machine boots it.
        client: Of the vendor.
    """

    environment: str
    services: Mapping[PlatformService, str]
    client: justavps.Client
    region: str
    server_type: str
    newest_image: Callable[[], Awaitable[str]]
    report: Reporter

    async def make(self, state: Mapping[str, Any]) -> LocalPlatformProgram:
        """Make the program; an existing machine, in the state or only at the vendor, keeps its image."""
        name = platform_machine_name(self.environment)
        resource = machines_in(state).get(MachineName(name))
        if resource:
            inputs = resource["inputs"]
            region, server_type, image = inputs["region"], inputs["server_type"], inputs.get("image_id")
        else:
            machines = [machine for machine in await self.client.list_machines() if machine.name == name]
            image = machines[0].image_id if machines else await self._image_of_new()
            region, server_type = self.region, machines[0].server_type if machines else self.server_type
        args = LocalPlatformArgs(name, region, server_type, image or None, local_outputs(self.services))
        return LocalPlatformProgram(self.environment, args)

    async def _image_of_new(self) -> str:
        image = await self.newest_image()
        self.report(
            f"a new machine boots from image {PLATFORM_IMAGE} {image}"
            if image
            else f"there is no image {PLATFORM_IMAGE}: a new machine boots from the base, which takes longer"
        )
        return image


def local_outputs(services: Mapping[PlatformService, str]) -> PlatformOutputs[Any]:
    """Where the services of a local world's platform are.

    Args:
        services: ``HOST:PORT`` of each.
    """
    url = {service: f"https://{where}" for service, where in services.items()}
    store = url[PlatformService.OBJECT_STORE]
    at_store = f"?endpoint={store}&region={REGION}&s3ForcePathStyle=true"
    database_host, _, database_port = services[PlatformService.POSTGRESQL].rpartition(":")
    redis_host, _, redis_port = services[PlatformService.REDIS].rpartition(":")
    return PlatformOutputs(
        database_host=database_host,
        database_port=database_port,
        database_name=DATABASE,
        database_secret="",
        redis_host=redis_host,
        redis_port=redis_port,
        redis_secret="",
        releases_url=f"s3://{RELEASES_BUCKET}{at_store}&profile={RELEASES_BUCKET}",
        backup_bucket=BACKUP_BUCKET,
        pulumi_state_url=f"s3://{STATE_BUCKET}{at_store}&profile={STATE_BUCKET}",
        object_store_endpoint=store,
        region=REGION,
        router_url=f"{url[PlatformService.LLM_ROUTER]}/v1",
        monitoring_url=url[PlatformService.MONITORING],
        ingest_url=url[PlatformService.MONITORING],
        identity_url=url[PlatformService.IDENTITY],
        auth_issuer="",
        auth_audience="",
        host_names="",
    )


def local_services(facts: Mapping[str, Any] | None) -> tuple[dict[PlatformService, str], str]:
    """Where a local world's server lets its platform's services be reached, and its platform the vendor's API.

    Args:
        facts: Of ``world.json``; ``None`` while it is down.

    Raises:
        UnavailableError: It is down, or an older version of it runs.
    """
    if facts is None:
        raise UnavailableError("the local world is not up", hint=Hint(("local", "up")))
    services = facts.get("platform_services", {})
    if any(service not in services for service in (*PlatformService, "vendor_api")):
        raise UnavailableError(
            "the local world's server is older than its platform, and forwards nothing to it",
            hint=Hint(("local", "down"), ", then", ("local", "up")),
        )
    return {service: str(services[service]) for service in PlatformService}, str(services["vendor_api"])
