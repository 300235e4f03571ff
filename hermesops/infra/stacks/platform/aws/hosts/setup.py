"""What makes a machine of AWS this platform's host: variables of its roles, and rights of its services."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi import Input, Output

from hermesops.infra.stacks.platform.aws import iam
from hermesops.infra.stacks.platform.aws.alarms import Alarms
from hermesops.infra.stacks.platform.aws.cognito import Cognito
from hermesops.infra.stacks.platform.aws.hosts.user_data import ACT_AS_HOST, FOLDER
from hermesops.infra.stacks.platform.aws.hosts.user_roles import UserRolesArgs, user_roles
from hermesops.infra.stacks.platform.aws.iam import Statement, allow
from hermesops.infra.stacks.platform.aws.kms import Key
from hermesops.infra.stacks.platform.aws.network import OPEN_PORTS, balancer_networks
from hermesops.infra.stacks.platform.aws.operator_pool import OperatorPool
from hermesops.infra.stacks.platform.aws.secrets import RedisSecret, Secret
from hermesops.infra.stacks.platform.aws.stores.buckets import Bucket
from hermesops.infra.stacks.platform.aws.stores.postgresql import (
    API,
    CONNECTIONS,
    CONNECTOR,
    CONSOLE,
    DATABASE,
    ROUTER,
    USER,
    Postgresql,
)
from hermesops.infra.stacks.platform.aws.stores.redis import Redis
from hermesops.infra.stacks.platform.served_console import TABLE, ServedConsole, console_table
from hermesops.infra.stacks.platform.spec import PlatformSpec
from hermesops.infra.stacks.platform.users_half import UsersHalf, tables_of

_CONNECTIONS = 200
"""Of one address, to all open ports together: a machine has some ten, and an office has one address for many computers.
Whoever opens more takes no place from others."""

_RDS_AUTHORITIES = "/etc/hermes-platform/tls/rds.crt"
_ROUTER_PASSFILE = "/etc/hermes-platform/secrets/database/hermes-router"
"""Both written by role ``hermes_platform_aws``."""


@dataclass(frozen=True, kw_only=True)
class HostSetup:
    """The setup of a host.

    Attributes:
        users: Addresses of the users' half; ``None`` where the platform serves no users.
        console: Addresses of the served console; ``None`` where operators have none.
        operators: The issuer of operators' tokens; ``None`` without a console, or where the settings name another one.
        keys: KMS keys by purpose.
    """

    spec: PlatformSpec
    users: UsersHalf | None
    console: ServedConsole | None
    operators: OperatorPool | None
    keys: Mapping[str, Key]
    database: Postgresql
    redis: Redis
    host_secret: Secret
    redis_secret: RedisSecret
    releases: Bucket
    backups: Bucket
    cognito: Cognito
    alarms: Alarms

    def variables(self) -> dict[str, Input[object]]:
        """Return variables for roles of ``ansible/playbooks/platform.yml``; secret ones are in the host's secret."""
        place, database, domain = self.spec.place, self.database, self.spec.sizes.domain
        at = self._at_database()
        variables: dict[str, dict[str, Input[object]]] = {
            # There is no vendor's daemon on this machine, and so nobody who may reach it.
            "hermes_base": {
                "broker_addresses": ["127.0.0.1"],
                "daemon_port": 1,
                "open_ports": sorted(OPEN_PORTS),
                "open_port_connections": _CONNECTIONS,
                "metadata_users": list(ACT_AS_HOST),
            },
            "hermes_platform_monitoring": {
                "environment": place.environment,
                "url": self._monitoring_url,
                "identity_url": f"https://{domain}:8446",
            },
            "hermes_platform_aws": {
                "enabled": True,
                "region": place.region,
                "database_host": database.host,
                "database_port": database.port,
                "database_name": DATABASE,
                "database_secret": database.secret_arn,
                "alarms_queue": self.alarms.queue_url,
                "alarms_prefix": f"{place.prefix}-",
                "python": f"{FOLDER}/venv/bin/python",
            },
            "hermes_platform_llm_router": {
                "enabled": True,
                "database": Output.concat(f"postgresql://{ROUTER}@", at, f"&passfile={_ROUTER_PASSFILE}"),
                "database_port": database.port.apply(int),
                "uses_certificate": False,
            },
            "hermes_platform_control": {
                "enabled": True,
                "environment": place.environment,
                "registry_url": Output.concat(f"postgresql+psycopg://{USER}@", at),
                "settings": self._settings(),
            },
        }
        for role, named in self._user_roles().items():
            variables.setdefault(role, {}).update(named)
        return {f"{role}_{name}": value for role, named in variables.items() for name, value in named.items()}

    def _user_roles(self) -> Mapping[str, Mapping[str, Input[object]]]:
        """Return variables of the users' half by role; none where the platform serves no users."""
        users, database, redis = self.users, self.database, self.redis
        if users is None:
            return {}
        args = UserRolesArgs(
            self.spec.place.environment,
            users,
            tables_of(self.spec, users, self.cognito.settings),
            database=self._at_database(),
            database_port=database.port,
            redis_host=redis.host,
            redis_port=redis.port,
            redis_user=redis.user_id,
            redis_secret=self.redis_secret.arn,
            networks=balancer_networks(self.spec.sizes.network),
            console=self.console,
            console_tables={**self._console_table(), "monitoring": {"url": self._monitoring_url}},
        )
        return user_roles(args)

    @property
    def _monitoring_url(self) -> str:
        return f"https://{self.spec.sizes.domain}:8443"

    def _console_table(self) -> dict[str, dict[str, Any]]:
        """Table of settings of the console and of the workers, who verify operators again; none without a console."""
        issuer = self.operators.settings if self.operators else {}
        return {TABLE: console_table(self.spec, self.console, issuer)} if self.console else {}

    def _at_database(self) -> Output[str]:
        """Return the part of a libpq URL after the user: host, port, database, and whom to trust."""
        verified = f"sslmode=verify-full&sslrootcert={_RDS_AUTHORITIES}"
        return Output.concat(self.database.host, ":", self.database.port, f"/{DATABASE}?{verified}")

    def _settings(self) -> Mapping[str, object]:
        """Tables of settings.toml of hermesops on the host: those of the environment, and where the platform is."""
        place, domain = self.spec.place, self.spec.sizes.domain
        own: Mapping[str, Any] = {
            "platform_url": f"https://{domain}:8446",
            "releases": f"s3://{self.releases.bucket}?region={place.region}",
            "secrets": {"home": f"aws:hermesops/{place.environment}/own"},
            "pulumi": {"backend": f"s3://{place.state_bucket}?region={place.region}"},
            "backup": {
                "bucket": self.backups.bucket,
                "region": place.region,
                "user_boundary": place.users_boundary,
            },
            "router": {"url": f"https://{domain}:8444/v1"},
            "monitoring": {"url": self._monitoring_url, "ingest_url": self._monitoring_url},
            **(tables_of(self.spec, self.users, self.cognito.settings) if self.users else {}),
            **self._console_table(),
        }
        merged = {
            table: {**self.spec.settings.get(table, {}), **values} if isinstance(values, Mapping) else values
            for table, values in own.items()
        }
        return {**self.spec.settings, **merged}

    def rights(self) -> list[Statement]:
        """Return the IAM statements of hermesops' services on a host."""
        place, keys = self.spec.place, self.keys
        return [
            *iam.rights_in_buckets(place, self.releases.arn, self.backups.arn),
            allow(
                "OpenSealed",
                ["kms:Decrypt", "kms:GenerateDataKey"],
                [keys[purpose].arn for purpose in ("releases", "backups", "secrets", "alarms")],
            ),
            allow(
                "PlatformSecrets",
                ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
                [self.host_secret.arn, self.redis_secret.arn, self.database.secret_arn],
            ),
            # Setting ``secrets``: aws:hermesops/ENVIRONMENT, where hermesops keeps its own.
            allow(
                "OwnSecrets",
                [
                    "secretsmanager:CreateSecret",
                    "secretsmanager:DeleteSecret",
                    "secretsmanager:DescribeSecret",
                    "secretsmanager:GetSecretValue",
                    "secretsmanager:PutSecretValue",
                ],
                [place.arn("secretsmanager", f"secret:hermesops/{place.environment}/own/*")],
            ),
            allow("ListSecrets", ["secretsmanager:ListSecrets"], ["*"]),
            allow(
                "TakeAlarms",
                ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
                [self.alarms.queue_arn],
            ),
            allow(
                "AlarmsThatStand", ["cloudwatch:DescribeAlarms"], [place.arn("cloudwatch", f"alarm:{place.prefix}-*")]
            ),
            allow("LoginsOfServices", ["rds-db:connect"], self._logins()),
            *iam.may_make_backup_users(place),
        ]

    def _logins(self) -> list[Output[str]]:
        """Return the ARNs of the database's roles that services of a host authenticate as."""
        roles = [ROUTER, *([API] if self.users else [])]
        roles += [CONNECTIONS] if self.users and self.users.agents_url else []
        roles += [CONNECTOR] if self.users and self.users.sockets_url else []
        roles += [CONSOLE] if self.console else []
        return [self.database.role_arn(role) for role in roles]
