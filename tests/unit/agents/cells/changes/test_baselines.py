"""A pull request's effect on cells: machines that exist keep their data volume, another region replaces."""

from collections.abc import Sequence

from hermesops.agents.cells.changes.baselines import Baselines, effect_of
from hermesops.infra.stacks.fleet import CellPrograms
from hermesops.infra.stacks.registered import Effect, Registered
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.plan import Plan

SPEC = CellSpec(
    CellName("c1"),
    tuple(
        CellMachine(MachineName(f"hermes-local-c1-{number:012x}"), "starter", "hel1", None, None, Plan.LIGHT)
        for number in (7, 8, 9)
    ),
)


def of(light_gb: int, specs: Sequence[CellSpec] = ()) -> Baselines:
    return Baselines("local", lambda: specs, CellPrograms({Plan.LIGHT: light_gb}), lambda: None)


def test_the_same_code_and_settings_change_nothing() -> None:
    taken = of(40, [SPEC]).take()
    (cell,) = of(40).compare(taken)
    assert (cell.stack, cell.differences) == ("c1", ())


def test_a_larger_data_volume_is_for_machines_that_are_ordered_later() -> None:
    (cell,) = of(80).compare(of(40, [SPEC]).take())
    (difference,) = cell.differences
    assert (difference.effect, difference.resource.name) == (Effect.LATER, "3 x starter in hel1, light")
    assert [(change.path, change.before, change.after) for change in difference.properties] == [
        ("data_gb", '"40"', '"80"')
    ]


def machine(*, protect: bool = True, **inputs: str) -> Registered:
    given = {"name": "m", "region": "hel1", "server_type": "starter", **inputs}
    return Registered("justavps:index:Machine", "m", "", given, protect, retain=False)


def test_our_own_plugin_says_what_replaces() -> None:
    assert effect_of(machine(), machine(region="nbg1")) is Effect.REPLACE
    assert effect_of(machine(), machine(server_type="pro")) is Effect.UPDATE
    assert effect_of(machine(), machine(protect=False)) is Effect.UPDATE
    bucket = Registered("aws:s3/bucket:Bucket", "b", "", {}, protect=False, retain=False)
    assert effect_of(bucket, bucket) is Effect.UPDATE
