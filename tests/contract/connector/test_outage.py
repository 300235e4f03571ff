"""Telegram is down for an hour: one alert for all users, every answer later, and no limit exceeded."""

from pathlib import Path

import pytest

from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from tests.support.alerts import promtool
from tests.support.alerts.promtool import Case, Kind
from tests.support.real.monitoring import prometheus
from tests.support.real.stores.registries import TurnedClock
from tests.support.suite.prerequisites import require
from tests.support.users.messaging import messaging
from tests.support.users.outage import FIGURE_S, HOUR_S, Outage

pytestmark = [pytest.mark.turns(90), pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)]

DRAINED_S = 600
_EVERY_S = 15


@pytest.mark.parametrize(
    ("status", "alert"), [(502, "AnswersUndelivered"), (401, "MessengerBlocked")], ids=["down", "token refused"]
)
async def test_an_hour_without_telegram_is_one_alert_and_loses_nothing(
    database: Database, registry: Registry, clock: TurnedClock, tmp_path: Path, status: int, alert: str
) -> None:
    async with messaging(database) as world:
        outage = Outage(world, registry, clock, chats=12, answers=12)
        await outage.last(status)
        assert outage.is_open
        drained_s = await outage.drain(within_s=DRAINED_S)
        assert (outage.is_open, drained_s <= DRAINED_S) == (False, True)
        await outage.quiet(1200)
        assert not world.telegram.broken, "limits that Telegram documents"
        assert outage.wrong_chats() == []
    pages = {name: _fires(tmp_path, name, outage.figures) for name in ("AnswersUndelivered", "MessengerBlocked")}
    during = [HOUR_S // 4, HOUR_S // 2, HOUR_S - 60]
    after = HOUR_S + DRAINED_S + 900
    assert all(at in pages[alert] for at in during)
    assert after not in pages[alert]
    other = ({*pages} - {alert}).pop()
    # A refused token stands for what waits: Alertmanager tells one of them, tests/contract/observability.
    assert pages[other] == set() or (alert, other) == ("MessengerBlocked", "AnswersUndelivered")


def _fires(folder: Path, alert: str, figures: dict[str, list[int]]) -> set[int]:
    """Seconds of the course at which the rule of a page fires over these figures, of each quarter of an hour."""
    program = prometheus.programs()
    require(program, "Prometheus: apt-get install prometheus, or apt-get download")
    assert program is not None
    repeated = FIGURE_S // _EVERY_S
    series = {
        f'hermesops_messenger_users{{messenger="telegram", state="{state}"}}': " ".join(
            f"{value}" for value in values for _ in range(repeated)
        )
        for state, values in figures.items()
    }
    moments = (HOUR_S // 4, HOUR_S // 2, HOUR_S - 60, HOUR_S + DRAINED_S + 900)
    firing = set[int]()
    for at in moments:
        case = Case(Kind.FIRES, f"at {at} s", series, {at: ({"messenger": "telegram"},)}, severity="page")
        if not promtool.run(program / "promtool", folder, alert, [case]):
            firing.add(at)
    return firing
