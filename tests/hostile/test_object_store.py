"""An object store that is not what it was: each question to it ends in time and size."""

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket
from hermesops.agents.backup.store.restic import Restic
from hermesops.base import blocking
from hermesops.base.network import aws_client
from hermesops.base.network.aws_client import call
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Credential
from tests.support.hostile.agents.hostile_moods import MOODS
from tests.support.hostile.http_service import hostile_service

LIMIT_S = 1.0
ENDS_S = 60.0
MOST = 96 << 20
INSTANCE = InstanceId("0b8f1c9e-93ad-4a8f-a6b6-8f3ad9f4f8a4")

QUESTIONS: Mapping[str, Callable[[ObjectStore], object]] = {
    "prepare": ObjectStore.prepare,
    "answers": ObjectStore.answers,
    "issue": lambda store: store.issue("u", store.bucket.repository("test", INSTANCE)),
    "retire": lambda store: store.retire("u"),
    "revoke": lambda store: store.revoke("u"),
    "erase": lambda store: store.erase(store.bucket.repository("test", INSTANCE)),
}


def _store(url: str, folder: Path) -> ObjectStore:
    key_file = folder / "key"
    if not key_file.exists():
        key_file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
        key_file.chmod(0o600)
    return ObjectStore(Bucket("backups", "us-east-1", url, url), key_file, is_local=True)


@pytest.mark.turns(60)
@pytest.mark.parametrize("mood", MOODS)
async def test_every_question_to_a_store_ends_within_its_limits(
    mood: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws_client, "_LARGEST", 1 << 20)
    monkeypatch.setattr(blocking, "_MOST_ABANDONED", 10_000)

    async def tried(question: Callable[[ObjectStore], object], store: ObjectStore) -> None:
        async with asyncio.timeout(ENDS_S):
            try:
                await call(question, store, within_s=LIMIT_S)
            except HermesError as error:
                assert len(error.message) < 700  # noqa: PT017 - some moods are what a store may answer

    async with hostile_service(mood) as service:
        store = _store(service.url, tmp_path)
        assert store._s3  # made before the time counts: boto3 takes some of it
        assert store._iam
        results = await asyncio.gather(
            *(tried(question, store) for question in QUESTIONS.values()), return_exceptions=True
        )
    assert dict(zip(QUESTIONS, results, strict=True)) == dict.fromkeys(QUESTIONS)
    assert service.taken < MOST


async def test_a_call_that_was_abandoned_asks_the_store_nothing_more(tmp_path: Path) -> None:
    """Its key would be one that nobody knows of, and it would end the one that was made after it."""
    goes_on, ended = threading.Event(), threading.Event()
    requests: list[int] = []

    async with hostile_service("html") as service:
        store = _store(service.url, tmp_path)

        def late() -> None:
            goes_on.wait(ENDS_S)
            try:
                store.retire("u")
            except UnavailableError as error:
                requests.append(service.taken)
                assert "too late" in error.message  # noqa: PT017 - looked at by the event below
                ended.set()

        with pytest.raises(UnavailableError, match=r"no answer within 0\.1 s"):
            await call(late, within_s=0.1)
        goes_on.set()
        assert await asyncio.to_thread(ended.wait, ENDS_S)
    assert requests == [0]


async def test_nobody_asks_a_store_any_more_that_left_too_many_calls_without_an_end() -> None:
    goes_on, before = threading.Event(), set(blocking._abandoned)
    try:
        for _ in range(blocking._MOST_ABANDONED):
            with pytest.raises(UnavailableError, match="no answer within"):
                await call(goes_on.wait, ENDS_S, within_s=0.01)
        with pytest.raises(UnavailableError, match="16 earlier calls have not ended"):
            await call(goes_on.is_set)
    finally:
        goes_on.set()
    for thread in blocking._abandoned - before:
        thread.join(ENDS_S)
    assert await call(goes_on.is_set)


def _restic(restic: Path, script: str) -> Restic:
    restic.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    restic.chmod(0o755)

    async def credential() -> Credential:
        return Credential("a", "b")

    return Restic({"PATH": f"{restic.parent}:/usr/bin:/bin"}, credential)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("{}", "unexpected list of snapshots"),
        ("7", "unexpected list of snapshots"),
        ("[1]", "unexpected list of snapshots"),
        ('[{"id": "a"}]', "unexpected list of snapshots"),
        ('[{"id": 7, "time": "2026-01-01T00:00:00Z"}]', "unexpected list of snapshots"),
        ('[{"id": "a", "time": "yesterday"}]', "unexpected list of snapshots"),
        (
            '[{"id":"a","time":"2026-01-01T00:00:00Z"},{"id":"b","time":"2026-01-01T00:00:00"}]',
            "unexpected list of snapshots",
        ),
        pytest.param("[" * 5000, "unexpected list of snapshots", id="deep"),
        ("<html>", "unexpected list of snapshots"),
    ],
)
async def test_snapshots_of_another_shape_are_no_answer(message: str, why: str, tmp_path: Path) -> None:
    restic = _restic(tmp_path / "restic", f"print({message!r})")
    with pytest.raises(UnavailableError, match=why):
        await restic.snapshots(Bucket("b", "r", "", "").repository("test", INSTANCE), "p")


async def test_restic_that_never_ends_to_speak_is_cut_short(tmp_path: Path) -> None:
    restic = _restic(tmp_path / "restic", "while True: sys.stdout.write('x' * 65536)")
    async with asyncio.timeout(ENDS_S):
        with pytest.raises(RefusedError, match="lists more than"):
            await restic.snapshots(Bucket("b", "r", "", "").repository("test", INSTANCE), "p")
