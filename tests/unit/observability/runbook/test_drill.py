"""A drill breaks nothing that is broken already, waits until the fault shows, and ends by the runbook's own proof."""

from collections.abc import Sequence

import pytest

from hermesops.errors import HaltedError, Hint
from hermesops.observability.runbook import drill
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.document import parse
from hermesops.observability.runbook.drill import SHOWN_S, World
from hermesops.observability.runbook.fault import Action, ByCommand, Fault, OnMachine, Sign

BOOK = parse(
    "gateway-down",
    """# It is down

<!-- step show: read -->
```console
$ hermesops instance show USER
```
<!-- step restart: change
unless: show shows gateway ok
undo: not needed
-->
```console
$ hermesops instance restart USER
```
<!-- step show-after: read
expect: gateway ok
-->
```console
$ hermesops instance show USER
```
""",
    "gateway-down.md",
)
FAULT = Fault(
    "stopped",
    "gateway-down",
    ("GatewayDown",),
    "it is stopped",
    prepare=(ByCommand(("backup", "create", "USER")),),
    inject=(OnMachine("systemctl stop it"),),
    sign=Sign(("instance", "show", "USER"), "gateway silent"),
)


class Machine:
    """A gateway that a fault stops after some looks, and a restart starts."""

    def __init__(self, *, shows_after: int = 1, failing: Sequence[str] = ()) -> None:
        self.is_up = True
        self.left = shows_after
        self.failing = failing
        self.now = 0.0
        self.ran: list[str] = []
        self.said: list[str] = []

    def execute(self, words: tuple[str, ...]) -> Ended:
        self.ran.append(" ".join(words))
        if words[1] in self.failing:
            return Ended(4, "error: no answer")
        if words[1] == "restart":
            self.is_up = True
        return Ended(0, "gateway ok" if self.is_up else "gateway silent")

    def inject(self, action: Action) -> None:
        assert isinstance(action, OnMachine)
        self.ran.append(action.script)

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.left -= 1
        if "systemctl stop it" in self.ran and self.left == 0:
            self.is_up = False

    def report(self, hint: Hint) -> None:
        self.said.append(hint.text())

    def drilled(self, fault: Fault = FAULT) -> drill.Drilled:
        world = World(self.execute, self.execute, self.inject, lambda: self.now, self.pause, self.report)
        filled = {"USER": "drill-stopped"}
        return drill.run(fault.filled(filled), BOOK.filled(filled), "drill-stopped", world)


def test_a_fault_is_brought_about_seen_and_ended() -> None:
    machine = Machine(shows_after=3)
    drilled = machine.drilled()
    assert (drilled.shown_s, drilled.changes) == (3.0, ("restart",))
    assert machine.ran[0] == "backup create drill-stopped"
    assert machine.ran[-2:] == ["instance restart drill-stopped", "instance show drill-stopped"]
    assert "fault stopped: it is stopped" in machine.said


def test_what_shows_beforehand_is_not_broken_again() -> None:
    machine = Machine()
    machine.is_up = False
    with pytest.raises(HaltedError, match="no fault was injected: stopped is visible already"):
        machine.drilled()
    assert "systemctl stop it" not in machine.ran


def test_a_preparation_that_fails_breaks_nothing() -> None:
    machine = Machine(failing=["create"])
    with pytest.raises(HaltedError, match="no fault was injected: backup create drill-stopped ended with exit code 4"):
        machine.drilled()
    assert "systemctl stop it" not in machine.ran


def test_a_fault_that_does_not_show_is_no_drill() -> None:
    machine = Machine(shows_after=1_000_000)
    with pytest.raises(HaltedError, match="stopped is not visible after 120 s"):
        machine.drilled()
    assert machine.now > SHOWN_S
    assert not [line for line in machine.ran if "restart" in line]


def test_a_command_that_fails_shows_nothing_that_is_absent() -> None:
    machine = Machine(failing=["show"], shows_after=1_000_000)
    absent = Fault(
        "stopped", "gateway-down", (), "it is stopped", FAULT.inject, Sign(("a", "show"), "x", is_absent=True)
    )
    with pytest.raises(HaltedError, match="is not visible"):
        machine.drilled(absent)


def test_a_fault_of_more_than_one_machine_is_not_drilled() -> None:
    with pytest.raises(ValueError, match="more than one machine"):
        Machine().drilled(Fault("lost", "cell-lost", (), "a cell is lost"))
