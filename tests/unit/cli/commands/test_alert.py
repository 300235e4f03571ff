"""The command line of alerts, without anybody who answers."""

import pytest

from hermesops.cli.commands import alert
from hermesops.errors import UsageError


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
