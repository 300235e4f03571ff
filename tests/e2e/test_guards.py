"""Guards by the installed command, in a simulated world: refused until named, saved previews, the budget."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.real.commands.command import Command, local_world
from tests.support.real.commands.operators import key_of, two_operators
from tests.support.vendor.outside_changes import resize_behind_its_back


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("guards"), driver="sim") as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


@pytest.fixture(scope="module")
def operator(world: Command, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The same world with an operator who may sign."""
    folder = tmp_path_factory.mktemp("keys")
    key = key_of(folder, "operator")
    allowed = folder / "allowed"
    allowed.write_text(f'op@example.net namespaces="hermesops-preview" {key.with_suffix(".pub").read_text()}')
    return world.with_variables(HERMESOPS_OPERATOR_KEY=str(key), HERMESOPS_ALLOWED_SIGNERS=str(allowed))


@pytest.mark.turns(6)
async def test_what_the_fleet_costs_is_told_before_and_after(world: Command) -> None:
    preview = (await world.ok("stack", "preview", "--all", "--json")).json
    assert preview["cost"]["before"] == preview["cost"]["after"]
    cost = (await world.ok("fleet", "cost", "--json")).json
    assert cost["estimated"] == preview["cost"]["after"]
    assert cost["estimated"]["monthly"] == cost["actual"]["monthly"]


async def test_a_provision_beyond_the_budget_writes_nothing(world: Command) -> None:
    poor = world.with_variables(HERMESOPS_MONTHLY_BUDGET="1")
    refused = await poor.run("provision", "bob", "--plan", "light")
    assert (refused.exit_code, "budget of $1.00" in refused.stderr) == (3, True)
    rows = (await world.ok("instance", "list", "--json")).json["instances"]
    assert [row["user"] for row in rows] == ["ada"]


async def test_naming_what_would_not_be_destroyed_is_a_mistake(world: Command) -> None:
    ran = await world.run("stack", "up", "cell1", "--destroy", "nobody")
    assert (ran.exit_code, "no change would destroy nobody" in ran.stderr) == (2, True)


@pytest.mark.turns(6)
async def test_a_saved_preview_happens_until_something_moves(operator: Command, tmp_path: Path) -> None:
    file = tmp_path / "preview.json"
    await operator.ok("stack", "preview", "cell1", "--save", str(file))
    ran = await operator.ok("stack", "up", "--from", str(file))
    assert "signed by op@example.net" in ran.stderr
    await operator.ok("provision", "grace", "--plan", "light")
    moved = await operator.run("stack", "up", "--from", str(file))
    assert (moved.exit_code, "the rows" in moved.stderr) == (3, True)
    await operator.ok("instance", "terminate", "grace", "--yes", "--reason", "test")


async def test_a_world_that_moved_is_seen_though_rows_and_state_did_not(operator: Command, tmp_path: Path) -> None:
    file = tmp_path / "preview.json"
    await operator.ok("stack", "preview", "cell1", "--save", str(file))
    (machine,) = await operator.machines()
    await resize_behind_its_back(operator.home / "local" / "world", machine["id"])
    moved = await operator.run("stack", "up", "--from", str(file))
    assert (moved.exit_code, "the world" in moved.stderr) == (3, True), str(moved)


async def test_an_edited_or_unsigned_preview_counts_for_nothing(
    operator: Command, world: Command, tmp_path: Path
) -> None:
    file = tmp_path / "preview.json"
    await operator.ok("stack", "preview", "cell1", "--save", str(file))
    held = json.loads(file.read_text())
    held["preview"]["environment"] = "production"
    file.write_text(json.dumps(held))
    assert (await operator.run("stack", "up", "--from", str(file))).exit_code == 3
    assert (await world.run("stack", "up", "--from", str(file))).exit_code == 3  # nobody may sign here
    assert (await world.run("stack", "preview", "cell1", "--save", str(file))).exit_code == 3
    file.write_text("nonsense")
    assert (await operator.run("stack", "up", "--from", str(file))).exit_code == 2


@pytest.fixture
def two(world: Command, tmp_path: Path) -> tuple[Command, Command]:
    return two_operators(world, tmp_path)


async def test_what_another_operator_approved_happens_where_that_is_asked_for(
    two: tuple[Command, Command], tmp_path: Path
) -> None:
    asks, approves = two
    preview, approval = str(tmp_path / "preview.json"), str(tmp_path / "approval.json")
    await asks.ok("stack", "preview", "cell1", "--save", preview)
    alone = await asks.run("stack", "up", "--from", preview)
    assert (alone.exit_code, "another operator's approval" in alone.stderr) == (3, True)
    named = await asks.run("stack", "up", "cell1", "--share", "60%")
    assert (named.exit_code, "needs an approved preview" in named.stderr) == (3, True)
    own = await asks.run("approval", "sign", preview, "--save", approval, "--yes")
    assert (own.exit_code, "cannot approve" in own.stderr) == (3, True)
    signed = await approves.ok("approval", "sign", preview, "--save", approval, "--yes", "--json")
    assert (signed.json["asked_by"], signed.json["approved_by"]) == ("ada@example.net", "bob@example.net")
    ran = await asks.ok("stack", "up", "--from", preview, "--approved-by", approval)
    assert "signed by ada@example.net, approved by bob@example.net" in ran.stderr
    shown = await asks.ok("approval", "show", approval, "--json")
    assert shown.json["digest"] == signed.json["digest"]


async def test_the_platform_changes_as_another_operator_approved(two: tuple[Command, Command], tmp_path: Path) -> None:
    """As far as a simulated world goes, whose machines run no services; the rest is in ``test_platform.py``."""
    asks, _ = two
    unseen = await asks.run("stack", "up", "platform")
    assert (unseen.exit_code, "needs an approved preview" in unseen.stderr) == (3, True)
    preview = await asks.run("stack", "preview", "platform", "--save", str(tmp_path / "preview.json"))
    assert (preview.exit_code, "simulated" in preview.stderr) == (3, True), str(preview)


@pytest.mark.turns(6)
async def test_agents_that_end_beyond_so_many_are_approved_by_name(
    two: tuple[Command, Command], tmp_path: Path
) -> None:
    asks, approves = (command.with_variables(HERMESOPS_UNAPPROVED_CHANGES="0") for command in two)
    listed, approval = str(tmp_path / "list.json"), str(tmp_path / "approval.json")
    ends = ("instance", "terminate", "hal", "--yes", "--reason", "test")
    await asks.ok("provision", "hal", "--plan", "light")
    alone = await asks.run(*ends)
    assert (alone.exit_code, "need another operator's approval" in alone.stderr) == (3, True), str(alone)
    await asks.ok("approval", "request", "hal", "--save", listed, "--reason", "it costs too much")
    own = await asks.run("approval", "sign", listed, "--save", approval, "--yes")
    assert (own.exit_code, "cannot approve" in own.stderr) == (3, True)
    signed = await approves.ok("approval", "sign", listed, "--save", approval, "--yes", "--json")
    assert (signed.json["asked_by"], signed.json["approved_by"]) == ("ada@example.net", "bob@example.net")
    half = await asks.run(*ends, "--from", listed)
    assert (half.exit_code, "go together" in half.stderr) == (2, True)
    other = await asks.run(
        *("instance", "resize", "ada", "--plan", "heavy", "--reason", "test"),
        *("--from", listed, "--approved-by", approval),
    )
    assert (other.exit_code, "is not about instance" in other.stderr) == (3, True), str(other)
    await asks.ok(*ends, "--from", listed, "--approved-by", approval)


async def test_approvals_are_refused_where_operators_are_only_named(world: Command) -> None:
    refused = await world.with_variables(HERMESOPS_APPROVALS="required").run("instance", "list")
    assert (refused.exit_code, 'operators = "verified"' in refused.stderr) == (2, True)


async def test_whoever_starts_a_rollout_cannot_raise_what_needs_two_people(two: tuple[Command, Command]) -> None:
    raised = await two[0].run("rollout", "start", "0.19.0", "--all", "--two-person-above", "1000000000000")
    assert (raised.exit_code, "this request raises the limit" in raised.stderr) == (2, True), str(raised)
