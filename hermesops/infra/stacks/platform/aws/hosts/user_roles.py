"""Role variables of the processes of people on a host of AWS: API, connections, connector, console, and their door."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi import Input, Output

from hermesops.infra.stacks.platform.aws.hosts.balancer import KEPT_OPEN_S
from hermesops.infra.stacks.platform.aws.network import DOOR
from hermesops.infra.stacks.platform.aws.stores.postgresql import API, CONNECTIONS, CONNECTOR, CONSOLE
from hermesops.infra.stacks.platform.served_console import ServedConsole
from hermesops.infra.stacks.platform.users_half import UsersHalf

PASSWORDS = "/etc/hermes-platform/passwords"
"""Folder in which role ``hermes_platform_aws`` keeps a file for each process of users; each reads its own."""

_API_USER, _CONNECTIONS_USER, _CONNECTOR_USER = "hermesops-api", "hermesops-connections", "hermesops-connector"
_CONSOLE_USER = "hermesops-console"

_DOOR_MIB = 512
"""Most memory of the door with agents' sockets: each takes some 40 KiB of it."""


@dataclass(frozen=True)
class UserRolesArgs:
    """Variables of the roles of the users' half.

    Attributes:
        environment: Its name.
        users: Its addresses.
        tables: Settings of its processes, by table.
        database: ``HOST:PORT/NAME?OPTIONS`` of PostgreSQL, as URLs of libpq have it.
        database_port: Its TCP port.
        redis_host: Name of Redis.
        redis_port: Its TCP port.
        redis_user: User of Redis.
        redis_secret: ARN of the secret with that user's password.
        networks: Networks of the load balancer.
        console: Addresses of the operators' console; ``None`` where there is none.
        console_tables: Settings of its process, by table.
    """

    environment: str
    users: UsersHalf
    tables: Mapping[str, Mapping[str, Any]]
    database: Input[str]
    database_port: Input[str]
    redis_host: Input[str]
    redis_port: Input[str]
    redis_user: str
    redis_secret: Input[str]
    networks: Sequence[str]
    console: ServedConsole | None = None
    console_tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def user_roles(args: UserRolesArgs) -> dict[str, dict[str, Input[object]]]:
    """Variables of each role, by its name, without the prefix."""
    has_connections, has_connector = bool(args.users.agents_url), bool(args.users.sockets_url)
    roles: dict[str, dict[str, Input[object]]] = {
        "hermes_base": {"open_ports_from": {str(DOOR): list(args.networks)}},
        "hermes_platform_aws": {
            "user_passfiles": [_passfile(user, role) for user, role in _logins(args).items()],
            "redis": {"secret": args.redis_secret, "readers": _redis_readers(has_connector=has_connector)},
        },
        "hermes_platform_api": {
            **_process(args, API, _API_USER),
            **_with_redis(args, _API_USER),
        },
        "hermes_platform_edge": {
            "enabled": True,
            "proxies": list(args.networks),
            "health_host": args.users.host,
            "keepalive_seconds": KEPT_OPEN_S,
            "has_connections": has_connections,
            **({"has_connector": True, "memory_mib": _DOOR_MIB} if has_connector else {}),
        },
    }
    if has_connections:
        process = _process(args, CONNECTIONS, _CONNECTIONS_USER)
        roles["hermes_platform_connections"] = {**process, "settings": args.tables}
    if has_connector:
        process = _process(args, CONNECTOR, _CONNECTOR_USER)
        roles["hermes_platform_connector"] = {**process, **_with_redis(args, _CONNECTOR_USER)}
    if args.console:
        roles["hermes_platform_console"] = {**_process(args, CONSOLE, _CONSOLE_USER), "settings": args.console_tables}
        at_door = {"console_host": args.console.host, "console_networks": list(args.console.networks)}
        roles["hermes_platform_edge"] |= at_door
    return roles


def _logins(args: UserRolesArgs) -> dict[str, str]:
    """Roles of the database that these processes authenticate as, by the process's user."""
    logins = {_API_USER: API}
    logins |= {_CONNECTIONS_USER: CONNECTIONS} if args.users.agents_url else {}
    logins |= {_CONNECTOR_USER: CONNECTOR} if args.users.sockets_url else {}
    return logins | ({_CONSOLE_USER: CONSOLE} if args.console else {})


def _passfile(user: str, role: str) -> dict[str, str]:
    return {"user": user, "home": f"/var/lib/{user}", "file": f"{PASSWORDS}/{user}", "role": role}


def _process(args: UserRolesArgs, role: str, user: str) -> dict[str, Input[object]]:
    """Variables that these processes have: each is a role of the database, by a token of IAM in a file."""
    passfile = f"&passfile={PASSWORDS}/{user}"
    return {
        "enabled": True,
        "environment": args.environment,
        "database": Output.concat(f"postgresql://{role}@", args.database, passfile),
        "database_port": Output.from_input(args.database_port).apply(int),
        "uses_certificate": False,
        "issues_credentials": True,
    }


def _redis_readers(*, has_connector: bool) -> list[dict[str, str]]:
    """Processes that get the password of Redis, each in a file of its own."""
    users = [_API_USER, *([_CONNECTOR_USER] if has_connector else [])]
    return [{"user": user, "file": _redis_file(user)} for user in users]


def _redis_file(user: str) -> str:
    return f"{PASSWORDS}/redis-{user}"


def _with_redis(args: UserRolesArgs, user: str) -> dict[str, Input[object]]:
    """Variables of a process that uses the Redis of events and bells; its password changes by itself."""
    web = {
        "redis_url": Output.concat(f"rediss://{args.redis_user}@", args.redis_host, ":", args.redis_port),
        "redis_password_file": _redis_file(user),
    }
    return {
        "settings": {**args.tables, "web": {**args.tables["web"], **web}},
        "redis_port": Output.from_input(args.redis_port).apply(int),
    }
