"""Who is seen to be gone: processes of this computer, and nobody else; what they held is taken over at once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.base import processes, waiting
from hermesops.model.operation import Lease, LeaseHeldError
from hermesops.store.operations.leases.holder import is_gone, this_process
from hermesops.store.operations.leases.keeper import SETTLE_S, LeaseKeeper
from tests.support.fakes.registry import FakeRegistry

NOW = datetime(2026, 11, 1, tzinfo=UTC)
PROGRAM = (
    "from hermesops.store.operations.leases.holder import this_process; print(this_process(), flush=True); input()"
)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another process, which waits to be ended."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def name_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_a_process_is_there_until_it_ends_also_before_anybody_has_waited_for_it(other: subprocess.Popen[str]) -> None:
    name = name_of(other)
    assert not is_gone(name)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # it stays in the list of processes
    assert is_gone(name)
    other.wait()
    assert is_gone(name)


def test_another_process_of_the_same_number_is_not_the_one_that_held_it() -> None:
    host, pid, where = this_process().split(":")
    place, start, part = where.split(".")
    assert not is_gone(f"{host}:{pid}:{place}.{start}.{part}")
    assert is_gone(f"{host}:{pid}:{place}.{int(start) + 1}.{part}")


def test_nothing_is_known_of_who_is_elsewhere() -> None:
    _, pid, where = this_process().split(":")
    _, start, part = where.split(".")
    for holder in (f"there:{pid}:ffffffff.{int(start) + 1}.{part}", "host:77:ab", "operator", ""):
        assert not is_gone(holder)


def test_a_process_that_is_hidden_from_us_is_not_gone(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user's is where ``/proc`` is mounted with hidepid."""
    name = name_of(other)

    def hidden(_pid: int) -> list[str]:
        return []

    monkeypatch.setattr(processes, "_stat", hidden)
    assert not is_gone(name)
    other.kill()
    other.wait()
    assert is_gone(name)


def test_a_name_with_brackets_does_not_hide_what_follows_it() -> None:
    program = "open('/proc/self/comm', 'w').write('a) Z 1 (b'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        start = processes.started(process.pid)
        assert process.stdout
        process.stdout.readline()
        assert not processes.has_ended(processes.here().fingerprint, process.pid, start)
        process.kill()


class Leases(FakeRegistry):
    """One lease.

    Attributes:
        takers: Who took it, and from whom.
    """

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.takers: list[str] = []

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        if self.holder not in {"", over}:
            raise LeaseHeldError(f"{subject} is held by {self.holder}", holder=self.holder)
        self.takers.append(over)
        self.holder = holder
        return Lease(subject, holder, 1, 1, NOW + timedelta(seconds=15))

    def leases_renew(self, held: object) -> tuple[str, ...]:
        del held
        return ()

    def leases_release(self, held: Lease) -> None:
        assert held.holder == self.holder
        self.holder = ""


async def test_what_a_dead_process_holds_is_taken_over_after_a_moment(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(waiting, "pause", pause)
    leases = Leases(name_of(other))
    with pytest.raises(LeaseHeldError, match="instance/a is held by"):
        await LeaseKeeper(leases, "instance/a").__aenter__()
    assert waited == []
    other.kill()
    other.wait()
    dead = leases.holder
    async with LeaseKeeper(leases, "instance/a"):
        assert leases.takers == [dead]
    assert waited == [SETTLE_S]


async def test_of_two_that_see_the_same_dead_process_one_is_refused(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = Leases(name_of(other))
    other.kill()
    other.wait()

    async def pause(_seconds: float) -> None:
        leases.holder = "somebody quicker"

    monkeypatch.setattr(waiting, "pause", pause)
    with pytest.raises(LeaseHeldError, match="somebody quicker"):
        await LeaseKeeper(leases, "instance/a").__aenter__()
