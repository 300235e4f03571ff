"""Reads and changes an instance's machine: by the vendor's API, hermes-node through a channel, the agent's own API.

Reading changes nothing on a machine, and what does not answer is reported as silent, not as an error.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn, Self

from hermesops.access.secrets.instance_keys import InstanceKeys
from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.remote import node_commands
from hermesops.agents.instances.remote.certificates import Certifying
from hermesops.agents.instances.remote.gateway import UNIT, GatewayService
from hermesops.agents.instances.steps.personalise import digest_of, payload_of
from hermesops.agents.instances.suspension import suspension_of
from hermesops.base import waiting
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.masking import secrets_in
from hermesops.model.billing.route import TOKEN, PresentToken
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Lease
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry import Registry
from hermesops.vendor.channel import Channel, ToolboxChannel, last_words, understood
from hermesops.vendor.channel.agent import AgentApi, Piece
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.errors import NotFoundError
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from hermesops.wire.errors import ExitCode
from hermesops.wire.protocol import Connector, Payload

_MACHINE_S = 600.0
"""Seconds a machine has to become ready; the vendor's public client waits as long."""

_STOPPED_S = 10.0
"""Seconds for which the vendor may still list a started machine as stopped."""

_NODE_S = 10.0
_PERSONALISE_S = 30.0
"""Seconds hermes-node has for everything but waiting for the gateway."""

_UNHEALTHY = frozenset({ExitCode.NOT_READY, ExitCode.FAILED})
"""Exit codes of hermes-node for: the payload is in place, the gateway does not answer or is not healthy."""

UNKNOWN_CONNECTOR = "unknown field connector"
"""In the words of a hermes-node of before connectors about a payload with one."""

LOG_LINES = 80
"""Lines of the gateway's log that are shown when it does not become healthy."""


def no_connector(_instance_id: InstanceId) -> None:
    """The connector of an instance where the platform has no bot: none."""


@dataclass(frozen=True, kw_only=True)
class InstanceClient:
    """An instance's machine, node and gateway.

    Attributes:
        certifying: Issues certificates to machines; ``None`` if this environment has none.
        connector_of: The connector of the platform's bots for an instance, with its secret; ``None`` where there is no
            bot.
    """

    registry: Registry
    vendor: Client
    keys: InstanceKeys
    agents: AgentApi
    router_url: str
    gateway_timeout_s: float
    report: Callable[[str], None]
    certifying: Certifying | None = None
    connector_of: Callable[[InstanceId], Connector | None] = no_connector
    lease: Lease | None = None

    @property
    def gateways(self) -> GatewayService:
        """The gateways' systemd units on the machines."""
        return GatewayService(self.channel, self.lease)

    def with_lease(self, lease: Lease) -> Self:
        """Return a copy of this client whose commands carry a lease; machines refuse commands of an outdated lease."""
        return replace(self, lease=lease, certifying=self.certifying and self.certifying.with_lease(lease))

    def without_connector(self) -> Self:
        """Return a copy of this client that hands machines no connector."""
        return replace(self, connector_of=no_connector)

    def channel(self, machine_id: MachineId) -> Channel:
        """A way to run commands on a machine."""
        return ToolboxChannel(self.vendor, machine_id)

    async def channel_to(self, instance: Instance) -> Channel:
        """A way to run commands on an instance's machine.

        Raises:
            RefusedError: It has none that runs, and none will without somebody's help, as while it is suspended.
            UnavailableError: It has none that runs now.
        """
        return self.channel(MachineId((await self._running(instance)).id))

    async def _running(self, instance: Instance) -> Machine:
        machine = await self.machine(instance)
        if machine is None or machine.status is not MachineStatus.READY:
            raise self._not_running(instance, machine)
        return machine

    def _not_running(self, instance: Instance, machine: Machine | None) -> RefusedError | UnavailableError:
        there = MachineState.of(machine) if machine else None
        observation = Observation(instance, there, is_backed_up=self.registry.backups.is_backed_up(instance.id))
        operations = self.registry.operations.list(instance_id=instance.id)
        unfinished = [operation for operation in operations if not operation.status.has_ended]
        return refusals.not_running(observation, unfinished, suspension_of(operations))

    async def chat(self, instance: Instance, text: str, *, session_id: str) -> AsyncIterator[Piece]:
        """Send a message to the instance's agent and yield its answer in pieces."""
        machine = await self._running(instance)
        key = self.keys.secrets_of(instance.id).api_server_key
        async for piece in self.agents.chat(machine, key, text, session_id=session_id):
            yield piece

    async def log(
        self, instance: Instance, *, lines: int | None, follow: bool, since: datetime | None = None, unit: str = UNIT
    ) -> AsyncGenerator[str, None]:
        """Yield the gateway's log, or another unit's, the instance's own secrets masked; empty ``unit`` for all units.

        Args:
            lines: The newest ones, so many; ``None`` for all.
        """
        mask = self.mask(instance)
        machine_id = MachineId((await self._running(instance)).id)
        async for line in self.gateways.log(machine_id, lines=lines, follow=follow, since=since, unit=unit):
            yield mask(line)

    async def is_bootable(self, image_id: ImageId) -> bool:
        """Whether the vendor still has an image and machines can boot from it."""
        try:
            return (await self.vendor.get_image(image_id)).bootable
        except NotFoundError:
            return False

    async def sells(self, server_type: str, region: str) -> bool:
        """Whether the vendor has machines of that type for rent in a region now; an unknown region has none."""
        sold = await self.vendor.list_server_types(region=region)
        return any(kind.name == server_type and kind.available for kind in sold)

    async def machine(self, instance: Instance) -> Machine | None:
        """The instance's machine as the vendor lists it.

        A machine just made is not found by its id for up to a minute; the list has it. One of another name is somebody
        else's, whatever the row says.
        """
        return await self._named(instance.machine_name, instance.machine_id)

    async def _named(self, name: MachineName, machine_id: MachineId | None) -> Machine | None:
        if machine_id:
            with suppress(NotFoundError):
                machine = await self.vendor.get_machine(machine_id)
                if machine.name == name:
                    return machine
        return await self.vendor.find_machine(name)

    async def observe(self, instance_id: InstanceId) -> Observation:
        """Observe one instance: its machine, and node and gateway as far as the layer above answers.

        Under a lease, the release that its node reports is recorded: every workflow observes what it has done, and
        nobody else deploys another one meanwhile.
        """
        observation = await self.observe_as(self.registry.instances.get(instance_id))
        node = observation.own_node
        if self.lease and node and node.release and not node.switching:
            self.registry.rollout_targets.record_release(instance_id, ReleaseId(node.release), lease=self.lease)
        return observation

    async def observe_as(self, instance: Instance) -> Observation:
        """Observe an instance as if its row said this, as it may soon."""
        machine = await self.machine(instance)
        if machine is None:
            return Observation(instance, None, is_backed_up=self.registry.backups.is_backed_up(instance.id))
        state = MachineState.of(machine)
        if machine.status is MachineStatus.DELETED:
            return Observation(instance, state, is_backed_up=self.registry.backups.is_backed_up(instance.id))
        if machine.status is not MachineStatus.READY:
            return Observation(instance, state)
        node = await self.node(MachineId(machine.id))
        if node is None or node.instance_id != instance.id:
            return Observation(instance, state, node)
        return Observation(instance, state, node, await self.health(instance, machine))

    async def health(self, instance: Instance, machine: Machine) -> GatewayHealth:
        """The health that the instance's gateway reports."""
        return await self.agents.health(machine, self.keys.secrets_of(instance.id).api_server_key)

    async def node(self, machine_id: MachineId) -> NodeState | None:
        """hermes-node's report; ``None`` while it does not answer.

        Raises:
            UnavailableError: Its answer is not understood.
        """
        status = await node_commands.status(self.channel(machine_id), timeout_s=_NODE_S)
        if status is None:
            return None
        with understood(machine_id, "status"):
            return self._seen(status)

    def _seen(self, status: Mapping[str, Any]) -> NodeState:
        identity = status.get("identity") or {}
        # A handover that was cut short wrote the payload and neither restarted the gateway nor made its jobs.
        certificate = status.get("certificate") if self.certifying else None
        is_applied = not status.get("restart_needed") and not status.get("jobs_missing")
        takes = (status.get("node") or {}).get("takes") or ()
        return NodeState(
            instance_id=InstanceId(identity["instance"]) if identity else None,
            epoch=int(identity.get("epoch", 0)),
            digest=str(status.get("payload") or "") if is_applied else "",
            release=str((status.get("release") or {}).get("id") or ""),
            fenced=bool(status.get("fenced")),
            switching=bool((status.get("releases") or {}).get("activation")),
            request=str(certificate["request"]) if certificate else None,
            names=self.certifying.names(certificate) if certificate and self.certifying else None,
            takes_connector="connector" in takes,
            takes_endpoint="endpoint" in takes,
        )

    def _payload(self, instance: Instance) -> Payload:
        return payload_of(
            instance,
            self.registry.instance_secrets.settings(instance.id),
            self.keys.secrets_of(instance.id),
            model_base_url=self.router_url,
            connector=self.connector_of(instance.id),
        )

    def payload_digest(self, instance: Instance) -> str:
        """Digest of what the instance's node should have been handed."""
        return digest_of(self._payload(instance))

    async def start_machine(self, machine_id: MachineId) -> None:
        """Boot a stopped machine through the vendor."""
        await self.vendor.start_machine(machine_id)

    async def await_machine(self, instance: Instance, machine_id: MachineId, *, timeout_s: float = _MACHINE_S) -> None:
        """Return once the vendor calls it ready and hermes-node on it answers.

        Or once it stays stopped: nothing starts it, so the caller has to observe and decide again.

        Raises:
            WaitExpiredError: Not in time; the same command waits on.
            UnavailableError: The vendor says that it is in error.
        """
        await self._is_up(instance.machine_name, machine_id, timeout_s)

    async def await_named(self, name: MachineName, machine_id: MachineId) -> None:
        """Wait up to ten minutes until a machine, with or without an instance, is ready.

        Raises:
            WaitExpiredError: The machine was not ready within ten minutes.
            UnavailableError: JustAVPS reports an error of the machine, or that it is stopped.
        """
        if not await self._is_up(name, machine_id, _MACHINE_S):
            raise UnavailableError(f"JustAVPS says that machine {name} is stopped", hint=Hint(("fleet", "drift")))

    async def _is_up(self, name: MachineName, machine_id: MachineId, timeout_s: float) -> bool:
        """Whether it is ready and hermes-node answers, in the end; or stays stopped."""
        stopped_since = None

        async def observe() -> bool | waiting.Pending[bool]:
            nonlocal stopped_since
            machine = await self._named(name, machine_id)
            if machine is None:
                return waiting.Pending("not listed yet")
            if machine.status is MachineStatus.ERROR:
                raise refusals.machine_in_error(name, hint="repeat the command in some minutes")
            if machine.status is MachineStatus.STOPPED:
                stopped_since = stopped_since or time.monotonic()
                return waiting.Pending("stopped") if time.monotonic() < stopped_since + _STOPPED_S else False
            stopped_since = None
            if machine.status is not MachineStatus.READY:
                return waiting.Pending(machine.provisioning_stage or machine.status.value)
            if await self.node(machine_id) is None:
                return waiting.Pending("ready, hermes-node does not answer yet")
            return True

        return await waiting.until(
            observe,
            what=f"machine {name}",
            timeout_s=timeout_s,
            every_s=0.3,
            report=self.report,
        )

    async def personalise(self, instance: Instance, machine_id: MachineId, request: str | None) -> None:
        """Send the machine its payload: one upload to a tmpfs, one command that names only the path.

        The payload includes its certificate, which saves a round trip. Its token for the model router has at least half
        of its lifetime left.

        Raises:
            RefusedError: The node refuses it; its words are repeated.
        """
        token = await self._hand(instance, machine_id, request, wait_s=self.gateway_timeout_s)
        self.keys.note_handed(instance.id, token)

    async def _hand(
        self, instance: Instance, machine_id: MachineId, request: str | None, *, wait_s: float
    ) -> PresentToken:
        token = self.keys.renew(instance.id)
        channel, payload = self.channel(machine_id), self._payload(instance)
        if request is not None and self.certifying:
            credential = await self.certifying.credential(channel, machine_id, request, instance)
            payload = replace(payload, credential=credential)
        done = await node_commands.hand(
            channel,
            "personalise",
            payload.to_json(),
            self.lease,
            options=f" --wait {wait_s:g}",
            timeout_s=wait_s + _PERSONALISE_S,
        )
        if done.exit_code in _UNHEALTHY:
            await self._explain(instance, machine_id, last_words(done))
        if done.exit_code != 0:
            words = last_words(done)
            is_old = payload.connector is not None and UNKNOWN_CONNECTOR in words
            newer = Hint(("fleet", "converge", instance.title), "brings it the present one; then repeat the command")
            raise RefusedError(
                f"hermes-node on {instance.machine_name} refused its payload: {words}",
                hint=newer if is_old else Hint(("instance", "verify", instance.title)),
            )
        return token

    async def await_gateway(self, instance: Instance, machine_id: MachineId) -> None:
        """Return once the gateway is healthy through the proxy, else tell its last log lines.

        Raises:
            UnavailableError: Not within its time.
        """
        try:
            await self.await_health(
                instance, what="the gateway", timeout_s=self.gateway_timeout_s, every_s=0.1, report=self.report
            )
        except waiting.WaitExpiredError as expired:
            await self._explain(instance, machine_id, expired.observed)

    async def await_health(
        self,
        instance: Instance,
        *,
        what: str,
        timeout_s: float,
        every_s: float,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Return once the gateway is healthy through the proxy; the options are those of ``waiting.until``.

        Raises:
            WaitExpiredError: Not within that time.
        """

        async def ask() -> bool | waiting.Pending[bool]:
            machine = await self.machine(instance)
            if machine is None:
                return waiting.Pending("machine not listed")
            health = await self.health(instance, machine)
            return True if health is GatewayHealth.OK else waiting.Pending(health.value)

        await waiting.until(ask, what=what, timeout_s=timeout_s, every_s=every_s, report=report)

    async def _explain(self, instance: Instance, machine_id: MachineId, health: str) -> NoReturn:
        mask = self.mask(instance)
        for line in await self.gateways.log_tail(machine_id, lines=LOG_LINES):
            self.report(f"  {mask(line)}")
        user = instance.title
        raise UnavailableError(
            f"the gateway of {user} is not healthy after {self.gateway_timeout_s:g} s: {health}",
            hint=Hint(("instance", "verify", user), "names what is wrong; its last log lines stand above"),
        )

    def mask(self, instance: Instance) -> Callable[[str], str]:
        """Hides an instance's secrets in a line of text."""
        secrets = self.keys.secrets_of(instance.id)
        now, before = (
            self.registry.instance_secrets.settings(instance.id),
            self.registry.instance_secrets.settings_before(instance.id),
        )
        chosen = [*secrets_in(now), *(secrets_in(before) if before else ())]
        if connector := self.connector_of(instance.id):
            chosen.append(connector.secret)
        # The longest first: one secret may be the beginning of another.
        hidden = sorted({secrets.api_server_key, secrets.model_token, *chosen}, key=len, reverse=True)

        def scrub(line: str) -> str:
            for secret in hidden:
                if secret:
                    line = line.replace(secret, "***")
            # A token of an earlier generation or expiry too: it may still count, and is in no row.
            return TOKEN.sub("***", line)

        return scrub
