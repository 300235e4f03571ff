"""Runs on AWS: gives the user of Redis a new password, in the four steps of Secrets Manager.

The user has two passwords at most, the current and the pending one: whoever holds the current one goes on until the
next rotation.

Source: Secrets Manager user guide, "Rotation by Lambda function"; ElastiCache user guide, "Authenticating Users with
RBAC". It imports nothing of hermesops.
"""

import json
import os
import time
from typing import Any

import boto3

_READY_S, _EVERY_S = 120, 5
_LENGTH = 48


def handler(event: dict[str, str], _context: object) -> None:
    """Do one step; each may be repeated."""
    secrets = boto3.client("secretsmanager")
    arn, token = event["SecretId"], event["ClientRequestToken"]
    stages = secrets.describe_secret(SecretId=arn)["VersionIdsToStages"]
    if "AWSCURRENT" in stages.get(token, []):
        return  # done by a call before
    if event["Step"] == "createSecret":
        _create(secrets, arn, token)
    elif event["Step"] == "setSecret":
        _set(secrets, arn, token)
    elif event["Step"] == "testSecret":
        _wait_until_active(boto3.client("elasticache"), _user())
    elif event["Step"] == "finishSecret":
        current = next(version for version, names in stages.items() if "AWSCURRENT" in names)
        secrets.update_secret_version_stage(
            SecretId=arn, VersionStage="AWSCURRENT", MoveToVersionId=token, RemoveFromVersionId=current
        )
    else:
        raise ValueError(f"unknown step {event['Step']!r}")


def _user() -> str:
    return os.environ["USER_ID"]  # noqa: TID251 - runs on AWS, alone


def _create(secrets: Any, arn: str, token: str) -> None:  # noqa: ANN401 - boto3 has no types where this runs
    if _password(secrets, arn, VersionId=token, VersionStage="AWSPENDING"):
        return
    password = secrets.get_random_password(PasswordLength=_LENGTH, ExcludePunctuation=True)["RandomPassword"]
    text = json.dumps({"username": _user(), "password": password})
    secrets.put_secret_value(SecretId=arn, ClientRequestToken=token, SecretString=text, VersionStages=["AWSPENDING"])


def _set(secrets: Any, arn: str, token: str) -> None:  # noqa: ANN401 - as above
    passwords = [
        _password(secrets, arn, VersionId=token, VersionStage="AWSPENDING"),
        _password(secrets, arn, VersionStage="AWSCURRENT"),
    ]
    elasticache = boto3.client("elasticache")
    _wait_until_active(elasticache, _user())
    elasticache.modify_user(
        UserId=_user(),
        AuthenticationMode={"Type": "password", "Passwords": [password for password in passwords if password]},
    )


def _password(secrets: Any, arn: str, **which: str) -> str:  # noqa: ANN401 - as above
    try:
        text = secrets.get_secret_value(SecretId=arn, **which)["SecretString"]
    except secrets.exceptions.ResourceNotFoundException:
        return ""
    return str(json.loads(text)["password"])


def _wait_until_active(elasticache: Any, user: str) -> None:  # noqa: ANN401 - as above
    end = time.monotonic() + _READY_S
    while elasticache.describe_users(UserId=user)["Users"][0]["Status"] != "active":
        if time.monotonic() > end:
            raise TimeoutError(f"user {user} is not active after {_READY_S} s")
        time.sleep(_EVERY_S)  # noqa: TID251 - runs on AWS, alone
