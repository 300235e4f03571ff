"""Policies hold of every committed platform, and each notices what it is for."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from hermesops.infra.stacks.platform import balancer_policies, policies
from hermesops.infra.stacks.platform.iam_statements import documents_of
from hermesops.infra.stacks.platform.policies import CHECKS, violations
from hermesops.infra.stacks.platform.policy_check import Check, Program
from hermesops.infra.stacks.registered import Registered
from tests.support.platform.environments import ENVIRONMENTS, run_of
from tests.support.suite.cases import each_case

Broken = Callable[[Program], Program]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_policies_hold_of_every_committed_platform(environment: str) -> None:
    assert violations(run_of(environment).judged) == []


def _changed(kind: str, name: str = "", **changes: object) -> Broken:
    """The program with other properties of a kind's resources, or of the one of a name; None takes one away."""

    def change(resource: Registered) -> Registered:
        if resource.kind != kind or name not in {"", resource.name}:
            return resource
        inputs = {key: value for key, value in {**resource.inputs, **changes}.items() if value is not None}
        return replace(resource, inputs=inputs)

    return partial(_each, change)


def _each(change: Callable[[Registered], Registered], program: Program) -> Program:
    return replace(program, resources=[change(resource) for resource in program.resources])


def _without(kind: str) -> Broken:
    return lambda program: replace(
        program, resources=[resource for resource in program.resources if resource.kind != kind]
    )


def _with(kind: str, **inputs: object) -> Broken:
    module, name = kind.split(".")
    added = Registered(f"aws:{module}/{name}:{name}", "added", "", inputs, protect=False, retain=False)
    return lambda program: replace(program, resources=[*program.resources, added])


def _unprotected(resource: Registered) -> Registered:
    return replace(resource, protect=False) if resource.kind in policies.HOLDS_DATA else resource


def _forwarding(resource: Registered) -> Registered:
    """The rule that refuses the console to others passes them on."""
    if resource.name != "console-refused":
        return resource
    return replace(resource, inputs={**resource.inputs, "actions": [{"type": "forward", "targetGroupArn": "door"}]})


def _rewritten(kind: str, change: Callable[[dict[str, Any]], object]) -> Broken:
    """The program with another policy of each resource of a kind."""

    def rewrite(resource: Registered) -> Registered:
        if resource.kind != kind:
            return resource
        document = json.loads(resource.inputs["policy"])
        for statement in document["Statement"]:
            change(statement)
        return replace(resource, inputs={**resource.inputs, "policy": json.dumps(document)})

    return partial(_each, rewrite)


def _in_clear(kind: str) -> Broken:
    return _rewritten(kind, lambda statement: statement.pop("Condition", None))


_A_DISK = {"ebs": {"encrypted": "false", "kmsKeyId": "key"}}
_MACHINES = [{"resourceType": "instance", "tags": {}}]

BREAKS: Mapping[tuple[str, str], Broken] = {
    ("sealed", "has no key of ours (kmsKeyId)"): _changed("rds.Instance", kmsKeyId=None),
    ("sealed", "has no key of ours (kmsMasterKeyId)"): _changed("sns.Topic", kmsMasterKeyId=None),
    ("sealed", "has no key of ours (kmsKeyArn)"): _changed("lambda.Function", kmsKeyArn=None),
    ("sealed", "is stored in the clear"): _changed("rds.Instance", storageEncrypted=False),
    ("sealed", "stores performance data without a key of ours"): _changed(
        "rds.Instance", performanceInsightsKmsKeyId=None
    ),
    ("sealed", "has a password without a key of ours"): _changed("rds.Instance", masterUserSecretKmsKeyId=None),
    ("sealed", "is not sealed by a key of ours"): _without("s3.BucketServerSideEncryptionConfiguration"),
    ("sealed", "has a disk that is not sealed by a key of ours"): _changed(
        "ec2.LaunchTemplate", blockDeviceMappings=[_A_DISK]
    ),
    ("sealed", "does not rotate"): _changed("kms.Key", enableKeyRotation=False),
    ("closed", "has a public address"): _changed("rds.Instance", publiclyAccessible=True),
    ("closed", "gives every machine a public address"): _changed("ec2.Subnet", mapPublicIpOnLaunch=True),
    ("closed", "lets the internet in"): _changed(
        "vpc.SecurityGroupIngressRule", "postgresql-from-hosts", cidrIpv4="0.0.0.0/0"
    ),
    ("closed", "opens the door beside the load balancer"): _changed(
        "vpc.SecurityGroupIngressRule", "hosts-from-balancer", referencedSecurityGroupId="postgresql-id"
    ),
    ("closed", "has a name that no rule closes to others"): partial(_each, _forwarding),
    ("closed", "lets every network through, which no setting says"): _changed(
        "lb.ListenerRule", "console-from-networks-1", conditions=[{"hostHeader": {"values": ["console.example"]}}]
    ),
    ("known users", "lets operators in without a second factor"): _changed(
        "cognito.UserPool", "operators", mfaConfiguration="OPTIONAL"
    ),
    ("known users", "lets people make themselves operators"): _changed(
        "cognito.UserPool", "operators", adminCreateUserConfig={"allowAdminCreateUserOnly": False}
    ),
    ("known users", "has no style, without which no page is shown"): _without("cognito.ManagedLoginBranding"),
    ("closed", "has rules that are not resources, which no policy sees"): _changed(
        "ec2.SecurityGroup", ingress=[{"cidrBlocks": ["0.0.0.0/0"]}]
    ),
    ("closed", "can be made public"): _changed("s3.BucketPublicAccessBlock", restrictPublicBuckets=False),
    ("closed", "lets anybody in"): _rewritten("s3.BucketPolicy", lambda statement: statement.update(Effect="Allow")),
    ("tagged", "lacks tags of the environment"): _changed("rds.Instance", tags={"Name": "hermesops"}),
    ("tagged", "makes machines without tags of the environment"): _changed(
        "ec2.LaunchTemplate", tagSpecifications=_MACHINES
    ),
    ("backed up", "cannot be restored far enough back"): _changed("rds.Instance", backupRetentionPeriod=6),
    ("backed up", "leaves no snapshot when it is deleted"): _changed("rds.Instance", skipFinalSnapshot=True),
    ("backed up", "leaves no named snapshot when it is deleted"): _changed(
        "rds.Instance", finalSnapshotIdentifier=None
    ),
    ("backed up", "deletes its backups with itself"): _changed("rds.Instance", deleteAutomatedBackups=None),
    ("backed up", "has no standby in another zone"): _changed("rds.Instance", multiAz=False),
    ("backed up", "keeps no snapshot"): _changed("elasticache.ReplicationGroup", snapshotRetentionLimit=0),
    ("backed up", "has no replica in another zone"): _changed("elasticache.ReplicationGroup", multiAzEnabled=False),
    ("backed up", "keeps no versions"): _changed(
        "s3.BucketVersioning", versioningConfiguration={"status": "Suspended"}
    ),
    ("backed up", "has no object lock"): _without("s3.BucketObjectLockConfiguration"),
    ("protected", "is not protected and retained"): partial(_each, _unprotected),
    ("protected", "can be deleted at AWS"): _changed("rds.Instance", deletionProtection=False),
    ("TLS only", "takes requests in the clear"): _in_clear("s3.BucketPolicy"),
    ("TLS only", "takes TLS older than 1.3"): _changed("lb.Listener", sslPolicy="ELBSecurityPolicy-TLS13-1-2-2021-06"),
    ("TLS only", "passes requests on in the clear"): _changed("lb.TargetGroup", protocol="HTTP"),
    ("known users", "lets clients say from which address they come"): _changed(
        "lb.LoadBalancer", xffHeaderProcessingMode="preserve"
    ),
    ("known users", "passes malformed headers on"): _changed("lb.LoadBalancer", dropInvalidHeaderFields=False),
    ("judged", "keeps no access log"): _changed("lb.LoadBalancer", accessLogs={"bucket": "b", "enabled": False}),
    ("protected", "is deleted with all that is in it"): _changed("s3.Bucket", forceDestroy=True),
    ("protected", "is purged within a month of its deletion"): _changed("kms.Key", deletionWindowInDays=7),
    ("least rights", "is not below the environment's path and within its boundary"): _changed(
        "iam.Role", "hosts", permissionsBoundary=None
    ),
    ("least rights", "has policies that are not resources, which no policy sees"): _changed(
        "iam.Role", managedPolicyArns=["arn:aws:iam::aws:policy/AdministratorAccess"]
    ),
    ("least rights", "has more than a service's own policy"): _changed(
        "iam.RolePolicyAttachment", policyArn="arn:aws:iam::aws:policy/AdministratorAccess"
    ),
    ("least rights", "has a wildcard without a listed reason"): _rewritten(
        "iam.RolePolicy", lambda statement: statement.update(Resource=["*"])
    ),
    ("TLS only", "takes connections in the clear"): _changed("rds.ParameterGroup", parameters=[]),
    ("TLS only", "has no TLS"): _changed("elasticache.ReplicationGroup", transitEncryptionEnabled=False),
    ("known users", "accepts clients without a user"): _changed("elasticache.ReplicationGroup", userGroupIds=None),
    ("known users", "needs no password"): _changed("elasticache.User", "redis-default", accessString="on ~* +@all"),
    ("known users", "exposes its role to server-side request forgery"): _changed(
        "ec2.LaunchTemplate", metadataOptions={"httpTokens": "optional", "httpPutResponseHopLimit": 1}
    ),
    ("known users", "takes an SSH key that nobody rotates"): _changed("ec2.LaunchTemplate", keyName="operators"),
    ("known users", "has refresh tokens that work twice"): _changed(
        "cognito.UserPoolClient", refreshTokenRotation=None
    ),
    ("known users", "returns tokens in URLs"): _changed("cognito.UserPoolClient", allowedOauthFlows=["implicit"]),
    ("rotated", "is never changed"): _without("secretsmanager.SecretRotation"),
    ("rotated", "has a password that RDS does not manage"): _changed("rds.Instance", manageMasterUserPassword=None),
    ("rotated", "has a password that is never changed"): _without("secretsmanager.SecretRotation"),
    ("judged", "is kept for ever"): _changed("cloudwatch.LogGroup", retentionInDays=None),
    ("judged", "is of a kind that no check knows: add it to KINDS"): _with("sagemaker.Endpoint"),
}
"""How each check is broken; those that say the same of other kinds are broken for one of them here."""

OTHER_KINDS: Mapping[tuple[str, str, str], Broken] = {
    ("sealed", "elasticache.ReplicationGroup", "has no key of ours (kmsKeyId)"): _changed(
        "elasticache.ReplicationGroup", kmsKeyId=None
    ),
    ("sealed", "cloudwatch.LogGroup", "has no key of ours (kmsKeyId)"): _changed("cloudwatch.LogGroup", kmsKeyId=None),
    ("sealed", "secretsmanager.Secret", "has no key of ours (kmsKeyId)"): _changed(
        "secretsmanager.Secret", kmsKeyId=None
    ),
    ("sealed", "sqs.Queue", "has no key of ours (kmsMasterKeyId)"): _changed("sqs.Queue", kmsMasterKeyId=None),
    ("sealed", "elasticache.ReplicationGroup", "is stored in the clear"): _changed(
        "elasticache.ReplicationGroup", atRestEncryptionEnabled=False
    ),
    ("tagged", "autoscaling.Group", "lacks tags of the environment"): _changed("autoscaling.Group", tags=[]),
    ("protected", "lb.LoadBalancer", "can be deleted at AWS"): _changed(
        "lb.LoadBalancer", enableDeletionProtection=None
    ),
    ("TLS only", "lb.Listener", "takes requests in the clear"): _changed("lb.Listener", protocol="HTTP"),
    ("judged", "s3.Bucket", "is kept for ever"): _changed(
        "s3.BucketLifecycleConfiguration", "access-logs", rules=[{"status": "Enabled", "expiration": {}}]
    ),
    ("protected", "cognito.UserPool", "can be deleted at AWS"): _changed(
        "cognito.UserPool", deletionProtection="INACTIVE"
    ),
    ("protected", "secretsmanager.Secret", "is purged within a month of its deletion"): _changed(
        "secretsmanager.Secret", recoveryWindowInDays=0
    ),
    ("TLS only", "elasticache.ReplicationGroup", "takes connections in the clear"): _changed(
        "elasticache.ReplicationGroup", transitEncryptionMode="preferred"
    ),
    ("TLS only", "sns.Topic", "takes requests in the clear"): _in_clear("sns.TopicPolicy"),
    ("TLS only", "sqs.Queue", "takes requests in the clear"): _in_clear("sqs.QueuePolicy"),
}


def _told(check: Check) -> str:
    return f"{check.policy}: {check.kinds[0] if check.kinds else 'all'} {check.what}"


@each_case("check", CHECKS, ids=_told)
def test_each_check_notices_what_it_is_for(check: Check) -> None:
    kind = check.kinds[0] if check.kinds else ""
    broken = OTHER_KINDS.get((check.policy, kind, check.what)) or BREAKS[check.policy, check.what]

    violated = violations(broken(run_of("production").judged))

    noticed = [
        violation
        for violation in violated
        if violation.policy == check.policy and violation.what.startswith(check.what)
    ]
    assert [violation for violation in noticed if not check.kinds or violation.resource.split()[0] in check.kinds]


def test_a_kind_of_two_environments_may_differ_where_only_production_has_to_hold() -> None:
    """Staging has neither a standby nor replicas, and holds."""
    staging = run_of("staging").judged

    assert [resource.inputs["multiAz"] for resource in staging.of("rds.Instance")] == [False]
    assert violations(staging) == []


def test_every_wildcard_that_is_allowed_is_used() -> None:
    """A reason that outlives its statement would let the next one in."""
    used = {
        (resource.kind, statement["Sid"])
        for environment in ENVIRONMENTS
        for resource in run_of(environment).resources
        if resource.type.startswith("aws:")
        for document in documents_of(resource)
        for statement in document["Statement"]
    }
    names = {resource.name for resource in run_of("staging").judged.of("secretsmanager.Secret")}

    assert set(policies.WILDCARDS) <= used
    assert set(policies.CHANGED_BY_PEOPLE) <= names
    assert set(policies.SEALED_BY_AMAZON) <= {bucket.name for bucket in run_of("staging").judged.of("s3.Bucket")}


def test_what_has_no_tags_is_of_kinds_that_have_none_at_aws() -> None:
    kinds = {
        resource.kind: resource.type
        for environment in ENVIRONMENTS
        for resource in run_of(environment).resources
        if resource.type.startswith("aws:")
    }
    with_tags = {kind for kind in kinds if "tags" in inspect.signature(_class_of(kind)._internal_init).parameters}

    assert with_tags & set(policies.UNTAGGED) == {"autoscaling.Group"}
    assert set(policies.UNTAGGED) <= set(kinds)


def _class_of(kind: str) -> Any:  # noqa: ANN401 - classes of the provider have no common base that says what they take
    import pulumi_aws  # noqa: PLC0415 - takes seconds, whichever tests run

    module, name = kind.split(".")
    return getattr(getattr(pulumi_aws, {"lambda": "lambda_"}.get(module, module)), name)


def test_open_ports_are_those_that_policies_allow() -> None:
    from hermesops.infra.stacks.platform.aws import network  # noqa: PLC0415 - imports pulumi_aws, as above

    assert {"hosts": set(network.OPEN_PORTS), "balancer": {network.HTTPS}} == policies.OPEN_TO_ALL
    assert balancer_policies.DOOR == network.DOOR


@each_case(
    "broken",
    [
        _changed("lb.ListenerRule", "console-refused", priority=1),
        _changed("lb.ListenerRule", "console-refused", conditions=[{"pathPattern": {"values": ["/none"]}}]),
        _without("lb.ListenerRule"),
    ],
    ids=["before others", "of a path", "gone"],
)
def test_a_rule_that_refuses_only_some_closes_no_name(broken: Broken) -> None:
    program = _changed("lb.ListenerRule", "console-from-networks-1", priority=2)(run_of("staging").judged)

    assert "has a name that no rule closes to others" in {violation.what for violation in violations(broken(program))}


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0"])
def test_every_network_in_a_rule_of_another_name_is_noticed(network: str) -> None:
    conditions = [{"hostHeader": {"values": ["x"]}}, {"sourceIp": {"values": ["203.0.113.0/24", network]}}]
    program = _changed("lb.ListenerRule", "console-from-networks-1", conditions=conditions)(run_of("staging").judged)

    assert "lets every network through, which no setting says" in {violation.what for violation in violations(program)}


@pytest.mark.parametrize(
    ("port", "group"), [(22, "hosts-id"), (443, "hosts-id"), (8449, "hosts-id"), (80, "balancer-id"), (5432, "x")]
)
def test_no_other_port_of_any_group_is_open_to_the_internet(port: int, group: str) -> None:
    rule = {"cidrIpv4": "0.0.0.0/0", "fromPort": port, "toPort": port, "securityGroupId": group}
    program = _with("vpc.SecurityGroupIngressRule", **rule)(run_of("staging").judged)

    assert f"lets the internet in: ports {port} to {port}" in {violation.what for violation in violations(program)}
