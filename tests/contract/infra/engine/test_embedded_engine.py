"""The embedded engine with a plugin process: guards, interruptions, locks, damaged files, secrets, many at once."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import (
    HermesError,
    PartlyDoneError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
    UsageError,
)
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.model.stack import ChangeKind, StackRef
from tests.support.crash.death import run_until_killed
from tests.support.engine.fake_stack import ROOT, STACK, FakeStack, machines, machines_in_order

if TYPE_CHECKING:
    from hermesops.infra.engine.options import Progress

pytestmark = [pytest.mark.turns(40), pytest.mark.usefixtures("one_salt")]

DRIVER = """
import asyncio, sys
from pathlib import Path
from tests.support.engine.fake_stack import STACK, FakeStack, machines
stack = FakeStack(Path(sys.argv[1]))
asyncio.run(stack.engine().up(STACK, machines(sys.argv[2].split(","), **eval(sys.argv[3]))))
"""

DEADLY_DRIVER = """
import asyncio
from pathlib import Path
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from tests.support.crash.death import Death, kill_this_process
from tests.support.engine.fake_stack import STACK, FakeStack, machines
FileBackend.write = Death.before({at}, kill=kill_this_process).around(FileBackend.write)
asyncio.run(FakeStack(Path({folder!r})).engine(parallel=1).up(STACK, machines(["a", "b"])))
"""


@pytest.fixture
def stack(tmp_path: Path) -> FakeStack:
    return FakeStack(tmp_path).install()


def start(stack: FakeStack, names: str, **properties: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(stack.folder), names, repr(properties)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def processes_of(stack: FakeStack) -> list[str]:
    """Command lines that name the stack's plugin."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(file.read_bytes().decode(errors="replace"))
    return [line for line in lines if str(stack.plugins) in line]


async def called(stack: FakeStack, rpc: str, name: str) -> None:
    async def observe() -> bool | Pending[bool]:
        return bool(stack.calls(rpc, name)) or Pending("not yet")

    await until(observe, what=f"{rpc} of {name}", timeout_s=20, every_s=0.02)


async def test_what_is_made_is_exported_and_kept(stack: FakeStack) -> None:
    engine = stack.engine()
    progress: list[Progress] = []
    done = await engine.up(STACK, machines(["a", "b"]), report=progress.append)
    assert {(change.kind, change.name) for change in done.changes} == {
        (ChangeKind.CREATE, "rec-dev"),
        (ChangeKind.CREATE, "a"),
        (ChangeKind.CREATE, "b"),
    }
    assert ("done", "create", "a") in {(line.kind, line.change, line.name) for line in progress}
    assert await engine.outputs(STACK) == done.outputs
    assert (await engine.up(STACK, machines(["a", "b"]))).changes == ()
    assert await engine.stacks("rec") == [STACK]
    files = {str(file.relative_to(stack.backend / ".pulumi")) for file in stack.backend.rglob("*") if file.is_file()}
    assert {"meta.yaml", "stacks/rec/dev.json", "stacks/rec/dev.json.bak"} <= files
    for folder, ending in (("history", ".history.json"), ("history", ".checkpoint.json"), ("backups", ".json")):
        assert len([f for f in files if f.startswith(f"{folder}/rec/dev/dev") and f.endswith(ending)]) == 2
    assert not [file for file in files if file.startswith("locks/")]


async def test_an_unchanged_up_writes_the_state_once(stack: FakeStack, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))
    writes: list[object] = []
    real = engine._backend.write

    def counted(ref: StackRef, latest: dict[str, object]) -> None:
        writes.append(latest)
        real(ref, latest)

    monkeypatch.setattr(engine._backend, "write", counted)
    await engine.up(STACK, machines(["a", "b"]))
    assert len(writes) == 1


async def test_nothing_is_touched_when_something_unnamed_would_be_destroyed(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))
    before = stack.state_file.read_bytes()
    with pytest.raises(RefusedError, match=r"1 resource\(s\) .* b \(justavps:index:Machine\)"):
        await engine.up(STACK, machines(["a", "new"], size="pro"), may_destroy=lambda _urn: False)
    assert stack.state_file.read_bytes() == before
    assert stack.machines() == ["a", "b"]
    assert stack.calls("Update") == stack.calls("Create", "new") == []

    await engine.up(STACK, machines(["a", "new"], size="pro"), may_destroy=lambda urn: urn.endswith("::b"))
    assert stack.machines() == ["a", "new"]


@pytest.mark.parametrize("change", [{"region": "nyc"}, {"hostname": "two"}])
async def test_a_replacement_is_refused_before_anything_changes(stack: FakeStack, change: dict[str, str]) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], hostname="one", region="fra"))
    wanted = {"hostname": "one", "region": "fra"} | change
    with pytest.raises(RefusedError, match="a "):
        await engine.up(STACK, machines(["a", "new"], **wanted), may_destroy=lambda _urn: False)
    assert stack.machines() == ["a"]
    assert stack.calls("Delete") == []


async def test_destroy_asks_for_every_machine(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))
    with pytest.raises(RefusedError, match=r"1 resource.* would be destroyed without being named: b "):
        await engine.destroy(STACK, may_destroy=lambda urn: urn.endswith("::a"))
    assert stack.machines() == ["a", "b"]
    await engine.destroy(STACK, may_destroy=lambda _urn: True)
    assert stack.machines() == []
    assert "resources" not in stack.state()


@pytest.mark.parametrize("timestamp", ["Create", "Create-after"])
async def test_a_killed_create_is_finished_by_the_same_command(stack: FakeStack, timestamp: str) -> None:
    stack.faults({"rpc": timestamp, "name": "b", "action": "slow", "seconds": 1.5})
    process = start(stack, "a,b,c")
    await called(stack, "Create", "b")
    process.kill()
    process.wait()
    pending = [op["resource"]["urn"].rpartition("::")[2] for op in stack.state()["pending_operations"]]
    assert "b" in pending
    stack.faults()

    done = await stack.engine().up(STACK, machines(["a", "b", "c"]), may_destroy=lambda _urn: False)
    assert stack.machines() == ["a", "b", "c"]
    assert "pending_operations" not in stack.state()
    assert "b" in {change.name for change in done.changes}


async def test_a_killed_create_that_nobody_wants_any_more_leaves_nothing(stack: FakeStack) -> None:
    await stack.engine().up(STACK, machines(["a"]))
    stack.faults({"rpc": "Create-after", "name": "b", "action": "slow", "seconds": 1.5})
    process = start(stack, "a,b")
    await called(stack, "Create", "b")
    process.kill()
    process.wait()
    stack.faults()
    with pytest.raises(RefusedError, match="b "):
        await stack.engine().up(STACK, machines(["a"]), may_destroy=lambda _urn: False)
    await stack.engine().up(STACK, machines(["a"]), may_destroy=lambda urn: urn.endswith("::b"))
    assert stack.machines() == ["a"]
    assert "pending_operations" not in stack.state()


@pytest.mark.parametrize(
    ("rpc", "first", "then"),
    [("Update", {"size": "starter"}, {"size": "pro"}), ("Delete", {"hostname": "one"}, {"hostname": "two"})],
)
async def test_a_killed_change_is_finished_by_the_same_command(
    stack: FakeStack, rpc: str, first: dict[str, str], then: dict[str, str]
) -> None:
    await stack.engine().up(STACK, machines(["a"], **first))
    stack.faults({"rpc": rpc, "name": "a", "action": "slow", "seconds": 1.5})
    process = start(stack, "a", **then)
    await called(stack, rpc, "a")
    process.kill()
    process.wait()
    stack.faults()
    await stack.engine().up(STACK, machines(["a"], **then))
    assert stack.machines() == ["a"]
    world = json.loads((stack.plugins / "world.json").read_text())["objects"]
    assert then.items() <= next(iter(world.values()))["inputs"].items()
    assert (await stack.engine().up(STACK, machines(["a"], **then))).changes == ()


@pytest.mark.parametrize("broken", [1, 3, 5, 6, 7, 8, 9])
async def test_a_state_that_cannot_be_written_is_made_true_by_the_same_command(
    stack: FakeStack, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    """At each of the writes that two new machines take."""
    engine = stack.engine(parallel=1)
    real, count = engine._backend.write, 0

    def write(ref: StackRef, latest: dict[str, object]) -> None:
        nonlocal count
        count += 1
        if count >= broken:
            raise UnavailableError("no space left", hint="make room")
        real(ref, latest)

    monkeypatch.setattr(engine._backend, "write", write)
    with pytest.raises(UnavailableError, match="no space left"):
        await engine.up(STACK, machines(["a", "b"]))
    await stack.engine().up(STACK, machines(["a", "b"]), may_destroy=lambda _urn: False)
    assert stack.machines() == ["a", "b"]
    ids = {r["id"] for r in stack.state()["resources"] if r["type"].endswith("Machine")}
    assert ids == {"machine-a-1", "machine-b-1"}
    assert "pending_operations" not in stack.state()


@pytest.mark.parametrize("deadly", [2, 5, 6, 7, 8, 10])
async def test_killed_before_any_write_of_the_state_the_same_command_finishes(stack: FakeStack, deadly: int) -> None:
    """What was done and not yet written down is found again; nothing is made twice."""
    run_until_killed(DEADLY_DRIVER.format(at=deadly, folder=str(stack.folder)))
    await stack.engine().up(STACK, machines(["a", "b"]), may_destroy=lambda _urn: False)
    assert stack.machines() == ["a", "b"]
    ids = {r["id"] for r in stack.state()["resources"] if r["type"].endswith("Machine")}
    assert ids == {"machine-a-1", "machine-b-1"}
    assert "pending_operations" not in stack.state()
    assert (await stack.engine().up(STACK, machines(["a", "b"]))).changes == ()


async def test_ctrl_c_lets_the_step_end_and_saves(stack: FakeStack) -> None:
    stack.faults({"rpc": "Create", "name": "a", "action": "slow", "seconds": 1})
    process = start(stack, "a")
    await called(stack, "Create", "a")
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=20)
    assert process.returncode != 0, output
    assert "pending_operations" not in stack.state()
    assert stack.machines() == ["a"]
    assert [r["id"] for r in stack.state()["resources"] if r["type"].endswith("Machine")] == ["machine-a-1"]
    assert not list((stack.backend / ".pulumi" / "locks").rglob("*.json"))


async def test_a_living_owner_of_the_lock_is_named(stack: FakeStack) -> None:
    stack.faults({"rpc": "Create", "name": "a", "action": "slow", "seconds": 3})
    process = start(stack, "a")
    try:
        await called(stack, "Create", "a")
        with pytest.raises(UnavailableError, match=rf"locked by 1 other.*pid {process.pid}"):
            await stack.engine().up(STACK, machines(["a"]))
        assert {change.name for change in (await stack.engine().preview(STACK, machines(["a"]))).changes} == {"a"}
    finally:
        process.wait()
    assert stack.machines() == ["a"]


async def test_a_lock_of_the_cli_is_respected(stack: FakeStack) -> None:
    folder = stack.backend / ".pulumi" / "locks" / "organization" / "rec" / "dev"
    folder.mkdir(parents=True)
    theirs = {"pid": os.getpid(), "username": "u", "hostname": "elsewhere", "timestamp": "2026-01-01T00:00:00Z"}
    (folder / "one.json").write_text(json.dumps(theirs))
    with pytest.raises(RefusedError, match="created by u@elsewhere"):
        await stack.engine().up(STACK, machines(["a"]))
    assert (folder / "one.json").exists()
    assert stack.machines() == []


async def test_a_failed_step_keeps_what_was_done(stack: FakeStack) -> None:
    stack.faults({"rpc": "Create", "name": "bad", "action": "error", "message": "no capacity in fra"})
    with pytest.raises(PartlyDoneError, match=r"bad .*no capacity in fra; done before: .*a") as caught:
        await stack.engine().up(STACK, machines_in_order("a", "bad"))
    assert str(caught.value.hint)
    stack.faults()
    done = await stack.engine().up(STACK, machines_in_order("a", "bad"))
    assert {change.name for change in done.changes} == {"bad"}


async def test_an_api_that_is_down_is_safe_to_repeat(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    stack.faults({"rpc": "Update", "name": "a", "action": "error", "code": "UNAVAILABLE", "message": "the API is down"})
    with pytest.raises(UnavailableError, match="the API is down"):
        await engine.up(STACK, machines(["a"], size="pro"))


async def test_a_plugin_that_dies_leaves_the_outcome_open(stack: FakeStack) -> None:
    stack.faults({"rpc": "Create", "name": "a", "action": "crash"})
    with pytest.raises(UnknownOutcomeError, match="a "):
        await stack.engine().up(STACK, machines(["a"]))
    stack.faults()
    await stack.engine().up(STACK, machines(["a"]))
    assert stack.machines() == ["a"]


async def test_a_half_made_machine_is_kept_and_finished(stack: FakeStack) -> None:
    stack.faults({"rpc": "Create-after", "name": "a", "action": "partial"})
    with pytest.raises(PartlyDoneError, match="did not become ready"):
        await stack.engine().up(STACK, machines(["a"]))
    (kept,) = [r for r in stack.state()["resources"] if r["type"].endswith("Machine")]
    assert kept["id"] == "machine-a-1"
    assert kept["initErrors"] == ["machine did not become ready"]
    stack.faults()
    await stack.engine().up(STACK, machines(["a"]))
    assert len(stack.calls("Create", "a")) == 1
    assert "initErrors" not in next(r for r in stack.state()["resources"] if r["type"].endswith("Machine"))


async def test_refused_inputs_are_told_with_their_property(stack: FakeStack) -> None:
    with pytest.raises(HermesError, match=r"property size value \{bogus\} has a problem: size must be one of"):
        await stack.engine().preview(STACK, machines(["a"], size="bogus"))


@pytest.mark.parametrize("text", ["", "{", '{"version": 3}', '{"version":3,"checkpoint":{"latest":{"resources":[1]}}}'])
async def test_a_damaged_state_is_left_alone(stack: FakeStack, text: str) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    stack.state_file.write_text(text)
    for attempt in (engine.up(STACK, machines(["a"])), engine.destroy(STACK), engine.outputs(STACK)):
        with pytest.raises(RefusedError, match="the state is damaged") as caught:
            await attempt
        assert "backups" in str(caught.value.hint)
    assert stack.state_file.read_text() == text
    assert stack.machines() == ["a"]


async def test_a_state_of_another_version_is_refused(stack: FakeStack) -> None:
    stack.state_file.parent.mkdir(parents=True)
    stack.state_file.write_text('{"version": 4, "checkpoint": {"latest": {}}}')
    with pytest.raises(RefusedError, match="version 4"):
        await stack.engine().up(STACK, machines(["a"]))


async def test_what_is_not_there_is_a_usage_error(stack: FakeStack) -> None:
    for attempt in (stack.engine().outputs(STACK), stack.engine().export(STACK), stack.engine().destroy(STACK)):
        with pytest.raises(UsageError, match="no stack dev of project rec"):
            await attempt


async def test_a_missing_plugin_is_named(stack: FakeStack) -> None:
    (stack.plugins / "pulumi-resource-justavps").unlink()
    with pytest.raises(RefusedError, match="pulumi-resource-justavps was found neither"):
        await stack.engine().up(STACK, machines(["a"]))


async def test_a_plugin_that_does_not_start_is_quoted(stack: FakeStack) -> None:
    (stack.plugins / "pulumi-resource-justavps").write_text("#!/bin/sh\necho it hurts >&2\nexit 1\n")
    with pytest.raises(UnavailableError, match="it hurts"):
        await stack.engine().up(STACK, machines(["a"]))


async def test_secrets_are_encrypted_in_every_file(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], password="yes"))
    (machine,) = [r for r in stack.state()["resources"] if r["type"].endswith("Machine")]
    assert set(machine["outputs"]["rootPassword"]) == {"4dabf18193072939515e22adb298388d", "ciphertext"}
    everything = "".join(file.read_text() for file in stack.backend.rglob("*") if file.is_file())
    assert "pw-machine-a-1" not in everything
    assert "ciphertext" in json.dumps(await engine.export(STACK))

    with pytest.raises(RefusedError, match="incorrect passphrase"):
        await stack.engine(passphrase=lambda: "another").up(STACK, machines(["a"], password="yes"))
    assert (await stack.engine().up(STACK, machines(["a"], password="yes"))).changes == ()


async def test_a_state_is_sealed_from_its_first_write_on(stack: FakeStack) -> None:
    """Though nothing in it is secret: the pulumi CLI would seal it with whatever passphrase its user has."""
    with pytest.raises(UsageError, match="no passphrase"):
        await stack.engine(passphrase=_no_passphrase).up(STACK, machines(["a"]))
    assert not stack.state_file.exists()
    assert stack.machines() == []

    await stack.engine().up(STACK, machines(["a"]))
    provider = stack.state()["secrets_providers"]
    assert provider["type"] == "passphrase"
    assert PassphraseVault(lambda: "a passphrase", salt=provider["state"]["salt"], keys={}, stack="dev").unlock()
    with pytest.raises(RefusedError, match="incorrect passphrase"):
        PassphraseVault(lambda: "another", salt=provider["state"]["salt"], keys={}, stack="dev").unlock()


async def test_a_state_without_a_seal_gets_one_where_nothing_changes(stack: FakeStack) -> None:
    await stack.engine().up(STACK, machines(["a"]))
    document = json.loads(stack.state_file.read_text())
    del document["checkpoint"]["latest"]["secrets_providers"]
    stack.state_file.write_text(json.dumps(document))
    await stack.engine().up(STACK, machines(["a"]), may_destroy=lambda _: False)
    assert stack.state()["secrets_providers"]["state"]["salt"].startswith("v1:")


async def test_nobody_asks_for_the_passphrase_of_a_sealed_state_without_secrets(stack: FakeStack) -> None:
    await stack.engine().up(STACK, machines(["a"]))
    engine = stack.engine(passphrase=_no_passphrase)
    await engine.up(STACK, machines(["a", "b"]))
    await engine.refresh(STACK)
    assert stack.machines() == ["a", "b"]


def _no_passphrase() -> str:
    raise UsageError("no passphrase")


async def test_stacks_run_side_by_side_in_one_process(stack: FakeStack) -> None:
    engine = stack.engine()
    refs = [StackRef("rec", f"s{number}") for number in range(3)]
    programs = [machines([f"{ref.stack}-m{n}" for n in range(3)]) for ref in refs]
    await asyncio.gather(*(engine.up(ref, program) for ref, program in zip(refs, programs, strict=True)))
    for ref in refs:
        deployment = (await engine.export(ref))["deployment"]
        names = {r["urn"].rpartition("::")[2] for r in deployment["resources"] if r["type"].endswith("Machine")}
        assert names == {f"{ref.stack}-m{n}" for n in range(3)}


async def test_a_bug_in_the_program_deletes_nothing_and_keeps_its_traceback(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a", "b"]))

    def broken() -> None:
        machines(["a"])()
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        await engine.up(STACK, broken)
    assert stack.machines() == ["a", "b"]


async def test_a_cancelled_call_leaves_no_process(stack: FakeStack) -> None:
    stack.faults({"rpc": "Create", "name": "a", "action": "slow", "seconds": 1})
    task = asyncio.create_task(stack.engine().up(STACK, machines(["a"])))
    await called(stack, "Create", "a")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert processes_of(stack) == []
    assert (await stack.engine().up(STACK, machines(["a"]))).changes == ()
