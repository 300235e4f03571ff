"""Secrets in Secrets Manager: one that people fill, and one that a function changes by itself."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.functions.component import Function, FunctionArgs
from hermesops.infra.stacks.platform.aws.iam import allow
from hermesops.infra.stacks.platform.spec import Place

RECOVERY_DAYS = 30
_STEP_LIMIT_S = 180


@dataclass(frozen=True)
class SecretArgs:
    """Parameters of a secret; an operator sets its value later.

    Attributes:
        purpose: As ``host``; part of its name.
        description: Content of the secret, for the operator who sets it.
        key_arn: ARN of the key that encrypts it.
    """

    place: Place
    purpose: str
    description: str
    key_arn: Input[str]


class Secret(pulumi.ComponentResource):
    """A secret, protected; its value is never in Pulumi's state.

    Attributes:
        arn: Of the secret.
    """

    arn: Output[str]

    def __init__(self, name: str, args: SecretArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Secret", name, None, opts)
        self.arn = _secret(self, name, args).arn
        self.register_outputs({"arn": self.arn})


@dataclass(frozen=True)
class RedisSecretArgs:
    """The password of Redis.

    Attributes:
        secret: Where it is kept.
        user_id: Of the user at ElastiCache.
        user_arn: Of the user.
        source: Python of the function that changes it.
        rotation_days: Days after which it changes.
        logs_key_arn: Seals the function's log.
        logs_days: Days for which that log is kept.
    """

    secret: SecretArgs
    user_id: str
    user_arn: Input[str]
    source: str
    rotation_days: int
    logs_key_arn: Input[str]
    logs_days: int


class RedisSecret(pulumi.ComponentResource):
    """A secret with ``username`` and ``password``, given its first password as soon as it is there.

    Attributes:
        arn: Of the secret.
        function_name: Of the function that changes it, for alarms.
    """

    arn: Output[str]
    function_name: str

    def __init__(self, name: str, args: RedisSecretArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:RedisSecret", name, None, opts)
        place, children = args.secret.place, ResourceOptions(parent=self)
        secret = _secret(self, name, args.secret)
        # Secrets Manager rotates only what has a value.
        first = aws.secretsmanager.SecretVersion(
            name,
            secret_id=secret.id,
            secret_string=f'{{"username": "{args.user_id}", "password": ""}}',
            opts=ResourceOptions(parent=self, ignore_changes=["secretString", "versionStages"]),
        )
        function = Function(
            f"{name}-rotation",
            FunctionArgs(
                place,
                source=args.source,
                caller="secretsmanager.amazonaws.com",
                caller_arn=secret.arn,
                timeout_s=_STEP_LIMIT_S,
                key_arn=args.secret.key_arn,
                logs_key_arn=args.logs_key_arn,
                logs_days=args.logs_days,
                statements=(
                    allow(
                        "ChangeSecret",
                        [
                            "secretsmanager:DescribeSecret",
                            "secretsmanager:GetSecretValue",
                            "secretsmanager:PutSecretValue",
                            "secretsmanager:UpdateSecretVersionStage",
                        ],
                        [secret.arn],
                    ),
                    allow("MakePassword", ["secretsmanager:GetRandomPassword"], ["*"]),
                    allow("ChangeUser", ["elasticache:DescribeUsers", "elasticache:ModifyUser"], [args.user_arn]),
                    allow("OpenSecret", ["kms:Decrypt", "kms:GenerateDataKey"], [args.secret.key_arn]),
                ),
                variables={"USER_ID": args.user_id},
            ),
            children,
        )
        aws.secretsmanager.SecretRotation(
            name,
            secret_id=secret.id,
            rotation_lambda_arn=function.arn,
            rotation_rules={"automatically_after_days": args.rotation_days},
            rotate_immediately=True,
            opts=ResourceOptions(parent=self, depends_on=[first, function.permission]),
        )
        self.arn, self.function_name = secret.arn, function.function_name
        self.register_outputs({"arn": self.arn})


def _secret(parent: pulumi.Resource, name: str, args: SecretArgs) -> aws.secretsmanager.Secret:
    return aws.secretsmanager.Secret(
        name,
        name=f"hermesops/{args.place.environment}/platform/{args.purpose}",
        description=args.description,
        kms_key_id=args.key_arn,
        recovery_window_in_days=RECOVERY_DAYS,
        tags=args.place.tags,
        opts=ResourceOptions(parent=parent, protect=True, retain_on_delete=True),
    )
