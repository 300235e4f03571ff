"""The network: hosts with addresses of the internet, stores without any way to it. Why: decisions 0049 and 0099."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.iam import ServiceRole, ServiceRoleArgs, allow, document
from hermesops.infra.stacks.platform.spec import NetworkSpec, Place

POSTGRESQL, REDIS = 5432, 6379
HTTPS = 443
"""Port of the load balancer."""

DOOR = 8449
"""Port of the hosts' nginx before the users' API, which the load balancer alone reaches."""

OPEN_PORTS: Mapping[int, str] = {
    8443: "Machines write metrics and logs; client certificates",
    8444: "Agents ask the LLM router; their tokens",
    8446: "Machines ask for certificates; their tokens",
}
"""What users' machines, which are at another vendor, reach on a host."""

_OUTWARD: Mapping[int, str] = {
    443: "AWS, the vendor of machines, model providers, receivers of alerts",
    80: "Debian's signed packages",
    22: "Machines of which the toolbox is gone",
}
_ANYWHERE = "0.0.0.0/0"
_SUBNET_BITS = 20
_HOSTS, _BALANCER, _STORES = 0, 4, 8
"""Numbers of the first subnets of each use, among those of ``_SUBNET_BITS``."""


@dataclass(frozen=True)
class NetworkArgs:
    """A network.

    Attributes:
        logs_key_arn: Of the key that seals the log of flows.
        logs_days: Days for which that log is kept.
        has_balancer: Whether a load balancer stands before the hosts.
    """

    place: Place
    spec: NetworkSpec
    logs_key_arn: Input[str]
    logs_days: int
    has_balancer: bool = False


def balancer_networks(spec: NetworkSpec) -> list[str]:
    """Networks of the load balancer, a zone each; nothing else has addresses of them."""
    return _blocks(spec, _BALANCER)


def _blocks(spec: NetworkSpec, first: int) -> list[str]:
    blocks = list(ipaddress.ip_network(spec.cidr).subnets(new_prefix=_SUBNET_BITS))
    return [str(blocks[first + number]) for number in range(len(spec.zones))]


class Network(pulumi.ComponentResource):
    """VPC over three zones, with security groups.

    Attributes:
        vpc_id: AWS's id of the VPC.
        host_subnets: Ids of subnets with a route to the internet, by zone.
        store_subnets: Ids of subnets without such a route, by zone.
        hosts_group: Security group of hosts; the next two accept connections only from it.
        postgresql_group: Security group of PostgreSQL.
        redis_group: Security group of Redis.
        balancer_subnets: Ids of the load balancer's subnets, by zone; empty without one.
        balancer_group: Its security group, from which alone the hosts' door is reached; empty without one.
        address: Fixed public address, which the host associates itself.
        address_id: Allocation id of that address.
        address_arn: ARN of that address.
    """

    vpc_id: Output[str]
    host_subnets: Output[list[str]]
    store_subnets: Output[list[str]]
    hosts_group: Output[str]
    postgresql_group: Output[str]
    redis_group: Output[str]
    balancer_subnets: Output[list[str]]
    balancer_group: Output[str]
    address: Output[str]
    address_id: Output[str]
    address_arn: Output[str]

    def __init__(self, name: str, args: NetworkArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Network", name, None, opts)
        self._place, self._spec, self._name = args.place, args.spec, name
        self._children = ResourceOptions(parent=self)
        self._vpc = aws.ec2.Vpc(
            name,
            cidr_block=args.spec.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self._tags(name),
            opts=self._children,
        )
        # What a VPC is born with lets its members talk to each other; nobody is to use it.
        aws.ec2.DefaultSecurityGroup(name, vpc_id=self._vpc.id, tags=self._tags("unused"), opts=self._children)
        hosts, stores = self._subnets("hosts", _HOSTS), self._subnets("stores", _STORES)
        tables = [self._route_table("hosts", hosts), self._route_table("stores", stores)]
        gateway = aws.ec2.InternetGateway(name, vpc_id=self._vpc.id, tags=self._tags(name), opts=self._children)
        self._to_internet("hosts", tables[0], gateway)
        groups = self._groups()
        balancer: list[aws.ec2.Subnet] = []
        if args.has_balancer:
            balancer = self._subnets("balancer", _BALANCER)
            self._to_internet("balancer", self._route_table("balancer", balancer), gateway)
            groups["balancer"] = self._balancer_group(groups)
        self._endpoints(tables, stores, groups["hosts"])
        self._flow_log(args)
        # Machines and name servers of others remember it.
        address = aws.ec2.Eip(
            "hosts", domain="vpc", tags=self._tags("hosts"), opts=ResourceOptions(parent=self, protect=True)
        )
        self.address, self.address_id, self.address_arn = address.public_ip, address.allocation_id, address.arn
        self.vpc_id = self._vpc.id
        self.host_subnets = Output.all(*(subnet.id for subnet in hosts))
        self.store_subnets = Output.all(*(subnet.id for subnet in stores))
        self.hosts_group, self.postgresql_group = groups["hosts"].id, groups["postgresql"].id
        self.redis_group = groups["redis"].id
        self.balancer_subnets = Output.all(*(subnet.id for subnet in balancer))
        self.balancer_group = groups["balancer"].id if balancer else Output.from_input("")
        self.register_outputs(
            {
                "vpc_id": self.vpc_id,
                "host_subnets": self.host_subnets,
                "store_subnets": self.store_subnets,
                "hosts_group": self.hosts_group,
                "postgresql_group": self.postgresql_group,
                "redis_group": self.redis_group,
                "balancer_subnets": self.balancer_subnets,
                "balancer_group": self.balancer_group,
                "address": self.address,
                "address_id": self.address_id,
                "address_arn": self.address_arn,
            }
        )

    def _tags(self, name: str) -> dict[str, str]:
        return {**self._place.tags, "Name": f"{self._place.prefix}-{name}"}

    def _subnets(self, use: str, first: int) -> list[aws.ec2.Subnet]:
        return [
            aws.ec2.Subnet(
                f"{use}-{zone}",
                vpc_id=self._vpc.id,
                cidr_block=block,
                availability_zone=f"{self._place.region}{zone}",
                map_public_ip_on_launch=False,
                tags=self._tags(f"{use}-{zone}"),
                opts=self._children,
            )
            for zone, block in zip(self._spec.zones, _blocks(self._spec, first), strict=True)
        ]

    def _to_internet(self, use: str, table: aws.ec2.RouteTable, gateway: aws.ec2.InternetGateway) -> None:
        aws.ec2.Route(
            f"{use}-internet",
            route_table_id=table.id,
            destination_cidr_block=_ANYWHERE,
            gateway_id=gateway.id,
            opts=self._children,
        )

    def _route_table(self, use: str, subnets: Sequence[aws.ec2.Subnet]) -> aws.ec2.RouteTable:
        table = aws.ec2.RouteTable(use, vpc_id=self._vpc.id, tags=self._tags(use), opts=self._children)
        for zone, subnet in zip(self._spec.zones, subnets, strict=True):
            aws.ec2.RouteTableAssociation(
                f"{use}-{zone}", route_table_id=table.id, subnet_id=subnet.id, opts=self._children
            )
        return table

    def _groups(self) -> dict[str, aws.ec2.SecurityGroup]:
        descriptions = {"hosts": "Platform hosts", "postgresql": "PostgreSQL", "redis": "Redis"}
        groups = {use: self._group(use, what) for use, what in descriptions.items()}
        for port, why in OPEN_PORTS.items():
            self._rule(aws.vpc.SecurityGroupIngressRule, f"hosts-from-internet-{port}", groups["hosts"], port, why)
        for port, why in _OUTWARD.items():
            self._rule(aws.vpc.SecurityGroupEgressRule, f"hosts-to-internet-{port}", groups["hosts"], port, why)
        for use, port in (("postgresql", POSTGRESQL), ("redis", REDIS)):
            self._between("hosts", use, groups, port)
        return groups

    def _balancer_group(self, groups: Mapping[str, aws.ec2.SecurityGroup]) -> aws.ec2.SecurityGroup:
        """The load balancer's group: the internet reaches it, and it reaches the hosts' door and nothing else."""
        group = self._group("balancer", "Load balancer of users")
        why = "Browsers and agents; TLS 1.3"
        self._rule(aws.vpc.SecurityGroupIngressRule, f"balancer-from-internet-{HTTPS}", group, HTTPS, why)
        self._between("balancer", "hosts", {**groups, "balancer": group}, DOOR)
        return group

    def _group(self, use: str, what: str) -> aws.ec2.SecurityGroup:
        return aws.ec2.SecurityGroup(
            use,
            name=f"{self._place.prefix}-{use}",
            description=what,
            vpc_id=self._vpc.id,
            tags=self._tags(use),
            opts=self._children,
        )

    def _rule(
        self,
        kind: type[aws.vpc.SecurityGroupIngressRule] | type[aws.vpc.SecurityGroupEgressRule],
        name: str,
        group: aws.ec2.SecurityGroup,
        port: int,
        why: str,
    ) -> None:
        kind(
            name,
            security_group_id=group.id,
            cidr_ipv4=_ANYWHERE,
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            description=why,
            tags=self._place.tags,
            opts=self._children,
        )

    def _between(self, source: str, target: str, groups: Mapping[str, aws.ec2.SecurityGroup], port: int) -> None:
        aws.vpc.SecurityGroupEgressRule(
            f"{source}-to-{target}",
            security_group_id=groups[source].id,
            referenced_security_group_id=groups[target].id,
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            tags=self._place.tags,
            opts=self._children,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{target}-from-{source}",
            security_group_id=groups[target].id,
            referenced_security_group_id=groups[source].id,
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            tags=self._place.tags,
            opts=self._children,
        )

    def _endpoints(
        self,
        tables: Sequence[aws.ec2.RouteTable],
        stores: Sequence[aws.ec2.Subnet],
        hosts: aws.ec2.SecurityGroup,
    ) -> None:
        """Ways to AWS's services inside the network, for this account's own identities alone."""
        place = self._place
        own = {"StringEquals": {"aws:PrincipalAccount": place.account}}
        aws.ec2.VpcEndpoint(
            "s3",
            vpc_id=self._vpc.id,
            service_name=f"com.amazonaws.{place.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            policy=document(
                [
                    allow("OwnBuckets", ["s3:*"], ["*"], Principal="*", Condition=own),
                    # The agent of Session Manager is downloaded from a public bucket of AWS's, by nobody in particular.
                    allow(
                        "SessionManager",
                        ["s3:GetObject"],
                        [f"arn:aws:s3:::amazon-ssm-{place.region}/*"],
                        Principal="*",
                    ),
                ]
            ),
            tags=self._tags("s3"),
            opts=self._children,
        )
        if not self._spec.endpoints:
            return
        group = self._group("endpoints", "Endpoints of AWS services")
        self._between("hosts", "endpoints", {"hosts": hosts, "endpoints": group}, 443)
        for service in self._spec.endpoints:
            aws.ec2.VpcEndpoint(
                service,
                vpc_id=self._vpc.id,
                service_name=f"com.amazonaws.{place.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[subnet.id for subnet in stores],
                security_group_ids=[group.id],
                policy=document([allow("OwnAccount", [f"{service}:*"], ["*"], Principal="*", Condition=own)]),
                tags=self._tags(service),
                opts=self._children,
            )

    def _flow_log(self, args: NetworkArgs) -> None:
        """Record the connections of the VPC, to read after an intrusion."""
        place = self._place
        group = f"/hermesops/{place.environment}/network"
        log = aws.cloudwatch.LogGroup(
            "flows",
            name=group,
            retention_in_days=args.logs_days,
            kms_key_id=args.logs_key_arn,
            tags=place.tags,
            opts=self._children,
        )
        write = allow(
            "WriteFlows",
            ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [place.arn("logs", f"log-group:{group}:*")],
        )
        role = ServiceRole(
            "flows", ServiceRoleArgs(place, "vpc-flow-logs.amazonaws.com", (write,)), ResourceOptions(parent=self)
        )
        aws.ec2.FlowLog(
            "flows",
            vpc_id=self._vpc.id,
            traffic_type="ALL",
            log_destination=log.arn,
            iam_role_arn=role.arn,
            tags=place.tags,
            opts=self._children,
        )
