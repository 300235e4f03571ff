"""What module ``hermes_units`` says of a unit that does not come up: the end of what it wrote itself."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.roles.test_hermes_units import units

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["units"]


class FailedError(Exception):
    """What ``fail_json`` raises, in the place of ending the process."""


class Module:
    """Ansible's module on a machine one of whose units fails."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.asked: list[list[str]] = []

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        self.asked.append(command)
        if command[0] == "journalctl":
            return 0, "".join(f"line {number} {'x' * 1000}\n\n" for number in range(100)), ""
        if "show" in command:
            return 0, "\n\n".join("LoadState=loaded\nActiveState=failed\nResult=exit-code" for _ in command[5:]), ""
        return 1, "", "Job for second.service failed."

    def fail_json(self, **failure: object) -> None:
        self.told = failure
        raise FailedError


def test_the_end_of_its_own_log_is_told_and_cut(units: ModuleType) -> None:
    wanted = [units.Unit(name, "started", [], [], None, 60) for name in ("first.service", "second.service")]
    waits: tuple[Callable[[Module], None], ...] = (
        lambda module: units._wait(module, wanted[1:], []),
        lambda module: units._systemctl(module, "restart", "first.service", "second.service"),
    )
    for fails in waits:
        module = Module()
        with pytest.raises(FailedError):
            fails(module)
        assert module.told["unit"] == "second.service"
        assert [len(line) for line in module.told["log"]] == [300] * 10
        assert module.told["log"][-1].startswith("line 99 ")
        assert "_SYSTEMD_UNIT=second.service" in module.asked[-1], "systemd's own words would be the last ones"
