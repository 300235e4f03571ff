"""What the fleet's program registers. Mocks check wiring only: what an engine does with it is tested there."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime import mocks
from pulumi.runtime.proto import resource_pb2

from hermesops.agents.cells.stack.state import PROJECT
from hermesops.base import assets
from hermesops.infra.provider.resource_types import IMAGE, MACHINE
from hermesops.infra.stacks.fleet import CELL_TYPE, Cell, CellArgs, FleetProgram
from hermesops.infra.stacks.resources import IMAGE_TYPE, MACHINE_TYPE, Image, Machine
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, ImageId, MachineName
from hermesops.model.plan import Plan

ADA, BEA = MachineName("hermes-local-c1-00000000000a"), MachineName("hermes-local-c1-00000000000b")
SPEC = CellSpec(
    CellName("c1"),
    (
        CellMachine(ADA, "starter", "hel1", ImageId("img"), None),
        CellMachine(BEA, "basic", "nbg1", None, None),
    ),
)


class SaysYes(mocks.Mocks):
    """An engine whose machines are all ready."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"id-of-{args.name}", {**args.inputs, "slug": f"slug-of-{args.name}", "status": "ready"}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        raise AssertionError(f"the program asked for {args.token}")


class Registered(mocks.MockMonitor):
    """What the program asked of the engine, by name."""

    def __init__(self) -> None:
        super().__init__(SaysYes())
        self.asked: dict[str, resource_pb2.RegisterResourceRequest] = {}

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:  # noqa: ANN401, N802 - as in the SDK
        if request.type != "pulumi:pulumi:Stack":
            self.asked[request.name] = request
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK's is untyped


@pytest.fixture
def registered() -> Iterator[Registered]:
    """Mocks on an event loop of their own: the SDK takes the thread's, and tests before this may have taken it away."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    engine = Registered()
    mocks.set_mocks(SaysYes(), project=PROJECT, stack="c1", monitor=engine)
    yield engine
    loop.close()
    asyncio.set_event_loop_policy(before)  # and with it the loop that was current


@pulumi.runtime.test
def test_a_machine_is_told_the_size_of_its_plans_data_volume(registered: Registered) -> pulumi.Output[None]:
    light = CellMachine(ADA, "starter", "hel1", None, None, Plan.LIGHT)
    nobodys = CellMachine(BEA, "basic", "nbg1", None, None)
    cell = Cell("c1", CellArgs((light, nobodys), data_gb={Plan.LIGHT: 40, Plan.HEAVY: 80}))

    def compare(_: object) -> None:
        assert registered.asked[ADA].object["data_gb"] == "40"
        assert "data_gb" not in registered.asked[BEA].object

    return cell.machines.apply(compare)


@pulumi.runtime.test
def test_every_machine_of_the_cell_is_registered_under_its_name(registered: Registered) -> pulumi.Output[None]:
    cell = Cell("c1", CellArgs(SPEC.machines))

    def holds(_: object) -> None:
        machines = {name: dict(r.object) for name, r in registered.asked.items() if r.type == MACHINE_TYPE}
        assert machines == {
            ADA: {"name": ADA, "region": "hel1", "server_type": "starter", "image_id": "img"},
            BEA: {"name": BEA, "region": "nbg1", "server_type": "basic"},
        }
        assert registered.asked["c1"].type == CELL_TYPE

    return cell.machines.apply(holds)


@pulumi.runtime.test
def test_machines_are_protected_until_released_by_name(registered: Registered) -> pulumi.Output[None]:
    cell = Cell("c1", CellArgs(SPEC.machines, released=frozenset({BEA})))

    def holds(_: object) -> None:
        assert registered.asked[ADA].protect
        assert not registered.asked[BEA].protect

    return cell.machines.apply(holds)


@pulumi.runtime.test
def test_a_machine_goes_before_another_of_its_name_is_ordered(registered: Registered) -> pulumi.Output[None]:
    cell = Cell("c1", CellArgs(SPEC.machines))

    def holds(_: object) -> None:
        assert registered.asked[ADA].deleteBeforeReplace
        assert CELL_TYPE in registered.asked[ADA].parent

    return cell.machines.apply(holds)


@pulumi.runtime.test
def test_a_cell_tells_id_slug_and_status_of_each_machine(registered: Registered) -> pulumi.Output[None]:  # noqa: ARG001 - makes the mocks
    def holds(machines: object) -> None:
        assert machines == {
            name: {"id": f"id-of-{name}", "slug": f"slug-of-{name}", "status": "ready"} for name in (ADA, BEA)
        }

    return Cell("c1", CellArgs(SPEC.machines)).machines.apply(holds)


@pulumi.runtime.test
def test_an_empty_cell_is_a_cell(registered: Registered) -> pulumi.Output[None]:
    cell = Cell("c1", CellArgs(()))

    def holds(observations: Sequence[object]) -> None:
        assert observations[0] == {}
        assert set(registered.asked) == {"c1"}

    return pulumi.Output.all(cell.machines, cell.urn).apply(holds)


@pulumi.runtime.test
def test_the_program_exports_the_cells_machines(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> pulumi.Output[None]:
    exported: dict[str, pulumi.Output[object]] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    FleetProgram(SPEC)()

    def holds(machines: object) -> None:
        assert isinstance(machines, dict)
        assert set(machines) == {ADA, BEA}
        assert set(registered.asked) == {"c1", ADA, BEA}

    assert set(exported) == {"machines"}
    return exported["machines"].apply(holds)


def test_program_and_plugin_agree_on_the_resource() -> None:
    """They never import each other, so only a test can hold them together."""
    for program, type_, plugin in ((Machine, MACHINE_TYPE, MACHINE), (Image, IMAGE_TYPE, IMAGE)):
        assert type_ == plugin.token
        assert set(program.__annotations__) == {p.name for p in (*plugin.inputs, *plugin.computed)}


def test_the_project_folder_is_of_the_project() -> None:
    folder = assets.folder("pulumi") / "fleet"
    assert yaml.safe_load((folder / "Pulumi.yaml").read_text())["name"] == PROJECT
    assert "fleet_program()()" in (folder / "__main__.py").read_text()
