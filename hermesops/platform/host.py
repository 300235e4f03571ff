"""The host of an environment's platform: which roles it gets, with certificates of its own, and when it answers."""

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import httpx

from hermesops.access.pki.authority import Authority
from hermesops.base.network.http import own_client
from hermesops.base.progress import Durations, Progress
from hermesops.base.waiting import Pending, cancel, until
from hermesops.errors import Hint, PartlyDoneError, RefusedError, UnavailableError
from hermesops.machines.converge import Converged, Converger, Host
from hermesops.machines.converge.results import REPEAT
from hermesops.machines.image.machines import Reporter
from hermesops.model.access.certificate import CallerName
from hermesops.model.ids import MachineId, platform_machine_name
from hermesops.platform.parts.tls import (
    certificate_names,
    client_pair,
    is_good,
    is_of_caller,
    server_pair,
)
from hermesops.vendor import justavps
from hermesops.vendor.channel import Channel, last_words

PLAYBOOK, GROUP = "platform", "platforms"

STAGES = (
    (("hermes_base", "hermes_platform_tls"),),
    (
        (
            "hermes_platform_object_store",
            "hermes_platform_postgresql",
            "hermes_platform_redis",
            "hermes_platform_control",
            "hermes_platform_api",
            "hermes_platform_connections",
            "hermes_platform_connector",
            "hermes_platform_console",
        ),
        ("hermes_platform_monitoring", "hermes_platform_llm_router", "hermes_platform_edge"),
    ),
)
"""Roles of the playbook. A stage needs those before it; its sequences of roles need nothing of each other.

The router's database may come later than the router: it answers and lets nobody in until it has read the registry. So
may the users' API later than the door, which says that nobody is there.
"""

ROLES = tuple(role for stage in STAGES for sequence in stage for role in sequence)
"""Every role of the playbook that a host of a local world may have."""

TLS = "/etc/hermes-platform/tls"
"""Folder of a platform's host with its certificates."""

OPEN_PORTS = (5432, 6380, 8443, 8444, 8445, 8446, 8447, 8449)
"""TCP ports on which a platform's services may be reached, by mutual TLS or TLS with a key; users' by TLS."""

RoleSequence = tuple[str, ...]
"""Roles that run one after another."""

_ANSWERS_S = 60.0
_SHOWN_S = 10.0
_COMMAND_S = 120.0


async def run_on_host(channel: Channel, command: str, *, what: str = "", timeout_s: float = _COMMAND_S) -> str:
    """Run a command on a platform's host and return its output.

    Args:
        what: The command in words, for an error; empty for itself.

    Raises:
        UnavailableError: It failed, or the host does not answer.
    """
    done = await channel.run(command, timeout_s=timeout_s)
    if done.exit_code:
        refused = f"the platform's host refused {what or repr(command)}: {last_words(done)}"
        raise UnavailableError(refused, hint=Hint(("platform", "show")))
    return done.text.strip()


def stages_of(roles: Collection[str], *, side_by_side: bool) -> list[list[RoleSequence]]:
    """Stages of ``STAGES`` reduced to the requested roles; stages without any are dropped.

    Args:
        side_by_side: Whether a stage may have several sequences; stages of one that follow each other become one.
    """
    stages: list[list[RoleSequence]] = []
    for stage in STAGES:
        sequences = [tuple(role for role in sequence if role in roles) for sequence in stage]
        sequences = [sequence for sequence in sequences if sequence]
        if not side_by_side:
            sequences = [tuple(role for sequence in sequences for role in sequence)]
        if stages and len(sequences) == len(stages[-1]) == 1:
            stages[-1] = [stages[-1][0] + sequences[0]]
        elif sequences:
            stages.append(sequences)
    return stages


@dataclass(frozen=True)
class HostAddress:
    """A host, and the name or address under which its services are reached.

    Attributes:
        host: For which its certificate is made out.
    """

    name: str
    machine_id: MachineId
    host: str

    @property
    def certificate_names(self) -> list[str]:
        """Names and addresses in its certificate: where it is reached, and its own of itself."""
        return certificate_names(self.host)


class Part(Protocol):
    """A role of the playbook and the source of its variables."""

    @property
    def role(self) -> str:
        """Its name; all its variables begin with it."""

    async def variables(self, at: HostAddress, pairs: "CertificatePairs") -> Mapping[str, object]:
        """Variables of the role, by their names without its prefix; may hold secrets."""


@dataclass(frozen=True)
class CertificatePairs:
    """Certificates of a host: fresh ones, or nothing where it has good ones, which roles then leave alone."""

    channel: Channel
    authority: Authority
    environment: str
    _servers: dict[str, tuple[str, str]] = field(default_factory=dict, init=False, repr=False)

    async def server(self, at: HostAddress) -> tuple[str, str]:
        """Certificate and key of the host's services, PEM, the same at each call; empty where it has good ones."""
        if at.host not in self._servers:
            shown, names = await self._shown(f"{TLS}/server.crt"), at.certificate_names
            good = is_good(shown, names, self.authority, datetime.now(UTC))
            pair = None if good else server_pair(self.authority, names)
            self._servers[at.host] = (pair.pem, pair.key) if pair else ("", "")
        return self._servers[at.host]

    async def client(self, name: str, file: str) -> tuple[str, str]:
        """Certificate and key of a process of the host, PEM; both empty where those in ``file`` are good."""
        caller = CallerName(self.environment, name)
        if is_of_caller(await self._shown(file), caller, self.authority, datetime.now(UTC)):
            return "", ""
        pair = client_pair(self.authority, caller)
        return pair.pem, pair.key

    async def _shown(self, file: str) -> str:
        shown = await self.channel.run(f"cat {file}", timeout_s=_SHOWN_S)
        return shown.text if shown.exit_code == 0 else ""


@dataclass(frozen=True)
class PlainPart:
    """A role that is told the same at each run, and no certificate of its own."""

    role: str
    values: Mapping[str, object]

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role, without its prefix."""
        del at, pairs
        return self.values


@dataclass(frozen=True)
class TlsPart:
    """Role ``hermes_platform_tls``: the certificate that all services of the host share."""

    authorities: Callable[[], str]
    role: str = "hermes_platform_tls"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role: a new certificate and key where the host's are not good, and the authorities."""
        certificate, key = await pairs.server(at)
        return {"certificate": certificate, "key": key, "authorities": self.authorities()}


@dataclass(frozen=True)
class PlatformHost:
    """Applies the platform's roles to a machine; safe to repeat, also after a kill.

    Args:
        variables: What role ``hermes_base`` has to be told.
        context: TLS of this process with the host.
        durations: Where it is kept how long the roles took; ``None`` for nowhere.
    """

    environment: str
    channel_to: Callable[[MachineId], Channel]
    converger: Converger
    load_authority: Callable[[], Authority]
    variables: Mapping[str, object]
    context: Callable[[], ssl.SSLContext]
    report: Reporter
    durations: Durations | None = None

    async def apply(self, at: HostAddress, parts: Sequence[Part], *, has_packages: bool = False) -> tuple[str, ...]:
        """Apply role ``hermes_base`` and those of these parts, and no other; the tasks that changed something.

        Args:
            has_packages: Whether every package is there already. Then roles that need nothing of each other run side
                by side; two that install would be in each other's way.

        Raises:
            PartlyDoneError: A role failed.
            UnavailableError: The machine could not be reached.
        """
        self.report(f"applying playbook {PLAYBOOK}")
        pairs = CertificatePairs(self.channel_to(at.machine_id), self.load_authority(), self.environment)
        variables = {**self.variables, "hermes_base_open_ports": list(OPEN_PORTS)}
        for part in parts:
            part_variables = await part.variables(at, pairs)
            variables |= {f"{part.role}_{name}": value for name, value in part_variables.items()}
        # Of its tasks Ansible says beforehand only those that no condition adds: the last run knows how many there are.
        progress = Progress(f"roles of {at.name}", "tasks", self.report, self.durations)
        changed: list[str] = []
        for stage in stages_of({"hermes_base", *(part.role for part in parts)}, side_by_side=has_packages):
            runs = [asyncio.ensure_future(self._run(at, sequence, variables, progress)) for sequence in stage]
            try:
                await asyncio.wait(runs)  # each to its end, also beside one that failed: no role stops halfway
            finally:
                await cancel(*runs)
            changed += [task for run in runs for task in run.result()]
        progress.end()
        return tuple(changed)

    async def _run(
        self, at: HostAddress, roles: RoleSequence, variables: Mapping[str, object], progress: Progress
    ) -> tuple[str, ...]:
        host = Host(at.name, at.machine_id, groups=(GROUP,))
        switches = {f"{role}_enabled": role in roles for role in ROLES}
        done = await self.converger.run(PLAYBOOK, [host], variables={**variables, **switches}, report=progress.step)
        self._require_units(done, at.name)
        return done.changed

    def _require_units(self, done: Converged, name: str) -> None:
        """Return where all is done; where a unit did not come up, show the end of its log.

        Raises:
            PartlyDoneError: A role failed.
            UnavailableError: The machine could not be reached.
        """
        failure = done.hosts[name].failure
        if failure is None or not failure.unit:
            done.require_ok()
            return
        for line in failure.log:
            self.report(f"{failure.unit}: {line}")
        problem = failure.telling or failure.message
        raise PartlyDoneError(
            f"{name}: step {failure.task!r} failed: {problem}",
            hint=Hint(("platform", "logs", failure.unit.removesuffix(".service")), "shows more;", REPEAT),
        )

    async def wait_for_monitoring(self, url: str) -> None:
        """Wait until Prometheus answers there.

        Raises:
            UnavailableError: It does not in time.
        """
        ready = f"{url}/prometheus/-/ready"
        await until(partial(self._answers, ready), what=f"monitoring at {url}", timeout_s=_ANSWERS_S, every_s=0.5)

    async def wait_for_users(self, url: str, name: str, *, has_connections: bool, has_connector: bool = False) -> None:
        """Wait until the users' API answers there, the process of connections and the connector.

        Args:
            url: Of the door.
            name: Address by which users ask for it, which may be another one.

        Raises:
            UnavailableError: One does not in time.
        """
        host = httpx.URL(name).netloc.decode()
        processes = {"hermesops-api-1": partial(self._answers, f"{url}/health", host)}
        if has_connections:
            refuses = partial(self._answers, f"{url}/api/hermes/connections", host, httpx.codes.UNAUTHORIZED)
            processes["hermesops-connections"] = refuses
        if has_connector:
            processes["hermesops-connector"] = partial(self._answers, f"{url}/relay", host, httpx.codes.UNAUTHORIZED)
        for unit, answers in processes.items():
            try:
                await until(answers, what=f"{unit} to answer at {url}", timeout_s=_ANSWERS_S, every_s=0.5)
            except UnavailableError as error:
                hint = Hint(("platform", "logs", unit), "says why;", REPEAT)
                raise UnavailableError(error.message, hint=hint) from error

    async def _answers(self, url: str, host: str = "", status: httpx.codes = httpx.codes.OK) -> bool | Pending[bool]:
        try:
            async with own_client(verify=self.context(), timeout=5) as client:
                answer = await client.get(url, headers={"host": host} if host else None)
        except (httpx.TransportError, ssl.SSLError) as error:
            return Pending(f"{type(error).__name__}: {error}")
        return True if answer.status_code == status else Pending(f"it answers {answer.status_code}")


async def find_machine(client: justavps.Client, environment: str) -> MachineId:
    """The id of the host's machine in a local world.

    Raises:
        RefusedError: There is none.
    """
    name = platform_machine_name(environment)
    for machine in await client.list_machines():
        if machine.name == name:
            return MachineId(machine.id)
    raise RefusedError(f"there is no machine {name}", hint=Hint(("stack", "up", "platform")))
