"""Policies of the platform on AWS: rules for the resources that its program registers.

Pure: a test or a pipeline runs the program against an engine that only records registrations, and passes them to
``violations``. Property names are those of the provider's schema (``kmsKeyId``).
"""

from collections.abc import Callable, Mapping

from hermesops.infra.stacks.platform.balancer_policies import CHECKS_OF_BALANCER
from hermesops.infra.stacks.platform.iam_statements import (
    allowed_statements,
    is_wide,
    names_anybody,
    refuses_clear,
    stays_in_account,
    texts_of,
)
from hermesops.infra.stacks.platform.policy_check import Check, Program, Violation, group_of, has, is_not, lacks
from hermesops.infra.stacks.registered import Registered

SEALED_BY: Mapping[str, str] = {
    "rds.Instance": "kmsKeyId",
    "elasticache.ReplicationGroup": "kmsKeyId",
    "cloudwatch.LogGroup": "kmsKeyId",
    "secretsmanager.Secret": "kmsKeyId",
    "sns.Topic": "kmsMasterKeyId",
    "sqs.Queue": "kmsMasterKeyId",
    "lambda.Function": "kmsKeyArn",
}
"""The property that names the key of what holds something."""

HOLDS_DATA = frozenset(
    {
        "cognito.UserPool",
        "elasticache.ReplicationGroup",
        "kms.Key",
        "rds.Instance",
        "route53.Zone",
        "s3.Bucket",
        "secretsmanager.Secret",
    }
)
"""What cannot be made again once it is gone."""

UNTAGGED: Mapping[str, str] = {
    "autoscaling.Group": "has a list of tags of its own, judged apart",
    "cognito.ManagedLoginBranding": "AWS has no tags for it",
    "cognito.UserGroup": "AWS has no tags for it",
    "cognito.UserPoolClient": "AWS has no tags for it",
    "cognito.UserPoolDomain": "AWS has no tags for it",
    "acm.CertificateValidation": "is nothing at AWS",
    "ec2.Route": "AWS has no tags for it",
    "ec2.RouteTableAssociation": "AWS has no tags for it",
    "iam.RolePolicy": "AWS has no tags for it",
    "iam.RolePolicyAttachment": "AWS has no tags for it",
    "kms.Alias": "AWS has no tags for it",
    "lambda.Permission": "AWS has no tags for it",
    "lb.ListenerCertificate": "is a part of its listener",
    "route53.Record": "AWS has no tags for it",
    "s3.BucketLifecycleConfiguration": "is a part of its bucket",
    "s3.BucketObjectLockConfiguration": "is a part of its bucket",
    "s3.BucketOwnershipControls": "is a part of its bucket",
    "s3.BucketPolicy": "is a part of its bucket",
    "s3.BucketPublicAccessBlock": "is a part of its bucket",
    "s3.BucketServerSideEncryptionConfiguration": "is a part of its bucket",
    "s3.BucketVersioning": "is a part of its bucket",
    "secretsmanager.SecretRotation": "is a part of its secret",
    "secretsmanager.SecretVersion": "is a part of its secret",
    "sns.TopicPolicy": "is a part of its topic",
    "sns.TopicSubscription": "AWS has no tags for it",
    "sqs.QueuePolicy": "is a part of its queue",
}
"""Kinds without tags, and why."""

WILDCARDS: Mapping[tuple[str, str], str] = {
    ("kms.Key", "Account"): "hands the key to the account's IAM policies; Amazon's default, or it could never change",
    ("kms.Key", "ThroughServices"): "a key's policy speaks of that key alone, and the condition of one account",
    ("kms.Key", "GrantsOfServices"): "as ThroughServices",
    ("kms.Key", "Logs"): "a key's policy speaks of that key alone",
    ("kms.Key", "Cloudwatch"): "as Logs",
    ("kms.Key", "Budgets"): "as Logs",
    ("kms.Key", "Sns"): "as Logs",
    ("ec2.VpcEndpoint", "OwnBuckets"): "an endpoint's policy gives nothing, and the condition keeps other accounts out",
    ("ec2.VpcEndpoint", "OwnAccount"): "as OwnBuckets",
    ("iam.RolePolicy", "SessionManager"): "AWS knows no resources for these actions",
    ("iam.RolePolicy", "ListSecrets"): "AWS knows no resources for this action; it shows names, not values",
    ("iam.RolePolicy", "MakePassword"): "AWS knows no resources for this action; it gives random letters",
    ("iam.RolePolicy", "SealState"): "the key is another program's, known by its alias alone; the condition names that",
    ("iam.RolePolicy", "TakeAddress"): "a machine's id is not known before it is there; the condition names the tag",
}
"""Statements that may say ``*`` where others must not, by kind and ``Sid``, and why."""

CHANGED_BY_PEOPLE: Mapping[str, str] = {
    "host-secret": "certificates and providers' keys, which operations of hermesops and people change",
}
"""Secrets that no function rotates, and why."""

OPEN_TO_ALL: Mapping[str, frozenset[int]] = {"hosts": frozenset({8443, 8444, 8446}), "balancer": frozenset({443})}
"""Ports that the internet reaches, by security group.

Users' machines are at another vendor, and each of the hosts' ports authenticates its clients. The load balancer passes
browsers and agents on to the hosts' door.
"""

SEALED_BY_AMAZON: Mapping[str, str] = {
    "access-logs": "load balancers write with S3's own key and no other (AWS's guide, 'Enable access logs')",
}
"""Buckets without a key of ours, and why."""

KINDS = frozenset(
    {
        *SEALED_BY,
        *HOLDS_DATA,
        *UNTAGGED,
        "acm.Certificate",
        "budgets.Budget",
        "cloudwatch.MetricAlarm",
        "ec2.DefaultSecurityGroup",
        "ec2.Eip",
        "ec2.FlowLog",
        "ec2.InternetGateway",
        "ec2.LaunchTemplate",
        "ec2.RouteTable",
        "ec2.SecurityGroup",
        "ec2.Subnet",
        "ec2.Vpc",
        "ec2.VpcEndpoint",
        "elasticache.SubnetGroup",
        "lb.Listener",
        "lb.ListenerRule",
        "lb.LoadBalancer",
        "lb.TargetGroup",
        "elasticache.User",
        "elasticache.UserGroup",
        "iam.InstanceProfile",
        "iam.Role",
        "rds.ParameterGroup",
        "rds.SubnetGroup",
        "vpc.SecurityGroupEgressRule",
        "vpc.SecurityGroupIngressRule",
    }
)
"""Kinds that were thought about when these policies were written."""


_LEAST_BACKUP_DAYS, _LEAST_BACKUP_DAYS_PRODUCTION = 7, 30
_LEAST_RECOVERY_DAYS = 30
_TAGGED_WITH_MACHINES = ("instance", "network-interface", "volume")
_PUBLIC_ACCESS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_ALL = ()


def violations(program: Program) -> list[Violation]:
    """Return all violations, in the order of ``CHECKS``."""
    violations_found = []
    for check in CHECKS:
        for resource in program.of(*check.kinds) if check.kinds else program.of_aws():
            wrong = check.wrong(program, resource)
            if wrong:
                message = f"{check.what}: {wrong}" if isinstance(wrong, str) else check.what
                violations_found.append(Violation(check.policy, f"{resource.kind} {resource.name}", message))
    return violations_found


def _less(key: str, least: int) -> Callable[[Program, Registered], bool]:
    return lambda _, resource: resource.inputs.get(key, 0) < least


def _in_production(wrong: Callable[[Program, Registered], bool]) -> Callable[[Program, Registered], bool]:
    return lambda program, resource: program.is_production and wrong(program, resource)


def _alone(kind: str) -> Callable[[Program, Registered], bool]:
    """Make a check that the component has no resource of that kind."""
    return lambda program, resource: program.beside(resource, kind) is None


def _bucket_in_clear(program: Program, resource: Registered) -> bool:
    sealing = program.beside(resource, "s3.BucketServerSideEncryptionConfiguration")
    rule = sealing.inputs["rules"][0]["applyServerSideEncryptionByDefault"] if sealing else {}
    if resource.name in SEALED_BY_AMAZON:
        return rule.get("sseAlgorithm") != "AES256"
    return rule.get("sseAlgorithm") != "aws:kms" or not rule.get("kmsMasterKeyId")


def _disk_in_clear(_: Program, resource: Registered) -> bool:
    disks = [disk["ebs"] for disk in resource.inputs.get("blockDeviceMappings", [])]
    return not disks or not all(disk.get("encrypted") == "true" and disk.get("kmsKeyId") for disk in disks)


def _lets_internet_in(_: Program, resource: Registered) -> str:
    source = f"{resource.inputs.get('cidrIpv4', '')}{resource.inputs.get('cidrIpv6', '')}"
    first, last = resource.inputs.get("fromPort", 0), resource.inputs.get("toPort", 65535)
    ports = range(int(first), int(last) + 1)
    is_open = OPEN_TO_ALL.get(group_of(resource), frozenset()).issuperset(ports)
    return f"ports {first} to {last}" if source.endswith("/0") and not is_open else ""


def _bucket_open(program: Program, resource: Registered) -> bool:
    block = program.beside(resource, "s3.BucketPublicAccessBlock")
    return block is None or not all(block.inputs.get(kind) for kind in _PUBLIC_ACCESS)


def _lets_anybody(_: Program, resource: Registered) -> str:
    return ", ".join(
        statement["Sid"]
        for statement in allowed_statements(resource)
        if names_anybody(statement.get("Principal")) and not stays_in_account(statement)
    )


def _untagged(program: Program, resource: Registered) -> bool:
    return resource.kind not in UNTAGGED and not _has_tags(program, resource.inputs.get("tags"))


def _group_untagged(program: Program, resource: Registered) -> bool:
    return not _has_tags(program, {tag["key"]: tag["value"] for tag in resource.inputs.get("tags", [])})


def _machines_untagged(program: Program, resource: Registered) -> bool:
    tagged = {tags["resourceType"]: tags["tags"] for tags in resource.inputs.get("tagSpecifications", [])}
    return not all(_has_tags(program, tagged.get(kind)) for kind in _TAGGED_WITH_MACHINES)


def _has_tags(program: Program, tags: Mapping[str, str] | None) -> bool:
    return program.place.tags.items() <= dict(tags or {}).items()


def _few_backups(program: Program, resource: Registered) -> str:
    least = _LEAST_BACKUP_DAYS_PRODUCTION if program.is_production else _LEAST_BACKUP_DAYS
    return f"{least} days" if resource.inputs.get("backupRetentionPeriod", 0) < least else ""


def _without_versions(program: Program, resource: Registered) -> bool:
    versions = program.beside(resource, "s3.BucketVersioning")
    return versions is None or versions.inputs["versioningConfiguration"].get("status") != "Enabled"


def _without_lock(program: Program, resource: Registered) -> bool:
    locked = resource.inputs.get("objectLockEnabled") and program.beside(resource, "s3.BucketObjectLockConfiguration")
    return resource.name == "backups" and not locked


def _unbounded(program: Program, resource: Registered) -> bool:
    place = program.place
    return (resource.inputs.get("path"), resource.inputs.get("permissionsBoundary")) != (place.path, place.boundary)


def _says_everything(_: Program, resource: Registered) -> str:
    statements = []
    for statement in allowed_statements(resource):
        if (resource.kind, statement["Sid"]) in WILDCARDS:
            continue
        wide = [word for word in texts_of(statement.get("Action")) if "*" in word]
        wide += [arn for arn in texts_of(statement.get("Resource")) if is_wide(arn)]
        wide += [key for key in ("NotAction", "NotResource", "NotPrincipal") if key in statement]
        if wide:
            statements.append(f"{statement['Sid']} says {', '.join(wide)}")
    return "; ".join(statements)


def _clear_database(program: Program, resource: Registered) -> bool:
    parameters = program.beside(resource, "rds.ParameterGroup")
    forced = {"name": "rds.force_ssl", "value": "1"}
    known = parameters is not None and forced in parameters.inputs.get("parameters", [])
    return not known or not resource.inputs.get("parameterGroupName")


def _clear_policy(kind: str) -> Callable[[Program, Registered], bool]:
    """Make a check that no policy of that kind and name refuses requests in the clear."""
    return lambda program, resource: (
        not any(refuses_clear(other) for other in program.of(kind) if other.name == resource.name)
    )


def _open_user(_: Program, resource: Registered) -> bool:
    kind = (resource.inputs.get("authenticationMode") or {}).get("type")
    return kind == "no-password-required" and not str(resource.inputs.get("accessString")).startswith("off ")


def _old_metadata(_: Program, resource: Registered) -> bool:
    options = resource.inputs.get("metadataOptions") or {}
    return options.get("httpTokens") != "required" or options.get("httpPutResponseHopLimit") != 1


def _refreshed_twice(_: Program, resource: Registered) -> bool:
    rotates = (resource.inputs.get("refreshTokenRotation") or {}).get("feature") == "ENABLED"
    return not rotates or not resource.inputs.get("enableTokenRevocation")


def _never_changed(program: Program, resource: Registered) -> bool:
    return resource.name not in CHANGED_BY_PEOPLE and program.beside(resource, "secretsmanager.SecretRotation") is None


def _more_than_a_services(_: Program, resource: Registered) -> str:
    arn = str(resource.inputs.get("policyArn"))
    return "" if arn.startswith("arn:aws:iam::aws:policy/service-role/") else arn


_DATABASE, _NODES, _BUCKET, _TEMPLATE = (
    "rds.Instance",
    "elasticache.ReplicationGroup",
    "s3.Bucket",
    "ec2.LaunchTemplate",
)

CHECKS = (
    *(Check("sealed", (kind,), f"has no key of ours ({key})", lacks(key)) for kind, key in SEALED_BY.items()),
    Check("sealed", (_DATABASE,), "is stored in the clear", lacks("storageEncrypted")),
    Check(
        "sealed", (_DATABASE,), "stores performance data without a key of ours", lacks("performanceInsightsKmsKeyId")
    ),
    Check("sealed", (_DATABASE,), "has a password without a key of ours", lacks("masterUserSecretKmsKeyId")),
    Check("sealed", (_NODES,), "is stored in the clear", lacks("atRestEncryptionEnabled")),
    Check("sealed", (_BUCKET,), "is not sealed by a key of ours", _bucket_in_clear),
    Check("sealed", (_TEMPLATE,), "has a disk that is not sealed by a key of ours", _disk_in_clear),
    Check("sealed", ("kms.Key",), "does not rotate", lacks("enableKeyRotation")),
    Check("closed", (_DATABASE,), "has a public address", is_not("publiclyAccessible", value=False)),
    Check("closed", ("ec2.Subnet",), "gives every machine a public address", has("mapPublicIpOnLaunch")),
    Check("closed", ("vpc.SecurityGroupIngressRule",), "lets the internet in", _lets_internet_in),
    Check(
        "closed",
        ("ec2.SecurityGroup", "ec2.DefaultSecurityGroup"),
        "has rules that are not resources, which no policy sees",
        has("ingress", "egress"),
    ),
    Check("closed", (_BUCKET,), "can be made public", _bucket_open),
    Check("closed", _ALL, "lets anybody in", _lets_anybody),
    Check("tagged", _ALL, "lacks tags of the environment", _untagged),
    Check("tagged", ("autoscaling.Group",), "lacks tags of the environment", _group_untagged),
    Check("tagged", (_TEMPLATE,), "makes machines without tags of the environment", _machines_untagged),
    Check("backed up", (_DATABASE,), "cannot be restored far enough back", _few_backups),
    Check("backed up", (_DATABASE,), "leaves no snapshot when it is deleted", has("skipFinalSnapshot")),
    Check("backed up", (_DATABASE,), "leaves no named snapshot when it is deleted", lacks("finalSnapshotIdentifier")),
    Check("backed up", (_DATABASE,), "deletes its backups with itself", is_not("deleteAutomatedBackups", value=False)),
    Check("backed up", (_DATABASE,), "has no standby in another zone", _in_production(lacks("multiAz"))),
    Check("backed up", (_NODES,), "keeps no snapshot", _less("snapshotRetentionLimit", 1)),
    Check("backed up", (_NODES,), "has no replica in another zone", _in_production(lacks("multiAzEnabled"))),
    Check("backed up", (_BUCKET,), "keeps no versions", _without_versions),
    Check("backed up", (_BUCKET,), "has no object lock", _without_lock),
    Check(
        "protected",
        tuple(sorted(HOLDS_DATA)),
        "is not protected and retained",
        lambda _, resource: not (resource.protect and resource.retain),
    ),
    Check("protected", (_DATABASE,), "can be deleted at AWS", lacks("deletionProtection")),
    Check("protected", ("cognito.UserPool",), "can be deleted at AWS", is_not("deletionProtection", "ACTIVE")),
    Check("protected", (_BUCKET, "route53.Zone"), "is deleted with all that is in it", has("forceDestroy")),
    Check(
        "protected",
        ("secretsmanager.Secret",),
        "is purged within a month of its deletion",
        _less("recoveryWindowInDays", _LEAST_RECOVERY_DAYS),
    ),
    Check(
        "protected",
        ("kms.Key",),
        "is purged within a month of its deletion",
        _less("deletionWindowInDays", _LEAST_RECOVERY_DAYS),
    ),
    Check("least rights", ("iam.Role",), "is not below the environment's path and within its boundary", _unbounded),
    Check(
        "least rights",
        ("iam.Role",),
        "has policies that are not resources, which no policy sees",
        has("inlinePolicies", "managedPolicyArns"),
    ),
    Check("least rights", ("iam.RolePolicyAttachment",), "has more than a service's own policy", _more_than_a_services),
    Check("least rights", _ALL, "has a wildcard without a listed reason", _says_everything),
    Check("TLS only", (_DATABASE,), "takes connections in the clear", _clear_database),
    Check("TLS only", (_NODES,), "takes connections in the clear", is_not("transitEncryptionMode", "required")),
    Check("TLS only", (_NODES,), "has no TLS", lacks("transitEncryptionEnabled")),
    Check("TLS only", (_BUCKET,), "takes requests in the clear", _clear_policy("s3.BucketPolicy")),
    Check("TLS only", ("sns.Topic",), "takes requests in the clear", _clear_policy("sns.TopicPolicy")),
    Check("TLS only", ("sqs.Queue",), "takes requests in the clear", _clear_policy("sqs.QueuePolicy")),
    Check("known users", (_NODES,), "accepts clients without a user", lacks("userGroupIds")),
    Check("known users", ("elasticache.User",), "needs no password", _open_user),
    Check("known users", (_TEMPLATE,), "exposes its role to server-side request forgery", _old_metadata),
    Check("known users", (_TEMPLATE,), "takes an SSH key that nobody rotates", has("keyName")),
    Check("known users", ("cognito.UserPoolClient",), "has refresh tokens that work twice", _refreshed_twice),
    Check(
        "known users",
        ("cognito.UserPoolClient",),
        "returns tokens in URLs",
        is_not("allowedOauthFlows", ["code"]),
    ),
    Check("rotated", ("secretsmanager.Secret",), "is never changed", _never_changed),
    Check("rotated", (_DATABASE,), "has a password that RDS does not manage", lacks("manageMasterUserPassword")),
    Check("rotated", (_DATABASE,), "has a password that is never changed", _alone("secretsmanager.SecretRotation")),
    Check("judged", ("cloudwatch.LogGroup",), "is kept for ever", lacks("retentionInDays")),
    *CHECKS_OF_BALANCER,
    Check(
        "judged",
        _ALL,
        "is of a kind that no check knows: add it to KINDS",
        lambda _, resource: resource.kind not in KINDS,
    ),
)
"""Everything that has to hold."""
