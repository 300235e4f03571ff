"""The machine that hermesops' own services run on: one of an autoscaling group, replaced when it fails."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.hosts.user_data import UserData, user_data
from hermesops.infra.stacks.platform.aws.iam import ServiceRole, ServiceRoleArgs, Statement, allow
from hermesops.infra.stacks.platform.spec import HostSpec, Place

_HOOK = "roles-applied"
_READY_S = 1800
"""Seconds after which a machine that did not say that its roles are applied is given up."""


@dataclass(frozen=True)
class HostsArgs:
    """Parameters of the platform's host, a single machine in any of three zones.

    Attributes:
        subnets: Ids of subnets with a route to the internet, of three zones.
        group: Security group.
        key_arn: ARN of the key that encrypts their disks.
        releases: Name of the bucket of releases.
        secret_arn: ARN of the secret with role variables.
        address_id: Allocation id of their public address.
        address_arn: ARN of that address.
        variables: Role variables that are not secret.
        statements: IAM statements of their services, beside those of the setup.
        target_groups: ARNs of the load balancer's groups that they are registered in once they are ready.
    """

    place: Place
    spec: HostSpec
    subnets: Input[list[str]]
    group: Input[str]
    key_arn: Input[str]
    releases: str
    secret_arn: Input[str]
    address_id: Input[str]
    address_arn: Input[str]
    variables: Mapping[str, Input[object]]
    statements: Sequence[Statement]
    target_groups: Sequence[Input[str]] = ()


class Hosts(pulumi.ComponentResource):
    """An autoscaling group of one machine, which says itself when it is ready.

    Attributes:
        group_name: Of the group, for alarms.
    """

    group_name: str

    def __init__(self, name: str, args: HostsArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Hosts", name, None, opts)
        place = args.place
        self.group_name = f"{place.prefix}-{name}"
        template = self._template(name, args)
        group = aws.autoscaling.Group(
            name,
            name=self.group_name,
            min_size=1,
            max_size=1,
            desired_capacity=1,
            vpc_zone_identifiers=args.subnets,
            launch_template=aws.autoscaling.GroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            # Not the load balancer's check: a process that does not answer is no reason for another machine.
            health_check_type="EC2",
            target_group_arns=list(args.target_groups) or None,
            health_check_grace_period=_READY_S,
            initial_lifecycle_hooks=[
                aws.autoscaling.GroupInitialLifecycleHookArgs(
                    name=_HOOK,
                    lifecycle_transition="autoscaling:EC2_INSTANCE_LAUNCHING",
                    default_result="ABANDON",
                    heartbeat_timeout=_READY_S,
                )
            ],
            # Of one machine the old one goes first: two would write the same figures.
            instance_refresh=aws.autoscaling.GroupInstanceRefreshArgs(
                strategy="Rolling",
                preferences=aws.autoscaling.GroupInstanceRefreshPreferencesArgs(
                    min_healthy_percentage=0, max_healthy_percentage=100
                ),
            ),
            enabled_metrics=[aws.autoscaling.Metric.GROUP_IN_SERVICE_INSTANCES],
            wait_for_capacity_timeout=f"{_READY_S}s",
            tags=[
                aws.autoscaling.GroupTagArgs(key=key, value=value, propagate_at_launch=False)
                for key, value in {**place.tags, "Name": self.group_name}.items()
            ],
            opts=ResourceOptions(parent=self),
        )
        self.register_outputs({"group_name": group.name})

    def _template(self, name: str, args: HostsArgs) -> aws.ec2.LaunchTemplate:
        place, children = args.place, ResourceOptions(parent=self)
        role = ServiceRole(
            name,
            ServiceRoleArgs(place, "ec2.amazonaws.com", [*self._becoming_host(args), *args.statements]),
            children,
        )
        profile = aws.iam.InstanceProfile(
            name, name=self.group_name, path=place.path, role=role.role_name, tags=place.tags, opts=children
        )
        tags = {**place.tags, "Name": self.group_name}
        return aws.ec2.LaunchTemplate(
            name,
            name=self.group_name,
            image_id=args.spec.image,
            instance_type=args.spec.size,
            iam_instance_profile={"arn": profile.arn},
            metadata_options={
                "http_endpoint": "enabled",
                "http_tokens": "required",
                "http_put_response_hop_limit": 1,
                "instance_metadata_tags": "disabled",
            },
            monitoring={"enabled": True},
            ebs_optimized="true",
            block_device_mappings=[
                {
                    "device_name": "/dev/xvda",
                    "ebs": {
                        "volume_size": args.spec.disk_gib,
                        "volume_type": "gp3",
                        "encrypted": "true",
                        "kms_key_id": args.key_arn,
                        "delete_on_termination": "true",
                    },
                }
            ],
            network_interfaces=[
                {
                    # Its way out until it has taken the fixed address.
                    "associate_public_ip_address": "true",
                    "security_groups": [args.group],
                    "delete_on_termination": "true",
                }
            ],
            tag_specifications=[
                {"resource_type": kind, "tags": tags} for kind in ("instance", "network-interface", "volume")
            ],
            user_data=self._script(args),
            update_default_version=True,
            tags=tags,
            opts=children,
        )

    def _script(self, args: HostsArgs) -> Output[str]:
        known = Output.all(
            secret=args.secret_arn, address=args.address_id, variables=Output.json_dumps(dict(args.variables))
        )
        return known.apply(lambda values: self._encoded(args, values))

    def _encoded(self, args: HostsArgs, values: Mapping[str, str]) -> str:
        script = user_data(
            UserData(
                place=args.place,
                version=args.spec.version,
                signers=args.spec.signers,
                releases=args.releases,
                secret=values["secret"],
                address=values["address"],
                group=self.group_name,
                hook=_HOOK,
                variables=json.loads(values["variables"]),
            )
        )
        return base64.b64encode(script.encode()).decode()

    def _becoming_host(self, args: HostsArgs) -> list[Statement]:
        place = args.place
        own = {"StringEquals": {"aws:ResourceTag/hermesops:environment": place.environment}}
        machines = [place.arn("ec2", "instance/*"), place.arn("ec2", "network-interface/*")]
        return [
            allow(
                "SayReady",
                ["autoscaling:CompleteLifecycleAction"],
                [place.arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{self.group_name}")],
            ),
            allow("TakeAddress", ["ec2:AssociateAddress"], [args.address_arn, *machines], Condition=own),
            # Session Manager: a shell and forwarded ports without an open port; AWS knows no resources for these.
            allow(
                "SessionManager",
                [
                    "ssm:UpdateInstanceInformation",
                    "ssmmessages:CreateControlChannel",
                    "ssmmessages:CreateDataChannel",
                    "ssmmessages:OpenControlChannel",
                    "ssmmessages:OpenDataChannel",
                ],
                ["*"],
            ),
        ]
