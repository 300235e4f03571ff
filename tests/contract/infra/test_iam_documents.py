"""IAM documents of the platforms, judged by parliament, which knows AWS's actions, resources and conditions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hermesops.agents.backup.store.repository import Bucket, policy_of
from hermesops.infra.stacks.platform.iam_statements import documents_of
from hermesops.infra.stacks.registered import Registered
from hermesops.model.ids import InstanceId
from hermesops.platform.bootstrap.boundaries import boundaries
from tests.support.platform.environments import ENVIRONMENTS, run_of
from tests.support.platform.iam_rights import allows, parliament
from tests.support.real.aws_account import spec_of

ACCEPTED: Mapping[tuple[str, str], str] = {
    ("RESOURCE_STAR", "SessionManager"): "AWS knows no resources for these actions",
    ("RESOURCE_STAR", "ListSecrets"): "as SessionManager",
    ("RESOURCE_STAR", "MakePassword"): "as SessionManager",
    ("UNKNOWN_CONDITION_FOR_ACTION", "SealState"): "KMS developer guide, 'kms:ResourceAliases': for these actions, too",
    ("MISMATCHED_TYPE_BUT_USABLE", "MakeBackupUsers"): "IAM's own examples of permissions boundaries compare as text",
}
"""Findings that are meant, by kind and statement, and why."""


def _documents() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for environment in ENVIRONMENTS:
        for resource in run_of(environment).resources:
            if resource.type.startswith("aws:"):
                for number, document in enumerate(documents_of(resource)):
                    yield environment, f"{resource.kind} {resource.name} {number}", dict(document)


def _findings(document: Mapping[str, Any]) -> list[str]:
    """What parliament finds, statement by statement, so that a finding can be told to its statement."""
    linter, conditions = parliament(), []
    for statement in document["Statement"]:
        alone = json.dumps({"Version": document["Version"], "Statement": [statement]})
        conditions += [(statement["Sid"], finding) for finding in linter.analyze_policy_string(alone).findings]
    return [
        f"{sid}: {problem.issue} {problem.detail}"
        for sid, problem in conditions
        if (problem.issue, sid) not in ACCEPTED
    ]


def _is_identitys(resource: Registered) -> bool:
    return resource.kind == "iam.RolePolicy"


def test_documents_of_identities_have_no_finding() -> None:
    checked, conditions = 0, []
    for environment in ENVIRONMENTS:
        for resource in filter(_is_identitys, run_of(environment).resources):
            for document in documents_of(resource):
                checked += 1
                conditions += [f"{environment} {resource.name} {finding}" for finding in _findings(document)]

    assert checked == 8
    assert conditions == []


@pytest.mark.parametrize(
    ("statement", "issue"),
    [
        ({"Action": ["s3:GetObjects"], "Resource": ["arn:aws:s3:::b/*"]}, "UNKNOWN_ACTION"),
        ({"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b"]}, "RESOURCE_MISMATCH"),
        ({"Action": ["sqs:ReceiveMessage"], "Resource": ["*"]}, "RESOURCE_STAR"),
        ({"Action": ["s3:GetObject"], "Resource": ["b/*"]}, "INVALID_ARN"),
    ],
)
def test_the_linter_notices_what_it_is_for(statement: dict[str, Any], issue: str) -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Sid": "Broken", "Effect": "Allow", **statement}]}

    assert any(issue in finding for finding in _findings(document))


def test_every_document_is_one_that_iam_can_read() -> None:
    """Of resources and of trust, parliament knows the syntax alone."""
    count = 0
    for environment, where, document in _documents():
        count += 1
        text = json.dumps(document)
        assert set(document) == {"Version", "Statement"}, where
        assert all(statement["Sid"].isalnum() for statement in document["Statement"]), where
        names = [statement["Sid"] for statement in document["Statement"]]
        assert len(set(names)) == len(names), where
        assert f"hermesops-{'production' if environment == 'staging' else 'staging'}" not in text, where
        assert len(text) < 10_240, where  # the least of IAM's limits: inline policies of a role, together

    assert count > 50


def test_a_user_of_backups_gets_no_right_that_its_bound_withholds() -> None:
    """The bound is what hosts can give at most; what hermesops.agents.backup gives has to be within it."""
    spec = spec_of("staging", account="111122223333")
    bound = boundaries(spec)[spec.users_boundary]
    bucket = run_of("staging").exports["backup_bucket"]
    given = policy_of(Bucket(str(bucket), "eu-central-1").repository("staging", InstanceId("0" * 32)))

    for statement in given["Statement"]:
        for action in statement["Action"]:
            for arn in statement["Resource"]:
                assert allows([bound], action, arn.replace("*", "any"), {}), (action, arn)


def test_machines_may_add_to_the_bucket_of_backups_and_delete_locks_alone() -> None:
    from hermesops.infra.stacks.platform.aws.iam import backup_users  # noqa: PLC0415 - imports pulumi_aws

    place = run_of("staging").place
    (document,) = documents_of(run_of("staging").one("s3.BucketPolicy", "backups"))
    by_sid = {statement["Sid"]: statement for statement in document["Statement"]}

    deleting, keeping = by_sid["MachinesDeleteLocksAlone"], by_sid["MachinesKeepVersions"]
    assert deleting["Effect"] == keeping["Effect"] == "Deny"
    assert deleting["Action"] == ["s3:DeleteObject"]
    assert "Resource" not in deleting
    assert deleting["NotResource"] == ["arn:aws:s3:::hermesops-staging-backups-111122223333/staging/*/locks/*"]
    assert deleting["Condition"] == {"ArnLike": {"aws:PrincipalArn": backup_users(place)}}
    assert (
        backup_users(place) == "arn:aws:iam::111122223333:user/hermesops-staging-????????-????-????-????-????????????"
    )


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_roles_have_no_right_that_their_boundary_withholds(environment: str) -> None:
    """Each action on each resource that a role of the platform names; beyond its boundary a right is none."""
    run = run_of(environment)
    spec = spec_of(environment, account=run.place.account, region=run.place.region, bucket=run.place.state_bucket)
    bound = boundaries(spec)[spec.boundary]
    alias = {"kms:ResourceAliases": f"alias/hermesops-{environment}-any"}
    calls = [
        (action.replace("*", "Any"), resource.replace("*", "any"), {**alias, **_met(statement)})
        for registered in run.judged.of("iam.RolePolicy")
        for document in documents_of(registered)
        for statement in document["Statement"]
        for action in statement["Action"]
        for resource in statement["Resource"]
    ]

    assert (run.place.boundary, run.place.users_boundary) == tuple(map(spec.policy_arn, boundaries(spec)))
    assert len(calls) > 50
    assert [row[:2] for row in calls if not allows([bound], *row)] == []


def _met(statement: Mapping[str, Any]) -> dict[str, str]:
    conditions = {key: value for keys in statement.get("Condition", {}).values() for key, value in keys.items()}
    return {
        key: (value if isinstance(value, str) else value[0]).replace("*", "any") for key, value in conditions.items()
    }
