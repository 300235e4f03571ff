"""The program of the project ``platform`` on AWS: joins the components, and exports the platform's outputs."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.alarms import (
    Alarms,
    AlarmsArgs,
    BalancerMetrics,
    alarms_of,
    alarms_of_balancer,
)
from hermesops.infra.stacks.platform.aws.cognito import Cognito, CognitoArgs
from hermesops.infra.stacks.platform.aws.dns import Certificate, CertificateArgs, Zone, ZoneArgs
from hermesops.infra.stacks.platform.aws.hosts.autoscaling import Hosts, HostsArgs
from hermesops.infra.stacks.platform.aws.hosts.balancer import Balancer, BalancerArgs
from hermesops.infra.stacks.platform.aws.hosts.console_listener import ConsoleListener, ConsoleListenerArgs
from hermesops.infra.stacks.platform.aws.hosts.setup import HostSetup
from hermesops.infra.stacks.platform.aws.kms import Key, KeyArgs, by_logs, by_service
from hermesops.infra.stacks.platform.aws.network import Network, NetworkArgs
from hermesops.infra.stacks.platform.aws.operator_pool import OperatorPool, OperatorPoolArgs
from hermesops.infra.stacks.platform.aws.secrets import RedisSecret, RedisSecretArgs, Secret, SecretArgs
from hermesops.infra.stacks.platform.aws.stores.buckets import Bucket, BucketArgs, only_adding
from hermesops.infra.stacks.platform.aws.stores.postgresql import DATABASE, Postgresql, PostgresqlArgs
from hermesops.infra.stacks.platform.aws.stores.redis import Redis, RedisArgs
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.infra.stacks.platform.served_console import served_console
from hermesops.infra.stacks.platform.spec import PlatformSpec
from hermesops.infra.stacks.platform.users_half import pages_of, users_half

_RELEASES_KEPT_DAYS = 365
_PAGES_REGION = "us-east-1"


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
        self._users = users_half(spec)
        self._console = served_console(spec, self._users)
        self._keys = self._make_keys()
        self._network = Network(
            "network",
            NetworkArgs(
                self._place,
                spec.sizes.network,
                self._keys["logs"].arn,
                spec.sizes.logs_days,
                has_balancer=self._users is not None,
            ),
            self._opts,
        )
        self._database, self._redis = self._make_databases()
        self._releases, self._backups = self._make_buckets()
        self._host_secret, self._redis_secret = self._make_secrets()
        self._zone, self._cognito = self._make_names()
        self._operators = self._make_operators()
        self._balancer = self._make_balancer()
        self._alarms = self._make_alarms()
        self._make_hosts()
        self.outputs = self._outputs()
        self.for_people: Mapping[str, Input[object]] = {
            "name_servers": self._zone.name_servers,
            "host_address": self._network.address,
            "host_secret": self._host_secret.arn,
            "operator_client": self._cognito.operator_client,
            "backup_user_boundary": self._place.users_boundary,
            "links": {
                **(self._users.links if self._users else {}),
                **(self._console.links if self._console else {}),
            },
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
        pages, users = pages_of(sizes.domain), self._users
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
                sign_in_url=users.sign_in_url if users and not users.has_issuer else "",
            ),
            self._opts,
        )
        return zone, cognito

    def _make_balancer(self) -> Balancer | None:
        """The load balancer of users; none where the platform serves none."""
        network, users = self._network, self._users
        if users is None:
            return None
        args = BalancerArgs(
            self._place,
            self._spec.sizes.users,
            users.host,
            vpc_id=network.vpc_id,
            subnets=network.balancer_subnets,
            group=network.balancer_group,
            zone_id=self._zone.zone_id,
        )
        balancer = Balancer("balancer", args, self._opts)
        self._make_console_listener(balancer)
        return balancer

    def _make_operators(self) -> OperatorPool | None:
        """The pool of operators; none without a console, or where its settings name another issuer."""
        if self._console is None or self._console.has_issuer:
            return None
        return OperatorPool("operators", OperatorPoolArgs(self._place, self._console.sign_in_url), self._opts)

    def _make_console_listener(self, balancer: Balancer) -> None:
        """The console's name at the load balancer; nothing without a console."""
        if self._console is None:
            return
        args = ConsoleListenerArgs(
            self._place,
            self._console.host,
            self._console.networks,
            listener_arn=balancer.listener_arn,
            target_group_arn=balancer.target_group_arn,
            balancer_name=balancer.dns_name,
            balancer_zone=balancer.dns_zone,
            zone_id=self._zone.zone_id,
        )
        ConsoleListener("console", args, self._opts)

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
        if balancer := self._balancer:
            most = sizes.users.most_log_gib
            names = BalancerMetrics(
                balancer.name_in_metrics, balancer.targets_in_metrics, balancer.log_bucket, most_log_gib=most
            )
            alarms += alarms_of_balancer(names)
        return Alarms("alarms", AlarmsArgs(self._place, sizes.alarms, self._keys["alarms"].arn, alarms), self._opts)

    def _make_hosts(self) -> None:
        network = self._network
        setup = HostSetup(
            spec=self._spec,
            users=self._users,
            console=self._console,
            operators=self._operators,
            keys=self._keys,
            database=self._database,
            redis=self._redis,
            host_secret=self._host_secret,
            redis_secret=self._redis_secret,
            releases=self._releases,
            backups=self._backups,
            cognito=self._cognito,
            alarms=self._alarms,
        )
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
                variables=setup.variables(),
                statements=setup.rights(),
                target_groups=[self._balancer.target_group_arn] if self._balancer else [],
            ),
            self._opts,
        )

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
