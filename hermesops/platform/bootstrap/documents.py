"""IAM documents of a bootstrap: the bucket's policy, and trust and permissions of pipelines.

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
    "elasticloadbalancing": ("Describe*",),
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


def bucket_policy(spec: BootstrapSpec) -> Policy:
    """Nobody reaches the state's bucket without TLS, or by an old version of it."""
    where = {"Principal": "*", "Action": "s3:*", "Resource": state_bucket(spec)}
    old = {"NumericLessThan": {"s3:TlsVersion": "1.2"}}
    return document_of(
        [
            {"Sid": "HermesopsTlsOnly", "Effect": "Deny", **where, "Condition": equals("aws:SecureTransport", "false")},
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
    return document_of([statement])


def permissions(spec: BootstrapSpec, role: PipelineRole, key_arn: str) -> Policy:
    """The one policy of a pipeline's role."""
    statements = _reading(spec, key_arn)
    if role is PipelineRole.APPLY:
        statements += _writing(spec, key_arn)
    return document_of(statements)


def document_of(statements: list[dict[str, Any]]) -> Policy:
    """An IAM document of these statements."""
    return {"Version": VERSION, "Statement": statements}


def allow(sid: str, actions: list[str], resources: str | list[str], **more: object) -> dict[str, Any]:
    """A statement that allows actions on resources."""
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources, **more}


def deny(sid: str, actions: list[str], **more: object) -> dict[str, Any]:
    """A statement that denies actions; ``more`` has resources and conditions."""
    return {"Sid": sid, "Effect": "Deny", "Action": actions, **more}


def equals(key: str, value: str) -> dict[str, dict[str, str]]:
    """A condition that one key has one value."""
    return {"Bool" if value in {"true", "false"} else "StringEquals": {key: value}}


def state_bucket(spec: BootstrapSpec) -> list[str]:
    """ARNs of the state's bucket, and of its objects."""
    return [spec.bucket_arn, f"{spec.bucket_arn}/*"]


def own_buckets(spec: BootstrapSpec) -> list[str]:
    """ARNs of this environment's buckets, and of their objects."""
    names = f"arn:{spec.partition}:s3:::hermesops-{spec.environment}-*"
    return [names, f"{names}/*"]


def own_secrets(spec: BootstrapSpec) -> list[str]:
    """ARNs of this environment's secrets: those with our names, and those that RDS creates for its databases."""
    return [spec.arn("secretsmanager", f"secret:{name}") for name in (f"hermesops/{spec.environment}/*", "rds!*")]


def _reading(spec: BootstrapSpec, key_arn: str) -> list[dict[str, Any]]:
    return [
        allow(
            "ListState",
            ["s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:ListBucket", "s3:ListBucketVersions"],
            spec.bucket_arn,
        ),
        allow("ReadState", ["s3:GetObject", "s3:GetObjectVersion"], f"{spec.bucket_arn}/*"),
        allow("OpenState", ["kms:Decrypt", "kms:DescribeKey"], key_arn),
        allow("LookAtPlatform", [f"{name}:{verb}" for name, verbs in _READING.items() for verb in verbs], "*"),
        allow("LookAtBuckets", ["s3:Get*Configuration", "s3:GetBucket*", "s3:ListAllMyBuckets"], "*"),
        allow("LookAtRoles", ["iam:Get*", "iam:List*"], "*"),
    ]


def _writing(spec: BootstrapSpec, key_arn: str) -> list[dict[str, Any]]:
    return [
        allow("WriteState", ["s3:DeleteObject", "s3:PutObject"], f"{spec.bucket_arn}/*"),
        allow("SealState", ["kms:Encrypt", "kms:GenerateDataKey*"], key_arn),
        allow(
            "ChangePlatform",
            [f"{name}:*" for name in _READING if name not in _EVERYWHERE],
            "*",
            Condition=equals("aws:RequestedRegion", spec.region),
        ),
        allow("ChangePlatformEverywhere", [f"{name}:*" for name in _EVERYWHERE], "*"),
        allow("ChangeCertificates", ["acm:*"], "*", Condition=equals("aws:RequestedRegion", _CERTIFICATES)),
        allow("ChangeBuckets", ["s3:*"], own_buckets(spec)),
        *_making_roles(spec),
        *keep_bootstrap(spec),
        deny(
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
        *keep_others(spec),
    ]


def _making_roles(spec: BootstrapSpec) -> list[dict[str, Any]]:
    account = f"arn:{spec.partition}:iam::{spec.account}"
    below = f"hermesops/{spec.environment}/*"
    return [
        allow(
            "MakeBoundedRoles",
            ["iam:AttachRolePolicy", "iam:CreateRole", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"],
            f"{account}:role/{below}",
            Condition=equals("iam:PermissionsBoundary", spec.policy_arn(spec.boundary)),
        ),
        allow(
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
        allow(
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
        allow(
            "GiveRolesToServices",
            ["iam:PassRole"],
            f"{account}:role/{below}",
            Condition={"StringEquals": {"iam:PassedToService": [f"{name}.amazonaws.com" for name in _PASSED_TO]}},
        ),
        allow("MakeServicesOwnRoles", ["iam:CreateServiceLinkedRole"], f"{account}:role/aws-service-role/*"),
    ]


def keep_bootstrap(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Statements that protect the bootstrap's resources, and every permissions boundary, from the pipelines."""
    bounds = [spec.policy_arn(name) for name in (spec.boundary, spec.users_boundary)]
    return [
        deny(
            "KeepBucket",
            [
                "s3:DeleteBucket*",
                "s3:DeleteObjectVersion",
                "s3:Put*Configuration",
                "s3:PutBucket*",
            ],
            Resource=state_bucket(spec),
        ),
        {
            # By what is allowed: IAM's ways to change a role or a policy are many, and become more.
            "Sid": "KeepPipelines",
            "Effect": "Deny",
            "NotAction": ["iam:Get*", "iam:List*"],
            "Resource": [*(spec.role_arn(role) for role in PipelineRole), spec.provider_arn, *bounds],
        },
    ]


def keep_others(spec: BootstrapSpec) -> list[dict[str, Any]]:
    """Protect other programs and secrets of the account: changing a program means acting with its role."""
    own = f"hermesops-{spec.environment}-*"
    tag = {"StringNotEquals": {"aws:ResourceTag/hermesops:environment": spec.environment}}
    machines = [spec.arn("ec2", f"{kind}/*") for kind in ("instance", "launch-template")]
    return [
        deny(
            "KeepOthersFunctions",
            [f"lambda:{verb}*" for verb in ("Add", "Create", "Delete", "Invoke", "Publish", "Put", "Remove", "Update")],
            NotResource=[spec.arn("lambda", f"function:{own}")],
        ),
        deny(
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
        deny(
            # Else a tag would make them ours; what is being made has none yet.
            "KeepOthersTags",
            ["ec2:CreateTags"],
            Resource=machines,
            Condition={**tag, "Null": {"ec2:CreateAction": "true"}},
        ),
        deny(
            "KeepOthersSecrets",
            [
                f"secretsmanager:{verb}*"
                for verb in ("Delete", "GetSecretValue", "Put", "Replicate", "Rotate", "Update")
            ],
            NotResource=own_secrets(spec),
        ),
    ]
