"""Writes passwords where their users read them at each connection; argument: the file of settings.

The password of the database's owner is in a secret that RDS changes. Other roles are made where they are missing, and
enter by a token of IAM that is good for a quarter of an hour. Redis' password is in a secret that a function changes.
It runs every minute. It imports nothing of hermesops.
"""

import json
import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import psycopg
from psycopg import sql

CONNECT_S = 10


def main() -> None:
    """Write all files."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    database, region = settings["database"], settings["region"]
    secrets = boto3.client("secretsmanager", region)
    owner = read(secrets, database["secret"])
    roles = sorted({one["role"] for one in settings["passfiles"]} - {""})
    if roles:
        make_roles(database, owner, roles)
    signer = boto3.client("rds", region)
    for one in settings["passfiles"]:
        user = one["role"] or owner["username"]
        token = one["role"] and signer.generate_db_auth_token(database["host"], int(database["port"]), user)
        password = token or owner["password"]
        write(Path(one["file"]), line_of(database, user, password), one["user"])
    if redis := settings.get("redis"):  # last: who waits for Redis works on without it
        password = read(secrets, redis["secret"])["password"]
        for reader in redis["readers"]:
            write(Path(reader["file"]), password, reader["user"])


def read(secrets: Any, arn: str) -> Mapping[str, str]:  # noqa: ANN401 - boto3 makes its types as it runs
    """A secret with ``username`` and ``password``."""
    document: Mapping[str, str] = json.loads(secrets.get_secret_value(SecretId=arn)["SecretString"])
    return document


def make_roles(database: Mapping[str, Any], owner: Mapping[str, str], roles: list[str]) -> None:
    """Make roles that enter by IAM, where they are missing."""
    with psycopg.connect(
        host=database["host"],
        port=database["port"],
        dbname=database["name"],
        user=owner["username"],
        password=owner["password"],
        sslmode="verify-full",
        sslrootcert=database["authorities"],
        connect_timeout=CONNECT_S,
    ) as connection:
        known = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", [roles])}
        for role in roles:
            if role not in known:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
                connection.execute(sql.SQL("GRANT rds_iam TO {}").format(sql.Identifier(role)))


def line_of(database: Mapping[str, Any], user: str, password: str) -> str:
    """A line of a password file.

    Source: PostgreSQL's documentation, "The Password File": a backslash goes before a colon and a backslash.
    """
    parts = (database["host"], str(database["port"]), database["name"], user, password)
    return ":".join(part.replace("\\", "\\\\").replace(":", "\\:") for part in parts) + "\n"


def write(file: Path, text: str, owner: str) -> None:
    """Replace a file at once, readable by its owner alone; leave one that is right."""
    known = pwd.getpwnam(owner)
    draft = file.with_name(f".{file.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    # By descriptor: the folder may be its reader's, who could put a link in the place of the name.
    os.fchown(descriptor, known.pw_uid, known.pw_gid)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
    draft.rename(file)


if __name__ == "__main__":
    main()
