"""Copies of a state, damaged states, and the way back: in a folder, by the engine and by hand."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from tests.support.engine.fake_stack import STACK, FakeStack, machines
from tests.support.engine.stack_states import state_of

Damage = Callable[[bytes], bytes]


@pytest.fixture
def stack(tmp_path: Path, one_salt: None) -> FakeStack:  # noqa: ARG001 - of its states
    return FakeStack(tmp_path).install()


def edited(edit: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(content: bytes) -> bytes:
        document = json.loads(content)
        edit(document)
        return json.dumps(document).encode()

    return damage


def names(stack: FakeStack) -> list[str]:
    return sorted(r["urn"].rpartition("::")[2] for r in stack.state()["resources"] if r["type"].endswith("Machine"))


DAMAGES: dict[str, Damage] = {
    "empty": lambda _: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content)),
    "binary": lambda _: bytes(range(256)) * 20,
    "not JSON": lambda _: b"null and void",
    "another JSON": lambda _: b'{"version": 3, "deployment": {}}',
    "a list": lambda _: b"[]",
    "no checkpoint": edited(lambda doc: doc.pop("checkpoint")),
    "resources of another form": edited(lambda doc: doc["checkpoint"]["latest"].update(resources=[1, 2])),
    "wrong magic": edited(lambda doc: doc["checkpoint"]["latest"]["manifest"].update(magic="0" * 64)),
    "no magic": edited(lambda doc: doc["checkpoint"]["latest"]["manifest"].pop("magic")),
    "of another stack": edited(lambda doc: doc["checkpoint"].update(stack="organization/rec/prod")),
    "of another stack inside": lambda content: content.replace(b"urn:pulumi:dev::", b"urn:pulumi:prod::"),
    "compressed": gzip.compress,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_state_is_left_alone_and_the_last_good_one_comes_back(stack: FakeStack, damage: Damage) -> None:
    engine, backend = stack.engine(), FileBackend(stack.backend)
    for resources in (1, 2):
        backend.write(STACK, state_of(STACK, resources))
        backend.record(STACK, {"kind": "update", "result": "succeeded"})
    broken = damage(stack.state_file.read_bytes())
    stack.state_file.write_bytes(broken)
    for attempt in (engine.up(STACK, machines(["c"])), engine.destroy(STACK), engine.outputs(STACK)):
        with pytest.raises(RefusedError, match="damaged") as caught:
            await attempt
        assert "hermesops stack rollback-state dev --list" in str(caught.value.hint)
    assert stack.state_file.read_bytes() == broken
    assert stack.machines() == []

    assert (await engine.rollback_state(STACK)).resources == 2
    assert backend.read(STACK) == state_of(STACK, 2)
    kept = [file.read_bytes() for file in (stack.backend / ".pulumi" / "backups").rglob("*.json")]
    assert b'"latest"' not in broken or broken in kept


async def test_every_run_leaves_a_copy_and_each_can_be_put_back(stack: FakeStack) -> None:
    engine = stack.engine()
    for wanted in (["a"], ["a", "b"], ["a", "b", "c"]):
        await engine.up(STACK, machines(wanted))
    copies = await engine.state_versions(STACK, limit=10)
    assert [(copy.resources, copy.what, copy.current) for copy in copies] == [
        (5, "update succeeded", True),
        (4, "update succeeded", False),
        (3, "update succeeded", False),
    ]
    assert len(await engine.state_versions(STACK, limit=1)) == 1
    put = await engine.rollback_state(STACK, copies[2].version)
    assert (put.version, names(stack)) == (copies[2].version, ["a"])
    assert [copy.resources for copy in await engine.state_versions(STACK, limit=10)] == [3, 5, 4, 3]
    await engine.rollback_state(STACK)
    assert names(stack) == ["a", "b", "c"]


async def test_a_copy_is_made_of_what_a_hand_wrote_and_of_what_a_killed_run_left(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    document = json.loads(stack.state_file.read_bytes())
    document["checkpoint"]["latest"]["metadata"]["hand"] = True
    by_hand = json.dumps(document).encode()
    stack.state_file.write_bytes(by_hand)
    await engine.up(STACK, machines(["a", "b"]))
    after, before, first = await engine.state_versions(STACK, limit=10)
    assert (after.what, before.what, first.what) == ("update succeeded", "", "update succeeded")
    kept = stack.backend / ".pulumi" / "backups" / "rec" / "dev" / f"dev.{before.version}.json"
    assert kept.read_bytes() == by_hand


async def test_a_state_that_is_gone_comes_back(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    stack.state_file.unlink()
    await engine.rollback_state(STACK)
    assert names(stack) == ["a"]


async def test_what_cannot_be_put_back_is_said(stack: FakeStack) -> None:
    engine = stack.engine()
    with pytest.raises(RefusedError, match="no sound copy"):
        await engine.rollback_state(STACK)
    await engine.up(STACK, machines(["a"]))
    with pytest.raises(UsageError, match="no copy of the state '7'"):
        await engine.rollback_state(STACK, "7")
    (copy,) = await engine.state_versions(STACK, limit=10)
    file = stack.backend / ".pulumi" / "backups" / "rec" / "dev" / f"dev.{copy.version}.json"
    file.write_bytes(file.read_bytes()[:100])
    before = stack.state_file.read_bytes()
    with pytest.raises(RefusedError, match="damaged"):
        await engine.rollback_state(STACK, copy.version)
    assert (await engine.state_versions(STACK, limit=10))[0].resources is None
    assert stack.state_file.read_bytes() == before


async def test_a_compressed_state_of_the_cli_is_no_second_stack(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    stack.state_file.with_suffix(".json.gz").write_bytes(gzip.compress(stack.state_file.read_bytes()))
    stack.state_file.unlink()
    with pytest.raises(RefusedError, match="compressed, which only the CLI reads"):
        await engine.up(STACK, machines(["a"]))


async def test_an_exported_state_is_imported(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], password="yes"))
    exported = await engine.export(STACK)
    await engine.up(STACK, machines(["a", "b"], password="yes"))
    await engine.import_state(STACK, exported)
    assert names(stack) == ["a"]
    assert [copy.resources for copy in await engine.state_versions(STACK, limit=9)] == [4, 3]
    assert (await engine.up(STACK, machines(["a"], password="yes"))).changes == ()


def _clear(export: dict[str, Any]) -> dict[str, Any]:
    """As ``pulumi stack export --show-secrets`` prints it."""
    text = json.dumps(export)
    for resource in export["deployment"]["resources"]:
        for value in resource.get("outputs", {}).values():
            if isinstance(value, dict) and "ciphertext" in value:
                text = text.replace(f'"ciphertext": "{value["ciphertext"]}"', '"plaintext": "\\"in-the-clear\\""')
    clear: dict[str, Any] = json.loads(text)
    return clear


async def test_secrets_in_the_clear_are_encrypted_before_they_are_written(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], password="yes"))
    await engine.import_state(STACK, _clear(await engine.export(STACK)))
    everything = b"".join(file.read_bytes() for file in stack.backend.rglob("*") if file.is_file())
    assert b"in-the-clear" not in everything
    (machine,) = (r for r in stack.state()["resources"] if r["type"].endswith("Machine"))
    assert "ciphertext" in machine["outputs"]["rootPassword"]


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    def edit(document: dict[str, Any]) -> None:
        kept = [r for r in document["deployment"]["resources"] if not r["type"].endswith(name)]
        document["deployment"]["resources"] = kept

    return edit


@pytest.mark.parametrize(
    ("edit", "kind", "message"),
    [
        (lambda doc: doc.pop("version"), UsageError, "no exported state"),
        (lambda doc: doc.update(version=99), UsageError, "no exported state"),
        (lambda doc: doc["deployment"]["manifest"].update(magic="0" * 64), RefusedError, "its magic"),
        (lambda doc: doc["deployment"]["resources"].append(doc["deployment"]["resources"][-1]), RefusedError, "twice"),
        (_without("pulumi:pulumi:Stack"), RefusedError, "parent .* is missing"),
        (lambda doc: doc["deployment"].update(resources=["x"]), UsageError, "no exported state"),
    ],
    ids=["no version", "a newer version", "another magic", "twice", "dangling", "junk"],
)
async def test_what_contradicts_itself_is_not_imported(
    stack: FakeStack, edit: Callable[[dict[str, Any]], object], kind: type[HermesError], message: str
) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"]))
    before = stack.state_file.read_bytes()
    document = await engine.export(STACK)
    edit(document)
    with pytest.raises(kind, match=message):
        await engine.import_state(STACK, document)
    assert stack.state_file.read_bytes() == before


async def test_another_stacks_state_and_another_passphrase_are_refused(stack: FakeStack) -> None:
    engine = stack.engine()
    await engine.up(STACK, machines(["a"], password="yes"))
    exported = await engine.export(STACK)
    other = json.loads(json.dumps(exported).replace("urn:pulumi:dev::", "urn:pulumi:prod::"))
    with pytest.raises(RefusedError, match="belong to another stack than rec/dev"):
        await engine.import_state(STACK, other)
    with pytest.raises(RefusedError, match="incorrect passphrase"):
        await stack.engine(passphrase=lambda: "another").import_state(STACK, exported)
