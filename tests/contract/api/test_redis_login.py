"""The login at a Redis whose password changes by itself: each connection has the one that is in the file then."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from hermesops.settings.sections import WebSettings
from hermesops.users.chat.redis_client import redis_client
from tests.support.real.stores.redis_server import RedisServer, redis_server

USER = "hermesops-staging-app"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


async def set_passwords(redis: RedisServer, *passwords: str) -> None:
    """Have a user with these passwords and no other, as ElastiCache has one between two changes."""
    words = ["on", "resetpass", *(f">{password}" for password in passwords), "~hermesops:*", "+@all"]
    async with redis.client() as admin:
        await admin.execute_command("ACL", "SETUSER", USER, *words)


def client(tmp_path: Path, file: Path, url: str) -> Any:  # noqa: ANN401 - redis-py's answers depend on its options
    """A client with the login that the settings describe, on the socket of the server here."""
    described = redis_client(WebSettings.model_validate({"redis_url": url, "redis_password_file": file}))
    login = described.connection_pool.connection_kwargs["credential_provider"]
    return Redis(unix_socket_path=str(tmp_path / "redis.sock"), credential_provider=login)


def write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


async def test_a_new_connection_has_the_password_that_is_in_the_file_now(tmp_path: Path, redis: RedisServer) -> None:
    file = tmp_path / "password"
    write(file, "first")
    await set_passwords(redis, "first")
    async with client(tmp_path, file, f"rediss://{USER}@redis.test:6379") as asking:
        assert await asking.set("hermesops:x", "1")
        await set_passwords(redis, "second", "first")
        write(file, "second")
        await asking.connection_pool.disconnect()
        assert await asking.get("hermesops:x") == b"1"
        await set_passwords(redis, "third", "second")
        await asking.connection_pool.disconnect()
        assert await asking.get("hermesops:x") == b"1", "the one before counts until the next change"
        await set_passwords(redis, "fourth", "third")
        await asking.connection_pool.disconnect()
        with pytest.raises(RedisConnectionError, match="invalid username-password"):
            await asking.get("hermesops:x")
        write(file, "fourth")
        assert await asking.get("hermesops:x") == b"1"


async def test_a_file_that_cannot_be_read_is_an_error_of_the_connection(tmp_path: Path, redis: RedisServer) -> None:
    """Users of Redis go on without it after such errors; any other would end an answer."""
    file = tmp_path / "password"
    await set_passwords(redis, "first")
    async with client(tmp_path, file, f"rediss://{USER}@redis.test:6379") as asking:
        with pytest.raises(RedisConnectionError, match="the password of Redis is missing"):
            await asking.ping()
        write(file, "")
        with pytest.raises(RedisConnectionError, match="is empty"):
            await asking.ping()
        write(file, "first")
        assert await asking.ping()
