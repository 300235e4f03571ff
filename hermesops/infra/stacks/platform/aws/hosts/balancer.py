"""The load balancer before a host's door: it ends TLS for users and agents, and says from which address they come.

Source: AWS's guide "Application Load Balancers": attributes, security policies, target groups, access logs.
"""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.dns import Certificate, CertificateArgs
from hermesops.infra.stacks.platform.aws.iam import allow
from hermesops.infra.stacks.platform.aws.network import DOOR, HTTPS
from hermesops.infra.stacks.platform.aws.stores.buckets import Bucket, BucketArgs
from hermesops.infra.stacks.platform.spec import Place, UsersSpec

IDLE_S = 150
"""Seconds without a byte after which a connection ends: more than the door's nginx waits for anything behind it."""

KEPT_OPEN_S = 180
"""Seconds for which the door's nginx keeps an idle connection, so that the load balancer closes it first: a request
that meets a connection which its target is closing is answered 502."""

HEALTH = "/health"
"""Path that the users' API answers without a sign-in."""

_TLS = "ELBSecurityPolicy-TLS13-1-3-2021-06"
"""TLS 1.3 and nothing older, as the door itself."""

_LOG_WRITER = "logdelivery.elasticloadbalancing.amazonaws.com"
_CHECK_EVERY_S, _CHECK_S, _HEALTHY, _UNHEALTHY = 10, 5, 2, 3
_DRAIN_S = 30
_OLD_LOGS_DAYS = 1


@dataclass(frozen=True)
class BalancerArgs:
    """A load balancer.

    Attributes:
        host: Its name in DNS.
        vpc_id: Of the network.
        subnets: Ids of its subnets, of three zones.
        group: Its security group.
        zone_id: Of the zone that its name is in.
    """

    place: Place
    spec: UsersSpec
    host: str
    vpc_id: Input[str]
    subnets: Input[list[str]]
    group: Input[str]
    zone_id: Input[str]


class Balancer(pulumi.ComponentResource):
    """A public load balancer with one listener, which passes everything to the hosts' door but what a rule refuses.

    Attributes:
        target_group_arn: ARN of the group that hosts are registered in.
        listener_arn: ARN of its listener, for further names.
        dns_name: Its own name.
        dns_zone: Route 53's zone of that name.
        name_in_metrics: CloudWatch's name of the load balancer.
        targets_in_metrics: CloudWatch's name of that group.
        log_bucket: Name of the bucket of access logs.
    """

    target_group_arn: Output[str]
    listener_arn: Output[str]
    dns_name: Output[str]
    dns_zone: Output[str]
    name_in_metrics: Output[str]
    targets_in_metrics: Output[str]
    log_bucket: str

    def __init__(self, name: str, args: BalancerArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Balancer", name, None, opts)
        place = args.place
        self._children = ResourceOptions(parent=self)
        logs = self._logs(args)
        certificate = Certificate(
            f"{name}-certificate", CertificateArgs(place, args.host, args.zone_id, place.region), self._children
        )
        balancer = self._balancer(name, args, logs)
        targets = self._targets(name, args)
        listener = aws.lb.Listener(
            name,
            load_balancer_arn=balancer.arn,
            port=HTTPS,
            protocol="HTTPS",
            ssl_policy=_TLS,
            certificate_arn=certificate.arn,
            routing_http_response_server_enabled=False,
            default_actions=[{"type": "forward", "target_group_arn": targets.arn}],
            tags=place.tags,
            opts=self._children,
        )
        aws.route53.Record(
            f"{name}-name",
            zone_id=args.zone_id,
            name=args.host,
            type="A",
            aliases=[{"name": balancer.dns_name, "zone_id": balancer.zone_id, "evaluate_target_health": False}],
            opts=self._children,
        )
        self.target_group_arn, self.log_bucket = targets.arn, logs.bucket
        self.listener_arn, self.dns_name, self.dns_zone = listener.arn, balancer.dns_name, balancer.zone_id
        self.name_in_metrics, self.targets_in_metrics = balancer.arn_suffix, targets.arn_suffix
        self.register_outputs({"target_group_arn": self.target_group_arn, "name_in_metrics": self.name_in_metrics})

    def _logs(self, args: BalancerArgs) -> Bucket:
        """The bucket of access logs: lines hold addresses of users and of requests, and go after some days.

        Load balancers write with S3's own key and no other. The path names the account, so that no load balancer of
        another account writes here.
        """
        place = args.place
        path = f"arn:aws:s3:::{place.bucket('access-logs')}/AWSLogs/{place.account}/*"
        write = allow("BalancersLogs", ["s3:PutObject"], [path], Principal={"Service": _LOG_WRITER})
        return Bucket(
            "access-logs",
            BucketArgs(
                place,
                "access-logs",
                None,
                kept_days=_OLD_LOGS_DAYS,
                expires_days=args.spec.log_days,
                statements=(write,),
            ),
            self._children,
        )

    def _balancer(self, name: str, args: BalancerArgs, logs: Bucket) -> aws.lb.LoadBalancer:
        return aws.lb.LoadBalancer(
            name,
            name=args.place.prefix,
            load_balancer_type="application",
            internal=False,
            ip_address_type="ipv4",
            subnets=args.subnets,
            security_groups=[args.group],
            idle_timeout=IDLE_S,
            # The door takes the last address of X-Forwarded-For, which is the load balancer's own word.
            xff_header_processing_mode="append",
            enable_xff_client_port=False,
            # The API answers to its own name alone.
            preserve_host_header=True,
            drop_invalid_header_fields=True,
            desync_mitigation_mode="defensive",
            enable_deletion_protection=True,
            access_logs={"bucket": logs.bucket, "enabled": True},
            tags=args.place.tags,
            # It tries at once whether it may write its log.
            opts=ResourceOptions(parent=self, depends_on=[logs]),
        )

    def _targets(self, name: str, args: BalancerArgs) -> aws.lb.TargetGroup:
        return aws.lb.TargetGroup(
            name,
            name=f"{args.place.prefix}-door",
            target_type="instance",
            vpc_id=args.vpc_id,
            port=DOOR,
            protocol="HTTPS",
            protocol_version="HTTP1",  # sockets become WebSockets in HTTP/1.1 alone
            deregistration_delay=_DRAIN_S,
            health_check={
                "enabled": True,
                "path": HEALTH,
                "protocol": "HTTPS",
                "matcher": "200",
                "interval": _CHECK_EVERY_S,
                "timeout": _CHECK_S,
                "healthy_threshold": _HEALTHY,
                "unhealthy_threshold": _UNHEALTHY,
            },
            tags=args.place.tags,
            opts=self._children,
        )
