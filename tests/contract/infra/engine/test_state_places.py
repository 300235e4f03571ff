"""Places of state, a folder and a bucket: the same promises, the same names, the same stacks."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hermesops.base.waiting import pause_blocking
from hermesops.errors import HermesError, UnavailableError, UsageError
from hermesops.infra.engine.embedded.state import lock
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.lock import held, outwait
from hermesops.infra.engine.embedded.state.storage import Storage, open_storage
from hermesops.model.stack import StackRef
from tests.support.engine.fake_stack import STACK, FakeStack, machines
from tests.support.real.stores.bucket import new_bucket, s3_server, use_credentials

pytestmark = [pytest.mark.turns(22), pytest.mark.usefixtures("one_salt")]

REF = StackRef("fleet", "cell1")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(params=["folder", "bucket", "folder of a bucket"])
def where(request: pytest.FixtureRequest, tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    use_credentials(monkeypatch)
    match request.param:
        case "folder":
            return f"file://{tmp_path}/state"
        case "bucket":
            return new_bucket(endpoint)
        case _:
            return new_bucket(endpoint, "some/folder")


@pytest.fixture
def place(where: str) -> Storage:
    return open_storage(where)


def test_what_is_written_is_read_replaced_and_gone(place: Storage) -> None:
    assert place.read("a/b.json") is None
    place.write("a/b.json", b"one")
    place.write("a/b.json", b"two")
    assert place.read("a/b.json") == b"two"
    place.delete("a/b.json")
    place.delete("a/b.json")
    assert place.read("a/b.json") is None


def test_only_the_files_of_that_very_folder_are_listed(place: Storage) -> None:
    for name in ("f/2.json", "f/1.json", "f/deeper/3.json", "fa/4.json", "5.json"):
        place.write(name, b"")
    assert place.list("f") == ["f/1.json", "f/2.json"]
    assert place.list("nowhere") == []


def test_what_is_kept_outlives_what_is_written_next(place: Storage) -> None:
    place.keep("s.json", "s.json.bak")
    assert place.read("s.json.bak") is None
    for content in (b"one", b"two", b"three"):
        place.keep("s.json", "s.json.bak")
        place.write("s.json", content)
    assert place.read("s.json.bak") == b"two"
    assert place.read("s.json") == b"three"


def test_another_opening_sees_the_same(place: Storage, where: str) -> None:
    place.write(".pulumi/x.json", b"here")
    assert open_storage(where).read(".pulumi/x.json") == b"here"
    assert place.url == where


def test_a_second_writer_is_refused_and_named(where: str) -> None:
    first, two = FileBackend(where), FileBackend(where)
    with held(first.lock_folder(REF), stack="cell1", report=pytest.fail):
        with (
            pytest.raises(UnavailableError, match=rf"locked by 1 other.*pid {os.getpid()}"),
            held(two.lock_folder(REF), stack="cell1", report=pytest.fail),
        ):
            pytest.fail("two hold it")
        with held(two.lock_folder(StackRef("fleet", "cell2")), stack="cell2", report=pytest.fail):
            pass
    assert first.lock_folder(REF).files("") == []


def test_two_who_come_at_once_do_not_both_get_in(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's lock appears between our first look and our write."""
    backend = FileBackend(where)
    folder = backend.lock_folder(REF)
    theirs = {"pid": 1, "username": "u", "hostname": "elsewhere", "timestamp": "2026-01-01T00:00:00Z"}
    write = backend.storage.write

    def late(name: str, content: bytes) -> None:
        write(f"{folder.name}/other.json", json.dumps(theirs).encode())
        write(name, content)

    monkeypatch.setattr(backend.storage, "write", late)
    with (
        pytest.raises(UnavailableError, match="created by u@elsewhere"),
        held(folder, stack="cell1", report=pytest.fail),
    ):
        pytest.fail("both got in")
    assert folder.files("") == [f"{folder.name}/other.json"]


def test_many_who_come_at_once_never_get_in_together(where: str) -> None:
    folder = FileBackend(where).lock_folder(REF)
    inside, most = 0, 0
    counting, together = threading.Lock(), threading.Barrier(4)

    def come() -> None:
        nonlocal inside, most
        for _ in range(3):
            together.wait(60)
            with suppress(UnavailableError), held(folder, stack="cell1", report=pytest.fail):
                with counting:
                    inside += 1
                    most = max(most, inside)
                pause_blocking(0.02)
                with counting:
                    inside -= 1

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(come) for _ in range(4)]:
            done.result()
    assert most <= 1
    assert folder.files("") == []
    with held(folder, stack="cell1", report=pytest.fail):
        pass


def test_the_lock_of_a_dead_process_of_this_computer_is_removed(where: str) -> None:
    backend, reports = FileBackend(where), list[str]()
    folder = backend.lock_folder(REF)
    with held(folder, stack="cell1", report=pytest.fail):
        (file,) = folder.files(".json")
        mine = json.loads(backend.storage.read(file) or b"")
    mine["pid"], mine["hermesops"]["started"] = 2**22 - 7, "1"
    backend.storage.write(f"{folder.name}/dead.json", json.dumps(mine).encode())
    with held(folder, stack="cell1", report=reports.append):
        assert len(folder.files(".json")) == 1
    assert "which has ended" in reports[0]


async def test_the_lock_of_another_computer_that_lost_the_lease_is_removed_and_its_owner_writes_no_more(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a process of another computer lives cannot be seen: the token of its lease says whether it counts."""
    monkeypatch.setattr(lock, "GRACE_S", 0)
    backend, reports = FileBackend(where), list[str]()
    folder = backend.lock_folder(REF)
    with held(folder, stack="cell1", report=pytest.fail, token=(1, 5)) as theirs:
        document = json.loads(backend.storage.read(theirs.name) or b"")
        document["hermesops"]["host"] = "another"
        backend.storage.write(theirs.name, json.dumps(document).encode())
        for token in (None, (1, 4), (1, 5)):  # no later holder of the lease
            await outwait(folder, token, report=pytest.fail)
            with (
                pytest.raises(UnavailableError, match=r"stack cell1 is locked by 1 other"),
                held(folder, stack="cell1", report=pytest.fail, token=token),
            ):
                pytest.fail("two hold it")
        theirs.check()
        await outwait(folder, (2, 1), report=reports.append)
        with held(folder, stack="cell1", report=pytest.fail, token=(2, 1)) as mine:
            with pytest.raises(UnavailableError, match="took over stack cell1"):
                theirs.check()
            mine.check()
    assert "lost the lease" in reports[0]
    assert folder.files("") == []


async def test_a_run_whose_lock_was_taken_leaves_the_state_as_it_is(where: str, tmp_path: Path) -> None:
    stack = FakeStack(tmp_path).install()
    engine, backend = stack.engine(where=where), FileBackend(where)
    await engine.up(STACK, machines(["a"]))
    before = backend.read(STACK)
    taken = backend.lock_folder(STACK)

    def program() -> None:
        for file in taken.files(".json"):
            taken.storage.delete(file)
        machines(["a", "b"])()

    with pytest.raises(UnavailableError, match="took over stack"):
        await engine.up(STACK, program)
    assert backend.read(STACK) == before


async def test_a_stack_lives_there(where: str, tmp_path: Path) -> None:
    stack = FakeStack(tmp_path).install()
    engine = stack.engine(where=where)
    await engine.up(STACK, machines(["a", "b"]))
    assert (await stack.engine(where=where).up(STACK, machines(["a", "b"]))).changes == ()
    assert await engine.stacks("rec") == [STACK]
    place = open_storage(where)
    assert place.read(".pulumi/meta.yaml") == b"version: 1\n"
    assert place.list(".pulumi/stacks/rec") == [".pulumi/stacks/rec/dev.json", ".pulumi/stacks/rec/dev.json.bak"]
    assert len(place.list(".pulumi/history/rec/dev")) == 4
    assert len(place.list(".pulumi/backups/rec/dev")) == 2
    assert place.list(".pulumi/locks/organization/rec/dev") == []


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Storage]:
    use_credentials(monkeypatch)
    good = new_bucket(endpoint)

    def changed(change: str) -> Storage:
        old, _, new = change.partition("=>")
        return open_storage(good.replace(old, new))

    return changed


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ("s3://state-=>s3://no-such-", UsageError, "NoSuchBucket"),
        ("http://127.0.0.1=>http://127.0.0.2", UnavailableError, "Could not connect"),
        ("endpoint=http://=>endpoint=ht tp://", UsageError, "endpoint"),
    ],
)
def test_a_bucket_that_cannot_be_had_is_one_line(
    bucket: Callable[[str], Storage],
    change: str,
    kind: type[HermesError],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermesops.infra.engine.embedded.state.bucket._TRIES", 1)
    with pytest.raises(kind, match=message):
        bucket(change).read("x")


def test_nobody_to_ask_as_is_said(bucket: Callable[[str], Storage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UsageError, match="no AWS credentials") as caught:
        bucket("=>").read("x")
    assert "AWS_ACCESS_KEY_ID" in str(caught.value.hint)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be written: Not a directory"):
        open_storage(tmp_path / "file").write("a/b.json", b"")
