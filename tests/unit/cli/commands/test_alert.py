"""The command line of alerts, without anybody who answers."""

import pytest

from hermesops.cli import context
from hermesops.cli.commands import alert
from hermesops.cli.printing import watch
from hermesops.errors import UsageError
from tests.support.fakes.parts import part


def test_names_of_shipped_alerts_are_completed() -> None:
    assert alert._begins("GatewayD") == ["GatewayDown"]
    assert "Watchdog" in alert._begins("")
    assert alert._begins("gateway") == []


@pytest.mark.parametrize(
    "given",
    [{}, {"listed": True, "lift": "ab"}, {"where": "cell=c", "listed": True}, {"user": "ada", "lift": "ab"}],
    ids=str,
)
def test_a_silence_is_made_listed_or_lifted(given: dict[str, str | bool]) -> None:
    options = {"where": "", "user": "", "length": "2h", "reason": "", "listed": False, "lift": "", **given}
    with pytest.raises(UsageError, match="one of: --where"):
        alert.silence(**options)  # type: ignore[arg-type]  # each is of its option's type


def test_alerts_are_asked_for_again_while_they_are_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    async def none(**_: object) -> tuple[()]:
        calls.append(1)
        return ()

    def pause(_: float) -> None:
        if len(calls) == 3:
            raise KeyboardInterrupt

    container = part(alerts=lambda: part(list=none), now=lambda: None)
    monkeypatch.setattr(context, "compose", lambda: container)
    monkeypatch.setattr(watch, "pause_blocking", pause)
    alert.list_(watch=True)
    assert capsys.readouterr().out.count("no alert is open") == 3
    with pytest.raises(UsageError, match="--every"):
        alert.list_(watch=True, every="10ms")
