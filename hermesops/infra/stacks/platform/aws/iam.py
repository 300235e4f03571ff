"""IAM: documents, roles of AWS services, and a host's rights on users of backups.

Source: AWS's service authorization reference, "Actions, resources, and condition keys" of each service, 2026-11.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.backup_users import CHANGING, MAKING
from hermesops.infra.stacks.platform.spec import Place

_ID = "-".join("?" * length for length in (8, 4, 4, 4, 12))
"""An instance's id, as patterns of IAM spell it."""

_STATE_PROJECT = "fleet"
"""The project whose state hosts write: cells. The platform's own is the pipelines'."""

Statement = Mapping[str, Any]
"""One statement of a document; resources may be outputs of Pulumi."""


def allow(sid: str, actions: Sequence[str], resources: Sequence[Input[str]], **more: object) -> Statement:
    """A statement that allows; ``more`` is ``Principal`` or ``Condition``."""
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources), **more}


def deny(sid: str, actions: Sequence[str], resources: Sequence[Input[str]], **more: object) -> Statement:
    """A statement that denies; ``more`` as for ``allow``."""
    return {**allow(sid, actions, resources, **more), "Effect": "Deny"}


def document(statements: Sequence[Statement]) -> Output[str]:
    """A document as IAM takes it."""
    return Output.json_dumps({"Version": "2012-10-17", "Statement": list(statements)})


def taken_by(service: str, place: Place) -> Output[str]:
    """Return the trust policy of a role for one service, within this account."""
    return document(
        [
            {
                "Sid": "Service",
                "Effect": "Allow",
                "Action": ["sts:AssumeRole"],
                "Principal": {"Service": [service]},
                **(
                    {}
                    if service in {"ec2.amazonaws.com", "lambda.amazonaws.com"}  # they do not say for whom they ask
                    else {"Condition": {"StringEquals": {"aws:SourceAccount": place.account}}}
                ),
            }
        ]
    )


@dataclass(frozen=True)
class ServiceRoleArgs:
    """A role.

    Attributes:
        service: Who takes it, as ``ec2.amazonaws.com``.
        statements: What it may do.
        managed: ARNs of AWS's own policies that it has beside them.
    """

    place: Place
    service: str
    statements: Sequence[Statement] = ()
    managed: Sequence[str] = ()


class ServiceRole(pulumi.ComponentResource):
    """A role with one policy, below the environment's path and within its boundary.

    Attributes:
        arn: Of the role.
        role_name: Of the role; changes when it is replaced.
    """

    arn: Output[str]
    role_name: Output[str]

    def __init__(self, name: str, args: ServiceRoleArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:ServiceRole", name, None, opts)
        role = aws.iam.Role(
            name,
            path=args.place.path,
            permissions_boundary=args.place.boundary,
            assume_role_policy=taken_by(args.service, args.place),
            tags=args.place.tags,
            opts=ResourceOptions(parent=self),
        )
        policies: list[pulumi.CustomResource] = []
        if args.statements:
            policy = document(args.statements)
            policies.append(aws.iam.RolePolicy(name, role=role.name, policy=policy, opts=ResourceOptions(parent=self)))
        for arn in args.managed:
            last = arn.rpartition("/")[2]
            opts = ResourceOptions(parent=self)
            policies.append(aws.iam.RolePolicyAttachment(f"{name}-{last}", role=role.name, policy_arn=arn, opts=opts))
        # Who waits for the role waits for what it may do, too.
        self.arn = Output.all(role.arn, *(policy.id for policy in policies)).apply(lambda values: str(values[0]))
        self.role_name = role.name
        self.register_outputs({"arn": self.arn, "role_name": self.role_name})


def backup_users(place: Place) -> str:
    """Return the ARN pattern of ``agents.backup``'s users: names end with an instance's id, no person's does."""
    return f"arn:aws:iam::{place.account}:user/{place.prefix}-{_ID}"


def may_make_backup_users(place: Place) -> list[Statement]:
    """Return a host's rights to create, change and delete users of backups, each limited by the boundary."""
    users = [backup_users(place)]
    return [
        allow(
            "MakeBackupUsers",
            MAKING,
            users,
            Condition={"StringEquals": {"iam:PermissionsBoundary": place.users_boundary}},
        ),
        allow(
            "ChangeBackupUsers",
            CHANGING,
            users,
        ),
    ]


def rights_in_buckets(place: Place, releases: str, backups: str) -> list[Statement]:
    """Return a host's rights in the buckets of releases, backups and state; the first two by their ARNs."""
    state = f"arn:aws:s3:::{place.state_bucket}"
    below = [f"{state}/.pulumi/{kind}/{_STATE_PROJECT}/*" for kind in ("backups", "history", "stacks")] + [
        f"{state}/.pulumi/locks/organization/{_STATE_PROJECT}/*"
    ]
    return [
        allow("ReadReleases", ["s3:GetObject"], [f"{releases}/*"]),
        allow(
            "LookAtBuckets",
            ["s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:ListBucket", "s3:ListBucketVersions"],
            [releases, backups, state],
        ),
        # Prunes, and erases what belonged to users that left, once nothing locks it any more.
        allow(
            "KeepBackups",
            ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"],
            [f"{backups}/*"],
        ),
        allow("CellsState", ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], below),
        allow("StatesVersion", ["s3:GetObject"], [f"{state}/.pulumi/meta.yaml"]),
        allow(
            "SealState",
            ["kms:Decrypt", "kms:GenerateDataKey"],
            [place.arn("kms", "key/*")],
            Condition={"ForAnyValue:StringEquals": {"kms:ResourceAliases": f"alias/{place.prefix}-state"}},
        ),
    ]
