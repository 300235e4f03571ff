"""Restoring the platform's database: in which order, and what stays where something fails."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from hermesops.access.registry_place import RestoredEpoch
from hermesops.errors import PartlyDoneError, UnavailableError, UsageError
from hermesops.model.access.audit import ChainReport
from hermesops.platform.connection.connect import UNITS
from hermesops.platform.parts.users import USERS_UP
from hermesops.platform.restore import DatabaseRestore, target_of
from hermesops.vendor.channel import Completed
from tests.support.fakes.parts import part
from tests.support.suite.cases import each_case

ASIDE = "/var/lib/hermes-platform/postgresql.20261126T060000Z"


class Host:
    """Notes what is done; ``failing`` is a word of the command that fails."""

    def __init__(self, failing: str = "", says: str = ASIDE) -> None:
        self.done: list[str] = []
        self._failing = failing
        self._says = says

    async def run(self, command: str, **_: object) -> Completed:
        self.done.append(re.sub(r"(?s)sh -c .* sh ", "set aside ", command))
        if self._failing and self._failing in command:
            return Completed(1, b"", b"no space left")
        return Completed(0, f"{self._says}\n".encode(), b"")

    async def apply(self, target: str) -> int:
        self.done.append(f"apply {target}")
        if self._failing == "apply":
            raise PartlyDoneError("the role failed")
        return 3

    def open_epoch(self) -> RestoredEpoch:
        self.done.append("epoch")
        return RestoredEpoch(7, ChainReport(9, None, 9, 9, 0, ()))

    def restore(self, *, is_connected: bool = True) -> DatabaseRestore:
        channel: Any = part(run=self.run)
        return DatabaseRestore(channel, self.apply, self.open_epoch if is_connected else None, lambda _: None)


async def test_nothing_works_with_the_registry_before_its_new_epoch() -> None:
    host = Host()
    restored = await host.restore().run("latest")
    assert (restored.set_aside, restored.epoch, restored.target) == (ASIDE, 7, "latest")
    assert restored.audit
    assert restored.audit.told == "9 audit entries were verified, up to 9 against the anchor"
    assert host.done == [
        "set aside latest",
        "apply latest",
        "epoch",
        f"systemctl enable --quiet --now {' '.join(UNITS)}",
        USERS_UP,
        "rm -f /var/lib/hermes-platform/postgresql.restoring",
    ]


async def test_a_platform_that_no_environment_uses_has_no_epoch_and_no_processes() -> None:
    host = Host()
    assert (await host.restore(is_connected=False).run("latest")).epoch == 0
    assert [name.split()[0] for name in host.done] == ["set", "apply", "rm"]


@pytest.mark.parametrize(("failing", "error"), [("set -eu", UnavailableError), ("apply", PartlyDoneError)])
async def test_the_note_stays_until_all_is_done(failing: str, error: type[Exception]) -> None:
    host = Host(failing)
    with pytest.raises(error):
        await host.restore().run("latest")
    assert not [name for name in host.done if name.startswith(("rm", "epoch", "systemctl"))]


@each_case("says", ["", "/etc", f"{ASIDE}\x1b[2J", f"{ASIDE}\n{ASIDE}", "x" * 100_000])
async def test_a_host_that_names_another_folder_is_told_of_in_words_that_may_be_shown(says: str) -> None:
    host = Host(says=says)
    with pytest.raises(UnavailableError, match="when asked to set its database aside") as caught:
        await host.restore().run("latest")
    assert len(caught.value.message) < 250
    assert caught.value.message.isprintable()
    assert len(host.done) == 1


def test_a_moment_is_told_in_utc() -> None:
    at = datetime(2026, 11, 26, 8, 30, tzinfo=timezone(timedelta(hours=2)))
    assert target_of(at, at) == "2026-11-26 06:30:00+00"
    assert target_of(datetime(2026, 11, 26, tzinfo=UTC), at) == "2026-11-26 00:00:00+00"
    assert target_of(None, at) == "latest"


def test_a_moment_in_the_future_is_refused() -> None:
    now = datetime(2026, 11, 26, tzinfo=UTC)
    with pytest.raises(UsageError, match="2026-11-26 00:00:01 UTC is in the future"):
        target_of(now + timedelta(seconds=1), now)
