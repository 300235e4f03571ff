"""Machines that a cell's stack has lost are taken in by their ids, and the program finds nothing to change then."""

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.cells.stack.state import machines_in
from hermesops.agents.cells.stack.state_repair import import_machines
from hermesops.app import Container
from hermesops.errors import RefusedError, UsageError
from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.options import read_passphrase
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId, MachineName
from hermesops.settings.environment import Environment
from tests.integration.test_cells import CELL1, computer, make, place
from tests.support.vendor.fake_justavps import FakeJustAvps, served


@pytest.fixture
def vendor() -> Iterator[FakeJustAvps]:
    with served(FakeJustAvps(looks_until_ready=0)) as fake:
        yield fake


@pytest.fixture
def app(vendor: FakeJustAvps, tmp_path: Path) -> Container:
    return computer(vendor, tmp_path)


async def made(app: Container, *aliases: str) -> list[Instance]:
    instances = [place(app, alias) for alias in aliases]
    for instance in instances:
        await make(app, instance)
    return instances


async def forget(app: Container, *names: MachineName) -> dict[MachineName, MachineId]:
    """Take machines out of the stack's state; their ids."""
    state: dict[str, Any] = deepcopy(dict(await app.cell_stacks.export(CELL1)))
    ids = {name: MachineId(machines_in(state)[name]["id"]) for name in names}
    resources = state["deployment"]["resources"]
    state["deployment"]["resources"] = [r for r in resources if r["urn"].rpartition("::")[2] not in names]
    await app.cell_states.take(CELL1, state, why="test")
    return ids


async def take(app: Container, wanted: dict[MachineName, MachineId]) -> tuple[MachineName, ...]:
    async with app.vendor() as client:
        return await import_machines(app.cell_stacks, client, CELL1, wanted, why="test")


async def check_taken_in(app: Container, vendor: FakeJustAvps) -> None:
    ada, bea, _ = await made(app, "ada", "bea", "cyd")
    orders = len(vendor.orders)
    before = {name: (row["urn"], row["parent"], row["protect"]) for name, row in await held(app)}
    ids = await forget(app, ada.machine_name, bea.machine_name)

    assert set(await take(app, ids)) == set(ids)
    assert {name: (row["urn"], row["parent"], row["protect"]) for name, row in await held(app)} == before
    preview = await app.cell_stacks.preview(CELL1)
    assert preview.changes == ()
    await app.cell_stacks.up(CELL1)
    assert len(vendor.orders) == orders
    assert await take(app, ids) == (), "what is in already stays as it is"
    [entry] = [logged for logged in app.registry.audit.list(limit=100) if logged.action == "machines_imported"]
    assert entry.after == {str(name): id_ for name, id_ in ids.items()}


async def held(app: Container) -> list[tuple[MachineName, Any]]:
    return list(machines_in(await app.cell_stacks.state(CELL1)).items())


async def test_lost_machines_are_taken_in_as_the_program_makes_them(app: Container, vendor: FakeJustAvps) -> None:
    await check_taken_in(app, vendor)


@pytest.mark.pulumi_cli
async def test_the_pulumi_command_takes_them_in_alike(app: Container, vendor: FakeJustAvps, tmp_path: Path) -> None:
    variables = {name: value for name, value in app.env.variables.items() if name.startswith("HERMESOPS_")}
    app.engine = make_engine(
        "cli",
        EngineConfig(
            backend=str(app.env.folder / "pulumi"),
            passphrase=partial(read_passphrase, _passphrase(tmp_path)),
            environment={**Environment.load().variables, **variables, "HERMESOPS_ENV": app.env.name},
        ),
        production=False,
    )
    await check_taken_in(app, vendor)


def _passphrase(folder: Path) -> Path:
    file = folder / "passphrase"
    file.write_text("a passphrase")
    file.chmod(0o600)
    file.chmod(0o600)
    return file


async def test_the_first_machine_of_a_stack_that_is_not_there_is_taken_in(app: Container, vendor: FakeJustAvps) -> None:
    instance = place(app, "ada")
    await make(app, instance)
    ids = await forget(app, instance.machine_name)
    state = dict(await app.cell_stacks.export(CELL1))
    await app.cell_states.take(CELL1, {**state, "deployment": {**state["deployment"], "resources": []}}, why="test")
    assert await take(app, ids) == (instance.machine_name,)
    assert (await app.cell_stacks.preview(CELL1)).changes == ()
    assert len(vendor.orders) == 1


async def test_what_is_not_the_cells_own_is_refused_and_nothing_changes(app: Container) -> None:
    ada, bea = await made(app, "ada", "bea")
    ids = await forget(app, ada.machine_name, bea.machine_name)
    before = await app.cell_stacks.export(CELL1)
    unknown = MachineId("00000000-0000-4000-8000-000000000000")
    for wanted, output in (
        ({ada.machine_name: unknown}, f"no machine '{unknown}' at JustAVPS"),
        ({ada.machine_name: ids[bea.machine_name]}, "has the name"),
        ({MachineName("hermes-staging-cell1-ffffffffffff"): ids[ada.machine_name]}, "no row of cell1"),
    ):
        with pytest.raises((RefusedError, UsageError), match=output):
            await take(app, wanted)
    assert await app.cell_stacks.export(CELL1) == before
