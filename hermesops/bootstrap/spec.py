"""What a bootstrap makes in an account, by name, and the policies that go with it. Pure.

Source: AWS's IAM reference, "Actions, resources, and condition keys" of S3, KMS and IAM; its guide "Create a role for
OpenID Connect federation"; GitHub's "Configuring OpenID Connect in Amazon Web Services" (claims ``aud`` and ``sub``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import Hint, UsageError
from hermesops.model.pipeline_subject import unreviewed_match

Policy = Mapping[str, Any]
"""An IAM document."""

VERSION = "2012-10-17"
OLD_VERSIONS_DAYS = 90
"""Days for which replaced versions of state are kept."""

UNFINISHED_DAYS = 7
DELETION_DAYS = 30
"""Days for which a key that undo deleted can still be restored."""

SESSION_S = 3600

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

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[^*?\[:]+:[^*?\[:]+:")
"""What a pattern of subjects begins with: of whom they are, as ``repo:OWNER/NAME:``."""


class PipelineRole(StrEnum):
    """What a pipeline's role may do. Both are main's: jobs of pull requests have no role."""

    PREVIEW = "preview"
    APPLY = "apply"


@dataclass(frozen=True)
class BootstrapSpec:
    """What is wanted.

    Attributes:
        account: 12 digits.
        issuer: URL of who signs pipelines' tokens.
        subjects: Patterns of claim ``sub``, by what those pipelines may do.
    """

    environment: str
    account: str
    region: str
    bucket: str
    issuer: str
    audience: str
    subjects: Mapping[PipelineRole, Sequence[str]]

    @property
    def partition(self) -> str:
        """The part of AWS that the region is in, as ARNs begin with it."""
        beginnings = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
        return next((name for prefix, name in beginnings.items() if self.region.startswith(prefix)), "aws")

    @property
    def alias(self) -> str:
        """The key's alias."""
        return f"alias/hermesops-{self.environment}-state"

    @property
    def tags(self) -> dict[str, str]:
        """What everything is tagged with, and found again by."""
        return {"hermesops:environment": self.environment, "hermesops:made-by": "platform-bootstrap"}

    @property
    def bucket_arn(self) -> str:
        """The bucket's ARN."""
        return f"arn:{self.partition}:s3:::{self.bucket}"

    @property
    def issuer_host(self) -> str:
        """The issuer as IAM names it: without its scheme."""
        return self.issuer.removeprefix("https://").rstrip("/")

    @property
    def provider_arn(self) -> str:
        """The ARN of the provider of identities."""
        return f"arn:{self.partition}:iam::{self.account}:oidc-provider/{self.issuer_host}"

    @property
    def boundary(self) -> str:
        """Name of the policy that bounds every role that the platform's program makes."""
        return f"hermesops-{self.environment}-boundary"

    @property
    def boundary_arn(self) -> str:
        """Its ARN."""
        return f"arn:{self.partition}:iam::{self.account}:policy/{self.boundary}"

    @property
    def users_boundary_arn(self) -> str:
        """ARN of the policy that bounds the users of backups; the platform's program makes it."""
        path = f"hermesops/{self.environment}/hermesops-{self.environment}-backup-user"
        return f"arn:{self.partition}:iam::{self.account}:policy/{path}"

    @property
    def backend_url(self) -> str:
        """What ``pulumi.backend`` is set to."""
        return f"s3://{self.bucket}?region={self.region}"

    def role(self, role: PipelineRole) -> str:
        """Name of a pipeline role."""
        return f"hermesops-{self.environment}-{role.value}"

    def role_arn(self, role: PipelineRole) -> str:
        """ARN of a pipeline role."""
        return f"arn:{self.partition}:iam::{self.account}:role/{self.role(role)}"

    def bucket_policy(self) -> Policy:
        """Nobody reaches the bucket without TLS, or by an old version of it."""
        where = {"Principal": "*", "Action": "s3:*", "Resource": [self.bucket_arn, f"{self.bucket_arn}/*"]}
        return {
            "Version": VERSION,
            "Statement": [
                {
                    "Sid": "HermesopsTlsOnly",
                    "Effect": "Deny",
                    **where,
                    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                },
                {
                    "Sid": "HermesopsNewTlsOnly",
                    "Effect": "Deny",
                    **where,
                    "Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}},
                },
            ],
        }

    def lifecycle(self) -> Mapping[str, Any]:
        """Replaced versions go after a while, and what was never finished uploading."""
        return {
            "ID": "hermesops-old-versions",
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "NoncurrentVersionExpiration": {"NoncurrentDays": OLD_VERSIONS_DAYS},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UNFINISHED_DAYS},
        }

    def trust(self, role: PipelineRole) -> Policy:
        """Who takes a role: pipelines of this issuer, by tokens for this audience, with these subjects."""
        return {
            "Version": VERSION,
            "Statement": [
                {
                    "Sid": "Pipelines",
                    "Effect": "Allow",
                    "Principal": {"Federated": self.provider_arn},
                    "Action": "sts:AssumeRoleWithWebIdentity",
                    "Condition": {
                        "StringEquals": {f"{self.issuer_host}:aud": self.audience},
                        "StringLike": {f"{self.issuer_host}:sub": list(self.subjects[role])},
                    },
                }
            ],
        }

    def permissions(self, role: PipelineRole, key_arn: str) -> Policy:
        """What a role may do."""
        statements = self._reading(key_arn)
        if role is PipelineRole.APPLY:
            statements += self._writing(key_arn)
        return {"Version": VERSION, "Statement": statements}

    def boundary_policy(self) -> Policy:
        """What roles of the platform's hosts can have at most, whatever policies they are given."""
        users = f"arn:{self.partition}:iam::{self.account}:user/hermesops-{self.environment}-*"
        services = ("cloudwatch", "ec2messages", "logs", "s3", "secretsmanager", "sns", "sqs", "ssm", "ssmmessages")
        return {
            "Version": VERSION,
            "Statement": [
                {
                    "Sid": "Platform",
                    "Effect": "Allow",
                    "Action": [
                        *(f"{name}:*" for name in services),
                        "autoscaling:CompleteLifecycleAction",
                        "autoscaling:Describe*",
                        "autoscaling:RecordLifecycleActionHeartbeat",
                        "ec2:AssociateAddress",
                        "ec2:Describe*",
                        "elasticache:DescribeUsers",
                        "elasticache:ModifyUser",
                        "kms:Decrypt",
                        "kms:DescribeKey",
                        "kms:Encrypt",
                        "kms:GenerateDataKey*",
                        "kms:ReEncrypt*",
                        "lambda:InvokeFunction",
                        "rds-db:connect",
                        "rds:Describe*",
                    ],
                    "Resource": "*",
                },
                {
                    # Each instance's backups have a user of their own.
                    "Sid": "BackupUsers",
                    "Effect": "Allow",
                    "Action": [
                        "iam:CreateAccessKey",
                        "iam:DeleteAccessKey",
                        "iam:DeleteUser",
                        "iam:DeleteUserPolicy",
                        "iam:GetUser",
                        "iam:ListAccessKeys",
                        "iam:ListUserPolicies",
                        "iam:TagUser",
                    ],
                    "Resource": users,
                },
                {
                    "Sid": "BoundedBackupUsers",
                    "Effect": "Allow",
                    "Action": ["iam:CreateUser", "iam:PutUserPolicy"],
                    "Resource": users,
                    "Condition": {"StringEquals": {"iam:PermissionsBoundary": self.users_boundary_arn}},
                },
                *self._keep(),
                {
                    # Hosts run cells, whose state is in the same bucket; the platform's own is not theirs.
                    "Sid": "PlatformsStateIsThePipelines",
                    "Effect": "Deny",
                    "Action": "s3:*",
                    "Resource": f"{self.bucket_arn}/*/platform/*",
                },
            ],
        }

    def _reading(self, key_arn: str) -> list[dict[str, Any]]:
        return [
            {
                "Sid": "ListState",
                "Effect": "Allow",
                "Action": ["s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:ListBucket", "s3:ListBucketVersions"],
                "Resource": self.bucket_arn,
            },
            {
                "Sid": "ReadState",
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:GetObjectVersion"],
                "Resource": f"{self.bucket_arn}/*",
            },
            {
                "Sid": "OpenState",
                "Effect": "Allow",
                "Action": ["kms:Decrypt", "kms:DescribeKey"],
                "Resource": key_arn,
            },
            {
                "Sid": "LookAtPlatform",
                "Effect": "Allow",
                "Action": [f"{name}:{verb}" for name, verbs in _READING.items() for verb in verbs],
                "Resource": "*",
            },
            {
                "Sid": "LookAtBuckets",
                "Effect": "Allow",
                "Action": ["s3:Get*Configuration", "s3:GetBucket*", "s3:ListAllMyBuckets"],
                "Resource": "*",
            },
            {"Sid": "LookAtRoles", "Effect": "Allow", "Action": ["iam:Get*", "iam:List*"], "Resource": "*"},
        ]

    def _writing(self, key_arn: str) -> list[dict[str, Any]]:
        made = f"arn:{self.partition}:iam::{self.account}"
        below = f"hermesops/{self.environment}/*"
        return [
            {
                "Sid": "WriteState",
                "Effect": "Allow",
                "Action": ["s3:DeleteObject", "s3:PutObject"],
                "Resource": f"{self.bucket_arn}/*",
            },
            {
                "Sid": "SealState",
                "Effect": "Allow",
                "Action": ["kms:Encrypt", "kms:GenerateDataKey*"],
                "Resource": key_arn,
            },
            {
                "Sid": "ChangePlatform",
                "Effect": "Allow",
                "Action": [f"{name}:*" for name in _READING if name not in _EVERYWHERE],
                "Resource": "*",
                "Condition": {"StringEquals": {"aws:RequestedRegion": self.region}},
            },
            {
                "Sid": "ChangePlatformEverywhere",
                "Effect": "Allow",
                "Action": [f"{name}:*" for name in _EVERYWHERE],
                "Resource": "*",
            },
            {
                "Sid": "ChangeCertificates",
                "Effect": "Allow",
                "Action": "acm:*",
                "Resource": "*",
                "Condition": {"StringEquals": {"aws:RequestedRegion": _CERTIFICATES}},
            },
            {
                "Sid": "ChangeBuckets",
                "Effect": "Allow",
                "Action": "s3:*",
                "Resource": [
                    f"arn:{self.partition}:s3:::hermesops-{self.environment}-*",
                    f"arn:{self.partition}:s3:::hermesops-{self.environment}-*/*",
                ],
            },
            {
                "Sid": "MakeBoundedRoles",
                "Effect": "Allow",
                "Action": [
                    "iam:AttachRolePolicy",
                    "iam:CreateRole",
                    "iam:PutRolePermissionsBoundary",
                    "iam:PutRolePolicy",
                ],
                "Resource": f"{made}:role/{below}",
                "Condition": {"StringEquals": {"iam:PermissionsBoundary": self.boundary_arn}},
            },
            {
                "Sid": "ChangeRoles",
                "Effect": "Allow",
                "Action": [
                    "iam:DeleteRole",
                    "iam:DeleteRolePolicy",
                    "iam:DetachRolePolicy",
                    "iam:TagRole",
                    "iam:UntagRole",
                    "iam:UpdateAssumeRolePolicy",
                    "iam:UpdateRole",
                ],
                "Resource": f"{made}:role/{below}",
            },
            {
                "Sid": "ChangePoliciesAndProfiles",
                "Effect": "Allow",
                "Action": [
                    f"iam:{verb}{noun}"
                    for noun in ("InstanceProfile", "Policy")
                    for verb in ("Create", "Delete", "Tag", "Untag")
                ]
                + [
                    "iam:AddRoleToInstanceProfile",
                    "iam:CreatePolicyVersion",
                    "iam:DeletePolicyVersion",
                    "iam:RemoveRoleFromInstanceProfile",
                    "iam:SetDefaultPolicyVersion",
                ],
                "Resource": [f"{made}:instance-profile/{below}", f"{made}:policy/{below}"],
            },
            {
                "Sid": "GiveRolesToServices",
                "Effect": "Allow",
                "Action": "iam:PassRole",
                "Resource": f"{made}:role/{below}",
                "Condition": {
                    "StringEquals": {"iam:PassedToService": [f"{name}.amazonaws.com" for name in _PASSED_TO]}
                },
            },
            {
                "Sid": "MakeServicesOwnRoles",
                "Effect": "Allow",
                "Action": "iam:CreateServiceLinkedRole",
                "Resource": f"{made}:role/aws-service-role/*",
            },
            *self._keep(),
            {
                "Sid": "KeepKey",
                "Effect": "Deny",
                "Action": [
                    "kms:CreateGrant",
                    "kms:DeleteAlias",
                    "kms:DisableKey*",
                    "kms:PutKeyPolicy",
                    "kms:ScheduleKeyDeletion",
                    "kms:UpdateAlias",
                ],
                "Resource": [key_arn, f"arn:{self.partition}:kms:{self.region}:{self.account}:{self.alias}"],
            },
        ]

    def _keep(self) -> list[dict[str, Any]]:
        """What bootstrap made, bootstrap alone changes, and nobody takes his own bounds away."""
        return [
            {
                "Sid": "KeepBucket",
                "Effect": "Deny",
                "Action": [
                    "s3:DeleteBucket*",
                    "s3:DeleteObjectVersion",
                    "s3:PutBucket*",
                    "s3:PutEncryptionConfiguration",
                    "s3:PutLifecycleConfiguration",
                ],
                "Resource": [self.bucket_arn, f"{self.bucket_arn}/*"],
            },
            {
                "Sid": "KeepPipelines",
                "Effect": "Deny",
                "Action": [
                    "iam:Add*",
                    "iam:Attach*",
                    "iam:Create*Version",
                    "iam:Delete*",
                    "iam:Detach*",
                    "iam:Put*",
                    "iam:Remove*",
                    "iam:Set*",
                    "iam:Tag*",
                    "iam:Untag*",
                    "iam:Update*",
                ],
                "Resource": [*(self.role_arn(role) for role in PipelineRole), self.provider_arn, self.boundary_arn],
            },
        ]


def bucket_of(environment: str, account: str) -> str:
    """Name of the bucket where the settings name none."""
    return f"hermesops-{environment}-state-{account}".replace("_", "-")


def check(spec: BootstrapSpec) -> None:
    """Refuse what AWS would refuse half-way, and what would let anybody in.

    Raises:
        UsageError: A setting is missing, is not what it has to be, or lets other people's pipelines in.
    """
    settings = Hint(("settings", "show"), ": oidc.issuer, oidc.audience, oidc.subjects, oidc.preview_subjects")
    parts = urlsplit(spec.issuer)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(
            f"oidc.issuer {spec.issuer!r} is no https URL: who signs the pipelines' tokens?", hint=settings
        )
    if not spec.audience:
        raise UsageError("oidc.audience is not set: for whom are the pipelines' tokens made out?", hint=settings)
    if not _BUCKET_NAME.fullmatch(spec.bucket) or ".." in spec.bucket:
        raise UsageError(
            f"no bucket can be called {spec.bucket!r}", hint=Hint(("settings", "show"), ": pulumi.backend")
        )
    for role, name in ((PipelineRole.APPLY, "oidc.subjects"), (PipelineRole.PREVIEW, "oidc.preview_subjects")):
        if not spec.subjects[role]:
            raise UsageError(f"{name} is not set: which pipelines may {role.value}?", hint=settings)
        for pattern in spec.subjects[role]:
            _check_subjects(name, pattern)


def _check_subjects(name: str, pattern: str) -> None:
    if not _PREFIX.match(pattern):
        raise UsageError(
            f"{name}: {pattern!r} lets other people's pipelines in",
            hint="begin it with whose they are, as in repo:OWNER/NAME:environment:production",
        )
    if "[" in pattern:
        raise UsageError(f"{name}: IAM knows no [ ] in {pattern!r}", hint="spell the subjects out, with * and ?")
    # The role that only reads, too: it reads all of the state, and its job has the keys of everything else that reads.
    if subject := unreviewed_match(pattern):
        raise UsageError(
            f"{name}: {pattern!r} lets code in that nobody reviewed, as {subject}",
            hint="name an environment that is for main alone, as in repo:OWNER/NAME:environment:production",
        )
