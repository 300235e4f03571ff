"""IAM documents of a bootstrap: permissions of pipelines, and boundaries of the platform's roles and users.

Nothing that bounds somebody may be changed by whom it bounds: ``test_escalation.py`` searches these documents for ways
around. Pure.

Source: AWS's IAM reference, "Actions, resources, and condition keys" of each service; its guide "Create a role for
OpenID Connect federation"; GitHub's "Configuring OpenID Connect in Amazon Web Services" (claims ``aud`` and ``sub``).
"""

from collections.abc import Mapping
from typing import Any

from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole

Policy = Mapping[str, Any]
"""An IAM document."""

VERSION = "2012-10-17"
OLD_VERSIONS_DAYS = 90
"""Days for which replaced versions of state are kept."""

UNFINISHED_DAYS = 7

_EVERYWHERE = ("budgets", "route53")
"""Those with one address for all regions."""

_READING = {
    "acm": ("Describe*", "Get*", "List*"),
    "autoscaling": ("Describe*",),
    "budgets": ("Describe*", "ListTagsForResource", "ViewBudget"),
    "cloudwatch": ("Describe*", "Get*", "List*"),
    "cognito-idp": ("Describe*", "GetGroup", "GetUserPoolMfaConfig", "ListGroups", "ListTags*", "ListUserPool*"),
    "ec2": ("Describe*",),
    "elasticache": ("Describe*", "List*"),
    "kms": ("Describe*", "Get*", "List*"),
    "lambda": ("Get*", "List*"),
    "logs": ("Describe*", "ListTags*"),
    "rds": ("Describe*", "List*"),
    "route53": ("Get*", "List*"),
    "secretsmanager": ("Describe*", "GetResourcePolicy", "ListSecret*"),
    "sns": ("Get*", "List*"),
    "sqs": ("Get*", "List*"),
}
"""What looks at services of which the platform has resources, besides S3 and IAM, whose rights are by name.

Where reading everything would read users' names, passwords, consoles, logs or secrets, it is less than all.
"""

_PASSED_TO = ("ec2", "lambda", "monitoring.rds", "vpc-flow-logs")
"""Services that roles of the platform are made for."""

_CERTIFICATES = "us-east-1"
"""Where Cognito takes the certificate of a domain of its own from."""

_ID = "-".join("?" * length for length in (8, 4, 4, 4, 12))
"""An instance's id, which ends the name of its user: no person is called so."""


def bucket_policy(spec: BootstrapSpec) -> Policy:
    """Nobody reaches the state's bucket without TLS, or by an old version of it."""
    where = {"Principal": "*", "Action": "s3:*", "Resource": _bucket(spec)}
    old = {"NumericLessThan": {"s3:TlsVersion": "1.2"}}
    return _document(
        [
            {"Sid": "HermesopsTlsOnly", "Effect": "Deny", **where, "Condition": _is("aws:SecureTransport", "false")},
            {"Sid": "HermesopsNewTlsOnly", "Effect": "Deny", **where, "Condition": old},
        ]
    )


def lifecycle() -> Mapping[str, Any]:
    """Replaced versions of state go after a while, and uploads that were never finished."""
    return {
        "ID": "hermesops-old-versions",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": OLD_VERSIONS_DAYS},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UNFINISHED_DAYS},
    }


def trust(spec: BootstrapSpec, role: PipelineRole) -> Policy:
    """Pipelines of this issuer take a role, by tokens for this audience, with these subjects."""
    condition = {
        "StringEquals": {f"{spec.issuer_host}:aud": spec.audience},
        "StringLike": {f"{spec.issuer_host}:sub": list(spec.subjects[role])},
    }
    statement = {
        "Sid": "Pipelines",
        "Effect": "Allow",
        "Principal": {"Federated": spec.provider_arn},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": condition,
    }
    return _document([statement])


def permissions(spec: BootstrapSpec, role: PipelineRole, key_arn: str) -> Policy:
    """The one policy of a pipeline's role."""
    statements = _reading(spec, key_arn)
    if role is PipelineRole.APPLY:
        statements += _writing(spec, key_arn)
    return _document(statements)


def boundaries(spec: BootstrapSpec) -> Mapping[str, Policy]:
    """The policies that bound others, by name."""
    return {spec.boundary: _roles_boundary(spec), spec.users_boundary: _users_boundary(spec)}


def _document(statements: list[dict[str, Any]]) -> Policy:
    return {"Version": VERSION, "Statement": statements}


def _allow(sid: str, actions: list[str], resources: str | list[str], **more: object) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources, **more}


def _deny(sid: str, actions: list[str], **more: object) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Deny", "Action": actions, **more}


def _is(key: str, value: str) -> dict[str, dict[str, str]]:
    return {"Bool" if value in {"true", "false"} else "StringEquals": {key: value}}


def _bucket(spec: BootstrapSpec) -> list[str]:
    return [spec.bucket_arn, f"{spec.bucket_arn}/*"]


def _own_buckets(spec: BootstrapSpec) -> list[str]:
    names = f"arn:{spec.partition}:s3:::hermesops-{spec.environment}-*"
    return [names, f"{names}/*"]


def _own_secrets(spec: BootstrapSpec) -> list[str]:
    """ARNs of this environment's secrets: those with our names, and those that RDS creates for its databases."""
    return [spec.arn("secretsmanager", f"secret:{name}") for name in (f"hermesops/{spec.environment}/*", "rds!*")]


def _roles_boundary(spec: BootstrapSpec) -> Policy:
    """Permissions boundary of the roles that the platform's program creates."""
    users = f"arn:{spec.partition}:iam::{spec.account}:user/hermesops-{spec.environment}-{_ID}"
    return _document(
        [
            _allow(
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
            _allow("RoutersDatabase", ["rds-db:connect"], spec.arn("rds-db", "dbuser:*/router")),
            _allow(
                "Messages",
                [
                    "sns:Publish",
                    "sqs:DeleteMessage",
                    "sqs:GetQueue*",
                    "sqs:ReceiveMessage",
                ],
                [spec.arn(service, f"hermesops-{spec.environment}-*") for service in ("sns", "sqs")],
            ),
            _allow(
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
                [*_own_buckets(spec), *_bucket(spec)],
            ),
            _allow(
                "Secrets",
                [
                    "secretsmanager:CreateSecret",
                    "secretsmanager:DeleteSecret",
                    "secretsmanager:DescribeSecret",
                    "secretsmanager:GetSecretValue",
                    "secretsmanager:PutSecretValue",
                    "secretsmanager:UpdateSecretVersionStage",
                ],
                _own_secrets(spec),
            ),
            _allow(
                "Keys",
                ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
                spec.arn("kms", "key/*"),
                Condition={"ForAnyValue:StringLike": {"kms:ResourceAliases": f"alias/hermesops-{spec.environment}-*"}},
            ),
            # Each instance's backups have a user of their own.
            _allow(
                "BackupUsers",
                [
                    "iam:CreateAccessKey",
                    "iam:DeleteAccessKey",
                    "iam:DeleteUser",
                    "iam:DeleteUserPolicy",
                    "iam:GetUser",
                    "iam:ListAccessKeys",
                    "iam:ListUserPolicies",
                ],
                users,
            ),
            _allow(
                "BoundedBackupUsers",
                ["iam:CreateUser", "iam:PutUserPolicy"],
                users,
                Condition=_is("iam:PermissionsBoundary", spec.policy_arn(spec.users_boundary)),
            ),
            *_keep(spec),
            # Hosts run cells, whose state is in the same bucket; the platform's own is not theirs.
            _deny("PlatformsStateIsThePipelines", ["s3:*"], Resource=f"{spec.bucket_arn}/*/platform/*"),
        ]
    )


def _users_boundary(spec: BootstrapSpec) -> Policy:
    """Permissions boundary of the backup users: objects of their bucket, and the key that encrypts it.

    Hosts make users and give them policies. Without a bound, a host that was taken over would make an administrator.
    """
    bucket = f"arn:{spec.partition}:s3:::hermesops-{spec.environment}-backups-{spec.account}"
    return _document(
        [
            _allow(
                "Objects",
                ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                f"{bucket}/{spec.environment}/*",
            ),
            _allow("Bucket", ["s3:ListBucket", "s3:GetBucketLocation"], bucket),
            # The key is made later, by the platform's program, and is known by its alias.
            _allow(
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


def _reading(spec: BootstrapSpec, key_arn: str) -> list[dict[str, Any]]:
    return [
        _allow(
            "ListState",
            ["s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:ListBucket", "s3:ListBucketVersions"],
            spec.bucket_arn,
        ),
        _allow("ReadState", ["s3:GetObject", "s3:GetObjectVersion"], f"{spec.bucket_arn}/*"),
        _allow("OpenState", ["kms:Decrypt", "kms:DescribeKey"], key_arn),
        _allow("LookAtPlatform", [f"{name}:{verb}" for name, verbs in _READING.items() for verb in verbs], "*"),
        _allow("LookAtBuckets", ["s3:Get*Configuration", "s3:GetBucket*", "s3:ListAllMyBuckets"], "*"),
        _allow("LookAtRoles", ["iam:Get*", "iam:List*"], "*"),
    ]


def _writing(spec: BootstrapSpec, key_arn: str) -> list[dict[str, Any]]:
    return [
        _allow("WriteState", ["s3:DeleteObject", "s3:PutObject"], f"{spec.bucket_arn}/*"),
        _allow("SealState", ["kms:Encrypt", "kms:GenerateDataKey*"], key_arn),
        _allow(
            "ChangePlatform",
            [f"{name}:*" for name in _READING if name not in _EVERYWHERE],
            "*",
            Condition=_is("aws:RequestedRegion", spec.region),
        ),
        _allow("ChangePlatformEverywhere", [f"{name}:*" for name in _EVERYWHERE], "*"),
        _allow("ChangeCertificates", ["acm:*"], "*", Condition=_is("aws:RequestedRegion", _CERTIFICATES)),
        _allow("ChangeBuckets", ["s3:*"], _own_buckets(spec)),
        *_making_roles(spec),
        *_keep(spec),
        _deny(
            "KeepKey",
            [
                "kms:CreateGrant",
                "kms:DeleteAlias",
                "kms:DisableKey*",
                "kms:PutKeyPolicy",
                "kms:ReplicateKey",
                "kms:ScheduleKeyDeletion",
                "kms:TagResource",
                "kms:UntagResource",
                "kms:UpdateAlias",
            ],
            Resource=[key_arn, spec.arn("kms", spec.alias)],
        ),
        *_keep_others(spec),
    ]


def _making_roles(spec: BootstrapSpec) -> list[dict[str, Any]]:
    account = f"arn:{spec.partition}:iam::{spec.account}"
    below = f"hermesops/{spec.environment}/*"
    return [
        _allow(
            "MakeBoundedRoles",
            ["iam:AttachRolePolicy", "iam:CreateRole", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"],
            f"{account}:role/{below}",
            Condition=_is("iam:PermissionsBoundary", spec.policy_arn(spec.boundary)),
        ),
        _allow(
            "ChangeRoles",
            [
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:DetachRolePolicy",
                "iam:TagRole",
                "iam:UntagRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
            ],
            f"{account}:role/{below}",
        ),
        _allow(
            "ChangeProfiles",
            [
                "iam:AddRoleToInstanceProfile",
                "iam:CreateInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:TagInstanceProfile",
                "iam:UntagInstanceProfile",
            ],
            f"{account}:instance-profile/{below}",
        ),
        _allow(
            "GiveRolesToServices",
            ["iam:PassRole"],
            f"{account}:role/{below}",
            Condition={"StringEquals": {"iam:PassedToService": [f"{name}.amazonaws.com" for name in _PASSED_TO]}},
        ),
        _allow("MakeServicesOwnRoles", ["iam:CreateServiceLinkedRole"], f"{account}:role/aws-service-role/*"),
    ]


def _keep(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Statements that protect the bootstrap's resources, and every permissions boundary, from the pipelines."""
    bounds = [spec.policy_arn(name) for name in (spec.boundary, spec.users_boundary)]
    return [
        _deny(
            "KeepBucket",
            [
                "s3:DeleteBucket*",
                "s3:DeleteObjectVersion",
                "s3:Put*Configuration",
                "s3:PutBucket*",
            ],
            Resource=_bucket(spec),
        ),
        {
            # By what is allowed: IAM's ways to change a role or a policy are many, and become more.
            "Sid": "KeepPipelines",
            "Effect": "Deny",
            "NotAction": ["iam:Get*", "iam:List*"],
            "Resource": [*(spec.role_arn(role) for role in PipelineRole), spec.provider_arn, *bounds],
        },
    ]


def _keep_others(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Protect other programs and secrets of the account: changing a program means acting with its role."""
    own = f"hermesops-{spec.environment}-*"
    tag = {"StringNotEquals": {"aws:ResourceTag/hermesops:environment": spec.environment}}
    machines = [spec.arn("ec2", f"{kind}/*") for kind in ("instance", "launch-template")]
    return [
        _deny(
            "KeepOthersFunctions",
            [f"lambda:{verb}*" for verb in ("Add", "Create", "Delete", "Invoke", "Publish", "Put", "Remove", "Update")],
            NotResource=[spec.arn("lambda", f"function:{own}")],
        ),
        _deny(
            "KeepOthersMachines",
            [
                "ec2:AssociateIamInstanceProfile",
                "ec2:CreateLaunchTemplateVersion",
                "ec2:CreateReplaceRootVolumeTask",
                "ec2:Modify*",
                "ec2:ReplaceIamInstanceProfileAssociation",
            ],
            Resource=machines,
            Condition=tag,
        ),
        _deny(
            # Else a tag would make them ours; what is being made has none yet.
            "KeepOthersTags",
            ["ec2:CreateTags"],
            Resource=machines,
            Condition={**tag, "Null": {"ec2:CreateAction": "true"}},
        ),
        _deny(
            "KeepOthersSecrets",
            [
                f"secretsmanager:{verb}*"
                for verb in ("Delete", "GetSecretValue", "Put", "Replicate", "Rotate", "Update")
            ],
            NotResource=_own_secrets(spec),
        ),
    ]
