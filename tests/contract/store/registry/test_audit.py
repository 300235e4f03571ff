"""The audit is chained as it is written, and whoever rewrites it behind our back is found: both databases."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry, open_registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.log import acting_as
from tests.support.real.stores.registries import KEYS, TurnedClock, registry_at


@pytest.fixture
def anchor(tmp_path: Path) -> Anchor:
    return Anchor(tmp_path / "audit.anchor")


@pytest.fixture
def registry(registry_url: str, anchor: Anchor) -> Iterator[Registry]:
    opened = registry_at(registry_url, anchor=anchor)
    yield opened
    opened.close()


def write(registry: Registry, *numbers: int) -> None:
    for number in numbers:
        registry.audit.append("command_run", f"instance/{number}", why="because", after={"exit_code": number})


def rewrite(registry: Registry, *statements: str, with_triggers: bool = True) -> None:
    """Do what somebody with the database's own password can do, and put the triggers back or not."""
    with registry._database._engine.connect().execution_options(hermesops_writes=True) as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        triggers: list[str] = []
        if is_sqlite:
            rows = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
            triggers = [row.sql for row in rows]
            for row in rows:
                connection.execute(sa.text(f"DROP TRIGGER {row.name}"))
        else:
            connection.execute(sa.text("ALTER TABLE audit DISABLE TRIGGER ALL"))
            triggers = ["ALTER TABLE audit ENABLE TRIGGER ALL"]
        for statement in (*statements, *(triggers if with_triggers else ())):
            connection.execute(sa.text(statement))
        connection.commit()


def findings(registry: Registry) -> list[int]:
    return [finding.id for finding in registry.audit.check().findings]


async def test_entries_of_a_users_request_name_the_user_in_threads_too(registry: Registry) -> None:
    with acting_as("user:ada"):
        await in_db_thread(write, registry, 1)
        await asyncio.to_thread(write, registry, 2)
        write(registry, 3)
    await in_db_thread(write, registry, 4)
    assert [entry.who for entry in registry.audit.list()] == ["tester", *["user:ada"] * 3]


def test_what_is_written_hangs_together_and_is_anchored(registry: Registry, anchor: Anchor) -> None:
    write(registry, 1, 2, 3)
    report = registry.audit.check()
    assert (report.findings, report.entries, report.anchors, report.anchored_to) == ((), 3, 3, 3)
    assert anchor.last() == report.head
    assert [entry.id for entry in registry.audit.list()] == [3, 2, 1]


def test_everything_that_one_transaction_notes_is_chained(registry: Registry, anchor: Anchor) -> None:
    with registry._database.writing() as connection:
        for number in (1, 2, 3):
            registry.audit._note(connection, "noted", f"x/{number}")
    report = registry.audit.check()
    assert (report.findings, report.entries) == ((), 3)
    assert list(anchor.heads()) == [report.head], "one head stands for all of them"


def test_a_transaction_that_is_undone_leaves_neither_entry_nor_anchor(registry: Registry, anchor: Anchor) -> None:
    def fail() -> None:
        with registry._database.writing() as connection:
            registry.audit._note(connection, "noted", "x/1")
            raise BrokenInvariantError("on the way")

    with pytest.raises(BrokenInvariantError, match="on the way"):
        fail()
    assert registry.audit.list() == ()
    assert anchor.last() is None
    write(registry, 1)
    assert findings(registry) == []


@pytest.mark.parametrize(
    ("statements", "where"),
    [
        (["UPDATE audit SET why = 'becausf' WHERE id = 3"], 3),
        (["UPDATE audit SET who = 'nobody' WHERE id = 1"], 1),
        (["""UPDATE audit SET after = '{"exit_code": 0}' WHERE id = 4"""], 4),
        (["DELETE FROM audit WHERE id = 3"], 3),
        (["DELETE FROM audit WHERE id = 1"], 1),
        (["DELETE FROM audit WHERE id >= 5"], 5),
        (
            [
                "UPDATE audit SET id = 99 WHERE id = 2",
                "UPDATE audit SET id = 2 WHERE id = 3",
                "UPDATE audit SET id = 3 WHERE id = 99",
            ],
            2,
        ),
    ],
    ids=["one byte", "author", "values", "middle removed", "first removed", "tail removed", "pair swapped"],
)
def test_what_was_rewritten_is_named(registry: Registry, statements: list[str], where: int) -> None:
    write(registry, 1, 2, 3, 4, 5, 6)
    rewrite(registry, *statements)
    assert findings(registry)[0] == where


def test_a_chain_computed_anew_differs_from_the_anchor(registry: Registry, registry_url: str) -> None:
    write(registry, 1, 2)
    rewrite(registry, "DELETE FROM audit")
    unanchored = registry_at(registry_url)
    write(unanchored, 1, 7)
    assert findings(unanchored) == [], "the new one hangs together in itself"
    unanchored.close()
    assert findings(registry) == [1, 2]


def test_triggers_that_are_gone_are_found(registry: Registry) -> None:
    write(registry, 1)
    rewrite(registry, with_triggers=False)
    assert findings(registry) == [0]


def test_many_writers_make_one_chain(registry_url: str, anchor: Anchor) -> None:
    registries = [registry_at(registry_url, anchor=anchor) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda writer: write(writer, *range(10)), registries))
    report = registries[0].audit.check()
    assert (report.findings, report.entries, report.anchors, report.anchored_to) == ((), 40, 40, 40)
    for registry in registries:
        registry.close()


def test_entries_are_chosen_by_author_subject_and_moment(registry_url: str) -> None:
    clock = TurnedClock()
    registry = registry_at(registry_url, clock=clock)
    write(registry, 1)
    clock.turn(60)
    write(registry, 2)
    registry.close()
    chosen: list[tuple[dict[str, Any], int]] = [
        ({"subject": "instance/1"}, 1),
        ({"who": "tester"}, 2),
        ({"who": "test"}, 0),
        ({"since": clock.timestamp}, 1),
        ({"since": clock.timestamp + timedelta(seconds=1)}, 0),
        ({"limit": 1}, 1),
    ]
    for words, count in chosen:
        assert len(registry.audit.list(**words)) == count, words


# The registry is the one that was written to


def test_a_registry_put_back_by_hand_is_not_written_to_before_a_new_epoch(
    registry: Registry, registry_url: str
) -> None:
    write(registry, 1, 2, 3)
    lease = registry.leases.take("instance/1", "one")
    rewrite(registry, "DELETE FROM audit WHERE id = 3")
    anchor = registry._context.audit_log.anchor
    again = registry_at(registry_url, anchor=anchor)
    attempts: list[Callable[[], object]] = [
        lambda: write(again, 4),
        lambda: again.leases.take("instance/2", "two"),
        lambda: again.leases.renew([lease]),
    ]
    for attempt in attempts:
        with pytest.raises(BrokenInvariantError, match="lacks audit entry 3 of epoch 1") as refused:
            attempt()
        assert "hermesops registry restore --already-restored" in str(refused.value.hint)
    assert len(again.audit.list()) == 2, "it may be read"
    assert again.epochs.open("restored from the database's backup") == 2
    write(again, 4)
    report = again.audit.check()
    assert (report.findings, report.lost) == ((), 1)
    assert again.leases.take("instance/1", "two").epoch == 2
    again.close()


def test_an_epoch_outranks_all_that_the_anchor_knows(registry: Registry, registry_url: str) -> None:
    write(registry, 1)
    assert registry.epochs.open("once") == 2
    rewrite(registry, "DELETE FROM audit WHERE id = 2", "UPDATE meta SET value = '1' WHERE name = 'epoch'")
    again = registry_at(registry_url, anchor=registry._context.audit_log.anchor)
    assert again.epochs.open("twice, from the same copy") == 3
    assert again.audit.check().findings == ()
    again.close()


# The file of heads


def test_a_torn_line_of_the_anchor_is_skipped(registry: Registry, anchor: Anchor) -> None:
    write(registry, 1, 2)
    anchor.path.write_bytes(anchor.path.read_bytes()[:-20])
    assert registry.audit.check().anchors == 1
    write(registry, 3)
    report = registry.audit.check()
    assert (report.findings, report.anchors, report.anchored_to) == ((), 2, 3)


def test_an_anchor_that_cannot_be_written_undoes_nothing(registry_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    registry = registry_at(registry_url)
    registry._context.audit_log.anchor = Anchor(tmp_path / "file" / "anchor")
    write(registry, 1)
    assert len(registry.audit.list()) == 1
    registry.close()


def test_an_anchor_that_cannot_be_written_is_told_to_the_log(registry_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    registry_at(registry_url).close()
    warned: list[str] = []
    registry = open_registry(
        registry_url,
        environment="local",
        actor="tester",
        sealer=lambda _new: KEYS,
        warn=lambda event, **_fields: warned.append(event),
    )
    registry._context.audit_log.anchor = Anchor(tmp_path / "file" / "anchor")
    write(registry, 1)
    registry.close()
    assert warned == ["audit_not_anchored"]


def test_the_anchor_is_its_owners_alone(registry: Registry, anchor: Anchor) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    write(registry, 1)
    assert anchor.path.stat().st_mode & 0o777 == 0o600
    at, epoch, number, digest = anchor.path.read_text().split()
    assert datetime.fromisoformat(at) >= before
    assert (epoch, number, len(digest)) == ("1", "1", 64)
