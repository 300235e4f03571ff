"""A bootstrap against an account that moto serves: killed, denied and raced at every change, it ends in one state."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, ReadTimeoutError

from hermesops.automation.doctor.environment import check_all
from hermesops.errors import HermesError, PartlyDoneError, RefusedError, UnavailableError, UsageError
from hermesops.model.check import Verdict
from hermesops.platform.bootstrap import documents
from hermesops.platform.bootstrap.account import Account
from hermesops.platform.bootstrap.decide import Action, Step
from hermesops.platform.bootstrap.runner import Bootstrap
from hermesops.platform.bootstrap.service import account_checks
from hermesops.platform.bootstrap.service import spec_of as spec_of_environment
from hermesops.platform.bootstrap.spec import BootstrapSpec, PipelineRole
from hermesops.settings.environment import Environment
from tests.support.crash.death import KilledError
from tests.support.real.aws_account import ACCOUNT, REGION, MotoAccount, asked, aws_account, spec_of
from tests.support.real.commands.command import Command

_READING = ("Get", "List", "Head", "Describe")
_STEPS = 18

ACCOUNTS: dict[str, Account] = {}
"""By region; making clients takes longer than all that they are asked."""


@pytest.fixture(scope="module")
def served() -> Iterator[MotoAccount]:
    with aws_account() as moto_account:
        yield moto_account


@pytest.fixture
def aws(served: MotoAccount, monkeypatch: pytest.MonkeyPatch) -> MotoAccount:
    served.use(monkeypatch)
    return served


def bootstrap(spec: BootstrapSpec, *, undo: bool = False) -> Bootstrap:
    return Bootstrap(spec, ACCOUNTS.setdefault(spec.region, asked(spec.region)), lambda _: None, undo)


async def run(spec: BootstrapSpec, *, undo: bool = False) -> tuple[Step, ...]:
    bootstrapped = bootstrap(spec, undo=undo)
    return await bootstrapped.run((await bootstrapped.preview()).steps)


async def is_ready(spec: BootstrapSpec) -> bool:
    return not (await bootstrap(spec).preview()).steps


def around_requests(
    monkeypatch: pytest.MonkeyPatch, around: Callable[[str, Callable[[], Any]], Any], *, reading: bool = False
) -> None:
    """Put something around each request that changes something, or that reads."""
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, given: dict[str, Any]) -> Any:  # noqa: ANN401 - botocore's
        if operation.startswith(_READING) is not reading:
            return real(self, operation, given)
        return around(operation, lambda: real(self, operation, given))

    monkeypatch.setattr(BaseClient, "_make_api_call", call)


def denied(operation: str) -> ClientError:
    error: Any = {
        "Error": {"Code": "AccessDenied", "Message": f"not authorized to perform: {operation}"},
        "ResponseMetadata": {"HTTPStatusCode": 403},
    }
    return ClientError(error, operation)


async def test_an_empty_account_gets_what_the_settings_say(aws: MotoAccount) -> None:
    spec = spec_of()
    done = await run(spec)

    assert len(done) == _STEPS
    assert await is_ready(spec)
    s3, kms, iam = aws.client("s3"), aws.client("kms"), aws.client("iam")
    key = kms.describe_key(KeyId=spec.alias)["KeyMetadata"]
    assert kms.get_key_rotation_status(KeyId=key["KeyId"])["KeyRotationEnabled"]
    assert s3.get_bucket_versioning(Bucket=spec.bucket)["Status"] == "Enabled"
    rule = s3.get_bucket_encryption(Bucket=spec.bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key["Arn"]}
    assert rule["BucketKeyEnabled"]
    assert set(s3.get_public_access_block(Bucket=spec.bucket)["PublicAccessBlockConfiguration"].values()) == {True}
    assert json.loads(s3.get_bucket_policy(Bucket=spec.bucket)["Policy"]) == documents.bucket_policy(spec)
    tags = s3.get_bucket_tagging(Bucket=spec.bucket)["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == spec.tags
    for role in PipelineRole:
        role_document = iam.get_role(RoleName=spec.role(role))["Role"]
        assert role_document["AssumeRolePolicyDocument"] == documents.trust(spec, role)
        assert role_document["Arn"] == spec.role_arn(role)
        (name,) = iam.list_role_policies(RoleName=spec.role(role))["PolicyNames"]
        document = iam.get_role_policy(RoleName=spec.role(role), PolicyName=name)["PolicyDocument"]
        assert document == documents.permissions(spec, role, key["Arn"])
    for name in (spec.boundary, spec.users_boundary):
        assert iam.get_policy(PolicyArn=spec.policy_arn(name))["Policy"]["PolicyName"] == name


@pytest.mark.turns(20)
async def test_killed_after_each_change_it_goes_on_and_makes_nothing_twice(
    aws: MotoAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, runs = spec_of(), 0
    changes: list[str] = []

    def die_after(operation: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - never comes
        send()
        changes.append(operation)
        raise KilledError

    around_requests(monkeypatch, die_after)
    while len(changes) == runs:
        runs += 1
        with suppress(KilledError):
            await run(spec)

    assert runs == _STEPS + 1
    assert sorted(change for change in changes if change.startswith("Create")) == [
        *("CreateAlias", "CreateBucket", "CreateKey", "CreateOpenIDConnectProvider"),
        *("CreatePolicy", "CreatePolicy", "CreateRole", "CreateRole"),
    ]
    assert len(aws.client("kms").list_keys()["Keys"]) == 1
    assert await is_ready(spec)

    changes.clear()
    runs = 0
    while len(changes) == runs:
        runs += 1
        with suppress(KilledError):
            await run(spec, undo=True)
    assert not await is_ready(spec)
    assert aws.client("s3").list_buckets()["Buckets"] == []
    assert aws.client("iam").list_roles()["Roles"] == []


@pytest.mark.turns(20)
async def test_denied_at_each_change_it_says_what_is_done_and_what_is_left(
    aws: MotoAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, sent = spec_of(), 0

    def around(operation: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
        nonlocal sent
        sent += 1
        if sent > 1:
            raise denied(operation)
        return send()

    around_requests(monkeypatch, around)
    for number in range(_STEPS):
        sent = 0
        if number == _STEPS - 1:
            assert len(await run(spec)) == 1
            break
        with pytest.raises(PartlyDoneError, match=f"1 of {_STEPS - number} steps are done") as stopped:
            await run(spec)
        assert "AccessDenied not authorized to perform" in stopped.value.message
        assert "Left: " in stopped.value.message
    sent = 1
    assert await is_ready(spec)
    aws.client("kms")

    with pytest.raises(RefusedError, match="AccessDenied"):
        await run(spec, undo=True)
    assert await is_ready(spec)


@pytest.mark.turns(6)
async def test_who_may_not_read_is_told_before_anything_is_touched(
    aws: MotoAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of()
    await run(spec)
    asked_for: list[str] = []

    def note(operation: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
        asked_for.append(operation)
        return send()

    around_requests(monkeypatch, note, reading=True)
    await bootstrap(spec).preview()
    reads = sorted(set(asked_for) - {"GetCallerIdentity", "HeadBucket"})
    assert len(reads) > 20

    refused = ""

    def around(operation: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
        if operation == refused:
            raise denied(operation)
        return send()

    around_requests(monkeypatch, around, reading=True)
    for refused in reads:
        with pytest.raises(RefusedError, match=refused):
            await bootstrap(spec).preview()
    assert aws.url


async def test_a_key_whose_answer_was_lost_is_found_again(aws: MotoAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of()

    def lose(operation: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
        answer = send()
        if operation == "CreateKey":
            raise ReadTimeoutError(endpoint_url="https://kms")
        return answer

    with monkeypatch.context() as patch:
        around_requests(patch, lose)
        with pytest.raises(UnavailableError, match="does not answer"):
            await run(spec)
    await run(spec)

    assert len(aws.client("kms").list_keys()["Keys"]) == 1
    assert await is_ready(spec)


@pytest.mark.turns(5)
async def test_two_at_once_end_in_one_state(aws: MotoAccount) -> None:
    spec = spec_of()
    ended = await asyncio.gather(run(spec), run(spec), return_exceptions=True)

    assert all(isinstance(ending, tuple | HermesError) for ending in ended), ended
    await run(spec)
    preview = await bootstrap(spec).preview()
    assert preview.steps == ()
    keys = aws.client("kms").list_keys()["Keys"]
    assert len(preview.notes) == len(keys) - 1
    assert all("is not used: delete it by hand" in note for note in preview.notes)


@pytest.mark.turns(5)
async def test_what_somebody_changed_is_mended_and_the_rest_of_it_stays(aws: MotoAccount) -> None:
    spec = spec_of()
    await run(spec)
    s3, iam, kms = aws.client("s3"), aws.client("iam"), aws.client("kms")
    own = {
        "Sid": "Auditors",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"{spec.bucket_arn}/private/*",
    }
    s3.put_bucket_policy(Bucket=spec.bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [own]}))
    s3.put_bucket_tagging(Bucket=spec.bucket, Tagging={"TagSet": [{"Key": "team", "Value": "sre"}]})
    s3.put_bucket_versioning(Bucket=spec.bucket, VersioningConfiguration={"Status": "Suspended"})
    s3.delete_public_access_block(Bucket=spec.bucket)
    iam.update_assume_role_policy(RoleName=spec.role(PipelineRole.APPLY), PolicyDocument=json.dumps(_open_to_all(spec)))
    key = kms.describe_key(KeyId=spec.alias)["KeyMetadata"]["KeyId"]
    kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    iam.create_policy_version(
        PolicyArn=spec.policy_arn(spec.users_boundary),
        PolicyDocument=json.dumps(documents.permissions(spec, PipelineRole.PREVIEW, "*")),
        SetAsDefault=True,
    )

    done = [step.action for step in await run(spec)]

    assert done == [
        Action.RESTORE_KEY,
        Action.TAG_BUCKET,
        Action.BLOCK_PUBLIC,
        Action.KEEP_VERSIONS,
        Action.REQUIRE_TLS,
        Action.CHANGE_BOUNDARY,
        Action.CHANGE_TRUST,
    ] or done == [Action.RESTORE_KEY, Action.ROTATE_KEY, *done[2:]]
    assert await is_ready(spec)
    assert own in json.loads(s3.get_bucket_policy(Bucket=spec.bucket)["Policy"])["Statement"]
    tags = {ending["Key"]: ending["Value"] for ending in s3.get_bucket_tagging(Bucket=spec.bucket)["TagSet"]}
    assert tags == {**spec.tags, "team": "sre"}


def _open_to_all(spec: BootstrapSpec) -> dict[str, Any]:
    trust = documents.trust(spec, PipelineRole.APPLY)["Statement"][0]
    return {"Version": "2012-10-17", "Statement": [{**trust, "Condition": {}}]}


async def test_a_bucket_of_that_name_in_another_account_stops_it_before_anything(
    aws: MotoAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of()

    def forbid(operation: str, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
        if operation == "HeadBucket":
            error: Any = {"Error": {"Code": "403"}, "ResponseMetadata": {"HTTPStatusCode": 403, "HTTPHeaders": {}}}
            raise ClientError(error, operation)
        return send()

    around_requests(monkeypatch, forbid, reading=True)
    with pytest.raises(RefusedError, match=f"bucket {spec.bucket} is in another account than {ACCOUNT}"):
        await run(spec)
    assert aws.client("kms").list_keys()["Keys"] == []


async def test_a_bucket_in_another_region_is_named(aws: MotoAccount) -> None:
    spec = spec_of()
    there = boto3.client("s3", endpoint_url=aws.url, region_name="ap-southeast-2")
    there.create_bucket(Bucket=spec.bucket, CreateBucketConfiguration={"LocationConstraint": "ap-southeast-2"})
    with pytest.raises(RefusedError, match=f"bucket {spec.bucket} is in ap-southeast-2, not in {REGION}"):
        await run(spec)


async def test_credentials_of_another_account_are_named(aws: MotoAccount) -> None:
    with pytest.raises(UsageError, match=f"the credentials are those of account {ACCOUNT}, not of 210987654321"):
        await run(spec_of(account="210987654321"))
    assert aws.client("s3").list_buckets()["Buckets"] == []


async def test_undo_is_refused_while_the_bucket_holds_an_old_version(aws: MotoAccount) -> None:
    spec = spec_of()
    await run(spec)
    s3 = aws.client("s3")
    s3.delete_bucket_policy(Bucket=spec.bucket)  # it refuses this test, which has no TLS
    s3.put_object(Bucket=spec.bucket, Key=".pulumi/meta.yaml", Body=b"version: 1")
    s3.delete_object(Bucket=spec.bucket, Key=".pulumi/meta.yaml")

    with pytest.raises(RefusedError, match=r"is not empty: it holds \.pulumi/meta\.yaml"):
        await run(spec, undo=True)
    assert aws.client("iam").list_roles()["Roles"]


# As somebody types it.


@pytest.fixture
def command(aws: MotoAccount, tmp_path: Path) -> Command:
    folder = tmp_path / "production"
    folder.mkdir()
    (folder / "settings.toml").write_text(
        'api_url = "https://api.example.org/api/v1"\n'
        f'[platform]\naccount = "{ACCOUNT}"\nregion = "{REGION}"\n'
        '[oidc]\nissuer = "https://token.actions.githubusercontent.com"\naudience = "hermesops"\n'
        'subjects = "repo:helium/hermes:environment:production"\n'
        'preview_subjects = "repo:helium/hermes:environment:production-read"\n'
    )
    return Command(tmp_path, aws.variables())


@pytest.mark.turns(10)
async def test_it_shows_asks_does_and_takes_back(aws: MotoAccount, command: Command) -> None:
    words = ("--env", "production", "platform", "bootstrap")

    shown = await command.run(*words, "--preview", "--exit-code", "--json")
    assert shown.exit_code == 7, str(shown)
    assert shown.json["kind"] == "platform-bootstrap-preview"
    assert len(shown.json["steps"]) == _STEPS
    assert shown.json["backend"] == f"s3://hermesops-production-state-{ACCOUNT}?region={REGION}"

    refused = await command.run(*words)
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "make the bucket" in refused.stderr
    assert aws.client("s3").list_buckets()["Buckets"] == []
    unnamed = await command.with_variables(HERMESOPS_ENV="production").run(*words[2:], "--yes")
    assert unnamed.exit_code == 3
    assert "production was not named" in unnamed.stderr

    done = await command.run(*words, "--yes", "--json")
    assert done.exit_code == 0, str(done)
    assert done.json["apply_role"] == f"arn:aws:iam::{ACCOUNT}:role/hermesops-production-apply"
    again = await command.run(*words, "--preview", "--exit-code")
    assert (again.exit_code, again.stdout) == (0, f"nothing to do in account {ACCOUNT}\n"), str(again)

    undone = await command.run(*words, "--undo", "--yes")
    assert (undone.exit_code, undone.stdout) == (
        0,
        f"account {ACCOUNT}: 8 steps done, nothing of the bootstrap is left\n",
    ), str(undone)
    assert aws.client("s3").list_buckets()["Buckets"] == []


BAD: tuple[tuple[str, dict[str, str], str], ...] = (
    ("--env local", {}, "the local world needs no AWS account"),
    ("--env prodution", {}, "prodution"),
    ("--env production", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no AWS credentials"),
    ("--env production", {"AWS_PROFILE": "nobodys"}, "no AWS credentials"),
    ("--env production --account 210987654321", {}, "contradicts platform.account"),
    ("--env production --region us-east-1", {}, "contradicts platform.region"),
    ("--env production", {"HERMESOPS_PULUMI_BACKEND": "s3://b?region=us-west-2"}, "names region us-west-2"),
    ("--env production", {"HERMESOPS_OIDC_SUBJECTS": "repo:*"}, "admits pipelines of other people"),
    ("--env production", {"HERMESOPS_OIDC_PREVIEW_SUBJECTS": "repo:o/n:pull_request"}, "admits unreviewed code"),
    ("--env production", {"HERMESOPS_PLATFORM_ACCOUNT": "12"}, "platform.account"),
)


async def test_bad_input_is_named_and_nothing_touched(aws: MotoAccount, command: Command) -> None:
    unlike = list[str]()
    for words, variables, output in BAD:
        _, environment, *options = words.split()
        bootstraps = ("--env", environment, "platform", "bootstrap", *options, "--yes")
        ran = await command.with_variables(**variables).run(*bootstraps)
        if (ran.exit_code, ran.stdout) != (2, "") or output not in ran.stderr:
            unlike.append(f"{variables} {ran}")
    assert not unlike, "\n".join(unlike)
    assert aws.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.turns(7)
async def test_env_check_tells_what_of_the_account_is_missing(
    aws: MotoAccount, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Environment.load("production", {"HOME": "/nonexistent", "HERMESOPS_HOME": str(command.home)})

    async def seen() -> dict[str, tuple[Verdict, str]]:
        return {check.name: (check.verdict, check.seen) for check in await check_all(account_checks(env))}

    before = await seen()
    assert before["platform.account"] == (Verdict.OK, f"arn:aws:sts::{ACCOUNT}:user/moto in {REGION}")
    assert before["platform.state"] == (Verdict.FAILED, f"there is no bucket hermesops-production-state-{ACCOUNT}")
    assert before["platform.key"] == (Verdict.FAILED, "there is no key alias/hermesops-production-state")

    spec = spec_of_environment(env)
    await run(spec)
    after = await seen()
    assert {verdict for verdict, _ in after.values()} == {Verdict.OK}
    assert after["platform.key"][1] == "alias/hermesops-production-state encrypts and decrypts"

    kms = aws.client("kms")
    kms.disable_key(KeyId=kms.describe_key(KeyId=spec.alias)["KeyMetadata"]["KeyId"])
    assert (await seen())["platform.key"] == (Verdict.FAILED, "key alias/hermesops-production-state is Disabled")
    around_requests(monkeypatch, lambda operation, send: another_account(operation, send()), reading=True)
    assert (await seen())["platform.account"] == (
        Verdict.FAILED,
        f"the credentials are those of account 210987654321, not of {ACCOUNT}",
    )


def another_account(operation: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "Account": "210987654321"} if operation == "GetCallerIdentity" else answer


def test_an_environment_without_an_account_has_nothing_to_check(tmp_path: Path) -> None:
    env = Environment.load("staging", {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path)})
    assert account_checks(env) == {}
