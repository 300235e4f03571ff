"""``hermesops release`` as an operator types it, where a release needs no package index: in a simulated world."""

import json
from pathlib import Path

import pytest

from hermesops.access.identity.signatures import Signers, fresh_key
from tests.support.real.commands.command import Command

AGENT = "0.19.0"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path / "home", {"HERMESOPS_LOCAL_DRIVER": "sim"})


def _store(command: Command) -> Path:
    return command.home / "local" / "releases"


async def _build(command: Command, *options: str) -> str:
    release = (await command.ok("release", "build", "--json", *options)).json["release"]
    return str(release["id"])


async def test_a_release_is_built_shown_checked_and_taken_back(command: Command, tmp_path: Path) -> None:
    first = await _build(command, "--note", "the image's agent")
    assert first.startswith(f"{AGENT}-")
    over = tmp_path / "over.json"
    over.write_text(json.dumps({"config": {}, "environment": {"HERMES_SIMULATED_FAULT": "start:0.5"}}))
    second = await _build(command, "--agent", AGENT, "--managed", str(over))

    listed = (await command.ok("release", "list", "--json")).json["releases"]
    assert [release_row["id"] for release_row in listed] == [second, first]
    assert listed[1] | {"created_at": "", "who": ""} == {
        "id": first,
        "agent": AGENT,
        "origin": "simulated",
        "pythons": [],
        "state": "good",
        "created_at": "",
        "who": "",
        "note": "the image's agent",
        "agents": 0,
    }
    differences = (await command.ok("release", "show", second, "--against", first, "--json")).json["differences"]
    what = "managed environment: HERMES_SIMULATED_FAULT"
    assert differences == [{"what": what, "before": None, "after": "start:0.5"}]
    assert first in (await command.ok("release", "verify", first)).stdout

    await command.ok("release", "revoke", second, "--reason", "half of them die", "--yes")
    assert (await command.ok("release", "show", AGENT, "--json")).json["release"]["id"] == first
    audit = (await command.ok("audit", "log", "--json")).json["entries"]
    assert {"release_known", "release_revoked"} <= {entry["action"] for entry in audit}


async def test_what_cannot_be_is_refused_with_the_next_command(command: Command, tmp_path: Path) -> None:
    release = await _build(command)
    lock = _store(command) / "locks" / f"{release}.json"
    other = tmp_path / "other.json"
    other.write_bytes(lock.read_bytes()[:-9])
    cases = {
        3: (["build", "--lock", str(other)],),
        2: (
            ["show", "9.9.9"],
            ["verify", "0.19.0-000000000000"],
            ["build", "--agent", "1", "--from", "x.whl"],
            ["floor", "newest", "--reason", "x"],
            ["revoke", "0.19.0-000000000000", "--reason", "x"],
        ),
    }
    for code, commands in cases.items():
        for arguments in commands:
            ran = await command.run("release", *arguments, *(["--yes"] if arguments[0] == "revoke" else []))
            assert ran.exit_code == code, str(ran)
            assert "hint: " in ran.stderr, str(ran)
            assert "Traceback" not in ran.stderr

    blob = next(iter((_store(command) / "blobs").iterdir()))
    whole = blob.read_bytes()
    blob.write_bytes(whole[:-1])
    broken = await command.run("release", "verify", release, "--json")
    assert (broken.exit_code, len(broken.json["damage"])) == (3, 1)
    assert "instead of" in broken.json["damage"][0]["what"]
    await command.ok("release", "build", "--lock", str(lock))
    assert blob.read_bytes() == whole

    lock.write_bytes(lock.read_bytes().replace(b'"config_schema":33', b'"config_schema":34'))
    edited = await command.run("release", "verify", release)
    assert (edited.exit_code, "it was changed" in edited.stderr) == (3, True)
    await command.ok("release", "revoke", release, "--reason", "edited", "--yes")
    audit = (await command.ok("audit", "log", "--json")).json["entries"]
    assert [entry["why"] for entry in audit if entry["action"] == "release_revoked"] == ["edited"]


async def test_the_key_is_rotated_as_its_steps_say(command: Command, tmp_path: Path) -> None:
    release = await _build(command)
    old = (await command.ok("release", "signers", "show", "--json")).json["signers"]
    key = tmp_path / "new.key"
    key.write_text(fresh_key())
    key.chmod(0o600)
    new = f'releases@local namespaces="hermesops-*" {Signers(key).public()}'
    both, alone = tmp_path / "both", tmp_path / "alone"
    both.write_text("\n".join([*old, new, ""]))
    alone.write_text(f"{new}\n")
    out = await command.run("release", "signers", "set", str(alone), "--reason", "too early", "--yes")
    assert (out.exit_code, "first let both keys sign" in out.stderr) == (3, True)
    await command.ok("release", "signers", "set", str(both), "--reason", "rotated", "--yes")
    await command.ok("secrets", "set", "release.key", "--from", str(key), "--yes")
    await command.ok("release", "signers", "set", str(alone), "--sign-again", "--reason", "rotated", "--yes")
    await command.ok("release", "verify", release)
    assert (await command.ok("release", "signers", "show", "--json")).json == {
        "kind": "release-signers",
        "version": 1,
        "signers": [new],
        "number": 3,
    }
    assert await _build(command) == release


async def test_a_store_that_was_put_back_is_refused_and_restored(command: Command) -> None:
    release = await _build(command)
    await command.ok("release", "floor", AGENT, "--reason", "older ones forget")
    for name in ("revocations.json", "signers.json"):
        kept = (_store(command) / name).read_bytes()
        (_store(command) / name).unlink()
        refused = await command.run("release", "list")
        assert (refused.exit_code, "release signers restore" in refused.stderr) == (3, True), str(refused)
        restored = await command.ok("release", "signers", "restore", "--reason", "put back", "--yes", "--json")
        assert restored.json["restored"] == [name.removesuffix(".json")]
        assert (_store(command) / name).read_bytes() == kept
    assert (await command.ok("release", "show", release, "--json")).json["release"]["id"] == release
    nothing = await command.ok("release", "signers", "restore", "--reason", "put back", "--yes", "--json")
    assert nothing.json["restored"] == []
