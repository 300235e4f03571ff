"""Predicted answers of AWS to the platform's program, enough to run the program without an account.

They are the same for each environment, so that only differences of programs and settings show.
"""

from collections.abc import Mapping
from typing import Any

from pulumi.runtime import mocks

from hermesops.infra.stacks import dry_run

_AT = "eu-central-1:111122223333"

_ARNS: Mapping[str, str] = {
    "aws:acm/certificate:Certificate": "arn:aws:acm:us-east-1:111122223333:certificate/{name}",
    "aws:cloudwatch/logGroup:LogGroup": "arn:aws:logs:{at}:log-group:{inputs[name]}",
    "aws:ec2/eip:Eip": "arn:aws:ec2:{at}:elastic-ip/eipalloc-0123456789abcdef0",
    "aws:elasticache/user:User": "arn:aws:elasticache:{at}:user:{inputs[userId]}",
    "aws:iam/instanceProfile:InstanceProfile": "arn:aws:iam::111122223333:instance-profile{inputs[path]}{inputs[name]}",
    "aws:iam/policy:Policy": "arn:aws:iam::111122223333:policy{inputs[path]}{inputs[name]}",
    "aws:iam/role:Role": "arn:aws:iam::111122223333:role{inputs[path]}{name}",
    "aws:kms/key:Key": "arn:aws:kms:{at}:key/{name}",
    "aws:lb/listener:Listener": "arn:aws:elasticloadbalancing:{at}:listener/app/{name}/0123456789/0123456789",
    "aws:lb/loadBalancer:LoadBalancer": "arn:aws:elasticloadbalancing:{at}:loadbalancer/app/{inputs[name]}/0123456789",
    "aws:lb/targetGroup:TargetGroup": "arn:aws:elasticloadbalancing:{at}:targetgroup/{inputs[name]}/0123456789",
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
    "aws:lb/loadBalancer:LoadBalancer": {
        "arnSuffix": "app/{inputs[name]}/0123456789",
        "dnsName": "{inputs[name]}.eu-central-1.elb.amazonaws.com",
        "zoneId": "Z215JYRZR1TBD5",
    },
    "aws:lb/targetGroup:TargetGroup": {"arnSuffix": "targetgroup/{inputs[name]}/0123456789"},
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
    "aws:cognito/userPool:UserPool": "eu-central-1_Of{name}",
    "aws:s3/bucket:Bucket": "{inputs[bucket]}",
}


class AwsAnswers(dry_run.Answers):
    """Answers with ids and ARNs as AWS forms them."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        """The id and the outputs of a resource."""
        known = {"name": args.name, "at": _AT, "inputs": args.inputs}
        answers = {
            key: value.format(**known) if isinstance(value, str) else value
            for key, value in _ANSWERS.get(args.typ, {}).items()
        }
        arn = _ARNS.get(args.typ, "arn:aws:none:{at}:{name}").format(**known)
        outputs = {"name": args.name, "keyId": f"{args.name}-id", **args.inputs, "arn": arn, **answers}
        return _IDS.get(args.typ, "{name}-id").format(**known), outputs
