"""The local world of an environment, and the object store in it."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.base import child_environment
from hermesops.base.assets import folder
from hermesops.base.extras import Extra, require
from hermesops.base.narration import Reporter
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, Hint, RefusedError
from hermesops.localcloud.drivers.nspawn.disks.base_image import find_definition
from hermesops.localcloud.world import npm_package
from hermesops.localcloud.world.files import is_simulated
from hermesops.localcloud.world.go_tools import LOKI, GoTools
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from hermesops.localcloud.model_router.router import Upstream
    from hermesops.localcloud.server.control_client import WorldStatus
    from hermesops.localcloud.vendors.issuer import Person
    from hermesops.localcloud.world.local_world import World
    from hermesops.machines.release.sqlite import Source
    from hermesops.model.billing.model_usage import Account, Usage
    from hermesops.model.ids import InstanceId
    from hermesops.store.registry.repositories.credentials.model_usage import RouterLedger

_OF_PLATFORM = frozenset({"HERMESOPS_REGISTRY_URL", "HERMESOPS_SECRET_REGISTRY_KEY", "HERMESOPS_SECRET_AUTHORITY_KEY"})
"""Secrets that the service which machines prove themselves to cannot work without."""

_OF_SERVER = _OF_PLATFORM | {"HERMESOPS_MODEL_API_KEY"}
"""Secrets of the local world's server: for the service that it starts, and for its router, which asks real models."""

_VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"

_LOOK_EVERY_S = 1.0


def world_of(env: Environment, driver: str = "") -> "World":
    """The world that stands for the vendor.

    Args:
        driver: Runs its machines; empty takes the one in the settings.

    Raises:
        RefusedError: The environment's machines are rented.
    """
    from hermesops.localcloud.world.local_world import World

    if not env.is_local:
        raise RefusedError(
            f"environment {env.name} is not this computer's", hint=Hint(("env", "list"), "shows the others")
        )
    definition = find_definition(folder("images"), env.settings.local.base)
    driver = driver or env.settings.local.driver
    return World(env.world, base_definition=definition, bases=env.cache / "bases", driver=driver)


async def first_start(
    world: "World", up: "Callable[[], Awaitable[WorldStatus]]", fetch: "Callable[[], None]", report: Reporter
) -> "WorldStatus":
    """Start a world; where its base has to be built, fetch ahead meanwhile: the build leaves a processor idle.

    Args:
        up: Starts it.
        fetch: Blocks. Its failure is reported: nothing is lost that the first image does not fetch as well.
    """
    world.refuse_unfit()  # before anything is begun that an error would have to wait for
    if not world.lacks_base:
        return await up()
    fetching = asyncio.create_task(_fetched(fetch, report))
    try:
        return await up()
    finally:
        await fetching


async def _fetched(fetch: "Callable[[], None]", report: Reporter) -> None:
    try:
        await asyncio.to_thread(fetch)
    except (HermesError, OSError) as failure:
        report(f"not fetched ahead: {failure}")


def server_environment(env: Environment) -> dict[str, str]:
    """The environment of the world's server; its children get less."""
    names = (child_environment.GO, child_environment.PACKAGES, child_environment.BUCKET)
    return env.for_hermesops(*names, secrets=_OF_SERVER)


async def object_store_of(env: Environment, report: Reporter) -> "Mapping[str, str]":
    """Where the world's object store is; it is built and started on first need.

    Raises:
        UnavailableError: The world is down, or the program could not be built.
    """
    tools = _tools(env, report)
    if not tools.place(_VERSITYGW).exists():
        report("backups of a local world go to its object store, whose program is built from source first")
    await tools.build(_VERSITYGW)
    return await world_of(env).object_store()


async def serve_world(
    env: Environment,
    driver: str,
    *,
    report: Reporter,
    platform: "Sequence[str]",
    users: "Sequence[str]" = (),
    connector: "Sequence[str]" = (),
) -> None:
    """Be the local world's server, as ``World.serve``; beside it build the object store's program unless it is there.

    The build begins once there is an agent: before that nothing needs the program, and whoever makes the first image
    needs the processor. It ends with the server; a later one goes on with it, and so does the first command that needs
    it.

    Args:
        platform: The command that serves machines.
        users: The command that serves users; empty for none.
        connector: The command that serves agents' sockets and messengers; empty for none.

    Raises:
        UsageError: The extra that the server needs is missing.
    """
    require(Extra.LOCAL, "a local world")
    from hermesops.localcloud.world.platform_socket import Service

    service = Service(tuple(platform), env.for_hermesops(child_environment.BUCKET, secrets=_OF_PLATFORM))
    ledger = _Ledger(env)
    building = asyncio.create_task(_build_beside(env, ledger, report, driver=driver))
    tools = _tools(env, report)
    try:
        await world_of(env, driver).serve(
            report=report,
            upstream=_upstream_of(env),
            platform=service,
            users=Service(tuple(users), _environment_of_users(env)) if users else None,
            connector=Service(tuple(connector), _environment_of_users(env)) if connector else None,
            people=partial(_people, env),
            ledger=ledger,
            object_store_program=lambda: tools.place(_VERSITYGW),
        )
    finally:
        await cancel(building)


def _environment_of_users(env: Environment) -> dict[str, str]:
    names = (
        *("MESSAGES_KEY", "CONNECTIONS_KEY", "TELEGRAM_TOKEN", "TELEGRAM_SECRET", "CONNECTOR_KEY"),
        *("SLACK_TOKEN", "SLACK_SECRET", "WHATSAPP_TOKEN", "WHATSAPP_SECRET", "WHATSAPP_KEY"),
        "DISCORD_TOKEN",
    )
    secrets = {f"HERMESOPS_SECRET_{name}" for name in names}
    return env.for_hermesops(child_environment.BUCKET, secrets=_OF_PLATFORM | secrets)


def _people(env: Environment) -> "Sequence[Person]":
    """Users of the world who have an agent, as its issuer offers them."""
    from hermesops.access.registry_place import registry_url
    from hermesops.localcloud.vendors.issuer import Person
    from hermesops.store.registry.database import Database
    from hermesops.store.user_rows.accounts import UserAccounts

    database = Database(registry_url(env))
    try:
        return [] if database.is_missing() else [Person(id_, name) for id_, name in UserAccounts(database).named()]
    finally:
        database.close()


def _upstream_of(env: Environment) -> "Upstream | None":
    """The real models that answer behind the world's router; ``None`` for the scripted one."""
    from hermesops.localcloud.model_router.router import Upstream

    model = env.settings.model
    key = model.api_key.get_secret_value() if model.api_key else ""
    return Upstream(model.base_url, key) if model.base_url else None


class _Ledger:
    """The environment's registry as its world's model router uses it; its address is asked each time.

    Attributes:
        has_agents: Whether the router found an agent in it.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.has_agents = False

    def read(self) -> "Mapping[InstanceId, Account]":
        """Read the account of each instance: valid generation of its model tokens and remaining budget."""
        accounts = self._registry().read()
        self.has_agents = self.has_agents or bool(accounts)
        return accounts

    def write(self, batch: str, rows: "Sequence[Usage]") -> None:
        """Add a batch of model usage; a batch of the same name is added once."""
        self._registry().write(batch, rows)

    def _registry(self) -> "RouterLedger":
        from hermesops.access.registry_place import registry_url
        from hermesops.store.registry.repositories.credentials.model_usage import RouterLedger

        return RouterLedger(registry_url(self._env))


def loki_program(env: Environment) -> Path:
    """Where Loki is once it has been built on this computer, which nothing here does by itself."""
    return _tools(env, lambda _: None, module="tools/loki").place(LOKI)


def sqlite_source(env: Environment) -> "tuple[Source, Callable[[Source], bytes]]":
    """The package with SQLite's source, and a function that reads any source: by npm, or from its address."""
    from hermesops.machines.release.builder.sqlite import download
    from hermesops.machines.release.sqlite import Source

    package = Source(f"npm:{npm_package.SQLITE}", npm_package.SQLITE_SHA256)

    def fetch(source: Source) -> bytes:
        if source != package:
            return download(source)
        return npm_package.fetch(npm_package.SQLITE, env.for_child(child_environment.NPM))

    return package, fetch


async def _build_beside(env: Environment, ledger: _Ledger, report: Reporter, *, driver: str) -> None:

    tools = _tools(env, report, is_polite=True)
    if is_simulated(env.world, driver):
        return  # its object store has no server
    if env.settings.backup.bucket or tools.place(_VERSITYGW).exists():
        return
    while not ledger.has_agents:
        await pause(_LOOK_EVERY_S)
    report("building the object store's program in the background: minutes of a core, once on this computer")
    try:
        await tools.build(_VERSITYGW)
    except (HermesError, OSError) as failure:
        report(f"the object store's program was not built in the background: {failure}")


async def versitygw_of(env: Environment, report: Reporter) -> Path:
    """The program of an object store, built from source unless this computer has it; raises as ``loki_of``."""
    tools = _tools(env, report)
    if not tools.place(_VERSITYGW).exists():
        report("the object store's program is built from source first: minutes of a core, once")
    return await tools.build(_VERSITYGW)


async def loki_of(env: Environment, report: Reporter) -> Path:
    """The program Loki, built from source unless this computer has it.

    Raises:
        UnavailableError: It could not be built.
        RefusedError: A source is not what it should be.
    """
    tools = _tools(env, report, module="tools/loki")
    if not tools.place(LOKI).exists():
        report("Loki, which keeps the logs, is built from source first: a quarter of an hour of a core, once")
    return await tools.build(LOKI)


def _tools(env: Environment, report: Reporter, *, module: str = "tools", is_polite: bool = False) -> "GoTools":

    return GoTools(
        folder("images") / module,
        env.cache,
        env.for_child(child_environment.GO, child_environment.PACKAGES),
        report,
        is_polite=is_polite,
    )
