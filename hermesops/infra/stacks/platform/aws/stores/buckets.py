"""Buckets: closed to the public and to connections without TLS, sealed, with versions."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, ResourceOptions

from hermesops.infra.stacks.platform.aws.iam import Statement, backup_users, deny, document
from hermesops.infra.stacks.platform.spec import Place

_UNFINISHED_DAYS = 7
_NAMED_KEY = "s3:x-amz-server-side-encryption-aws-kms-key-id"


@dataclass(frozen=True)
class BucketArgs:
    """Parameters of a bucket.

    Attributes:
        purpose: As ``releases``; part of its name.
        key_arn: ARN of the key that encrypts its objects; ``None`` for S3's own, where a service writes with no other.
        kept_days: Days for which deleted and overwritten objects are kept.
        lock_days: Days for which a written object cannot be deleted by anybody; None for no lock.
        expires_days: Days after which each object is deleted; None for never.
        statements: Further statements of its policy.
    """

    place: Place
    purpose: str
    key_arn: Input[str] | None
    kept_days: int
    lock_days: int | None = None
    expires_days: int | None = None
    statements: Sequence[Statement] = ()


class Bucket(pulumi.ComponentResource):
    """A bucket, protected.

    Attributes:
        bucket: Its name.
        arn: Its ARN.
    """

    bucket: str
    arn: str

    def __init__(self, name: str, args: BucketArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Bucket", name, None, opts)
        self.bucket = args.place.bucket(args.purpose)
        self.arn = f"arn:aws:s3:::{self.bucket}"
        bucket = aws.s3.Bucket(
            name,
            bucket=self.bucket,
            object_lock_enabled=args.lock_days is not None,
            force_destroy=False,
            tags=args.place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True),
        )
        self._close(name, bucket, args)
        self._keep(name, bucket, args)
        self._seal(name, bucket, args)
        self.register_outputs({"bucket": bucket.bucket, "arn": bucket.arn})

    def _seal(self, name: str, bucket: aws.s3.Bucket, args: BucketArgs) -> None:
        sealing = aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
            sse_algorithm="AES256" if args.key_arn is None else "aws:kms", kms_master_key_id=args.key_arn
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=bucket.id,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    apply_server_side_encryption_by_default=sealing, bucket_key_enabled=args.key_arn is not None
                )
            ],
            opts=ResourceOptions(parent=self),
        )

    def _close(self, name: str, bucket: aws.s3.Bucket, args: BucketArgs) -> None:
        closed = aws.s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=ResourceOptions(parent=self),
        )
        aws.s3.BucketOwnershipControls(
            name,
            bucket=bucket.id,
            rule={"object_ownership": "BucketOwnerEnforced"},
            opts=ResourceOptions(parent=self),
        )
        aws.s3.BucketPolicy(
            name,
            bucket=bucket.id,
            policy=document([*self._always(args), *args.statements]),
            # Of two changes of a bucket at once, S3 refuses one.
            opts=ResourceOptions(parent=self, depends_on=[closed]),
        )

    def _always(self, args: BucketArgs) -> list[Statement]:
        everything = [self.arn, f"{self.arn}/*"]
        own_key = deny(
            "OwnKeyOnly",
            ["s3:PutObject"],
            [f"{self.arn}/*"],
            Principal="*",
            # Who names no key gets this one.
            Condition={"Null": {_NAMED_KEY: "false"}, "StringNotEquals": {_NAMED_KEY: args.key_arn}},
        )
        return [
            deny("TlsOnly", ["s3:*"], everything, Principal="*", Condition={"Bool": {"aws:SecureTransport": "false"}}),
            deny(
                "NewTlsOnly",
                ["s3:*"],
                everything,
                Principal="*",
                Condition={"NumericLessThan": {"s3:TlsVersion": "1.2"}},
            ),
            *([] if args.key_arn is None else [own_key]),
        ]

    def _keep(self, name: str, bucket: aws.s3.Bucket, args: BucketArgs) -> None:
        versions = aws.s3.BucketVersioning(
            name,
            bucket=bucket.id,
            versioning_configuration={"status": "Enabled"},
            opts=ResourceOptions(parent=self, protect=True),
        )
        aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=bucket.id,
            rules=[
                {
                    "id": "old-versions",
                    "status": "Enabled",
                    "filter": {"prefix": ""},
                    "noncurrent_version_expiration": {"noncurrent_days": args.kept_days},
                    # A rule with days removes markers of deleted objects as well.
                    "expiration": {"days": args.expires_days}
                    if args.expires_days
                    else {"expired_object_delete_marker": True},
                    "abort_incomplete_multipart_upload": {"days_after_initiation": _UNFINISHED_DAYS},
                }
            ],
            opts=ResourceOptions(parent=self, depends_on=[versions]),
        )
        if args.lock_days is not None:
            aws.s3.BucketObjectLockConfiguration(
                name,
                bucket=bucket.id,
                rule={"default_retention": {"mode": "GOVERNANCE", "days": args.lock_days}},
                opts=ResourceOptions(parent=self, protect=True, depends_on=[versions]),
            )


def only_adding(place: Place, bucket_arn: str) -> list[Statement]:
    """Return statements that let users of backups only read and add, whatever their own policies allow.

    They delete restic's locks, as ``agents.backup.repository.policy_of`` allows them, and nothing else; what they
    overwrite stays as a version.
    """
    by_machines = {"ArnLike": {"aws:PrincipalArn": backup_users(place)}}
    deleting = deny("MachinesDeleteLocksAlone", ["s3:DeleteObject"], [], Principal="*", Condition=by_machines)
    locks = [f"{bucket_arn}/{place.environment}/*/locks/*"]
    return [
        {**{key: value for key, value in deleting.items() if key != "Resource"}, "NotResource": locks},
        deny(
            "MachinesKeepVersions",
            [
                "s3:BypassGovernanceRetention",
                "s3:DeleteObjectVersion",
                "s3:PutBucketVersioning",
                "s3:PutLifecycleConfiguration",
                "s3:PutObjectRetention",
            ],
            [bucket_arn, f"{bucket_arn}/*"],
            Principal="*",
            Condition=by_machines,
        ),
    ]
