"""Creates that an earlier run began and nobody saw end: looked up by name, taken over or forgotten, never repeated.

That processes killed at any moment leave such states is tested in test_embedded_engine.py.
"""

import json
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.infra.engine.cli import CliEngine
from hermesops.infra.engine.embedded.engine import EmbeddedEngine
from hermesops.infra.engine.options import EngineConfig
from hermesops.model.stack import ChangeKind
from tests.support.engine.fake_stack import STACK, FakeStack, machines, urn_of

MADE = {"name": "b", "inputs": {"name": "b", "size": "starter", "region": "fra"}}


@pytest.fixture
async def stack(tmp_path: Path, one_salt: None) -> FakeStack:  # noqa: ARG001 - before its first state
    """A stack of a machine, whose last run was killed while it created ``b``."""
    stack = FakeStack(tmp_path).install()
    await stack.engine().up(STACK, machines(["a"]))
    document = json.loads(stack.state_file.read_text())
    latest = document["checkpoint"]["latest"]
    like = next(r for r in latest["resources"] if r["urn"] == urn_of("a"))
    pending = {key: value for key, value in like.items() if key not in {"id", "outputs"}}
    pending |= {"urn": urn_of("b"), "inputs": MADE["inputs"]}
    latest["pending_operations"] = [{"resource": pending, "type": "creating"}]
    stack.state_file.write_text(json.dumps(document))
    return stack


def exists(stack: FakeStack) -> None:
    stack.change_world({**stack.world(), "machine-b-9": MADE})


async def test_it_is_named_until_it_is_settled(stack: FakeStack) -> None:
    assert [(op.kind, op.name) for op in await stack.engine().unfinished(STACK)] == [("creating", "b")]
    await stack.engine().refresh(STACK)
    assert await stack.engine().unfinished(STACK) == []


async def test_what_is_there_is_taken_over_and_seen_to_be_ready(stack: FakeStack) -> None:
    exists(stack)
    before = stack.state_file.read_bytes()
    preview = await stack.engine().preview(STACK, machines(["a", "b"]))
    assert (ChangeKind.UPDATE, "b", "machine-b-9") in {(c.kind, c.name, c.id) for c in preview.changes}
    assert stack.state_file.read_bytes() == before

    await stack.engine().up(STACK, machines(["a", "b"]), may_destroy=lambda _urn: False)
    assert stack.calls("Create", "b") == []
    assert [call["id"] for call in stack.calls("Update", "b")] == ["machine-b-9"]
    assert (stack.resource("b") or {})["id"] == "machine-b-9"
    assert (await stack.engine().up(STACK, machines(["a", "b"]))).changes == ()


async def test_what_is_not_there_is_made_once(stack: FakeStack) -> None:
    await stack.engine().up(STACK, machines(["a", "b"]))
    assert len(stack.calls("Create", "b")) == 1
    assert stack.machines() == ["a", "b"]
    assert "pending_operations" not in stack.state()


async def test_what_is_there_and_not_wanted_is_deleted_by_name_only(stack: FakeStack) -> None:
    exists(stack)
    with pytest.raises(RefusedError, match=r"without being named: b "):
        await stack.engine().up(STACK, machines(["a"]), may_destroy=lambda _urn: False)
    await stack.engine().destroy(STACK, may_destroy=lambda _urn: True)
    assert stack.machines() == []


async def test_one_that_was_to_be_protected_and_is_not_wanted_any_more_is_deleted_by_name(stack: FakeStack) -> None:
    exists(stack)
    document = json.loads(stack.state_file.read_text())
    document["checkpoint"]["latest"]["pending_operations"][0]["resource"]["protect"] = True
    stack.state_file.write_text(json.dumps(document))
    with pytest.raises(RefusedError, match=r"without being named: b "):
        await stack.engine().up(STACK, machines(["a"]), may_destroy=lambda _urn: False)
    await stack.engine().up(STACK, machines(["a"]), may_destroy=lambda urn: urn == urn_of("b"))
    assert stack.machines() == ["a"]


async def test_what_cannot_be_looked_up_now_stays_unsettled(stack: FakeStack) -> None:
    exists(stack)
    before = stack.state()["pending_operations"]
    stack.faults({"rpc": "Read", "name": "b", "action": "error", "message": "no answer", "code": "UNAVAILABLE"})
    with pytest.raises(UnavailableError, match=r"b .*no answer"):
        await stack.engine().up(STACK, machines(["a", "b"]))
    assert stack.state()["pending_operations"] == before
    assert stack.calls("Create", "b") == []


async def test_it_is_looked_up_although_the_state_lost_its_provider(stack: FakeStack) -> None:
    """The CLI keeps the mark for ever, also when everything else has been destroyed."""
    exists(stack)
    document = json.loads(stack.state_file.read_text())
    del document["checkpoint"]["latest"]["resources"]
    stack.state_file.write_text(json.dumps(document))
    stack.change_world({"machine-b-9": MADE})
    await stack.engine().up(STACK, machines(["b"]))
    assert list(stack.world()) == ["machine-b-9"]


async def test_what_no_plugin_finds_by_name_stops_everything_and_names_the_command(stack: FakeStack) -> None:
    engine = EmbeddedEngine(EngineConfig(stack.backend, str, environment={}, plugin_folders=[stack.plugins]))
    engine.adopting = frozenset()
    for attempt in (engine.up(STACK, machines(["a", "b"])), engine.destroy(STACK), engine.refresh(STACK)):
        with pytest.raises(RefusedError, match=r"began to create b \(justavps:index:Machine\)") as caught:
            await attempt
        assert "pulumi refresh --clear-pending-creates --stack dev" in str(caught.value.hint)
    assert stack.calls("Create", "b") == []


async def test_the_cli_gets_a_state_in_which_it_is_settled(stack: FakeStack, tmp_path: Path) -> None:
    """It would create ``b`` again; here it does not even run."""
    exists(stack)
    config = EngineConfig(stack.backend, str, environment={}, plugin_folders=[stack.plugins])
    missing = CliEngine(tmp_path / "no-cli", config)
    with pytest.raises(UnavailableError, match="cannot be used"):
        await missing.up(STACK, machines(["a", "b"]))
    assert (stack.resource("b") or {})["id"] == "machine-b-9"
    assert "pending_operations" not in stack.state()
