"""A whole platform for users in processes of its own: API, relay, workers, stores, and the vendors' stand-ins.

Agents that chat are stand-ins of HTTP in this process; agents that are bought are machines of a simulated local world.
"""

import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from hermesops.access.secrets.catalog import BILLING_SECRET, MESSAGES_KEY
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API
from hermesops.app import Container
from hermesops.base.blocking import give_threads
from hermesops.base.files.private_file import replace_secret
from hermesops.base.waiting import Pending, until
from hermesops.localcloud.vendors.issuer import PREFIX, LocalIssuer
from hermesops.localcloud.world.files import WorldFiles
from hermesops.model.access.token import LONGEST_TOKEN_LIFE, PLATFORM, ProxyToken
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import MachineId, UserId
from hermesops.programs.node.system import openssl
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.store.registry.schema.role_grants import API as API_ROLE
from tests.support.real.commands.command import Command, forks, forks_of
from tests.support.real.ends_with_us import KILLED
from tests.support.real.relay import HOST
from tests.support.real.stores import postgresql
from tests.support.real.stores.postgresql import as_role, make_role
from tests.support.real.stores.redis_server import redis_server
from tests.support.real.stores.registries import placed
from tests.support.suite.prerequisites import require
from tests.support.users.api import served
from tests.support.users.kills.outside.door import door
from tests.support.users.kills.outside.echo_agents import EchoAgent, EchoAgents, echo_agents
from tests.support.users.kills.outside.stripe_process import EVENTS, facts
from tests.support.users.kills.parts import Part, Postgres, Program, Redis, free_port, running
from tests.support.users.processes import NAME, messages_key

_LOCAL = "local"
_ROOT = Path(__file__).resolve().parents[4]
_VENDOR_LOG = "world.log"
_APIS, _WORKERS = 2, 2


@dataclass(frozen=True)
class Chatter:
    """A user who has an agent, and the agent."""

    user_id: UserId
    agent: EchoAgent


@dataclass(frozen=True)
class KillWorld:
    """The platform.

    Attributes:
        parts: What may be killed.
        programs: Those of the parts that are commands.
        api_urls: Of the API's processes.
        operator: Runs commands as an operator does.
        files: Of the local world, with the stand-in of Stripe's account.
        vendor_log: Log of the stand-in of JustAVPS.
    """

    parts: Sequence[Part]
    programs: Sequence[Program]
    api_urls: Sequence[str]
    operator: Command
    files: WorldFiles
    vendor_log: Path
    issuer: LocalIssuer
    chatters: Sequence[Chatter]

    @property
    def container(self) -> Container:
        """The operator's environment in this process, to look at."""
        return Container(Environment.load(_LOCAL, self.operator.environ), lambda _: None)

    def stripe(self) -> Mapping[str, Any]:
        """The account at the stand-in of Stripe."""
        account: Mapping[str, Any] = json.loads(self.files.stripe.read_text())
        return account

    def events_sent(self) -> Sequence[Mapping[str, Any]]:
        """Events that the stand-in of Stripe sent."""
        file = self.files.folder / EVENTS
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def orders(self) -> Sequence[str]:
        """Names of the machines that were ordered at the stand-in of JustAVPS, once for each order."""
        lines = [line for line in self.vendor_log.read_text().splitlines() if '"machine_ordered"' in line]
        return [json.loads(line)["machine"] for line in lines]


@contextlib.asynccontextmanager
async def kill_world(folder: Path, *, chatters: int, seed: int, lease_s: float = 0) -> AsyncIterator[KillWorld]:
    """A platform with so many users whose agents run.

    Args:
        lease_s: Seconds of the lease under which the API carries turns; 0 for its own.
    """
    give_threads()
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    async with contextlib.AsyncExitStack() as stack:
        database = stack.enter_context(postgresql.running())
        redis_port = free_port()
        redis = stack.enter_context(redis_server(folder, redis_port))
        agents = await stack.enter_async_context(echo_agents(chatters, seed))
        issuer = await stack.enter_async_context(_issuer())
        url = database.new_database()
        make_role(url, API_ROLE)
        operator = Command(folder / "operator", {"HERMESOPS_LOCAL_DRIVER": "sim", "HERMESOPS_REGISTRY_URL": url})
        await operator.ok("registry", "migrate")
        ring = messages_key_of(operator)
        files = await _world(stack, operator, folder)
        listener = stack.enter_context(socket.create_server((HOST, 0)))
        door_port = int(listener.getsockname()[1])
        listener.setblocking(False)
        await _stripe(stack, files, folder, f"http://{HOST}:{door_port}/webhooks/stripe/hermes")
        await operator.ok("image", "build")
        registry = Container(Environment.load(_LOCAL, operator.environ), lambda _: None).registry
        stack.callback(registry.close)
        users = _chatters(registry, agents)
        relay = _relay(operator, folder)
        origin = f"https://{HOST}:{door_port}"
        variables = {
            **_of_issuer(issuer),
            "HERMESOPS_REGISTRY_URL": as_role(url, API_ROLE),
            "HERMESOPS_RELAY_URL": f"https://{HOST}:{relay.port}",
            "HERMESOPS_WEB_ORIGIN": origin,
            "HERMESOPS_WEB_REDIS_URL": f"redis://{HOST}:{redis_port}",
        }
        secret = files.stripe_secret.read_text().strip()
        homes = [_home(folder / f"api{number}", operator, ring, secret) for number in range(_APIS)]
        apis = [_api(home, variables, lease_s, folder) for home in homes]
        workers = [_worker(operator, folder, number) for number in range(_WORKERS)]
        programs = [*apis, relay, *workers]
        await stack.enter_async_context(door(listener, [api.port for api in apis]))
        await stack.enter_async_context(running(programs))
        yield KillWorld(
            parts=[*programs, Redis(redis), Postgres(database)],
            programs=programs,
            api_urls=[f"http://{HOST}:{api.port}" for api in apis],
            operator=operator,
            files=files,
            vendor_log=folder / _VENDOR_LOG,
            issuer=issuer,
            chatters=users,
        )


def messages_key_of(operator: Command) -> str:
    """Make the key of messages that all processes share."""
    ring = messages_key(operator.home)
    replace_secret(operator.home / _LOCAL / "keys" / MESSAGES_KEY.name, ring)
    return ring


@contextlib.asynccontextmanager
async def _issuer() -> AsyncIterator[LocalIssuer]:
    listener = socket.create_server((HOST, 0))
    issuer = LocalIssuer(f"http://{HOST}:{listener.getsockname()[1]}{PREFIX}", list)
    async with served(Starlette(routes=[Mount(PREFIX, routes=issuer.routes())]), listener):
        yield issuer


def _of_issuer(issuer: LocalIssuer) -> dict[str, str]:
    url = issuer.url
    return {
        "HERMESOPS_WEB_ISSUER": url,
        "HERMESOPS_WEB_CLIENT_ID": "hermes-web",
        "HERMESOPS_WEB_KEYS_URL": f"{url}/keys",
        "HERMESOPS_WEB_AUTHORIZE_URL": f"{url}/authorize",
        "HERMESOPS_WEB_TOKEN_URL": f"{url}/token",
    }


async def _world(stack: contextlib.AsyncExitStack, operator: Command, folder: Path) -> WorldFiles:
    """The local world's server: JustAVPS and Composio."""
    files = WorldFiles(operator.home / _LOCAL / "world")
    files.folder.mkdir(parents=True, exist_ok=True)
    server = Program("world", operator, ("local", "serve", "--driver", "sim"), folder / _VENDOR_LOG)
    await stack.enter_async_context(running([server]))

    async def is_up() -> bool | Pending[bool]:
        return files.world.exists() or Pending((folder / _VENDOR_LOG).read_text()[-1000:])

    await until(is_up, what="the local world", timeout_s=60, every_s=0.1)
    return files


async def _stripe(stack: contextlib.AsyncExitStack, files: WorldFiles, folder: Path, endpoint: str) -> None:
    """The stand-in of Stripe beside the world, which names it from then on."""
    port = free_port()
    words = ("-m", "tests.support.users.kills.outside.stripe_process", str(files.folder), str(port), endpoint)
    command = Command(folder / "stripe", {"PYTHONPATH": str(_ROOT)}, (*KILLED, sys.executable))
    await stack.enter_async_context(running([Program("Stripe", command, words, folder / "stripe.log", port)]))
    world = json.loads(files.world.read_text())
    files.world.write_text(json.dumps({**world, **facts(f"http://{HOST}:{port}/stripe")}))


def _chatters(registry: Registry, agents: EchoAgents) -> list[Chatter]:
    """A user with a running instance for each agent."""
    chatters = []
    for number, (url, agent) in enumerate(zip(agents.urls(), agents.agents.values(), strict=True)):
        instance, machine = placed(registry, f"chatter{number}"), MachineId(f"m-chatter{number}")
        registry.instances.set_machine(instance.id, machine)
        registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
        until_ = registry.now() + LONGEST_TOKEN_LIFE - timedelta(minutes=1)
        registry.proxy_tokens.keep(ProxyToken(f"t-{number}", machine, PLATFORM, until_, f"token-{number}", url))
        chatters.append(Chatter(instance.user_id, agent))
    return chatters


def _home(home: Path, operator: Command, ring: str, secret: str) -> Path:
    """Keys of a process of the API, and the certificate by which it calls the relay."""
    callers = Container(Environment.load(_LOCAL, operator.environ), lambda _: None).callers
    key = openssl.make()
    admitted = callers.admit(API, openssl.request(key).decode(), why="test")
    replace_secret(home / "relay.pem", CallerPem(key.decode(), admitted.certificate, admitted.authorities).text)
    replace_secret(home / NAME / "keys" / BILLING_SECRET.name, secret)
    messages_key(home, ring)
    return home


def _api(home: Path, variables: Mapping[str, str], lease_s: float, folder: Path) -> Program:
    port = free_port()
    own = {"HERMESOPS_ENV": NAME, "HERMESOPS_RELAY_CREDENTIAL_FILE": str(home / "relay.pem")}
    program = forks_of("tests.support.users.kills.hasty_command") if lease_s else forks()
    words = [*([str(lease_s)] if lease_s else []), "api", "serve", "--bind", f"{HOST}:{port}"]
    command = Command(home, {**variables, **own}, program)
    return Program(f"API {home.name[-1]}", command, words, folder / f"{home.name}.log", port)


def _relay(operator: Command, folder: Path) -> Program:
    port = free_port()
    words = ("relay", "serve", "--listen", f"{HOST}:{port}", "--grace", "1")
    return Program("relay", operator, words, folder / "relay.log", port)


def _worker(operator: Command, folder: Path, number: int) -> Program:
    return Program(f"worker {number}", operator, ("worker", "--grace", "5"), folder / f"worker{number}.log")
