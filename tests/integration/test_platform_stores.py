"""Roles of the platform's stores on one booted machine; the tests build on each other, in this order."""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import boto3
import botocore.exceptions
import psycopg
import pytest
from cryptography import x509

from hermesops.base.network.aws_client import client_options
from tests.support.fakes.credentials import authority_in
from tests.support.real.stores.platform_stores import (
    BASE,
    NAME,
    OBJECT_STORE,
    POSTGRESQL,
    REDIS,
    StoresHost,
    stores_host,
)
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.converged import converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

ROLES = (*BASE, OBJECT_STORE, POSTGRESQL, REDIS)
UNITS = ("object-store", "object-store-iam", "postgresql", "redis")
BUCKET = {"hermes_platform_postgresql_bucket": "postgresql"}
BUCKETS = ("backups", "postgresql", "pulumi-state", "releases")


@pytest.fixture(scope="module")
async def host() -> AsyncIterator[StoresHost]:
    require(os.geteuid() == 0, "root")
    async with converged_world(for_platform=True) as world, stores_host(world) as host:
        yield host


@pytest.fixture(scope="module")
async def applied(host: StoresHost) -> StoresHost:
    checked = await host.apply(ROLES, BUCKET, check=True)
    assert checked.status == "done", checked.failure
    assert "hermes-platform" not in await host.run("ls /etc")
    first = await host.apply(ROLES, BUCKET)
    assert first.status == "done", first.failure
    return host


async def test_a_second_run_changes_nothing(applied: StoresHost) -> None:
    second = await applied.apply(ROLES, BUCKET)
    assert (second.status, second.changed) == ("done", ())


async def test_services_run_hardened_and_each_as_a_user_of_its_own(applied: StoresHost) -> None:
    for unit in UNITS:
        shown = await applied.run(f"systemctl show -p ActiveState -p User -p NRestarts hermes-platform-{unit}.service")
        lines = dict(line.split("=", 1) for line in shown.splitlines())
        assert (lines["ActiveState"], lines["NRestarts"]) == ("active", "0")
        assert lines["User"] == {"postgresql": "postgres", "redis": "redis"}.get(unit, "hermes-object-store")
        security = await applied.run(f"systemd-analyze security --no-pager hermes-platform-{unit}.service | tail -1")
        assert float(security.split(": ")[1].split()[0]) <= 1.5, security
    for masked in ("postgresql.service", "redis-server.service"):
        assert (await applied.fails(f"systemctl is-enabled {masked}")).strip() == "masked"


async def test_no_secret_is_an_argument_a_line_of_a_log_or_readable_by_others(applied: StoresHost) -> None:
    read = "cat /etc/hermes-platform/secrets/redis-password /etc/hermes-platform/secrets/object-store/* "
    held = await applied.run(read + "/etc/hermes-platform/secrets/pgbackrest/*")
    values = {line.rpartition("=")[2].strip() for line in held.splitlines()}
    secrets = {value for value in values if len(value) >= 20}
    assert len(secrets) >= 2 * (len(BUCKETS) + 1) + 1
    output = await applied.run("ps -e -o args=; journalctl --no-pager --output=cat")
    output += await applied.run("cat /etc/systemd/system/hermes-platform-* /etc/hermes-platform/*/*.conf 2>/dev/null")
    assert not [secret for secret in secrets if secret in output]
    assert "Invoked with files=" not in output  # neither is the text of any other file
    where = "/etc/hermes-platform/secrets /var/lib/hermes-platform"
    open_files = f"find {where} -type f -perm /o=r -not -path '*/tls/*' -not -path '*/metrics/*'"
    assert (await applied.run(open_files)).split() == []
    key = await applied.run("stat -c '%a %U:%G' /etc/hermes-platform/tls/server.key")
    assert key == "640 root:hermes-platform-tls"
    for user in ("nobody", "www-data", "hermes"):
        await applied.fails(f"runuser -u {user} -- cat /etc/hermes-platform/tls/server.key")


async def test_the_database_lets_in_by_the_whole_subject_of_a_certificate(applied: StoresHost, tmp_path: Path) -> None:
    def connected(client: Path, role: str, **more: str) -> str:
        url = applied.database_url(client, role=role, driver="")
        with psycopg.connect(url, connect_timeout=10, **more) as connection:  # type: ignore[arg-type]
            [user, tls] = connection.execute(
                "SELECT current_user, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).fetchone() or ("", "")
        assert tls == "TLSv1.3"
        return str(user)

    ours, router = applied.client("hermesops"), applied.client("hermesops-router")
    assert connected(ours, "hermesops") == "hermesops"
    assert connected(router, "router") == "router"
    other = applied.client("hermesops", authority=authority_in(tmp_path, environment="other"), environment="other")
    elsewhere = applied.client("hermesops", environment="staging")
    refused = [(ours, "router"), (ours, "postgres"), (router, "hermesops"), (other, "hermesops")]
    for client, role in [*refused, (elsewhere, "hermesops"), (applied.client("hermesops-platform"), "hermesops")]:
        with pytest.raises(psycopg.OperationalError):
            connected(client, role)
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        connected(ours, "hermesops", sslmode="disable")
    url = applied.database_url(router, role="router", driver="")
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("CREATE TABLE public.mine (n int)")


async def test_redis_asks_for_a_certificate_and_a_password(applied: StoresHost) -> None:
    password = (await applied.run("cat /etc/hermes-platform/secrets/redis-password")).strip()
    client = applied.client("hermesops")
    reports = await redis(applied, client, f"AUTH hermesops {password}", "SET a 1 EX 60", "GET a", "PUBLISH c m")
    assert reports == ["+OK", "+OK", "$1", "1", ":0"]
    assert (await redis(applied, client, "PING"))[0].startswith("-NOAUTH")
    assert (await redis(applied, client, f"AUTH default {password}"))[0].startswith("-WRONGPASS")
    for command in ("CONFIG GET *", "FLUSHALL", "ACL LIST", "KEYS *", "SHUTDOWN NOSAVE"):
        assert (await redis(applied, client, f"AUTH hermesops {password}", command))[1].startswith("-NOPERM")
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await redis(applied, None, "PING")
    with pytest.raises((ConnectionError, TimeoutError)):  # the firewall drops what no service listens to
        async with asyncio.timeout(5):
            await asyncio.open_connection(applied.address, 6379)


async def redis(host: StoresHost, client: Path | None, *commands: str) -> list[str]:
    """The lines that Redis answers to inline commands."""
    context = host.context(client)
    reader, writer = await asyncio.open_connection(host.address, 6380, ssl=context)
    writer.write("".join(f"{command}\r\n" for command in [*commands, "QUIT"]).encode())
    await writer.drain()
    answer = await reader.read()
    writer.close()
    if not answer:
        raise ConnectionError
    return answer.decode().splitlines()[:-1]


async def test_a_buckets_user_uses_its_bucket_alone(applied: StoresHost) -> None:
    for bucket in BUCKETS:
        s3 = await s3_of(applied, bucket)
        s3.put_object(Bucket=bucket, Key="of/a/test", Body=b"text")
        assert s3.get_object(Bucket=bucket, Key="of/a/test")["Body"].read() == b"text"
        s3.delete_object(Bucket=bucket, Key="of/a/test")
        keeps = s3.get_bucket_versioning(Bucket=bucket).get("Status") == "Enabled"
        assert keeps == (bucket != "postgresql")
        for other in {*BUCKETS} - {bucket}:
            with pytest.raises(botocore.exceptions.ClientError, match=r"AccessDenied|Forbidden"):
                s3.list_objects_v2(Bucket=other)
        with pytest.raises(botocore.exceptions.ClientError, match=r"AccessDenied|Forbidden"):
            s3.delete_bucket(Bucket=bucket)


async def s3_of(host: StoresHost, bucket: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - boto3's client
    """A client of the store with the key of a bucket's user."""
    access, secret = await host.key_of(bucket)
    file = host.world.folder / "authorities"
    file.write_text(host.authority.certificate)
    session = boto3.Session(access, secret, region_name="us-east-1")
    options = client_options(is_local=True)
    return session.client("s3", endpoint_url=f"https://{host.address}:8445", verify=str(file), **options)


async def test_backups_are_encrypted_and_can_be_made_at_any_time(applied: StoresHost) -> None:
    await applied.run("hermes-pgbackrest check")
    await applied.run("systemctl start hermes-platform-postgresql-backup@diff.service")
    info = await applied.run("hermes-pgbackrest info")
    assert "status: ok" in info
    assert "cipher: aes-256-cbc" in info
    assert "full backup: " in info
    assert "diff backup: " in info
    timers = await applied.run("systemctl list-timers --no-pager --no-legend 'hermes-platform-postgresql-backup*'")
    assert len(timers.splitlines()) == 2
    plain = "grep -rl 'backup-timestamp\\|PostgreSQL' /var/lib/hermes-platform/object-store/data/postgresql || true"
    assert (await applied.run(plain)).split() == []


async def test_figures_say_how_old_backups_are_and_whether_the_log_arrives(applied: StoresHost) -> None:
    await applied.run("systemctl start hermes-platform-postgresql-metrics.service")
    lines = (await applied.run("cat /var/lib/hermes-platform/metrics/postgresql.prom")).splitlines()
    figures = {name.removeprefix("hermes_platform_postgresql_"): float(value) for name, value in map(str.split, lines)}
    assert (figures["up"], figures["repository_up"]) == (1, 1)
    newest = [figures[f'backup_timestamp_seconds{{type="{kind}"}}'] for kind in ("diff", "full")]
    assert all(0 < time.time() - at < 3600 for at in [*newest, figures["log_archived_timestamp_seconds"]])


async def test_a_new_certificate_is_read_without_a_connection_lost(applied: StoresHost) -> None:
    with psycopg.connect(applied.database_url(applied.client("hermesops"), driver="")) as connection:
        own = applied.authority.serve([applied.address, "127.0.0.1", NAME], life=timedelta(days=7))
        fresh = {"hermes_platform_tls_certificate": own.pem, "hermes_platform_tls_key": own.key}
        renewed = await applied.apply(("hermes_platform_tls",), fresh)
        assert renewed.status == "done", renewed.failure
        assert connection.execute("SELECT 1").fetchone() == (1,)
    serial = f"serial={x509.load_pem_x509_certificate(own.pem.encode()).serial_number:X}"
    for port, more in ((5432, "-starttls postgres"), (6380, ""), (8445, ""), (8447, "")):
        shown = (
            f"openssl s_client {more} -connect 127.0.0.1:{port} </dev/null 2>/dev/null | openssl x509 -noout -serial"
        )
        assert (await applied.run(shown)).strip().replace("=0", "=") == serial, port
    await applied.run("hermes-pgbackrest check")
