"""Permissions boundaries of the platform's roles and users. Pure.

Nothing that bounds somebody may be changed by whom it bounds: ``test_escalation.py`` searches for ways around.
"""

from collections.abc import Mapping
from typing import Any

from hermesops.infra.stacks.platform.backup_users import CHANGING, MAKING
from hermesops.platform.bootstrap.documents import (
    Policy,
    allow,
    deny,
    document_of,
    equals,
    keep_bootstrap,
    own_buckets,
    own_secrets,
    state_bucket,
)
from hermesops.platform.bootstrap.spec import BootstrapSpec

_ID = "-".join("?" * length for length in (8, 4, 4, 4, 12))
"""An instance's id, which ends the name of its user: no person is called so."""

_ROLES_BY_TOKEN = ("router", "hermes_api", "connections", "connector", "console")
"""Roles of the database that processes of a host authenticate as, by tokens of IAM."""


def boundaries(spec: BootstrapSpec) -> Mapping[str, Policy]:
    """The policies that bound others, by name."""
    return {spec.boundary: _roles_boundary(spec), spec.users_boundary: _users_boundary(spec)}


def _roles_boundary(spec: BootstrapSpec) -> Policy:
    """Permissions boundary of the roles that the platform's program creates."""
    return document_of(
        [
            *_on_services(spec),
            *_on_data(spec),
            *_on_backup_users(spec),
            *keep_bootstrap(spec),
            # Hosts run cells, whose state is in the same bucket; the platform's own is not theirs.
            deny("PlatformsStateIsThePipelines", ["s3:*"], Resource=f"{spec.bucket_arn}/*/platform/*"),
        ]
    )


def _on_services(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Rights of roles on AWS's services, and on the platform's messages."""
    return [
        allow(
            "Platform",
            [
                "autoscaling:CompleteLifecycleAction",
                "autoscaling:Describe*",
                "autoscaling:RecordLifecycleActionHeartbeat",
                "cloudwatch:Describe*",
                "cloudwatch:Get*",
                "cloudwatch:List*",
                "cloudwatch:PutMetricData",
                "ec2:AssociateAddress",
                "ec2:Describe*",
                "ec2messages:*",
                "elasticache:DescribeUsers",
                "elasticache:ModifyUser",
                "logs:CreateLog*",
                "logs:Describe*",
                "logs:PutLogEvents",
                "logs:PutRetentionPolicy",
                "rds:Describe*",
                "secretsmanager:GetRandomPassword",
                "secretsmanager:ListSecrets",
                "ssm:UpdateInstanceInformation",
                "ssmmessages:*",
            ],
            "*",
        ),
        allow(
            "LoginsOfServices",
            ["rds-db:connect"],
            [spec.arn("rds-db", f"dbuser:*/{role}") for role in _ROLES_BY_TOKEN],
        ),
        allow(
            "Messages",
            [
                "sns:Publish",
                "sqs:DeleteMessage",
                "sqs:GetQueue*",
                "sqs:ReceiveMessage",
            ],
            [spec.arn(service, f"hermesops-{spec.environment}-*") for service in ("sns", "sqs")],
        ),
    ]


def _on_data(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Rights of roles on objects, secrets and keys of this environment."""
    return [
        allow(
            "Objects",
            [
                "s3:AbortMultipartUpload",
                "s3:DeleteObject",
                "s3:DeleteObjectVersion",
                "s3:GetBucketLocation",
                "s3:GetBucketVersioning",
                "s3:GetObject",
                "s3:GetObjectVersion",
                "s3:ListBucket",
                "s3:ListBucketVersions",
                "s3:PutObject",
            ],
            [*own_buckets(spec), *state_bucket(spec)],
        ),
        allow(
            "Secrets",
            [
                "secretsmanager:CreateSecret",
                "secretsmanager:DeleteSecret",
                "secretsmanager:DescribeSecret",
                "secretsmanager:GetSecretValue",
                "secretsmanager:PutSecretValue",
                "secretsmanager:UpdateSecretVersionStage",
            ],
            own_secrets(spec),
        ),
        allow(
            "Keys",
            ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            spec.arn("kms", "key/*"),
            Condition={"ForAnyValue:StringLike": {"kms:ResourceAliases": f"alias/hermesops-{spec.environment}-*"}},
        ),
    ]


def _on_backup_users(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Rights of roles on the users of backups; each user is bounded by a policy of its own."""
    users = f"arn:{spec.partition}:iam::{spec.account}:user/hermesops-{spec.environment}-{_ID}"
    return [
        # Each instance's backups have a user of their own.
        allow(
            "BackupUsers",
            list(CHANGING),
            users,
        ),
        allow(
            "BoundedBackupUsers",
            list(MAKING),
            users,
            Condition=equals("iam:PermissionsBoundary", spec.policy_arn(spec.users_boundary)),
        ),
    ]


def _users_boundary(spec: BootstrapSpec) -> Policy:
    """Permissions boundary of the backup users: objects of their bucket, and the key that encrypts it.

    Hosts make users and give them policies. Without a bound, a host that was taken over would make an administrator.
    """
    bucket = f"arn:{spec.partition}:s3:::hermesops-{spec.environment}-backups-{spec.account}"
    return document_of(
        [
            allow(
                "Objects",
                ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                f"{bucket}/{spec.environment}/*",
            ),
            allow("Bucket", ["s3:ListBucket", "s3:GetBucketLocation"], bucket),
            # The key is made later, by the platform's program, and is known by its alias.
            allow(
                "Key",
                ["kms:Decrypt", "kms:GenerateDataKey"],
                spec.arn("kms", "key/*"),
                Condition={
                    "StringEquals": {"kms:ViaService": f"s3.{spec.region}.amazonaws.com"},
                    "ForAnyValue:StringEquals": {"kms:ResourceAliases": f"alias/hermesops-{spec.environment}-backups"},
                },
            ),
        ]
    )
