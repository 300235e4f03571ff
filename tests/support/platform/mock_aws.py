"""An engine that makes nothing: it notes what a program of the platform registers, and answers as AWS would."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.proto import resource_pb2

from hermesops.stacks.platform import policies
from hermesops.stacks.platform.policies import Registered
from hermesops.stacks.platform.spec import PROJECT, Place

PLACE = Place("staging", "111122223333", "eu-central-1", "hermesops-staging-state")
_AT = "eu-central-1:111122223333"
_KEY = "8a1b2c3d-0000-4000-8000-00000000000"

_ARNS: Mapping[str, str] = {
    "aws:acm/certificate:Certificate": "arn:aws:acm:us-east-1:111122223333:certificate/{name}",
    "aws:cloudwatch/logGroup:LogGroup": "arn:aws:logs:{at}:log-group:{inputs[name]}",
    "aws:ec2/eip:Eip": "arn:aws:ec2:{at}:elastic-ip/eipalloc-0123456789abcdef0",
    "aws:elasticache/user:User": "arn:aws:elasticache:{at}:user:{inputs[userId]}",
    "aws:iam/instanceProfile:InstanceProfile": "arn:aws:iam::111122223333:instance-profile{inputs[path]}{inputs[name]}",
    "aws:iam/policy:Policy": "arn:aws:iam::111122223333:policy{inputs[path]}{inputs[name]}",
    "aws:iam/role:Role": "arn:aws:iam::111122223333:role{inputs[path]}{name}",
    "aws:kms/key:Key": "arn:aws:kms:{at}:key/{name}",
    "aws:lambda/function:Function": "arn:aws:lambda:{at}:function:{inputs[name]}",
    "aws:s3/bucket:Bucket": "arn:aws:s3:::{inputs[bucket]}",
    "aws:secretsmanager/secret:Secret": "arn:aws:secretsmanager:{at}:secret:{inputs[name]}-AbCdEf",
    "aws:sns/topic:Topic": "arn:aws:sns:{at}:{inputs[name]}",
    "aws:sqs/queue:Queue": "arn:aws:sqs:{at}:{inputs[name]}",
}

_ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "aws:acm/certificate:Certificate": {
        "domainValidationOptions": [
            {
                "domainName": "auth.example",
                "resourceRecordName": "_proof.auth.example",
                "resourceRecordType": "CNAME",
                "resourceRecordValue": "_proof.acm-validations.aws",
            }
        ]
    },
    "aws:cognito/userPoolDomain:UserPoolDomain": {"cloudfrontDistribution": "d111111abcdef8.cloudfront.net"},
    "aws:ec2/eip:Eip": {"allocationId": "eipalloc-0123456789abcdef0", "publicIp": "203.0.113.10"},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:elasticache/replicationGroup:ReplicationGroup": {"primaryEndpointAddress": "redis.cache.internal"},
    "aws:rds/instance:Instance": {
        "address": "postgresql.rds.internal",
        "port": 5432,
        "resourceId": "db-ABCDEFGHIJKL01234",
        "masterUserSecrets": [
            {
                "kmsKeyId": "key",
                "secretArn": "arn:aws:secretsmanager:eu-central-1:111122223333:secret:rds!db-1-AbCdEf",
                "secretStatus": "active",
            }
        ],
    },
    "aws:route53/record:Record": {"fqdn": "record.example"},
    "aws:route53/zone:Zone": {"zoneId": "Z0123456789", "nameServers": ["ns-1.awsdns-1.org", "ns-2.awsdns-2.com"]},
    "aws:sqs/queue:Queue": {"url": "https://sqs.eu-central-1.amazonaws.com/111122223333/{name}"},
}

_IDS: Mapping[str, str] = {
    "aws:cognito/userPool:UserPool": "eu-central-1_AbCdEfGhI",
    "aws:s3/bucket:Bucket": "{inputs[bucket]}",
}


class _Aws(mocks.Mocks):
    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        known = {"name": args.name, "at": _AT, "inputs": args.inputs}
        answers = {
            key: value.format(**known) if isinstance(value, str) else value
            for key, value in _ANSWERS.get(args.typ, {}).items()
        }
        arn = _ARNS.get(args.typ, "arn:aws:none:{at}:{name}").format(**known)
        made = {"name": args.name, "keyId": f"{args.name}-id", **args.inputs, "arn": arn, **answers}
        return _IDS.get(args.typ, "{name}-id").format(**known), made

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        raise AssertionError(f"the program asked for {args.token}: a preview would need AWS to know what it registers")


class Monitor(mocks.MockMonitor):
    """Notes every request."""

    def __init__(self) -> None:
        super().__init__(_Aws())
        self.asked: list[resource_pb2.RegisterResourceRequest] = []

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:  # noqa: ANN401, N802 - as in the SDK
        if request.type != "pulumi:pulumi:Stack":
            self.asked.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK's is untyped

    def registered(self) -> list[Registered]:
        """What was asked for so far, by type and name."""
        made = [
            Registered(
                type=request.type,
                name=request.name,
                parent="::".join(request.parent.split("::")[2:]),
                inputs=_plain(rpc.deserialize_properties(request.object)),
                protect=request.protect,
                retain=request.retainOnDelete,
            )
            for request in self.asked
        ]
        return sorted(made, key=lambda one: (one.type, one.name))


@dataclass
class Run:
    """What a program registered and exported."""

    place: Place
    resources: Sequence[Registered]
    exports: Mapping[str, object] = field(default_factory=dict)

    @property
    def judged(self) -> policies.Program:
        """As policies take it."""
        return policies.Program(self.place, self.resources)

    def one(self, kind: str, name: str = "") -> Registered:
        """The one resource of a kind, and name where one is given."""
        (found,) = [one for one in self.judged.of(kind) if name in {"", one.name}]
        return found


@contextmanager
def mocked(place: Place = PLACE) -> Iterator[Monitor]:
    """Mocks on an event loop of their own: the SDK takes the thread's, and tests before this may have taken it away."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    monitor = Monitor()
    mocks.set_mocks(_Aws(), project=PROJECT, stack=place.environment, monitor=monitor)
    try:
        yield monitor
    finally:
        loop.close()
        asyncio.set_event_loop_policy(before)  # and with it the loop that was current


def run(program: Callable[[], None], place: Place = PLACE) -> Run:
    """Run a program to its end."""
    exported: dict[str, object] = {}
    export = pulumi.export

    def note(name: str, value: object) -> None:
        pulumi.Output.from_input(value).apply(lambda known: exported.__setitem__(name, known))

    with mocked(place) as monitor:
        pulumi.export = note
        try:
            pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK's is untyped
        finally:
            pulumi.export = export
        return Run(place, monitor.registered(), exported)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Assets as their text, secrets in the clear, whole numbers as such, everything else as it is."""
    if rpc.is_rpc_secret(value):
        return _plain(rpc.unwrap_rpc_secret(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, pulumi.StringAsset):
        return {"text": value.text}
    if isinstance(value, pulumi.AssetArchive):
        return _plain(value.assets)
    return int(value) if isinstance(value, float) and value.is_integer() else value
