"""A function of AWS Lambda, of one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.aws.iam import ServiceRole, ServiceRoleArgs, Statement, allow
from hermesops.infra.stacks.platform.spec import Place

_RUNTIME = "python3.13"


@dataclass(frozen=True)
class FunctionArgs:
    """A function.

    Attributes:
        source: Its Python, with ``handler(event, context)``.
        caller: Service that may call it, as ``cognito-idp.amazonaws.com``.
        caller_arn: The one thing of that service that may; None for any of this account.
        statements: What it may do beside writing its log.
        variables: Its environment.
        timeout_s: Seconds that a call may take.
        key_arn: Seals its environment.
        logs_key_arn: Seals its log.
        logs_days: Days for which its log is kept.
    """

    place: Place
    source: str
    caller: str
    caller_arn: Input[str] | None
    timeout_s: int
    key_arn: Input[str]
    logs_key_arn: Input[str]
    logs_days: int
    statements: Sequence[Statement] = ()
    variables: Mapping[str, Input[str]] = field(default_factory=dict)


class Function(pulumi.ComponentResource):
    """A function that one service may call.

    Attributes:
        arn: Of the function.
        function_name: Its name, for alarms.
        permission: What lets the caller in; whoever names the function waits for it.
    """

    arn: Output[str]
    function_name: str
    permission: aws.lambda_.Permission

    def __init__(self, name: str, args: FunctionArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Function", name, None, opts)
        place, children = args.place, ResourceOptions(parent=self)
        self.function_name = f"{place.prefix}-{name}"
        group = f"/aws/lambda/{self.function_name}"
        log = aws.cloudwatch.LogGroup(
            name,
            name=group,
            retention_in_days=args.logs_days,
            kms_key_id=args.logs_key_arn,
            tags=place.tags,
            opts=children,
        )
        write = allow(
            "WriteLog", ["logs:CreateLogStream", "logs:PutLogEvents"], [place.arn("logs", f"log-group:{group}:*")]
        )
        role = ServiceRole(name, ServiceRoleArgs(place, "lambda.amazonaws.com", (write, *args.statements)), children)
        function = aws.lambda_.Function(
            name,
            name=self.function_name,
            runtime=_RUNTIME,
            architectures=["arm64"],
            handler="index.handler",
            code=pulumi.AssetArchive({"index.py": pulumi.StringAsset(args.source)}),
            role=role.arn,
            timeout=args.timeout_s,
            environment={"variables": dict(args.variables)} if args.variables else None,
            kms_key_arn=args.key_arn,
            logging_config={"log_format": "JSON", "log_group": log.name},
            tags=place.tags,
            opts=children,
        )
        self.permission = aws.lambda_.Permission(
            name,
            function=function.name,
            action="lambda:InvokeFunction",
            principal=args.caller,
            source_account=place.account,
            source_arn=args.caller_arn,
            opts=children,
        )
        self.arn = function.arn
        self.register_outputs({"arn": self.arn})
