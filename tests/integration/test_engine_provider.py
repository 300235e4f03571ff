"""The embedded engine with the real provider plugin in front of a JustAVPS: a cell from nothing to nothing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pulumi
import pytest
from pulumi import ResourceOptions

from hermesops.errors import RefusedError
from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import Program, read_passphrase
from hermesops.infra.stacks.fleet import FleetProgram
from hermesops.infra.stacks.resources import Image, ImageArgs, Machine, MachineArgs
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import ChangeKind, StackRef
from tests.support.vendor.fake_justavps import PRIVATE_KEY, FakeJustAvps, served

CELL = CellName("cell1")
NAMES = [MachineName(f"hermes-local-cell1-{number:012x}") for number in range(3)]


@pytest.fixture
def vendor() -> Iterator[FakeJustAvps]:
    with served(FakeJustAvps()) as fake:
        yield fake


@pytest.fixture
def engine(vendor: FakeJustAvps, tmp_path: Path) -> Engine:
    key, passphrase = tmp_path / "api.key", tmp_path / "passphrase"
    key.write_text(vendor.key)
    key.chmod(0o600)
    passphrase.write_text("a passphrase of this test")
    passphrase.chmod(0o600)
    environment = {
        "HERMESOPS_API_URL": vendor.url,
        "HERMESOPS_API_KEY_FILE": str(key),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    return make_engine(
        "embedded",
        EngineConfig(
            backend=tmp_path / "pulumi",
            passphrase=partial(read_passphrase, passphrase),
            environment=environment,
        ),
        production=False,
    )


def cell(*names: MachineName, size: str = "starter", released: frozenset[MachineName] = frozenset()) -> FleetProgram:
    machines = tuple(CellMachine(name, size, "hel1", None, None) for name in names)
    return FleetProgram(CellSpec(name=CELL, machines=machines), released)


def with_image(*, protect: bool | None = None, kept: bool = True) -> Program:
    """A program of a machine and, unless it is not wanted any more, an image of it."""

    def program() -> None:
        machine = Machine(NAMES[0], MachineArgs(region="hel1", server_type="starter"))
        if kept:
            options = ResourceOptions() if protect is None else ResourceOptions(protect=protect)
            pulumi.export("image", Image("base-1", ImageArgs(machine_id=machine.id), options).id)

    return program


def text_of(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


@pytest.mark.turns(60)
async def test_a_cell_grows_changes_and_goes(engine: Engine, vendor: FakeJustAvps, tmp_path: Path) -> None:
    stack = StackRef("fleet", CELL)
    preview = await engine.preview(stack, cell(*NAMES))
    assert {change.name for change in preview.changes} >= set(NAMES)
    assert vendor.orders == []

    up_result = await engine.up(stack, cell(*NAMES), may_destroy=lambda _urn: False)
    assert sorted(str(machine["name"]) for machine in vendor.machines.values()) == sorted(NAMES)
    assert set(up_result.outputs["machines"]) == set(NAMES)  # type: ignore[call-overload]
    again = await engine.up(stack, cell(*NAMES), may_destroy=lambda _urn: False)
    assert again.changes == ()
    assert again.outputs == up_result.outputs == await engine.outputs(stack)

    resized = await engine.up(stack, cell(*NAMES, size="pro"))
    assert {change.kind for change in resized.changes} == {ChangeKind.UPDATE}
    assert {machine["server_type"] for machine in vendor.machines.values()} == {"pro"}

    with pytest.raises(RefusedError, match=NAMES[2]):
        await engine.up(stack, cell(*NAMES[:2], size="pro"), may_destroy=lambda _urn: False)
    assert len(vendor.machines) == 3
    # Protected from birth: the caller's word alone does not delete it.
    with pytest.raises(RefusedError, match="protected"):
        await engine.up(stack, cell(*NAMES[:2], size="pro"), may_destroy=lambda urn: urn.endswith(NAMES[2]))
    await engine.up(stack, cell(*NAMES, size="pro", released=frozenset(NAMES)))
    await engine.up(stack, cell(*NAMES[:2], size="pro", released=frozenset(NAMES)), may_destroy=lambda _urn: True)
    assert sorted(str(machine["name"]) for machine in vendor.machines.values()) == sorted(NAMES[:2])

    destroyed = await engine.destroy(stack, may_destroy=lambda _urn: True)
    assert {change.kind for change in destroyed.changes} == {ChangeKind.DELETE}
    assert vendor.machines == {}
    assert len(vendor.orders) == 3

    state = text_of(tmp_path / "pulumi")
    assert vendor.key not in state
    assert PRIVATE_KEY.splitlines()[1] not in state


async def test_an_image_of_a_machine_is_protected_from_birth(engine: Engine, vendor: FakeJustAvps) -> None:
    stack = StackRef("images", "one")
    up_result = await engine.up(stack, with_image())
    assert list(vendor.images) == [up_result.outputs["image"]]
    assert (await engine.up(stack, with_image())).changes == ()
    with pytest.raises(RefusedError, match="protected"):
        await engine.up(stack, with_image(kept=False))
    await engine.up(stack, with_image(protect=False))
    await engine.up(stack, with_image(kept=False))
    assert (vendor.images, len(vendor.machines)) == ({}, 1)
