"""The lock of a release: one spelling, and nothing in it that a machine would have to guess about."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.wire.documents.lock import Blob, Interpreter, Lock, Managed, Node, Wheels, canonical, release_id
from hermesops.wire.errors import BadRequestError
from hermesops.wire.strict_json import object_in
from tests.support.suite.cases import each_case

WHEEL = Blob("aiohttp-3.14.1-cp311-cp311-manylinux_2_28_x86_64.whl", "a" * 64, 5)
AGENT = Blob("hermes_agent-0.19.0-py3-none-any.whl", "b" * 64, 6)
LISTED = Blob("requirements.txt", "c" * 64, 7)
LOCK = Lock(
    agent_version="0.19.0",
    origin="index",
    config_schema=33,
    pythons={"3.11": Wheels(LISTED, (WHEEL, AGENT)), "3.12": Wheels(replace(LISTED, sha256="d" * 64), (AGENT,))},
    uv=Blob("uv", "e" * 64, 8),
    skills=Blob("skills.tar.gz", "f" * 64, 9),
    site=(Blob("hermes-sandbox.pth", "1" * 64, 1),),
    unit=Blob("hermes-gateway.service", "2" * 64, 2),
    managed=Managed({"gateway": {"systemd_watchdog_seconds": 30}}, {"TZ": "UTC"}),
    node=Node(1, Blob("hermes-node", "3" * 64, 3)),
)


def test_a_lock_is_read_as_it_was_written() -> None:
    assert Lock.from_json(LOCK.to_json()) == LOCK


def test_its_id_is_the_agents_version_and_its_own_hash() -> None:
    assert LOCK.id == "0.19.0-874c23c48292"
    assert release_id(LOCK.id) == LOCK.id
    assert replace(LOCK, config_schema=34).id != LOCK.id


def test_a_machine_needs_what_its_python_installs_and_what_all_share() -> None:
    names = [blob.name for blob in LOCK.blobs("3.12")]
    shared = ["hermes-gateway.service", "hermes-node", "hermes-sandbox.pth", "skills.tar.gz", "uv"]
    assert names == sorted([*shared, AGENT.name, "requirements.txt"])
    assert len(LOCK.all_blobs()) == len(shared) + 4
    with pytest.raises(BadRequestError, match=r"for Python 3\.11, 3\.12, not for 3\.13"):
        LOCK.blobs("3.13")


def test_a_simulated_agent_has_no_wheels_for_any_python() -> None:
    lock = replace(LOCK, origin="simulated", pythons={})
    assert Lock.from_json(lock.to_json()).wheels("3.14") is None
    assert len(lock.blobs("3.14")) == 5
    for wrong in (replace(LOCK, origin="simulated"), replace(LOCK, pythons={})):
        with pytest.raises(BadRequestError, match="must be empty for simulated agents"):
            Lock.from_json(wrong.to_json())


def _without(*path: str) -> Callable[[Any], None]:
    def change(fields: Any) -> None:  # noqa: ANN401 - JSON
        for name in path[:-1]:
            fields = fields[name]
        del fields[path[-1]]

    return change


def _with(value: object, *path: str | int) -> Callable[[Any], None]:
    def change(fields: Any) -> None:  # noqa: ANN401 - JSON
        for name in path[:-1]:
            fields = fields[name]
        fields[path[-1]] = value

    return change


OWN = replace(
    LOCK,
    origin="source",
    pythons={"3.14": Wheels(LISTED, (AGENT,))},
    interpreter=Interpreter("3.14.0", Blob("cpython-3.14.0+20260901-x86_64.tar.gz", "4" * 64, 4)),
    resources=Blob("resources.tar.gz", "5" * 64, 5),
)


def test_a_release_with_its_own_python_is_for_every_machine() -> None:
    assert Lock.from_json(OWN.to_json()) == OWN
    assert "sqlite" not in json.loads(OWN.to_json())["interpreter"]
    assert OWN.interpreter is not None
    linked = replace(OWN, interpreter=replace(OWN.interpreter, sqlite="3.53.1"))
    assert Lock.from_json(linked.to_json()) == linked
    assert json.loads(OWN.to_json())["format"] == 2
    assert {OWN.python_on(python) for python in ("3.11", "3.14")} == {"3.14"}
    assert OWN.blobs("3.11") == OWN.blobs("3.14") == OWN.all_blobs()
    names = {blob.name for blob in OWN.blobs("3.11")}
    assert {"cpython-3.14.0+20260901-x86_64.tar.gz", "resources.tar.gz", AGENT.name} < names


@each_case(
    ("change", "named"),
    [
        (_with("3.14", "interpreter", "version"), "interpreter.version"),
        (_with("../x", "interpreter", "archive", "name"), "interpreter.archive.name"),
        (_with("3.13.1", "interpreter", "version"), r"pythons: not those of the interpreter, 3\.13 alone"),
        (_without("interpreter", "archive"), "interpreter: lacks archive"),
        (_with("3.53", "interpreter", "sqlite"), "interpreter.sqlite"),
        (_with(None, "resources"), "resources"),
        (_with(1, "format"), "unknown field interpreter, resources"),
    ],
)
def test_a_release_with_a_wrong_python_is_no_lock(change: Callable[[Any], None], named: str) -> None:
    fields = json.loads(OWN.to_json())
    change(fields)
    with pytest.raises(BadRequestError, match=named):
        Lock.from_json(canonical(fields))


@each_case(
    ("change", "named"),
    [
        (_with(3, "format"), "format 3"),
        (_with(2, "format"), "not canonical"),
        (_with({}, "interpreter"), "unknown field interpreter"),
        (_without("uv"), "lacks uv"),
        (_with("x", "more"), "unknown field more"),
        (_with("../../etc", "agent", "version"), "agent.version"),
        (_with("moon", "agent", "origin"), "agent.origin"),
        (_with(-1, "config_schema"), "config_schema"),
        (_with(True, "config_schema"), "config_schema"),
        (_with("A" * 64, "unit", "sha256"), "unit.sha256"),
        (_with("../up", "skills", "name"), "skills.name"),
        (_with("/abs", "site", 0, "name"), r"site\[0\].name"),
        (_with("9", "uv", "size"), "uv.size"),
        (_with([], "pythons", "3.11", "wheels"), r"pythons.3.11.wheels: none"),
        (_with({}, "pythons", "four"), "pythons: a name"),
        (_with({"A B": "x"}, "managed", "environment"), "managed.environment: a name"),
        (_with({"A": "x\ny"}, "managed", "environment"), "managed.environment.A"),
        (_with({"A": "it's"}, "managed", "environment"), "managed.environment.A"),
        (_with("1", "node", "protocol"), "node.protocol"),
    ],
)
def test_what_is_no_lock_is_named(change: Callable[[Any], None], named: str) -> None:
    fields = json.loads(LOCK.to_json())
    change(fields)
    with pytest.raises(BadRequestError, match=named):
        Lock.from_json(canonical(fields))


def test_another_spelling_of_a_lock_is_none() -> None:
    fields = json.loads(LOCK.to_json())
    backwards = {name: fields[name] for name in reversed(fields)}
    for spelled in (json.dumps(fields).encode(), LOCK.to_json()[:-1], canonical(fields) + b"\n"):
        with pytest.raises(BadRequestError, match="not canonical"):
            Lock.from_json(spelled)
    assert Lock.from_json(canonical(backwards)) == LOCK


def test_files_are_sorted_and_none_is_there_twice() -> None:
    for wheels in ((AGENT, WHEEL), (AGENT, AGENT)):
        wrong = replace(LOCK, pythons={"3.11": Wheels(LISTED, wheels)})
        with pytest.raises(BadRequestError, match="not sorted by name, or a name twice"):
            Lock.from_json(wrong.to_json())


@given(st.binary(max_size=200))
def test_junk_is_no_lock_and_no_crash(data: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"lock: (not (JSON|an object)|format .* is not understood)"):
        Lock.from_json(data)


def test_what_is_nested_without_end_is_no_lock() -> None:
    with pytest.raises(BadRequestError, match="not JSON"):
        Lock.from_json(b'{"a":' * 100_000)


@each_case("text", ["", "0.19.0", "0.19.0-", "0.19.0-zz", "../0.19.0-874c23c48292", "x-874c23c48292"])
def test_what_can_be_no_release(text: str) -> None:
    with pytest.raises(BadRequestError, match="release: not of the expected form"):
        release_id(text)


def test_what_is_longer_than_a_lock_is_not_parsed() -> None:
    with pytest.raises(BadRequestError, match="3 bytes, more than 2"):
        object_in(b"{} ", "lock", largest=2)
    assert object_in(b"{}", "lock", largest=2) == {}
