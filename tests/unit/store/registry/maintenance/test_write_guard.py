"""Nothing is written to a registry that is older than its anchor, and none is begun in place of a lost one."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.model.access.audit import AuditHead
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.log import no_warning
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance.backup import Copies, Copy, copy_database, hour_of
from hermesops.store.registry.maintenance.write_guard import WriteGuard, refuse_loss, refuse_older
from tests.support.real.stores.registries import registry_at

OTHER = "f" * 64


class CountedCopies(Copies):
    """Takes no copies, but counts how often it is asked; fails with ``problem``."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, keep=3)
        self.asked = 0
        self.problem: Exception | None = None

    def take_hourly(self) -> Copy | None:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        return None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "registry.db"


@pytest.fixture
def anchor(tmp_path: Path) -> Anchor:
    return Anchor(tmp_path / "audit.anchor")


@pytest.fixture
def copies(file: Path) -> CountedCopies:
    return CountedCopies(file)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Entries 1 and 2 of epoch 1, then 3 (which opened epoch 2) and 4 of epoch 2; nobody writes to it."""
    opened = registry_at(f"sqlite:///{tmp_path_factory.mktemp('registry')}/registry.db")
    opened.audit.append("command_run", "instance/1", why="test")
    opened.audit.append("command_run", "instance/2", why="test")
    assert opened.epochs.open("restored") == 2
    opened.audit.append("command_run", "instance/4", why="test")
    yield opened
    opened.close()


def head_of(registry: Registry, number: int) -> AuditHead:
    [entry] = [logged for logged in registry.audit.list() if logged.id == number]
    return AuditHead(entry.epoch, entry.id, entry.hash)


def refusal(registry: Registry, anchor: Anchor | None) -> str:
    """Why nothing may be written; empty where it may."""
    try:
        refuse_older(registry._database, anchor)
    except BrokenInvariantError as error:
        return error.message
    return ""


def test_a_registry_that_holds_the_newest_anchored_entry_may_be_written(registry: Registry, anchor: Anchor) -> None:
    assert refusal(registry, None) == ""
    assert refusal(registry, anchor) == "", "nothing is anchored yet"
    for number in (3, 9):
        anchor.append(AuditHead(1, number, OTHER))
        assert refusal(registry, anchor) == "", f"epoch 2 began from a copy that lacked entry {number} of epoch 1"
    anchor.append(head_of(registry, 4))
    assert refusal(registry, anchor) == ""


@pytest.mark.parametrize(
    "lacked",
    [AuditHead(2, 4, OTHER), AuditHead(2, 5, OTHER), AuditHead(1, 2, OTHER)],
    ids=["another entry of that id", "a later entry", "an entry before the next epoch"],
)
def test_a_registry_that_lacks_the_newest_anchored_entry_is_refused(
    registry: Registry, anchor: Anchor, lacked: AuditHead
) -> None:
    anchor.append(head_of(registry, 4))
    anchor.append(lacked)
    assert refusal(registry, anchor).endswith(f"it lacks audit entry {lacked.id} of epoch {lacked.epoch}")


def test_an_entry_of_another_epoch_is_another_entry(registry: Registry, anchor: Anchor) -> None:
    anchor.append(AuditHead(3, 4, head_of(registry, 4).hash))
    assert refusal(registry, anchor).endswith("it lacks audit entry 4 of epoch 3")


def guard(registry: Registry, anchor: Anchor | None, copies: Copies | None, warned: list[str]) -> WriteGuard:
    def warn(event: str, **fields: object) -> None:
        warned.append(f"{event}: {fields['error']}")

    return WriteGuard(registry._database, anchor, copies, warn, lambda: "tester")


def test_an_older_registry_is_refused_at_every_write_and_not_copied(
    registry: Registry, anchor: Anchor, copies: CountedCopies
) -> None:
    anchor.append(AuditHead(2, 5, OTHER))
    guarded = guard(registry, anchor, copies, [])
    for _ in range(2):
        with pytest.raises(BrokenInvariantError, match="lacks audit entry 5 of epoch 2"):
            guarded()
    assert copies.asked == 0


def test_a_registry_is_looked_at_before_its_first_write_alone(registry: Registry, anchor: Anchor) -> None:
    guarded = guard(registry, anchor, None, [])
    guarded()
    anchor.append(AuditHead(2, 5, OTHER))  # another process writes on, and this one has not read it yet
    guarded()
    assert refusal(registry, anchor)


def test_the_first_write_of_each_day_takes_a_copy(registry: Registry, copies: CountedCopies) -> None:
    guarded = guard(registry, None, copies, [])
    guarded()
    guarded()
    assert copies.asked == 1
    guarded._copied_in = hour_of() - timedelta(hours=1)
    guarded()
    assert copies.asked == 2


@pytest.mark.parametrize("problem", [UnavailableError("locked"), OSError("no room")], ids=["locked", "full"])
def test_a_copy_that_cannot_be_made_is_told_and_holds_nothing_up(
    registry: Registry, copies: CountedCopies, problem: Exception
) -> None:
    warned: list[str] = []
    copies.problem = problem
    guarded = guard(registry, None, copies, warned)
    guarded()
    guarded()
    assert warned == [f"registry_not_copied: {problem}"]


def test_a_damaged_registry_is_refused_at_every_write(registry: Registry, copies: CountedCopies) -> None:
    copies.problem = BrokenInvariantError("the registry is damaged")
    guarded = guard(registry, None, copies, [])
    for _ in range(2):
        with pytest.raises(BrokenInvariantError, match="the registry is damaged"):
            guarded()


def test_nobody_who_may_not_write_gets_any_further(registry: Registry, anchor: Anchor, copies: CountedCopies) -> None:
    def nobody() -> str:
        raise RefusedError("no operator")

    anchor.append(AuditHead(2, 5, OTHER))
    with pytest.raises(RefusedError, match="no operator"):
        WriteGuard(registry._database, anchor, copies, no_warning, nobody)()
    assert copies.asked == 0


def test_a_registry_whose_file_was_replaced_with_an_older_one_is_not_written(file: Path, anchor: Anchor) -> None:
    url, older = f"sqlite:///{file}", file.with_name("older.db")
    registry = registry_at(url, anchor=anchor)
    registry.audit.append("command_run", "instance/1", why="test")
    copy_database(file, older)
    registry.audit.append("command_run", "instance/2", why="test")
    registry.close()
    older.replace(file)
    again = registry_at(url, anchor=anchor)
    with pytest.raises(BrokenInvariantError, match="lacks audit entry 2 of epoch 1"):
        again.audit.append("command_run", "instance/3", why="test")
    assert [entry.subject for entry in again.audit.list()] == ["instance/1"]
    again.close()


def lost(file: Path, anchor: Anchor | None, copies: Copies | None) -> str:
    """Why no registry is begun at a file; empty where one may be."""
    database = Database(f"sqlite:///{file}")
    try:
        refuse_loss(database, anchor, copies)
    except BrokenInvariantError as error:
        return error.message
    finally:
        database.close()
    return ""


@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "empty"])
def test_a_registry_is_begun_where_there_was_none_alone(file: Path, anchor: Anchor, *, is_empty: bool) -> None:
    copies = Copies(file, keep=3)
    file.parent.mkdir()
    if is_empty:
        file.touch()
    output = f"the registry {file} is missing, although there was one"
    assert lost(file, None, None) == ""
    assert lost(file, anchor, copies) == ""
    copies.folder.mkdir()
    (copies.folder / "registry-20260101T120000.000000Z-daily.db").touch()
    assert lost(file, None, copies) == output
    assert lost(file, anchor, None) == ""
    anchor.append(AuditHead(1, 1, OTHER))
    assert lost(file, anchor, None) == output


def test_a_registry_that_is_there_is_not_lost(registry: Registry, anchor: Anchor) -> None:
    anchor.append(AuditHead(1, 1, OTHER))
    assert lost(Path(registry._database.title), anchor, None) == ""
