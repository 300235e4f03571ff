"""What a bootstrap asks for is bounded by names, and settings that would let others in are refused."""

import json
from typing import Any

import pytest

from hermesops.errors import UsageError
from hermesops.platform.bootstrap.boundaries import boundaries
from hermesops.platform.bootstrap.documents import Policy, permissions, trust
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole, bucket_of, check
from tests.support.platform.iam_rights import parliament
from tests.support.real.aws_account import ACCOUNT, SUBJECTS, spec_of
from tests.support.suite.cases import each_case

KEY = f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/1234"
APPLY, PREVIEW = PipelineRole.APPLY, PipelineRole.PREVIEW


def allowed(document: Policy) -> list[dict[str, Any]]:
    return [statement for statement in document["Statement"] if statement["Effect"] == "Allow"]


def actions(statement: dict[str, Any]) -> list[str]:
    given = statement["Action"]
    return [given] if isinstance(given, str) else list(given)


def test_a_preview_changes_nothing_and_reads_no_secret() -> None:
    verbs = [
        action.partition(":")[2]
        for statement in allowed(permissions(spec_of(), PREVIEW, KEY))
        for action in actions(statement)
    ]
    assert verbs
    assert [verb for verb in verbs if not verb.startswith(("Get", "List", "Describe", "View", "Decrypt"))] == []
    names = [action for statement in allowed(permissions(spec_of(), PREVIEW, KEY)) for action in actions(statement)]
    assert not {
        "secretsmanager:Get*",
        "secretsmanager:GetSecretValue",
        "ec2:Get*",
        "logs:Get*",
        "cognito-idp:List*",
    } & {*names}


@pytest.mark.parametrize("role", PipelineRole)
def test_a_role_is_taken_by_its_own_pipelines_alone(role: PipelineRole) -> None:
    (statement,) = trust(spec_of(), role)["Statement"]

    host = "token.actions.githubusercontent.com"
    assert statement["Principal"] == {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{host}"}
    assert statement["Condition"] == {
        "StringEquals": {f"{host}:aud": "hermesops"},
        "StringLike": {f"{host}:sub": list(SUBJECTS[role])},
    }


def test_an_apply_makes_only_bounded_roles_of_its_environment() -> None:
    for statement in allowed(permissions(spec_of(), APPLY, KEY)):
        changing = [
            name
            for name in actions(statement)
            if name.startswith("iam:") and not name.startswith(("iam:Get", "iam:List"))
        ]
        if not changing:
            continue
        places = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        assert all("/hermesops/production/*" in place or "/aws-service-role/" in place for place in places), statement
        if "iam:CreateRole" in changing:
            bound = f"arn:aws:iam::{ACCOUNT}:policy/hermesops-production-boundary"
            assert statement["Condition"] == {"StringEquals": {"iam:PermissionsBoundary": bound}}


def test_no_statement_allows_everything_everywhere() -> None:
    spec = spec_of()
    for document in (*(permissions(spec, role, KEY) for role in PipelineRole), *boundaries(spec).values()):
        assert not [statement for statement in allowed(document) if "*" in actions(statement)]
        assert not [
            statement
            for statement in allowed(document)
            if statement["Resource"] == "*" and "iam:*" in actions(statement)
        ]


def test_what_bootstrap_made_no_pipeline_takes_away() -> None:
    denied = {
        statement["Sid"]
        for statement in permissions(spec_of(), APPLY, KEY)["Statement"]
        if statement["Effect"] == "Deny"
    }
    assert denied == {
        "KeepBucket",
        "KeepKey",
        "KeepOthersFunctions",
        "KeepOthersMachines",
        "KeepOthersSecrets",
        "KeepOthersTags",
        "KeepPipelines",
    }
    assert {
        statement["Sid"]
        for statement in boundaries(spec_of())["hermesops-production-boundary"]["Statement"]
        if statement["Effect"] == "Deny"
    } == {
        "KeepBucket",
        "KeepPipelines",
        "PlatformsStateIsThePipelines",
    }


_MEANT = {
    ("RESOURCE_STAR", "ChangeCertificates"): "bounded by the region",
    ("RESOURCE_STAR", "ChangePlatform"): "bounded by the region, and by what is denied",
    ("RESOURCE_STAR", "ChangePlatformEverywhere"): "AWS gives new zones and budgets ids of its own",
    ("RESOURCE_STAR", "LookAtBuckets"): "reads no object",
    ("RESOURCE_STAR", "LookAtPlatform"): "reads",
    ("RESOURCE_STAR", "LookAtRoles"): "reads",
    ("RESOURCE_STAR", "Platform"): "bounds by actions",
    ("RESOURCE_MISMATCH", "ChangeBuckets"): "actions that are not about buckets match none",
    ("UNKNOWN_CONDITION_FOR_ACTION", "Keys"): "KMS developer guide, 'kms:ResourceAliases': for these actions, too",
    ("UNKNOWN_CONDITION_FOR_ACTION", "Key"): "as above",
    ("MISMATCHED_TYPE_BUT_USABLE", "MakeBoundedRoles"): "IAM's own examples of boundaries compare as text",
    ("MISMATCHED_TYPE_BUT_USABLE", "BoundedBackupUsers"): "as above",
}
"""What parliament, which knows AWS's actions, resources and conditions, finds and is meant; and why."""


def test_a_linter_of_iam_finds_nothing_that_is_not_meant() -> None:
    spec = spec_of()
    grants = [
        (finding.issue, statement["Sid"], str(finding.detail))
        for document in (*(permissions(spec, role, KEY) for role in PipelineRole), *boundaries(spec).values())
        for statement in document["Statement"]
        for finding in parliament()
        .analyze_policy_string(json.dumps({"Version": document["Version"], "Statement": [statement]}))
        .findings
    ]
    assert grants
    assert [row for row in grants if row[:2] not in _MEANT] == []


@pytest.mark.parametrize(("role", "most"), [(PREVIEW, 10_240), (APPLY, 10_240)])
def test_documents_are_within_what_iam_takes(role: PipelineRole, most: int) -> None:
    spec = spec_of(environment="a_rather_long_name", bucket="b" * 63)
    assert len(json.dumps(permissions(spec, role, KEY), separators=(",", ":"))) < most
    for boundary in boundaries(spec).values():
        assert len(json.dumps(boundary, separators=(",", ":"))) < 6_144
    assert len(json.dumps(trust(spec, role), separators=(",", ":"))) < 2_048


def test_other_parts_of_aws_have_arns_of_their_own() -> None:
    assert spec_of(region="cn-north-1").bucket_arn.startswith("arn:aws-cn:")
    assert spec_of(region="us-gov-west-1").role_arn(APPLY).startswith("arn:aws-us-gov:")


def test_a_bucket_without_a_setting_is_named_after_environment_and_account() -> None:
    assert bucket_of("my_staging", ACCOUNT) == f"hermesops-my-staging-state-{ACCOUNT}"


def with_subjects(role: PipelineRole, *patterns: str) -> BootstrapSpec:
    return spec_of(subjects={**SUBJECTS, role: patterns})


@each_case(
    ("spec", "message"),
    [
        (spec_of(issuer=""), "oidc.issuer '' is not an https URL"),
        (spec_of(issuer="http://token.example.org"), "oidc.issuer 'http://token.example.org' is not an https URL"),
        (spec_of(issuer="https://token.example.org/?a=b"), "is not an https URL"),
        (spec_of(audience=""), "missing oidc.audience"),
        (spec_of(bucket="Capital"), "no bucket can be called 'Capital'"),
        (spec_of(bucket="a..b"), "no bucket can be called 'a..b'"),
        (with_subjects(APPLY), "missing oidc.subjects: the pipelines that may apply"),
        (with_subjects(PREVIEW), "missing oidc.preview_subjects: the pipelines that may preview"),
        (with_subjects(APPLY, "*"), "oidc.subjects: '*' admits pipelines of other people"),
        (with_subjects(APPLY, "repo:helium/*"), "admits pipelines of other people"),
        (with_subjects(APPLY, "repo:*/hermes:ref:refs/heads/main"), "admits pipelines of other people"),
        (with_subjects(PREVIEW, "repo:helium/hermes:[p]ull_request"), "IAM knows no [ ]"),
    ],
)
def test_what_would_fail_half_way_or_let_others_in_is_refused(spec: BootstrapSpec, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(spec)
    assert message in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("role", PipelineRole)
def test_no_role_is_taken_by_code_that_nobody_reviewed(role: PipelineRole) -> None:
    taken = []
    for rest in UNREVIEWED:
        try:
            check(with_subjects(role, f"repo:helium/hermes:{rest}"))
        except UsageError as error:
            assert "admits unreviewed code, as repo:helium/hermes:" in error.message  # noqa: PT017
        else:
            taken.append(rest)
    assert taken == []


UNREVIEWED = (
    *("*", "pull_request", "p?ll_*", "ref:refs/pull/*", "ref:refs/pull/1/merge", "ref:*", "ref:refs/heads/*"),
    *("ref:refs/tags/*", "environment:*", "env*", "r*"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        "repo:helium/hermes:environment:production",
        "repo:helium/hermes:ref:refs/heads/release-*",
        "project_path:helium/hermes:ref_type:branch:ref:main",
        "system:serviceaccount:hermes:pipeline",
    ],
)
def test_subjects_of_one_owner_are_taken(pattern: str) -> None:
    check(with_subjects(APPLY, pattern))
