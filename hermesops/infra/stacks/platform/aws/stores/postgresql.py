"""PostgreSQL: the registry's database, on RDS."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.iam import ServiceRole, ServiceRoleArgs
from hermesops.infra.stacks.platform.spec import DatabaseSpec, Place

VERSION = "15"
"""Of Debian 12, as on the platform of one machine; RDS takes its minor versions by itself."""

DATABASE = USER = "hermesops"
ROUTER, API, CONNECTIONS, CONNECTOR, CONSOLE = "router", "hermes_api", "connections", "connector", "console"
"""Roles that services of the host authenticate as, by IAM; those of ``store.registry.schema.role_grants``."""

_AUTHORITY = "rds-ca-rsa2048-g1"
_MONITORING = "arn:aws:iam::aws:policy/service-role/AmazonRDSEnhancedMonitoringRole"
_WATCHED_EVERY_S = 60
_SLOW_MS = 1000


@dataclass(frozen=True)
class PostgresqlArgs:
    """A database.

    Attributes:
        subnets: Ids of subnets without a way to the internet.
        group: Security group that lets hosts in alone.
        key_arn: Seals data, snapshots and performance figures.
        secrets_key_arn: Seals the password.
        logs_key_arn: Seals its logs.
        logs_days: Days for which its logs are kept.
    """

    place: Place
    spec: DatabaseSpec
    subnets: Input[list[str]]
    group: Input[str]
    key_arn: Input[str]
    secrets_key_arn: Input[str]
    logs_key_arn: Input[str]
    logs_days: int


class Postgresql(pulumi.ComponentResource):
    """PostgreSQL server with TLS only; RDS creates and rotates its password, which no person knows.

    Attributes:
        host: DNS name of the server in the network.
        port: TCP port of the server.
        secret_arn: ARN of the secret with ``username`` and ``password``.
        resource_id: RDS's id of the server, as ARNs of its roles have it.
        identifier: RDS's name of the server, for alarms.
    """

    host: Output[str]
    port: Output[str]
    secret_arn: Output[str]
    resource_id: Output[str]
    identifier: str

    def __init__(self, name: str, args: PostgresqlArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Postgresql", name, None, opts)
        place, spec = args.place, args.spec
        self.identifier = place.prefix
        children = ResourceOptions(parent=self)
        logs = [self._log_group(kind, args) for kind in ("postgresql", "upgrade")]
        subnets = aws.rds.SubnetGroup(name, name=place.prefix, subnet_ids=args.subnets, tags=place.tags, opts=children)
        parameters = aws.rds.ParameterGroup(
            name,
            name=f"{place.prefix}-postgresql{VERSION}",
            family=f"postgres{VERSION}",
            parameters=[
                {"name": "rds.force_ssl", "value": "1"},
                {"name": "ssl_min_protocol_version", "value": "TLSv1.2"},
                {"name": "log_connections", "value": "1"},
                {"name": "log_min_duration_statement", "value": str(_SLOW_MS)},
            ],
            tags=place.tags,
            opts=children,
        )
        watching = ServiceRole(
            f"{name}-monitoring",
            ServiceRoleArgs(place, "monitoring.rds.amazonaws.com", managed=(_MONITORING,)),
            children,
        )
        server = self._server(name, args, subnets, parameters, watching, logs)
        self.host, self.port = server.address, server.port.apply(str)
        self.secret_arn = server.master_user_secrets.apply(lambda secrets: str(secrets[0].secret_arn))
        self.resource_id, self._place = server.resource_id, place
        # RDS changes it each week unless told otherwise, without a function of ours.
        aws.secretsmanager.SecretRotation(
            name,
            secret_id=self.secret_arn,
            rotation_rules={"automatically_after_days": spec.rotation_days},
            rotate_immediately=False,
            opts=children,
        )
        self.register_outputs(
            {"host": self.host, "port": self.port, "secret_arn": self.secret_arn, "resource_id": self.resource_id}
        )

    def role_arn(self, role: str) -> Output[str]:
        """ARN by which IAM allows a login as a role of PostgreSQL."""
        return Output.concat(self._place.arn("rds-db", "dbuser:"), self.resource_id, "/", role)

    def _server(
        self,
        name: str,
        args: PostgresqlArgs,
        subnets: aws.rds.SubnetGroup,
        parameters: aws.rds.ParameterGroup,
        watching: ServiceRole,
        logs: list[aws.cloudwatch.LogGroup],
    ) -> aws.rds.Instance:
        place, spec = args.place, args.spec
        return aws.rds.Instance(
            name,
            identifier=self.identifier,
            engine="postgres",
            engine_version=VERSION,
            instance_class=spec.size,
            storage_type="gp3",
            allocated_storage=spec.storage_gib,
            max_allocated_storage=spec.most_storage_gib,
            storage_encrypted=True,
            kms_key_id=args.key_arn,
            db_name=DATABASE,
            username=USER,
            manage_master_user_password=True,
            iam_database_authentication_enabled=True,
            master_user_secret_kms_key_id=args.secrets_key_arn,
            multi_az=spec.two_zones,
            db_subnet_group_name=subnets.name,
            vpc_security_group_ids=[args.group],
            publicly_accessible=False,
            parameter_group_name=parameters.name,
            ca_cert_identifier=_AUTHORITY,
            backup_retention_period=spec.backup_days,
            backup_window="01:00-01:30",
            maintenance_window="sun:02:00-sun:03:00",
            copy_tags_to_snapshot=True,
            delete_automated_backups=False,
            skip_final_snapshot=False,
            final_snapshot_identifier=f"{self.identifier}-final",
            deletion_protection=True,
            auto_minor_version_upgrade=True,
            allow_major_version_upgrade=False,
            apply_immediately=False,
            enabled_cloudwatch_logs_exports=["postgresql", "upgrade"],
            monitoring_interval=_WATCHED_EVERY_S,
            monitoring_role_arn=watching.arn,
            performance_insights_enabled=True,
            performance_insights_kms_key_id=args.key_arn,
            tags=place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True, depends_on=logs),
        )

    def _log_group(self, kind: str, args: PostgresqlArgs) -> aws.cloudwatch.LogGroup:
        """Made before RDS makes one that is neither sealed nor ever emptied."""
        return aws.cloudwatch.LogGroup(
            f"postgresql-{kind}",
            name=f"/aws/rds/instance/{self.identifier}/{kind}",
            retention_in_days=args.logs_days,
            kms_key_id=args.logs_key_arn,
            tags=args.place.tags,
            opts=ResourceOptions(parent=self),
        )
