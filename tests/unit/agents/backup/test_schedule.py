"""Nightly backups: once a day each, and never all at once."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from hermesops.agents.backup.daily.schedule import is_due, minute_of
from hermesops.model.ids import InstanceId

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
FLEET = [InstanceId(str(uuid5(UUID(int=0), str(number)))) for number in range(1000)]


def test_a_thousand_have_no_peak() -> None:
    by_minute = Counter(map(minute_of, FLEET))
    by_hour = Counter(minute // 60 for minute in map(minute_of, FLEET))
    assert max(by_minute.values()) <= 6
    assert (min(by_hour.values()) > 20, max(by_hour.values()) < 70) == (True, True)


def test_each_is_backed_up_once_a_day_by_whoever_looks_every_ten_minutes() -> None:
    newest = {instance_id: MIDNIGHT + timedelta(days=-1, minutes=minute_of(instance_id)) for instance_id in FLEET[:50]}
    times: Counter[InstanceId] = Counter()
    oldest = timedelta()
    for step in range(1, 3 * 144 + 1):
        now = MIDNIGHT + timedelta(minutes=10 * step)
        for instance_id, since in list(newest.items()):
            if is_due(instance_id, since, now):
                oldest = max(oldest, now - since)
                newest[instance_id], times[instance_id] = now, times[instance_id] + 1
    assert set(times.values()) == {3}
    assert oldest <= timedelta(hours=24, minutes=10)


def test_what_is_a_day_old_is_due_at_any_minute() -> None:
    instance_id = FLEET[0]
    for hour in range(24):
        now = MIDNIGHT + timedelta(hours=hour)
        assert is_due(instance_id, now - timedelta(hours=24), now)
        assert not is_due(instance_id, now, now)
