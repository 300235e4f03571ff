"""What ``hermesops local`` says at its end."""

import asyncio

import pytest

from hermesops.cli import context
from hermesops.cli.commands import local
from hermesops.cli.commands.local import monitoring_lines
from hermesops.localcloud.faults.rules import FaultOrder
from tests.support.fakes.parts import part
from tests.support.suite.cases import each_case

URL = "https://10.0.0.1:18083"


def test_monitoring_that_is_up_says_what_opens_it_and_which_commands_come_next() -> None:
    first, *commands = monitoring_lines(URL)
    assert URL in first
    assert "certificate" in first
    assert [line.split("  ")[1].strip() for line in commands] == [
        "hermesops monitor",
        "hermesops alert list",
        "hermesops fleet status --watch",
        "hermesops fleet top",
    ]


@pytest.mark.parametrize("line", monitoring_lines(URL)[1:])
def test_each_command_says_what_it_is_for(line: str) -> None:
    assert line.rpartition("  ")[2].strip()


@each_case(("times", "often"), [(1, "1 time"), (3, "3 times"), (None, "every time")])
def test_a_fault_says_how_often_it_will_happen(
    times: int | None, often: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def set_fault(order: FaultOrder) -> dict[str, object]:
        return {"kind": order.kind, "times": order.times}

    monkeypatch.setattr(context, "run", asyncio.run)
    monkeypatch.setattr(local, "_world", lambda: part(set_fault=set_fault))
    local.set_("sold-out", times=times)
    assert capsys.readouterr().out == f"sold-out: will happen {often}\n"
