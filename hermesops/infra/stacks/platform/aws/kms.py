"""A KMS key for one purpose."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.iam import Statement, allow, document
from hermesops.infra.stacks.platform.spec import Place

DELETION_DAYS = 30
ROTATION_DAYS = 365


@dataclass(frozen=True)
class KeyArgs:
    """Parameters of a KMS key.

    Attributes:
        purpose: Encrypted data, as ``database``; part of its alias.
        services: Services, as ``rds``, through which their authorized users may use the key.
        context: Encryption context that the services must send, as the ARN of the encrypted bucket.
        statements: Further statements of its policy.
    """

    place: Place
    purpose: str
    services: Sequence[str] = ()
    context: tuple[str, str] | None = None
    statements: Sequence[Statement] = ()


class Key(pulumi.ComponentResource):
    """A key that rotates each year, protected: data encrypted with a deleted key is lost.

    Attributes:
        arn: ARN of the key.
        key_id: KMS's id of the key.
    """

    arn: Output[str]
    key_id: Output[str]

    def __init__(self, name: str, args: KeyArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Key", name, None, opts)
        place = args.place
        key = aws.kms.Key(
            name,
            description=f"hermesops {place.environment}: {args.purpose}",
            enable_key_rotation=True,
            rotation_period_in_days=ROTATION_DAYS,
            deletion_window_in_days=DELETION_DAYS,
            policy=document([_account(place), *_through_services(args), *args.statements]),
            tags=place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True),
        )
        aws.kms.Alias(
            name,
            name=f"alias/{place.prefix}-{args.purpose}",
            target_key_id=key.key_id,
            opts=ResourceOptions(parent=self),
        )
        self.arn, self.key_id = key.arn, key.key_id
        self.register_outputs({"arn": self.arn, "key_id": self.key_id})


def _account(place: Place) -> Statement:
    """Return the statement that lets IAM policies of the account decide; without it nobody could change the key.

    Source: KMS developer guide, "Default key policy".
    """
    return allow("Account", ["kms:*"], ["*"], Principal={"AWS": f"arn:aws:iam::{place.account}:root"})


def _through_services(args: KeyArgs) -> list[Statement]:
    """As AWS's own keys: whoever of the account may use the service, and through it alone.

    Source: KMS developer guide, "kms:ViaService"; the policies of ``aws/ebs`` and ``aws/rds``.
    """
    if not args.services:
        return []
    place = args.place
    equals = {
        "kms:CallerAccount": place.account,
        "kms:ViaService": [f"{service}.{place.region}.amazonaws.com" for service in args.services],
    }
    if args.context:
        equals[f"kms:EncryptionContext:{args.context[0]}"] = args.context[1]
    use = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    everybody = {"Principal": {"AWS": "*"}}
    statements = [allow("ThroughServices", use, ["*"], **everybody, Condition={"StringEquals": equals})]
    if not args.context:  # S3 alone has one, and takes no grants
        granted = {"StringEquals": equals, "Bool": {"kms:GrantIsForAWSResource": "true"}}
        statements.append(allow("GrantsOfServices", ["kms:CreateGrant"], ["*"], **everybody, Condition=granted))
    return statements


def by_service(sid: str, service: str, place: Place, condition_key: str = "aws:SourceAccount") -> Statement:
    """A statement with which a service itself, not its caller, uses a key for this account."""
    return allow(
        sid,
        ["kms:Decrypt", "kms:GenerateDataKey*"],
        ["*"],
        Principal={"Service": service},
        Condition={"StringEquals": {condition_key: place.account}},
    )


def by_logs(place: Place) -> Statement:
    """The statement with which CloudWatch keeps logs of this account sealed.

    Source: CloudWatch Logs user guide, "Encrypt log data in CloudWatch Logs using AWS KMS".
    """
    return allow(
        "Logs",
        ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
        ["*"],
        Principal={"Service": f"logs.{place.region}.amazonaws.com"},
        Condition={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": place.arn("logs", "log-group:*")}},
    )
