"""Shapes of what is told of backups; the rules of ``test_render`` hold here too."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.cli.views import backup as backup_view
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import Part, State
from hermesops.vendor.justavps.wire import Image, ImageStatus
from hermesops.views.agents import backups as backup_shapes
from tests.support.fakes.instances import ADA

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COPIED = State({"memory": Part(1, "a" * 64)})


def test_how_much_would_be_lost_of_an_agent_that_runs_and_nothing_of_one_that_sleeps() -> None:
    shape = {
        "user": "ada",
        "instance_id": ADA.id,
        "status": "running",
        "newest": "2026-01-02T03:04:05+00:00",
        "age_s": 7500,
        "counts": True,
        "age": "2 h",
    }
    now = AT + timedelta(seconds=7500)
    assert backup_shapes.age(ADA, AT, now) == shape
    asleep = replace(ADA, status=InstanceStatus.SUSPENDED)
    assert backup_shapes.age(asleep, AT, now) == {**shape, "status": "suspended", "counts": False, "age": None}
    for seconds, age in ((41, "41 s"), (3 * 86_400 + 5, "3 d")):
        line = backup_view.age_line(ADA, AT, AT + timedelta(seconds=seconds))
        assert (line["age"], str(line["age"])) == (seconds, age)
    assert backup_view.age_line(asleep, AT, now)["age"] is None


def test_a_snapshot() -> None:
    image = Image(id="img", name="n", status=ImageStatus.READY, disk_size_gb=80, created_at=AT)
    shape = {
        "user": "ada",
        "instance_id": ADA.id,
        "snapshot": "img",
        "name": "n",
        "status": "creating",
        "disk_gb": 80,
        "created_at": "2026-01-02T03:04:05+00:00",
    }
    assert backup_shapes.snapshot(image, ADA) == shape, "ready is what boots, whatever the vendor calls it"
    whole = image.model_copy(update={"provider_image_id": "p"})
    assert backup_shapes.snapshot(whole, ADA) == {**shape, "status": "ready"}


def test_a_state_held_against_a_backup() -> None:
    backup = Backup("b" * 64, InstanceId("i"), AT, "manual", 10, 1, COPIED)
    shape = {
        "user": "ada",
        "instance_id": "i",
        "backup": "b" * 64,
        "at": "2026-01-02T03:04:05+00:00",
        "same": True,
        "differences": [],
        "copied": {"memory": {"count": 1, "digest": "a" * 64}},
        "now": {"memory": {"count": 1, "digest": "a" * 64}},
    }
    assert backup_shapes.comparison(backup, "ada", COPIED) == shape
    assert backup_shapes.comparison(backup, "ada", State({"memory": Part(2, "c" * 64)})) == {
        **shape,
        "same": False,
        "differences": ["memory: 1 (aaaaaaaaaaaa), now 2 (cccccccccccc)"],
        "now": {"memory": {"count": 2, "digest": "c" * 64}},
    }
