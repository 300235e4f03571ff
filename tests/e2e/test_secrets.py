"""A secret is found where it belongs and nowhere else: not in files, states, outputs, processes or another machine."""

import asyncio
import uuid
from pathlib import Path

import pytest

from hermesops.access.key_ring import KeyRing
from hermesops.registry import open_registry
from tests.support.command import Command

pytestmark = pytest.mark.machines

ROUTER_TOKEN = r"hm1\.[0-9a-f-]{36}\.[0-9]+\.[0-9a-f]{40}"  # noqa: S105 - what one looks like, not one
READ_EVERYTHING = (
    "RUN: (env; cat /proc/*/environ /proc/*/cmdline; "
    "find / -xdev -type f -readable -size -2000k -not -path '/usr/*' -not -path '/opt/hermes/releases/*' "
    "-not -path '/proc/*' -exec cat {} +) 2>/dev/null | grep -aoE '%s' | sort -u"
)


def secrets_of(world: Command, user: str) -> tuple[str, int]:
    """The API key of a user's agent, and the generation of its router token."""
    folder = world.home / "local"
    registry = open_registry(
        f"sqlite:///{folder / 'registry.db'}",
        environment="local",
        actor="test",
        sealer=lambda _: KeyRing.load(folder / "keys" / "registry.key"),
    )
    try:
        instance = registry.find_instance(user)
        return registry.api_server_key(instance.id), registry.model_token_generation(instance.id)
    finally:
        registry.close()


async def test_what_the_agent_can_read_holds_only_its_own_tokens(world: Command) -> None:
    users = [f"s{uuid.uuid4().hex[:8]}" for _ in range(2)]
    await asyncio.gather(*(world.ok("provision", user, "--plan", "light") for user in users))
    mine, hers = secrets_of(world, users[0])[0], secrets_of(world, users[1])[0]
    vendor = (world.home / "local" / "world" / "api.key").read_text().strip()
    router = (world.home / "local" / "world" / "model.key").read_text().strip()
    pattern = f"{mine}|{hers}|{vendor}|{router}|{ROUTER_TOKEN}|PRIVATE KEY"
    ran = await world.ok("instance", "chat", users[0], READ_EVERYTHING % pattern, "--reason", "test", "--json")
    answer = ran.json["answer"]
    instance_id = (await world.ok("instance", "show", users[0], "--json")).json["instance"]["instance_id"]
    assert f"hm1.{instance_id}." in answer, "the search did not even find the agent's own token"
    assert answer.count("hm1.") == 1
    for secret in (hers, vendor, router, "PRIVATE KEY"):
        assert secret not in answer
    for user in users:
        await world.ok("instance", "terminate", user, "--yes")


async def test_secrets_stay_in_their_files(world: Command) -> None:
    user = f"s{uuid.uuid4().hex[:8]}"
    await world.ok("provision", user, "--plan", "light")
    await world.ok("instance", "logs", user, "--lines", "2000")
    await world.ok("instance", "verify", user, "--json")
    home = world.home / "local"
    canaries = {
        "API key of the agent": (secrets_of(world, user)[0], set()),
        "API key of the vendor": ((home / "world" / "api.key").read_text().strip(), {home / "world" / "api.key"}),
        "router's key": ((home / "world" / "model.key").read_text().strip(), {home / "world" / "model.key"}),
        "passphrase": (
            (home / "keys" / "pulumi.passphrase").read_text().strip(),
            {home / "keys" / "pulumi.passphrase"},
        ),
    }
    said = "\n".join(f"{ran.stdout}\n{ran.stderr}" for ran in world.said)
    arguments = _arguments_of_all_processes()
    for what, (canary, places) in canaries.items():
        assert len(canary) >= 20
        assert canary not in said, f"{what} was printed"
        assert canary not in arguments, f"{what} is in a process's arguments"
        found = set(_files_with(home, canary.encode()))
        assert found == places, f"{what} is in {found ^ places}"
    private = [path for path in (home / "keys").iterdir() if path.stat().st_mode & 0o077]
    assert not private, f"readable by others: {private}"
    await world.ok("instance", "terminate", user, "--yes")


def _files_with(home: Path, canary: bytes) -> list[Path]:
    # Machines' own disks are theirs: what is on them is judged from inside.
    return [
        path
        for path in home.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and "machines" not in path.parts
        and "images" not in path.parts
        and path.stat().st_size < 50_000_000
        and canary in path.read_bytes()
    ]


def _arguments_of_all_processes() -> str:
    return "\n".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""  # it has ended
