"""The embedded engine with a plugin process: refresh, imports, targets, states by hand, history, the state's key."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import PartlyDoneError, RefusedError, UsageError
from hermesops.model.stack import ChangeKind, Import, StackRef
from tests.support.engine.fake_stack import STACK, FakeStack, machines, machines_in_order, urn_of

pytestmark = [pytest.mark.turns(11), pytest.mark.usefixtures("one_salt")]

MACHINE = "justavps:index:Machine"
OLD = {"name": "old", "inputs": {"name": "old", "size": "basic", "region": "fra"}}


@pytest.fixture
def stack(tmp_path: Path) -> FakeStack:
    return FakeStack(tmp_path).install()


async def test_refresh_writes_what_is_there_and_changes_nothing_else(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b", "c"]))
    world = stack.world()
    world["machine-a-1"]["inputs"]["size"] = "pro"
    del world["machine-b-1"]
    world["machine-c-1"]["status"] = "stopped"
    stack.change_world(world)

    preview = await engine.preview_refresh(STACK)
    changes = {(change.kind, change.name, change.properties) for change in preview.changes}
    assert changes == {(ChangeKind.UPDATE, "a", ("size",)), (ChangeKind.DELETE, "b", ())}
    assert stack.resource("b") is not None

    done = await engine.refresh(STACK)
    assert {(change.kind, change.name, change.properties) for change in done.changes} == changes
    assert stack.resource("b") is None
    state = {name: stack.resource(name) or {} for name in "ac"}
    assert state["a"]["inputs"]["size"] == "pro"
    assert state["c"]["outputs"]["status"] == "stopped"
    assert stack.world() == world
    assert (await engine.refresh(STACK)).changes == ()
    assert {(c.kind, c.name) for c in (await engine.preview(STACK, machines(["a", "b", "c"]))).changes} == {
        (ChangeKind.UPDATE, "a"),
        (ChangeKind.CREATE, "b"),
    }


async def test_what_cannot_be_looked_at_stays_and_the_rest_is_refreshed(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))
    stack.change_world({})
    stack.faults({"rpc": "Read", "name": "a", "action": "error", "message": "no answer", "code": "UNAVAILABLE"})
    with pytest.raises(PartlyDoneError, match=r"a .*no answer"):
        await engine.refresh(STACK)
    assert stack.resource("a")
    assert stack.resource("b") is None


async def test_only_targets_are_refreshed(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))
    stack.change_world({})
    done = await engine.refresh(STACK, targets=[urn_of("a")])
    assert [(change.kind, change.name) for change in done.changes] == [(ChangeKind.DELETE, "a")]
    assert stack.resource("b")


async def test_machines_are_imported_by_id_and_then_managed(stack: FakeStack) -> None:
    stack.change_world({"machine-old": OLD})
    engine = stack.engine()
    done = await engine.import_resources(STACK, [Import(MACHINE, "a", "machine-old")])
    assert (ChangeKind.IMPORT, "a", "machine-old") in {(c.kind, c.name, c.id) for c in done.changes}
    assert (stack.resource("a") or {})["protect"] is True
    again = await engine.import_resources(STACK, [Import(MACHINE, "a", "machine-old")])
    assert again.changes == ()

    wanted = machines(["a"], name="old", size="basic")
    assert not [change for change in (await engine.preview(STACK, wanted)).changes if change.id]
    await engine.up(STACK, wanted)
    assert stack.calls("Create") == stack.calls("Update") == stack.calls("Delete") == []
    assert [entry.kind for entry in await engine.history(STACK)] == ["update", "resource-import", "resource-import"]


async def test_an_import_names_what_is_wrong(stack: FakeStack) -> None:
    stack.change_world({"machine-old": OLD})
    engine = stack.engine()
    with pytest.raises(RefusedError, match="resource 'machine-none' does not exist"):
        await engine.import_resources(STACK, [Import(MACHINE, "b", "machine-none")])
    await engine.import_resources(STACK, [Import(MACHINE, "a", "machine-old")])
    with pytest.raises(RefusedError, match="another one of this name already: machine-old"):
        await engine.import_resources(STACK, [Import(MACHINE, "a", "machine-other")])
    assert list(stack.world()) == ["machine-old"]


async def test_what_the_program_imports_is_not_replaced_while_it_says_so(stack: FakeStack) -> None:
    stack.change_world({"machine-old": OLD})
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], import_id="machine-old", name="old", size="basic"))
    moved = machines(["a"], import_id="machine-old", name="old", size="basic", region="nyc")
    with pytest.raises(RefusedError, match=r"may not be replaced; please remove.*region: \{fra\} => \{nyc\}"):
        await engine.up(STACK, moved)
    assert stack.world() == {"machine-old": OLD}


async def test_only_targets_are_brought_about(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))
    done = await engine.up(STACK, machines(["a", "b", "new"], size="pro"), targets=[urn_of("b")])
    assert [(change.kind, change.name) for change in done.changes] == [(ChangeKind.UPDATE, "b")]
    assert stack.machines() == ["a", "b"]
    done = await engine.up(STACK, machines(["a"]), targets=[urn_of("b")])
    assert [(change.kind, change.name) for change in done.changes] == [(ChangeKind.DELETE, "b")]
    assert stack.machines() == ["a"]


async def test_targets_that_do_not_add_up_are_refused(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    with pytest.raises(RefusedError, match=r"b' depends on .*::new' which was was not specified"):
        await engine.up(STACK, machines_in_order("a", "new", "b"), targets=[urn_of("b")])
    with pytest.raises(RefusedError, match="could not be found in the stack"):
        await engine.up(STACK, machines(["a"]), targets=[urn_of("nowhere")])
    assert stack.machines() == ["a"]


async def test_nothing_is_deleted_from_under_what_stays(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines_in_order("a", "b", "c"))
    with pytest.raises(RefusedError, match=r"will be destroyed but was not specified.*1 more"):
        await engine.destroy(STACK, targets=[urn_of("a")])
    assert {c.name for c in (await engine.preview_destroy(STACK, targets=[urn_of("c")])).changes} == {"c"}
    await engine.destroy(STACK, targets=[urn_of("c")])
    assert stack.machines() == ["a", "b"]


async def test_a_state_is_exported_and_put_back(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], password="yes"))
    exported = await engine.export(STACK)
    await engine.up(STACK, machines(["a"], size="pro", password="yes"))
    await stack.engine().import_state(STACK, exported)
    assert (await engine.export(STACK))["deployment"]["resources"] == exported["deployment"]["resources"]
    assert (await engine.refresh(STACK)).changes[0].properties == ("size",)
    with pytest.raises(RefusedError, match="another stack"):
        await engine.import_state(StackRef("rec", "other"), exported)
    with pytest.raises(UsageError, match="no exported state"):
        await engine.import_state(STACK, {"version": 99})


async def test_the_history_says_what_was_done_newest_first(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    stack.faults({"rpc": "Create", "name": "b", "action": "error", "message": "no capacity"})
    with pytest.raises(RefusedError, match="no capacity"):
        await engine.up(STACK, machines(["a", "b"]))
    await engine.destroy(STACK)
    entries = await engine.history(STACK)
    assert [(entry.kind, entry.failed) for entry in entries] == [
        ("destroy", False),
        ("update", True),
        ("update", False),
    ]
    assert entries[-1].changes == {"create": 2}
    assert entries[0].started <= entries[0].ended
    assert await engine.unfinished(STACK) == []


async def test_the_key_is_derived_only_for_the_first_write_and_where_a_secret_is_read_or_written(
    stack: FakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # of the salt: each of these engines derives what it needs
    derived: list[Any] = []
    real = hashlib.pbkdf2_hmac

    def counted(*args: Any) -> bytes:  # noqa: ANN401  passed on
        derived.append(args)
        return real(*args)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    await stack.engine().up(STACK, machines(["a"]))
    await stack.engine().up(STACK, machines(["a"]))
    await stack.engine().refresh(STACK)
    assert len(derived) == 1

    await stack.engine().up(STACK, machines(["a", "b"], password="yes"))
    assert len(derived) == 2
    reader = stack.engine()
    await reader.outputs(STACK)
    await reader.export(STACK)
    await reader.unfinished(STACK)
    assert len(derived) == 2
    await reader.up(STACK, machines(["a", "b"], password="yes"))
    await reader.refresh(STACK)
    assert len(derived) == 3
