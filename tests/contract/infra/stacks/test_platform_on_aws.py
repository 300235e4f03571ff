"""What runs at AWS and beside it, against AWS as moto serves it: functions, programs of the host, users of backups."""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket
from hermesops.base import assets
from hermesops.base.network.aws_client import AbsentError
from hermesops.infra.stacks.platform.aws.functions import read_sources, redis_password, token_claims
from hermesops.model.ids import InstanceId
from tests.support.real.aws_account import REGION, MotoAccount, aws_account
from tests.support.releases.role_files import rendered

AT = datetime(2026, 11, 26, 12, tzinfo=UTC)
BOUND = "arn:aws:iam::123456789012:policy/hermesops-staging-backup-user"
USER = "hermesops-staging-app"


@pytest.fixture(scope="module")
def _served() -> Iterator[MotoAccount]:
    with aws_account() as account:
        yield account


@pytest.fixture
def aws(_served: MotoAccount, monkeypatch: pytest.MonkeyPatch) -> MotoAccount:
    _served.use(monkeypatch)
    return _served


class _Users:
    """IAM, as it is asked to make a user; moto forgets users' bounds."""

    def __init__(self) -> None:
        self.made: list[dict[str, str]] = []

    def get_user(self, **_: str) -> None:
        raise AbsentError("no such user")

    def create_user(self, **request: str) -> None:
        self.made.append(request)

    def put_user_policy(self, **_: str) -> None:
        """Accept any."""

    def list_access_keys(self, **_: str) -> dict[str, Any]:
        return {"AccessKeyMetadata": []}

    def create_access_key(self, **_: str) -> dict[str, Any]:
        return {"AccessKey": {"AccessKeyId": "id", "SecretAccessKey": "key"}}


@pytest.mark.parametrize("bound", [BOUND, ""])
def test_users_of_backups_are_made_within_the_bound_that_is_set(bound: str) -> None:
    bucket, users = Bucket("backups", REGION, user_boundary=bound), _Users()
    store = ObjectStore(bucket, None)
    store.__dict__["_iam"] = users  # in the place of the client that it would make

    store.issue("hermesops-staging-ada", bucket.repository("staging", InstanceId("0" * 32)))

    assert users.made == [{"UserName": "hermesops-staging-ada", **({"PermissionsBoundary": bound} if bound else {})}]


class _Redis:
    """ElastiCache's users, which moto does not change: what is asked of them, in order."""

    def __init__(self) -> None:
        self.passwords: list[list[str]] = []
        self.states = ["active"]

    def describe_users(self, *, UserId: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        assert UserId == USER
        return {"Users": [{"Status": self.states.pop() if len(self.states) > 1 else self.states[0]}]}

    def modify_user(self, *, UserId: str, AuthenticationMode: dict[str, Any]) -> None:  # noqa: N803 - as above
        assert UserId == USER
        assert AuthenticationMode["Type"] == "password"
        self.passwords.append(AuthenticationMode["Passwords"])


@pytest.fixture
def redis(aws: MotoAccount, monkeypatch: pytest.MonkeyPatch) -> _Redis:
    redis, secrets = _Redis(), aws.client("secretsmanager")

    def client(service: str) -> Any:  # noqa: ANN401 - as boto3
        return {"elasticache": redis, "secretsmanager": secrets}[service]

    monkeypatch.setattr(redis_password, "boto3", SimpleNamespace(client=client))
    monkeypatch.setattr(redis_password, "_EVERY_S", 0)
    monkeypatch.setenv("USER_ID", USER)
    return redis


def _secret(aws: MotoAccount) -> str:
    secrets = aws.client("secretsmanager")
    text = json.dumps({"username": USER, "password": ""})
    return str(secrets.create_secret(Name="hermesops/staging/platform/redis", SecretString=text)["ARN"])


def _rotate(arn: str, token: str, *, times: int = 1) -> None:
    for step in ("createSecret", "setSecret", "testSecret", "finishSecret"):
        for _ in range(times):
            redis_password.handler({"SecretId": arn, "ClientRequestToken": token, "Step": step}, None)


def _current(aws: MotoAccount, arn: str) -> str:
    secret_value = aws.client("secretsmanager").get_secret_value(SecretId=arn, VersionStage="AWSCURRENT")
    return str(json.loads(secret_value["SecretString"])["password"])


@pytest.mark.parametrize("times", [1, 2], ids=["once", "each step twice"])
def test_redis_gets_a_first_password_and_then_others_beside_the_last(
    aws: MotoAccount, redis: _Redis, times: int
) -> None:
    arn = _secret(aws)

    _rotate(arn, "1" * 32, times=times)
    first = _current(aws, arn)
    _rotate(arn, "2" * 32, times=times)
    second = _current(aws, arn)

    assert len({first, second, ""}) == 3
    assert redis.passwords[0] == [first]
    assert redis.passwords[-1] == [second, first]


def test_a_user_who_is_being_changed_is_waited_for(aws: MotoAccount, redis: _Redis) -> None:
    redis.states = ["active", "modifying", "modifying"]

    _rotate(_secret(aws), "1" * 32)

    assert redis.passwords


def test_a_user_who_stays_busy_fails_the_rotation(
    aws: MotoAccount, redis: _Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.states = ["modifying"]
    monkeypatch.setattr(redis_password, "_READY_S", -1)

    with pytest.raises(TimeoutError, match="is not active"):
        _rotate(_secret(aws), "1" * 32)
    assert redis.passwords == []


def test_a_step_that_is_none_is_refused(aws: MotoAccount, redis: _Redis) -> None:  # noqa: ARG001 - takes boto3's place
    with pytest.raises(ValueError, match="unknown step"):
        redis_password.handler({"SecretId": _secret(aws), "ClientRequestToken": "1" * 32, "Step": "drop"}, None)


def test_tokens_of_users_get_the_claim_that_supabase_reads() -> None:
    answered = token_claims.handler({"request": {"userAttributes": {}}}, None)

    given = answered["response"]["claimsAndScopeOverrideDetails"]
    assert given["idTokenGeneration"]["claimsToAddOrOverride"] == {"role": "authenticated"}
    assert given["accessTokenGeneration"] == given["idTokenGeneration"]


def test_functions_import_what_aws_has_and_nothing_of_ours() -> None:
    for source in read_sources().values():
        imported = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
        assert imported <= {*sys.stdlib_module_names, "boto3"}


def _program(name: str) -> ModuleType:
    file = assets.folder("roles") / "hermes_platform_aws" / "files" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PASSWORDS, ALARMS = _program("database_passwords"), _program("amazon_alarms")


def _settings(aws: MotoAccount, folder: Path, password: str, *, has_redis: bool = True) -> Path:
    text = json.dumps({"username": "hermesops", "password": password})
    arn = aws.client("secretsmanager").create_secret(Name=f"rds!{password}", SecretString=text)["ARN"]
    database = {"host": "db.internal", "port": "5432", "name": "hermesops", "secret": arn, "authorities": "/ca"}
    user = os.environ.get("USER") or "root"  # noqa: TID251 - who runs this test
    files = [
        {"user": user, "home": str(folder), "file": str(folder / ".pgpass"), "role": ""},
        {"user": user, "home": "/nonexistent", "file": str(folder / "router"), "role": "router"},
    ]
    redis_text = json.dumps({"username": USER, "password": f"redis {password}"})
    redis_arn = aws.client("secretsmanager").create_secret(Name=f"redis{password}", SecretString=redis_text)["ARN"]
    readers = [{"user": user, "file": str(folder / name)} for name in ("redis", "redis-connector")]
    redis = {"secret": redis_arn, "readers": readers} if has_redis else {}
    file = folder / "aws.json"
    file.write_text(json.dumps({"region": REGION, "database": database, "passfiles": files, "redis": redis}))
    return file


def test_password_files_say_what_is_at_aws(aws: MotoAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(PASSWORDS, "make_roles", lambda _database, _owner, roles: commands.append(roles))
    monkeypatch.setattr(sys, "argv", ["program", str(_settings(aws, tmp_path, "a:b\\c"))])

    PASSWORDS.main()

    assert commands == [["router"]]
    assert (tmp_path / ".pgpass").read_text() == "db.internal:5432:hermesops:hermesops:a\\:b\\\\c\n"
    token = (tmp_path / "router").read_text()
    assert token.startswith("db.internal:5432:hermesops:router:db.internal\\:5432/?Action=connect&DBUser=router")
    assert (tmp_path / "router").stat().st_mode & 0o777 == 0o600
    for name in ("redis", "redis-connector"):
        assert (tmp_path / name).read_text() == "redis a:b\\c"
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_after_a_boot_tokens_that_have_ended_are_replaced_at_once() -> None:
    """The files of before are on disk; processes wait for nothing else."""
    lines = rendered("hermes_platform_aws", "hermes-platform-database-passwords.timer.j2").splitlines()

    assert {"OnBootSec=5s", "OnUnitInactiveSec=60s"} <= set(lines)


def test_a_host_that_serves_no_users_gets_no_password_of_redis(
    aws: MotoAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PASSWORDS, "make_roles", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["program", str(_settings(aws, tmp_path, "another", has_redis=False))])

    PASSWORDS.main()

    assert not (tmp_path / "redis").exists()
    assert (tmp_path / ".pgpass").exists()


def test_a_link_that_takes_the_place_of_a_draft_gets_no_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a file may be its reader's, who would otherwise be given any file of the host."""
    target, file = tmp_path / "shadow", tmp_path / "passwords"
    target.write_text("root's")
    owners: list[Path] = []
    monkeypatch.setattr(os, "chown", lambda path, *_: owners.append(Path(path)))
    monkeypatch.setattr(os, "fchown", lambda *_: (tmp_path / ".passwords.draft").unlink(missing_ok=True))

    with pytest.raises(FileNotFoundError):
        PASSWORDS.write(file, "text", os.environ.get("USER") or "root")  # noqa: TID251 - who runs this test

    assert owners == []
    assert target.read_text() == "root's"


def _message(content: object, subject: str = "") -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return json.dumps({"Type": "Notification", "Subject": subject, "Message": text})


def test_a_change_of_an_alarm_becomes_an_alert_and_ends_it() -> None:
    alarm = {
        "AlarmName": "hermesops-staging-database-storage",
        "AlarmDescription": "page: PostgreSQL runs out of disk",
        "NewStateReason": "3 datapoints were less than the threshold",
    }

    begun = ALARMS.of_message(_message({**alarm, "NewStateValue": "ALARM"}), REGION, AT)
    ended = ALARMS.of_message(_message({**alarm, "NewStateValue": "OK"}), REGION, AT)

    assert begun["labels"] == {
        "alertname": "AmazonAlarm",
        "severity": "page",
        "owner": "platform",
        "scope": "fleet",
        "alarm": "hermesops-staging-database-storage",
    }
    assert begun["annotations"]["summary"] == "PostgreSQL runs out of disk"
    assert begun["endsAt"] > AT.isoformat()
    assert ended["labels"] == begun["labels"]
    assert ended["endsAt"] == AT.isoformat()


def test_what_a_budget_says_in_words_becomes_a_ticket() -> None:
    alert = ALARMS.of_message(_message("You requested that we alert you ...", "AWS Budgets: staging"), REGION, AT)

    assert (alert["labels"]["alertname"], alert["labels"]["severity"]) == ("AmazonBudget", "ticket")
    assert alert["annotations"]["figure"] == "AWS Budgets: staging"


def test_an_alarm_that_somebody_else_made_is_a_ticket() -> None:
    alert = ALARMS.of_alarm({"AlarmName": "x", "AlarmDescription": "urgent: y", "StateValue": "ALARM"}, REGION, AT)

    assert (alert["labels"]["severity"], alert["annotations"]["summary"]) == ("ticket", "urgent: y")


def test_alarms_of_the_program_have_severities_that_the_host_reads() -> None:
    from hermesops.infra.stacks.platform.aws.alarms import alarms_of  # noqa: PLC0415 - imports pulumi_aws

    alarms = alarms_of("db", 20, "redis", 2, "hosts", ("hermesops-staging-token-claims",))

    assert {alarm.severity for alarm in alarms} == set(ALARMS.SEVERITIES)
    assert len({alarm.name for alarm in alarms}) == len(alarms)


def test_alarms_in_the_queue_are_told_once_and_stay_until_they_are(
    aws: MotoAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = aws.client("sqs")
    url = queue.create_queue(QueueName="alarms", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
    queue.send_message(QueueUrl=url, MessageBody=_message("words", "AWS Budgets"))
    alarms: list[Any] = []

    def refuse(_: object) -> None:
        raise OSError("Alertmanager is down")

    monkeypatch.setattr(ALARMS, "WAIT_S", 0)
    monkeypatch.setattr(ALARMS, "tell", refuse)
    with pytest.raises(OSError, match="is down"):
        ALARMS.take(queue, url, REGION)
    monkeypatch.setattr(ALARMS, "tell", alarms.append)
    ALARMS.take(queue, url, REGION)
    ALARMS.take(queue, url, REGION)

    assert [[alert["labels"]["alertname"] for alert in alerts] for alerts in alarms] == [["AmazonBudget"]]


def test_alarms_that_stand_are_found_by_the_environments_prefix(aws: MotoAccount) -> None:
    metrics = aws.client("cloudwatch")
    for name in ("hermesops-staging-one", "hermesops-staging-two", "another-three"):
        metrics.put_metric_alarm(
            AlarmName=name,
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            MetricName="m",
            Namespace="n",
            Period=60,
            Statistic="Sum",
            Threshold=1,
        )
    for name in ("hermesops-staging-one", "another-three"):
        metrics.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="because")

    alarms = ALARMS.standing(metrics, "hermesops-staging-")

    assert [alarm["AlarmName"] for alarm in alarms] == ["hermesops-staging-one"]
