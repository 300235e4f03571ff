"""Redis: pub/sub of the message router, on ElastiCache. What is in it may be lost."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.spec import Place, RedisSpec

PORT = 6379
_VERSION = "7.1"
_CHANNELS = "resetchannels &hermesops:* ~hermesops:* -@all +@pubsub +@read +@write +@connection -@dangerous"


@dataclass(frozen=True)
class RedisArgs:
    """A group of nodes, the first of which is written to.

    Attributes:
        subnets: Ids of subnets without a way to the internet.
        group: Security group that lets hosts in alone.
        key_arn: Seals data and snapshots.
        logs_key_arn: Seals its logs.
        logs_days: Days for which its logs are kept.
    """

    place: Place
    spec: RedisSpec
    subnets: Input[list[str]]
    group: Input[str]
    key_arn: Input[str]
    logs_key_arn: Input[str]
    logs_days: int


class Redis(pulumi.ComponentResource):
    """Redis with TLS only, and one user, restricted to keys and channels that begin with ``hermesops:``.

    The user is made without a password, able to enter by IAM alone; the function that rotates its secret gives it one.
    So Pulumi's state holds none.

    Attributes:
        host: DNS name of the primary node.
        port: TCP port of the nodes.
        user_id: ElastiCache's id of the user.
        user_arn: ARN of the user.
        group_id: Id of the replication group, for alarms.
    """

    host: Output[str]
    port: Output[str]
    user_id: str
    user_arn: Output[str]
    group_id: str

    def __init__(self, name: str, args: RedisArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Redis", name, None, opts)
        place, spec = args.place, args.spec
        self.user_id, self.group_id = f"{place.prefix}-app", place.prefix
        children = ResourceOptions(parent=self)
        users = self._users(place)
        logs = aws.cloudwatch.LogGroup(
            f"{name}-slow",
            name=f"/hermesops/{place.environment}/redis-slow",
            retention_in_days=args.logs_days,
            kms_key_id=args.logs_key_arn,
            tags=place.tags,
            opts=children,
        )
        subnets = aws.elasticache.SubnetGroup(
            name, name=place.prefix, subnet_ids=args.subnets, tags=place.tags, opts=children
        )
        nodes = aws.elasticache.ReplicationGroup(
            name,
            replication_group_id=self.group_id,
            description=f"hermesops {place.environment}: pub/sub of the message router",
            engine="redis",
            engine_version=_VERSION,
            node_type=spec.size,
            port=PORT,
            num_cache_clusters=1 + spec.replicas,
            automatic_failover_enabled=spec.replicas > 0,
            multi_az_enabled=spec.replicas > 0,
            subnet_group_name=subnets.name,
            security_group_ids=[args.group],
            at_rest_encryption_enabled=True,
            kms_key_id=args.key_arn,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            user_group_ids=[users.user_group_id],
            snapshot_retention_limit=spec.snapshot_days,
            snapshot_window="01:30-02:30",
            maintenance_window="sun:03:00-sun:04:00",
            final_snapshot_identifier=f"{place.prefix}-final",
            auto_minor_version_upgrade=True,
            apply_immediately=False,
            log_delivery_configurations=[
                {
                    "destination": logs.name,
                    "destination_type": "cloudwatch-logs",
                    "log_format": "json",
                    "log_type": "slow-log",
                }
            ],
            tags=place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True),
        )
        self.host, self.port = nodes.primary_endpoint_address, Output.from_input(str(PORT))
        self.register_outputs({"host": self.host, "port": self.port, "user_arn": self.user_arn})

    def _users(self, place: Place) -> aws.elasticache.UserGroup:
        children = ResourceOptions(parent=self)
        # A group needs a user called "default"; this one can neither enter nor do anything.
        default = aws.elasticache.User(
            "redis-default",
            user_id=f"{place.prefix}-default",
            user_name="default",
            engine="redis",
            access_string="off resetchannels -@all",
            authentication_mode={"type": "no-password-required"},
            tags=place.tags,
            opts=children,
        )
        user = aws.elasticache.User(
            "redis-app",
            user_id=self.user_id,
            user_name=self.user_id,
            engine="redis",
            access_string=f"on {_CHANNELS}",
            authentication_mode={"type": "iam"},
            tags=place.tags,
            # Its passwords come and go by rotation.
            opts=ResourceOptions(parent=self, ignore_changes=["authenticationMode", "passwords"]),
        )
        self.user_arn = user.arn
        return aws.elasticache.UserGroup(
            "redis",
            user_group_id=place.prefix,
            engine="redis",
            user_ids=[default.user_id, user.user_id],
            tags=place.tags,
            opts=children,
        )
