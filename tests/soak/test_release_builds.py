"""Releases of the real agent from the package index: the same to the byte wherever they are built."""

import shutil
from pathlib import Path

from hermesops.wire.documents.lock import Lock
from tests.support.real.commands.command import Command
from tests.support.releases.newer_agent import newer_agent

AGENTS = ("0.18.2", "0.19.0")
WHEEL = "hermes_agent-0.19.0-py3-none-any.whl"


def _store(command: Command) -> Path:
    return command.home / "local" / "releases"


def _signed(command: Command) -> dict[str, bytes]:
    """All that a store holds but who built what when."""
    store = _store(command)
    files = (path for path in store.rglob("*") if path.is_file() and path.parent.name != "builds")
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


async def _build(command: Command, *options: str) -> tuple[str, float]:
    ran = await command.ok("release", "build", "--python", "3.11", "--json", *options)
    return str(ran.json["release"]["id"]), ran.seconds


async def test_real_agents_are_built_the_same_in_two_places(tmp_path: Path) -> None:
    here, there = Command(tmp_path / "here"), Command(tmp_path / "there")
    rows = []
    for agent in AGENTS:
        release, seconds = await _build(here, "--agent", agent)
        rows.append((f"{agent} from the index", release, seconds))
        # The same key, so that signatures can be compared, too.
        (there.home / "local").mkdir(parents=True, exist_ok=True)
        shutil.copytree(here.home / "local" / "keys", there.home / "local" / "keys", dirs_exist_ok=True)
        lock = _store(here) / "locks" / f"{release}.json"
        again, seconds = await _build(there, "--lock", str(lock))
        rows.append((f"{agent} from its lock", again, seconds))
        assert again == release
    assert _signed(there) == _signed(here)

    lock_of = {release.partition("-")[0]: release for _, release, _ in rows}
    locks = {
        agent: Lock.from_json((_store(here) / "locks" / f"{release}.json").read_bytes())
        for agent, release in lock_of.items()
    }
    assert [locks[agent].managed.config["gateway"]["systemd_watchdog_seconds"] for agent in AGENTS] == [0, 30]
    assert {lock.config_schema for lock in locks.values()} == {33}

    blob = next(blob for blob in locks["0.19.0"].pythons["3.11"].wheels if blob.name == WHEEL)
    wheel = tmp_path / WHEEL
    shutil.copyfile(_store(here) / "blobs" / blob.sha256, wheel)
    release, seconds = await _build(here, "--from", str(newer_agent(wheel, tmp_path)))
    rows.append(("0.20.0 from a wheel", release, seconds))
    await here.ok("release", "verify", release)
    for what, release, seconds in rows:
        print(f"{what:24}{release:24}{seconds:6.1f} s")  # noqa: T201 - what a soak is for
