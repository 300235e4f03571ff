"""Nobody whom the documents of a bootstrap bound gets out of them, by any way that IAM has."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pytest

from hermesops.agents.backup.store.repository import user_of
from hermesops.model.ids import InstanceId
from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.boundaries import boundaries
from hermesops.platform.bootstrap.spec import PipelineRole
from tests.support.platform.iam_rights import ADMIN, Account, Document, Identity, allows, parliament
from tests.support.real.aws_account import ACCOUNT, REGION, spec_of

SPEC = spec_of(bucket="hermesops-state")
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234"
IAM = f"arn:aws:iam::{ACCOUNT}"
BOUNDS = {SPEC.policy_arn(name): statement for name, statement in boundaries(SPEC).items()}
ROLES_BOUND, USERS_BOUND = BOUNDS
PIPELINES = {SPEC.role_arn(role): documents.permissions(SPEC, role, KEY) for role in PipelineRole}
PREVIEW, APPLY = PIPELINES
HOST = f"{IAM}:role/hermesops/production/hosts"
USER = f"{IAM}:user/hermesops-production-0f0e0d0c-0b0a-4908-8706-050403020100"
MALLORY = f"{IAM}:user/mallory"
PERSONS = (f"{IAM}:user/ada", f"{IAM}:user/hermesops-production-ada")
OTHERS = f"{IAM}:role/deploy"
"""Of another program in the account, which may everything."""

PROGRAMS = {
    ("lambda:UpdateFunctionCode", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:deploy"): OTHERS,
    ("ssm:SendCommand", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-1"): OTHERS,
    ("ec2:ModifyInstanceAttribute", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-1"): OTHERS,
    ("ec2:CreateTags", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-1"): OTHERS,
    ("ec2:CreateLaunchTemplateVersion", f"arn:aws:ec2:{REGION}:{ACCOUNT}:launch-template/lt-1"): OTHERS,
    ("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:deploy/key"): OTHERS,
    ("lambda:UpdateFunctionCode", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:hermesops-production-claims"): HOST,
}
STARTS = (PREVIEW, APPLY, HOST, USER)


def account(**policies: Document) -> Account:
    """An account with our documents, in which hosts and users of backups have whatever their bounds let them have."""
    return Account(
        policies={**BOUNDS, f"{IAM}:policy/hermesops/production/own": {"Statement": []}, **policies},
        identities={
            **{arn: Identity([pipeline]) for arn, pipeline in PIPELINES.items()},
            HOST: Identity([ADMIN], ROLES_BOUND),
            USER: Identity([ADMIN], USERS_BOUND, is_user=True),
            OTHERS: Identity([ADMIN]),
            **{person: Identity([ADMIN], is_user=True) for person in PERSONS},
        },
        new=(
            MALLORY,
            USER.replace("0f0e0d0c", "ffffffff"),
            f"{IAM}:role/mallory",
            f"{IAM}:role/hermesops/production/mallory",
        ),
        programs=PROGRAMS,
        context={"aws:RequestedRegion": REGION},
    )


def is_free(account: Account) -> list[str]:
    """Whom they became that no document of ours holds any more."""
    return [name for name in account.held if account.may(name, "iam:CreateUser", MALLORY)]


@pytest.mark.parametrize("start", STARTS)
def test_no_way_leads_out_of_the_bounds(start: str) -> None:
    scanned = account()

    scanned.take(start)

    assert is_free(scanned) == [], "\n".join(scanned.trail)
    assert {arn: scanned.policies[arn] for arn in BOUNDS} == BOUNDS


def test_apply_gets_as_far_as_its_bounds_and_not_farther() -> None:
    """The search does find ways: it becomes hosts and users of backups, and that is what it may."""
    scanned = account()

    scanned.take(APPLY)

    assert {HOST, USER} < scanned.held
    assert {PREVIEW, OTHERS, MALLORY, *PERSONS} & scanned.held == set()


@pytest.mark.parametrize(
    ("sid", "changed"),
    [
        ("KeepPipelines", {"Resource": [SPEC.provider_arn]}),
        ("MakeBoundedRoles", {"Condition": {}}),
        ("GiveRolesToServices", {"Resource": f"{IAM}:role/*"}),
        ("KeepOthersFunctions", {"NotResource": "*"}),
        ("KeepOthersMachines", {"Resource": []}),
        ("KeepOthersTags", {"Resource": []}),
        ("KeepOthersSecrets", {"NotResource": "*"}),
    ],
)
def test_the_search_finds_a_way_where_a_statement_is_open(sid: str, changed: Mapping[str, Any]) -> None:
    wide = {"Sid": "Wide", "Effect": "Allow", "Action": "iam:*Policy*", "Resource": f"{IAM}:policy/*"}
    open_ = [
        {**statement, **changed} if statement["Sid"] == sid else statement
        for statement in PIPELINES[APPLY]["Statement"]
    ]
    scanned = account()
    scanned.identities[APPLY] = Identity([{"Statement": [*open_, wide] if sid == "KeepPipelines" else open_}])

    scanned.take(APPLY)

    assert is_free(scanned)


def test_the_nine_calls_that_once_made_an_administrator() -> None:
    """The bound of users lay below the path where pipelines changed policies; now the first call is refused."""
    old = f"{IAM}:policy/hermesops/production/hermesops-production-backup-user"
    below = f"{IAM}:role/hermesops/production/mallory"
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:hermesops-production-mallory"
    bounded, passed = {"iam:PermissionsBoundary": ROLES_BOUND}, {"iam:PassedToService": "lambda.amazonaws.com"}
    by_apply: Sequence[tuple[str, str, Mapping[str, str]]] = (
        ("iam:CreatePolicyVersion", USERS_BOUND, {}),
        ("iam:CreatePolicyVersion", old, {}),
        ("iam:SetDefaultPolicyVersion", USERS_BOUND, {}),
        ("iam:DeletePolicy", USERS_BOUND, {}),
        ("iam:CreateRole", below, bounded),
        ("iam:PutRolePolicy", below, bounded),
        ("iam:PassRole", below, passed),
        ("lambda:CreateFunction", function, {}),
        ("lambda:InvokeFunction", function, {}),
    )
    users = {"iam:PermissionsBoundary": USERS_BOUND}
    by_host: Sequence[tuple[str, str, Mapping[str, str]]] = (
        ("iam:CreateUser", USER, users),
        ("iam:CreateUser", MALLORY, users),
        ("iam:PutUserPolicy", USER, users),
        ("iam:PutUserPolicy", USER, {"iam:PermissionsBoundary": old}),
        ("iam:CreateAccessKey", USER, {}),
        ("iam:CreateAccessKey", PERSONS[1], {}),
    )
    region = {"aws:RequestedRegion": REGION}

    def said(document: Document, calls: Sequence[tuple[str, str, Mapping[str, str]]]) -> list[bool]:
        return [allows([document], action, arn, {**region, **context}) for action, arn, context in calls]

    assert said(PIPELINES[APPLY], by_apply) == [False, False, False, False, True, True, True, True, True]
    assert said(BOUNDS[ROLES_BOUND], by_host) == [True, False, True, False, True, False]


def _privileges(service: str, *levels: str) -> Iterator[str]:
    for statement in parliament().iam_definition:
        if statement["prefix"] == service:
            yield from (
                f"{service}:{it['privilege']}" for it in statement["privileges"] if it["access_level"] in levels
            )


def test_no_call_of_iam_changes_what_bootstrap_made() -> None:
    """Whatever policies a role within the bounds is given, and whatever boundary a request names.

    What is denied denies it alone, too: who allows more some day does not open these.
    """
    kept = [*PIPELINES, *BOUNDS, SPEC.provider_arn]
    calls = {*_privileges("iam", "Write", "Permissions management", "Tagging"), "sts:AssumeRole"}
    passed = {"iam:PassedToService": "lambda.amazonaws.com", "aws:RequestedRegion": REGION}
    contexts = [passed, *({"iam:PermissionsBoundary": bound, **passed} for bound in BOUNDS)]
    denying = [
        {
            "Statement": [
                *ADMIN["Statement"],
                *(statement for statement in document["Statement"] if statement["Effect"] == "Deny"),
            ]
        }
        for document in (PIPELINES[APPLY], BOUNDS[ROLES_BOUND])
    ]

    allowed = [
        (call, arn)
        for document in (*PIPELINES.values(), *BOUNDS.values(), *denying)
        for call in calls
        for arn in kept
        for context in contexts
        if allows([document], call, arn, context)
    ]

    assert len(calls) > 100
    assert allowed == []


def test_every_call_of_iam_that_gives_rights_is_bounded_by_path_and_boundary() -> None:
    """Outside the environment's path and names, and with no or another boundary, no role and no user gets anything."""
    calls = {*_privileges("iam", "Write", "Permissions management", "Tagging")}
    foreign = [MALLORY, *PERSONS, OTHERS, f"{IAM}:role/hermesops/staging/hosts", f"{IAM}:policy/x", f"{IAM}:group/x"]
    foreign += [f"{IAM}:policy/hermesops/production/x", f"{IAM}:instance-profile/x", f"{IAM}:saml-provider/x", "*"]

    allowed = {
        (call, arn)
        for document in (*PIPELINES.values(), *BOUNDS.values())
        for call in calls
        for arn in foreign
        for bound in ({}, *({"iam:PermissionsBoundary": name} for name in BOUNDS))
        if allows([document], call, arn, {"iam:PassedToService": "ec2.amazonaws.com", **bound})
    }

    assert allowed == set()


STATE = (
    *((f"s3:{call}", SPEC.bucket_arn) for call in ("PutBucketPolicy", "DeleteBucketPolicy", "PutBucketVersioning")),
    *((f"s3:{call}", SPEC.bucket_arn) for call in ("PutReplicationConfiguration", "PutLifecycleConfiguration")),
    *((f"s3:{call}", SPEC.bucket_arn) for call in ("PutEncryptionConfiguration", "PutInventoryConfiguration")),
    ("s3:DeleteObjectVersion", f"{SPEC.bucket_arn}/.pulumi/meta.yaml"),
    *((f"kms:{call}", KEY) for call in ("PutKeyPolicy", "CreateGrant", "ScheduleKeyDeletion", "DisableKey")),
    *((f"kms:{call}", KEY) for call in ("ReplicateKey", "TagResource", "UntagResource")),
    ("kms:UpdateAlias", f"arn:aws:kms:{REGION}:{ACCOUNT}:{SPEC.alias}"),
    ("kms:DeleteAlias", f"arn:aws:kms:{REGION}:{ACCOUNT}:{SPEC.alias}"),
)


@pytest.mark.parametrize("bucket", [SPEC.bucket, f"hermesops-production-state-{ACCOUNT}"])
def test_state_and_its_key_stay_as_bootstrap_made_them(bucket: str) -> None:
    """Also where the bucket's name is among those of the buckets that pipelines may change."""
    spec = spec_of(bucket=bucket)
    given = [
        *(documents.permissions(spec, pipeline_role, KEY) for pipeline_role in PipelineRole),
        *boundaries(spec).values(),
    ]

    allowed = [
        call
        for document in given
        for call, arn in STATE
        if allows([document], call, arn.replace(SPEC.bucket_arn, spec.bucket_arn), {"aws:RequestedRegion": REGION})
    ]

    assert allowed == []


SHARED: Mapping[str, str] = {
    "ec2:*NetworkInterfacePermission": "networks of the region",
    "ec2:*SnapshotAttribute": "snapshots of the region",
    "ec2:ModifyVpcEndpointServicePermissions": "networks of the region",
    "kms:*": "keys of the region, but that of state",
    "lambda:*Replication": "copies of a function at CloudFront's edge, without a right on the function",
    "logs:*ResourcePolicy": "logs of the region",
    "rds:AuthorizeDBSecurityGroupIngress": "databases of the region",
    "secretsmanager:ValidateResourcePolicy": "reads",
    "sns:*": "topics of the region",
    "sqs:*": "queues of the region",
}
"""Rights that an apply may give on others' things in its account: SECURITY.md says to give an environment its own."""


def test_rights_that_an_apply_may_give_on_others_things_are_listed() -> None:
    """Of all services that AWS has."""
    calls = [
        call
        for service in {statement["prefix"] for statement in parliament().iam_definition}
        for call in _privileges(service, "Permissions management")
    ]
    others = f"arn:aws:x:{REGION}:{ACCOUNT}:others/x"
    given = {
        arn: [call for call in calls if allows([statement], call, others, {"aws:RequestedRegion": REGION})]
        for arn, statement in {**PIPELINES, **BOUNDS}.items()
    }

    assert len(calls) > 300
    assert [name for name in given.pop(APPLY) if not any(fnmatchcase(name, pattern) for pattern in SHARED)] == []
    assert given == {PREVIEW: [], ROLES_BOUND: [], USERS_BOUND: []}


def test_names_of_users_of_backups_are_those_that_hosts_may_make() -> None:
    instance = InstanceId(str(uuid.uuid4()))
    arn = f"{IAM}:user/{user_of('production', instance)}"

    assert allows([BOUNDS[ROLES_BOUND]], "iam:CreateAccessKey", arn, {})
    assert not allows([BOUNDS[ROLES_BOUND]], "iam:CreateAccessKey", f"{IAM}:user/{user_of('staging', instance)}", {})
