"""The program of the project ``platform`` on AWS: joins the components, and exports the platform's outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws import iam
from hermesops.infra.stacks.platform.aws.alarms import Alarms, AlarmsArgs, alarms_of
from hermesops.infra.stacks.platform.aws.cognito import Cognito, CognitoArgs
from hermesops.infra.stacks.platform.aws.dns import Certificate, CertificateArgs, Zone, ZoneArgs
from hermesops.infra.stacks.platform.aws.hosts.autoscaling import Hosts, HostsArgs
from hermesops.infra.stacks.platform.aws.hosts.user_data import ACT_AS_HOST, FOLDER
from hermesops.infra.stacks.platform.aws.iam import Statement, allow
from hermesops.infra.stacks.platform.aws.kms import Key, KeyArgs, by_logs, by_service
from hermesops.infra.stacks.platform.aws.network import OPEN_PORTS, Network, NetworkArgs
from hermesops.infra.stacks.platform.aws.secrets import RedisSecret, RedisSecretArgs, Secret, SecretArgs
from hermesops.infra.stacks.platform.aws.stores.buckets import Bucket, BucketArgs, only_adding
from hermesops.infra.stacks.platform.aws.stores.postgresql import DATABASE, ROUTER, USER, Postgresql, PostgresqlArgs
from hermesops.infra.stacks.platform.aws.stores.redis import Redis, RedisArgs
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.infra.stacks.platform.spec import PlatformSpec

_RELEASES_KEPT_DAYS = 365
_PAGES_REGION = "us-east-1"
_CONNECTIONS = 200
"""Of one address, to all open ports together: a machine has some ten, and an office has one address for many computers.
Whoever opens more takes no place from others."""

_RDS_AUTHORITIES = "/etc/hermes-platform/tls/rds.crt"
_ROUTER_PASSFILE = "/etc/hermes-platform/secrets/database/hermes-router"
"""Both written by role ``hermes_platform_aws``."""


@dataclass(frozen=True)
class AwsPlatformProgram:
    """A Pulumi program: call it inside an engine that has the plugin of ``pulumi-aws``.

    Attributes:
        sources: Text of the functions that AWS calls, by name; ``functions.read_sources`` reads them.
    """

    spec: PlatformSpec
    sources: Mapping[str, str]

    def __call__(self) -> None:
        """Register the platform; exports ``PlatformOutputs``, and outputs for people."""
        platform = _Platform(self.spec, self.sources)
        for name, value in platform.outputs.by_name().items():
            pulumi.export(name, value)
        for name, output in platform.for_people.items():
            pulumi.export(name, output)


class _Platform:
    """All components of one platform, each made when it is built."""

    def __init__(self, spec: PlatformSpec, sources: Mapping[str, str]) -> None:
        self._spec, self._place, self._sources = spec, spec.place, sources
        # Refuses to work in another account, whatever credentials it is given.
        provider = aws.Provider("aws", region=self._place.region, allowed_account_ids=[self._place.account])
        self._opts = ResourceOptions(provider=provider)
        self._keys = self._make_keys()
        self._network = Network(
            "network",
            NetworkArgs(self._place, spec.sizes.network, self._keys["logs"].arn, spec.sizes.logs_days),
            self._opts,
        )
        self._database, self._redis = self._make_databases()
        self._releases, self._backups = self._make_buckets()
        self._host_secret, self._redis_secret = self._make_secrets()
        self._zone, self._cognito = self._make_names()
        self._alarms = self._make_alarms()
        self._make_hosts()
        self.outputs = self._outputs()
        self.for_people: Mapping[str, Input[object]] = {
            "name_servers": self._zone.name_servers,
            "host_address": self._network.address,
            "host_secret": self._host_secret.arn,
            "operator_client": self._cognito.operator_client,
            "backup_user_boundary": self._place.users_boundary,
        }

    def _make_keys(self) -> dict[str, Key]:
        """A key for each purpose: whoever may open one kind of data opens no other."""
        place = self._place
        through: Mapping[str, tuple[str, ...]] = {
            "database": ("rds",),
            "redis": ("elasticache",),
            "disks": ("ec2",),
            "secrets": ("secretsmanager", "lambda"),
        }
        keys = {
            purpose: Key(f"key-{purpose}", KeyArgs(place, purpose, services), self._opts)
            for purpose, services in through.items()
        }
        for purpose in ("releases", "backups"):
            context = ("aws:s3:arn", f"arn:aws:s3:::{place.bucket(purpose)}")
            keys[purpose] = Key(f"key-{purpose}", KeyArgs(place, purpose, ("s3",), context), self._opts)
        keys["logs"] = Key("key-logs", KeyArgs(place, "logs", statements=(by_logs(place),)), self._opts)
        by_services = [
            by_service(name.capitalize(), f"{name}.amazonaws.com", place) for name in ("cloudwatch", "budgets")
        ]
        from_topics = by_service("Sns", "sns.amazonaws.com", place)
        keys["alarms"] = Key(
            "key-alarms", KeyArgs(place, "alarms", ("sns", "sqs"), statements=(*by_services, from_topics)), self._opts
        )
        return keys

    def _make_databases(self) -> tuple[Postgresql, Redis]:
        place, sizes, network, keys = self._place, self._spec.sizes, self._network, self._keys
        database = Postgresql(
            "postgresql",
            PostgresqlArgs(
                place,
                sizes.database,
                subnets=network.store_subnets,
                group=network.postgresql_group,
                key_arn=keys["database"].arn,
                secrets_key_arn=keys["secrets"].arn,
                logs_key_arn=keys["logs"].arn,
                logs_days=sizes.logs_days,
            ),
            self._opts,
        )
        redis = Redis(
            "redis",
            RedisArgs(
                place,
                sizes.redis,
                subnets=network.store_subnets,
                group=network.redis_group,
                key_arn=keys["redis"].arn,
                logs_key_arn=keys["logs"].arn,
                logs_days=sizes.logs_days,
            ),
            self._opts,
        )
        return database, redis

    def _make_buckets(self) -> tuple[Bucket, Bucket]:
        place, backups = self._place, self._spec.sizes.backups
        arn = f"arn:aws:s3:::{place.bucket('backups')}"
        return (
            Bucket(
                "releases",
                BucketArgs(place, "releases", self._keys["releases"].arn, kept_days=_RELEASES_KEPT_DAYS),
                self._opts,
            ),
            Bucket(
                "backups",
                BucketArgs(
                    place,
                    "backups",
                    self._keys["backups"].arn,
                    kept_days=backups.kept_days,
                    lock_days=backups.lock_days,
                    statements=only_adding(place, arn),
                ),
                self._opts,
            ),
        )

    def _make_secrets(self) -> tuple[Secret, RedisSecret]:
        place, sizes, key = self._place, self._spec.sizes, self._keys["secrets"].arn
        host = Secret(
            "host-secret",
            SecretArgs(
                place, "host", "JSON: role variables of the platform host that are secret, filled by people", key
            ),
            self._opts,
        )
        redis = RedisSecret(
            "redis-secret",
            RedisSecretArgs(
                SecretArgs(place, "redis", "JSON: username and password of Redis, changed by a function", key),
                user_id=self._redis.user_id,
                user_arn=self._redis.user_arn,
                source=self._sources["redis_password"],
                rotation_days=sizes.redis.rotation_days,
                logs_key_arn=self._keys["logs"].arn,
                logs_days=sizes.logs_days,
            ),
            self._opts,
        )
        return host, redis

    def _make_names(self) -> tuple[Zone, Cognito]:
        place, sizes = self._place, self._spec.sizes
        zone = Zone("zone", ZoneArgs(place, sizes.domain, self._network.address), self._opts)
        pages = f"auth.{sizes.domain}"
        certificate = Certificate("certificate", CertificateArgs(place, pages, zone.zone_id, _PAGES_REGION), self._opts)
        cognito = Cognito(
            "cognito",
            CognitoArgs(
                place,
                sizes.auth,
                domain=pages,
                certificate_arn=certificate.arn,
                zone_id=zone.zone_id,
                parent=zone.apex,
                claims_source=self._sources["token_claims"],
                key_arn=self._keys["secrets"].arn,
                logs_key_arn=self._keys["logs"].arn,
                logs_days=sizes.logs_days,
            ),
            self._opts,
        )
        return zone, cognito

    def _make_alarms(self) -> Alarms:
        sizes = self._spec.sizes
        alarms = alarms_of(
            database=self._database.identifier,
            storage_gib=sizes.database.storage_gib,
            redis=self._redis.group_id,
            redis_nodes=1 + sizes.redis.replicas,
            hosts=f"{self._place.prefix}-hosts",
            functions=(self._redis_secret.function_name, self._cognito.function_name),
        )
        return Alarms("alarms", AlarmsArgs(self._place, sizes.alarms, self._keys["alarms"].arn, alarms), self._opts)

    def _make_hosts(self) -> None:
        network = self._network
        Hosts(
            "hosts",
            HostsArgs(
                self._place,
                self._spec.sizes.host,
                subnets=network.host_subnets,
                group=network.hosts_group,
                key_arn=self._keys["disks"].arn,
                releases=self._releases.bucket,
                secret_arn=self._host_secret.arn,
                address_id=network.address_id,
                address_arn=network.address_arn,
                variables=self._role_variables(),
                statements=self._rights_of_hosts(),
            ),
            self._opts,
        )

    def _role_variables(self) -> dict[str, Input[object]]:
        """Return variables for roles of ``ansible/playbooks/platform.yml``; secret ones are in the host's secret."""
        place, database, domain = self._place, self._database, self._spec.sizes.domain
        verified = f"sslmode=verify-full&sslrootcert={_RDS_AUTHORITIES}"
        at = Output.concat(database.host, ":", database.port, f"/{DATABASE}?{verified}")
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
                "url": f"https://{domain}:8443",
                "identity_url": f"https://{domain}:8446",
            },
            "hermes_platform_aws": {
                "enabled": True,
                "region": place.region,
                "database_host": database.host,
                "database_port": database.port,
                "database_name": DATABASE,
                "database_secret": database.secret_arn,
                "alarms_queue": self._alarms.queue_url,
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
        return {f"{role}_{name}": value for role, named in variables.items() for name, value in named.items()}

    def _settings(self) -> Mapping[str, object]:
        """Tables of settings.toml of hermesops on the host: those of the environment, and where the platform is."""
        place, domain = self._place, self._spec.sizes.domain
        own: Mapping[str, Any] = {
            "platform_url": f"https://{domain}:8446",
            "releases": f"s3://{self._releases.bucket}?region={place.region}",
            "secrets": {"home": f"aws:hermesops/{place.environment}/own"},
            "pulumi": {"backend": f"s3://{place.state_bucket}?region={place.region}"},
            "backup": {
                "bucket": self._backups.bucket,
                "region": place.region,
                "user_boundary": place.users_boundary,
            },
            "router": {"url": f"https://{domain}:8444/v1"},
            "monitoring": {"url": f"https://{domain}:8443", "ingest_url": f"https://{domain}:8443"},
        }
        merged = {
            table: {**self._spec.settings.get(table, {}), **values} if isinstance(values, Mapping) else values
            for table, values in own.items()
        }
        return {**self._spec.settings, **merged}

    def _rights_of_hosts(self) -> list[Statement]:
        """Return the IAM statements of hermesops' services on a host."""
        place, keys = self._place, self._keys
        return [
            *iam.rights_in_buckets(place, self._releases.arn, self._backups.arn),
            allow(
                "OpenSealed",
                ["kms:Decrypt", "kms:GenerateDataKey"],
                [keys[purpose].arn for purpose in ("releases", "backups", "secrets", "alarms")],
            ),
            allow(
                "PlatformSecrets",
                ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
                [self._host_secret.arn, self._redis_secret.arn, self._database.secret_arn],
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
                [self._alarms.queue_arn],
            ),
            allow(
                "AlarmsThatStand", ["cloudwatch:DescribeAlarms"], [place.arn("cloudwatch", f"alarm:{place.prefix}-*")]
            ),
            allow("RoutersDatabase", ["rds-db:connect"], [self._database.router_arn]),
            *iam.may_make_backup_users(place),
        ]

    def _outputs(self) -> PlatformOutputs[Input[str]]:
        place, database, redis, cognito = self._place, self._database, self._redis, self._cognito
        base = f"https://{self._spec.sizes.domain}"
        return PlatformOutputs(
            database_host=database.host,
            database_port=database.port,
            database_name=DATABASE,
            database_secret=database.secret_arn,
            redis_host=redis.host,
            redis_port=redis.port,
            redis_secret=self._redis_secret.arn,
            releases_url=f"s3://{self._releases.bucket}?region={place.region}",
            backup_bucket=self._backups.bucket,
            pulumi_state_url=f"s3://{place.state_bucket}?region={place.region}",
            object_store_endpoint="",
            region=place.region,
            router_url=f"{base}:8444/v1",
            monitoring_url=f"{base}:8443",
            ingest_url=f"{base}:8443",
            identity_url=f"{base}:8446",
            auth_issuer=cognito.issuer,
            auth_audience=Output.concat(cognito.app_client, ",", cognito.operator_client),
            host_names="",
        )
