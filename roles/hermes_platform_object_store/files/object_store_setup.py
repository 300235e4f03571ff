#!/usr/bin/python3 -I
"""Makes the credentials, buckets and users of the platform's object store, each once; prints what it made.

``root FOLDER`` makes the root credential. ``buckets FOLDER`` reads from standard input, as JSON, what there is to be:
each bucket, and a user of its name whose key, in the form of ``~/.aws/credentials``, goes into the folder. No program
of AWS is on a host: requests are signed here (Signature Version 4, AWS General Reference).
"""

import datetime as dt
import hashlib
import hmac
import http.client
import json
import os
import re
import secrets
import socket
import ssl
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any

FOUND = 200
ABSENT, TAKEN = 404, 409
WAITS_S = 60.0
TIMEOUT_S = 10.0
USES = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
LOOKS = (
    "s3:GetBucketLocation",
    "s3:GetBucketVersioning",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
)
# Of the user that gives each machine a key of its own, and ends it.
KEYS = (
    "iam:CreateAccessKey",
    "iam:CreateUser",
    "iam:DeleteAccessKey",
    "iam:DeleteUser",
    "iam:DeleteUserPolicy",
    "iam:GetUser",
    "iam:ListAccessKeys",
    "iam:ListUserPolicies",
    "iam:PutUserPolicy",
)


class FailedError(Exception):
    """The object store does not answer, or refused."""


class Store:
    """Signed requests to S3 and IAM of this host, by the name that the certificate has."""

    def __init__(self, wanted: dict[str, Any], root: dict[str, str]) -> None:
        self._wanted = wanted
        self._root = root
        self._tls = ssl.create_default_context(cafile=wanted["authorities"])

    def await_both(self) -> None:
        """Wait until both services answer."""
        deadline = time.monotonic() + WAITS_S
        for service in ("iam", "s3"):
            while not self._answers(service):
                if time.monotonic() > deadline:
                    raise FailedError(f"{service} does not answer")
                time.sleep(0.2)

    def s3(self, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[int, bytes]:
        """Ask S3."""
        return self._ask("s3", method, path, query, body)

    def iam(self, action: str, **parameters: str) -> tuple[int, str]:
        """Ask IAM."""
        form = urllib.parse.urlencode({"Action": action, "Version": "2010-05-08", **parameters}).encode()
        status, body = self._ask("iam", "POST", "/", "", form)
        if status not in (FOUND, ABSENT, TAKEN):
            raise FailedError(f"{action}: status {status}, {body[:300]!r}")
        return status, body.decode()

    def _answers(self, service: str) -> bool:
        try:
            return self._send(service, "GET", self._wanted["health"], {}, b"")[0] == FOUND
        except (OSError, http.client.HTTPException):
            return False

    def _ask(self, service: str, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        host = f"{self._wanted['name']}:{self._wanted[service][1]}"
        now = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
        if service == "iam":
            headers["content-type"] = "application/x-www-form-urlencoded; charset=utf-8"
        names = ";".join(sorted(headers))
        listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = f"{method}\n{path}\n{query}\n{listed}\n{names}\n{digest}"
        scope = f"{now[:8]}/{self._wanted['region']}/{service}/aws4_request"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self._root['ROOT_SECRET_ACCESS_KEY']}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}".encode(), "sha256").hex()
        who = f"{self._root['ROOT_ACCESS_KEY_ID']}/{scope}"
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={who}, SignedHeaders={names}, Signature={signature}"
        return self._send(service, method, f"{path}?{query}" if query else path, headers, body)

    def _send(self, service: str, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        address = (self._wanted[service][0], int(self._wanted[service][1]))
        connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
        raw = socket.create_connection(address, timeout=TIMEOUT_S)
        connection.sock = self._tls.wrap_socket(raw, server_hostname=self._wanted["name"])
        try:
            connection.putrequest(method, target, skip_host="host" in headers, skip_accept_encoding=True)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def make_root(folder: Path) -> None:
    """Make the root credential, in the form in which systemd passes it to versitygw."""
    file = folder / "root.env"
    if not file.exists():
        access, secret = secrets.token_hex(10).upper(), secrets.token_urlsafe(32)
        write(file, f"ROOT_ACCESS_KEY_ID={access}\nROOT_SECRET_ACCESS_KEY={secret}\n")
        sys.stdout.write("root\n")


def make_buckets(folder: Path, wanted: dict[str, Any]) -> None:
    """Make what is missing of buckets, users and their keys."""
    root = dict(line.split("=", 1) for line in (folder / "root.env").read_text().splitlines())
    store = Store(wanted, root)
    store.await_both()
    for bucket in wanted["buckets"]:
        make_bucket(store, bucket, is_versioned=bucket in wanted["versioned"])
        make_user(store, bucket, folder / bucket)


def make_bucket(store: Store, bucket: str, *, is_versioned: bool) -> None:
    """Make a bucket, and have it keep what is overwritten."""
    if store.s3("HEAD", f"/{bucket}")[0] != FOUND:
        status, body = store.s3("PUT", f"/{bucket}")
        if status != FOUND:
            raise FailedError(f"bucket {bucket}: status {status}, {body[:300]!r}")
        sys.stdout.write(f"bucket {bucket}\n")
    status, body = store.s3("GET", f"/{bucket}", "versioning=")
    if is_versioned and b"<Status>Enabled</Status>" not in body:
        document = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        status, body = store.s3("PUT", f"/{bucket}", "versioning=", document)
        if status != FOUND:
            raise FailedError(f"versions of bucket {bucket}: status {status}, {body[:300]!r}")
        sys.stdout.write(f"versions {bucket}\n")


def make_user(store: Store, bucket: str, file: Path) -> None:
    """Make the user of a bucket, and its key; a key whose file is gone is replaced."""
    if store.iam("GetUser", UserName=bucket)[0] == ABSENT:
        store.iam("CreateUser", UserName=bucket)
        sys.stdout.write(f"user {bucket}\n")
    document = json.dumps(policy(bucket), sort_keys=True)
    status, held = store.iam("GetUserPolicy", UserName=bucket, PolicyName="bucket")
    if status == ABSENT or urllib.parse.unquote(texts(held, "PolicyDocument")[0]) != document:
        store.iam("PutUserPolicy", UserName=bucket, PolicyName="bucket", PolicyDocument=document)
        sys.stdout.write(f"policy {bucket}\n")
    keys = texts(store.iam("ListAccessKeys", UserName=bucket)[1], "AccessKeyId")
    if not file.exists() or not any(key and key in file.read_text() for key in keys):
        for key in keys:
            store.iam("DeleteAccessKey", UserName=bucket, AccessKeyId=key)
        made = store.iam("CreateAccessKey", UserName=bucket)[1]
        [access], [secret] = texts(made, "AccessKeyId"), texts(made, "SecretAccessKey")
        write(file, f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
        sys.stdout.write(f"key {bucket}\n")


def policy(bucket: str) -> dict[str, Any]:
    """What the user of a bucket may do: use the bucket, and change nothing about it."""
    arn = f"arn:aws:s3:::{bucket}"
    uses, looks, others = list(USES), list(LOOKS), []
    if bucket == "backups":  # hermesops makes sure that it keeps versions, gives machines keys, and erases for good
        uses.append("s3:DeleteObjectVersion")
        looks.append("s3:PutBucketVersioning")
        others.append({"Effect": "Allow", "Action": list(KEYS), "Resource": ["arn:aws:iam::*:user/hermesops-*"]})
        # versitygw finds no name for a user that is not there: whether there is one may be asked of all.
        others.append({"Effect": "Allow", "Action": ["iam:GetUser"], "Resource": ["*"]})
    statements = [
        {"Effect": "Allow", "Action": uses, "Resource": [f"{arn}/*"]},
        {"Effect": "Allow", "Action": looks, "Resource": [arn]},
        *others,
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def texts(answer: str, name: str) -> list[str]:
    """The text of each element of that name in an answer of IAM, whose values have no characters that XML escapes."""
    return re.findall(f"<{name}>([^<]*)</{name}>", answer)


def write(file: Path, content: str) -> None:
    """Replace a file that root alone can read, at once."""
    draft = file.with_name(f".{file.name}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(file)


if __name__ == "__main__":
    task, where = sys.argv[1], Path(sys.argv[2])
    try:
        make_root(where) if task == "root" else make_buckets(where, json.load(sys.stdin))
    except (FailedError, OSError) as error:
        sys.exit(f"object store: {error}")
