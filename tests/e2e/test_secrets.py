"""A secret is found where it belongs and nowhere else: not in files, states, outputs, processes or another machine."""

import asyncio
import base64
import hashlib
import uuid
from pathlib import Path

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.model.billing.route import PresentToken, issue_token
from hermesops.model.ids import InstanceId
from hermesops.store.registry import open_registry
from tests.support.real.commands.command import Command

pytestmark = [pytest.mark.machines, pytest.mark.turns(45)]

# Runs as the agent. It knows secrets by their hash only: a search that names them would find itself.
SEARCH = """
import glob, hashlib, os, re, sys
wanted = dict(pair.split("=") for pair in sys.argv[1:])
found = set()
def look(data):
    for run in set(re.findall(rb"[A-Za-z0-9_.+/=-]{20,}", data)):
        for text in {run, run.strip(b".=-"), run.rpartition(b"=")[2]}:
            found.add(wanted.get(hashlib.sha256(text).hexdigest()))
    if re.search(rb"PRIVATE KEY-----\\s+[A-Za-z0-9+/=]{40}", data): found.add("a private key")
for folder, folders, names in os.walk("/"):
    skipped = ("/proc", "/sys", "/usr", "/opt/hermes/releases")
    folders[:] = [f for f in folders if os.path.join(folder, f) not in skipped]
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 20000000:
                look(open(path, "rb").read())
        except OSError: pass
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: look(open(path, "rb").read())
    except OSError: pass
print("FOUND", ";".join(sorted(found - {None})))
"""
PLACE = "/var/lib/hermes/search.py"


def secrets_of(world: Command, user: str) -> tuple[str, PresentToken]:
    """The API key of a user's agent, and what rows say of its router token."""
    folder = world.home / "local"
    registry = open_registry(
        f"sqlite:///{folder / 'registry.db'}",
        environment="local",
        actor="test",
        sealer=lambda _: KeyRing.load(folder / "keys" / "registry.key"),
    )
    try:
        instance = registry.instances.find(user)
        return registry.instance_secrets.api_server_key(instance.id), registry.model_tokens.get(instance.id)
    finally:
        registry.close()


async def test_what_the_agent_can_read_holds_only_its_own_tokens(world: Command) -> None:
    users = [f"s{uuid.uuid4().hex[:8]}" for _ in range(2)]
    await asyncio.gather(*(world.ok("provision", user, "--plan", "light") for user in users))
    folder = world.home / "local" / "world"
    router_key = (folder / "model.key").read_text().strip()
    secrets = {
        "vendor-key": (folder / "api.key").read_text().strip(),
        "router-key": router_key,
        "its-api-key": secrets_of(world, users[0])[0],
        "its-token": await token_of(world, users[0], router_key),
        "other-api-key": secrets_of(world, users[1])[0],
        "other-token": await token_of(world, users[1], router_key),
    }
    script = base64.b64encode(SEARCH.encode()).decode()
    write = f"echo {script} | base64 -d >{PLACE}"
    await world.ok("instance", "exec", users[0], "--user", "hermes", "--reason", "test", "--", write)
    hashes = " ".join(f"{hashlib.sha256(s.encode()).hexdigest()}={w}" for w, s in secrets.items())
    ask = f"RUN: python3 {PLACE} {hashes}"
    ran = await world.ok("instance", "chat", users[0], ask, "--reason", "test", "--json")
    assert "FOUND " in ran.json["answer"], str(ran)
    names = set(ran.json["answer"].partition("FOUND ")[2].partition("\\n")[0].partition('"')[0].strip().split(";"))
    assert names == {"its-api-key", "its-token"}, str(ran)
    for user in users:
        await world.ok("instance", "terminate", user, "--yes")


async def token_of(world: Command, user: str, router_key: str) -> str:
    shown = (await world.ok("instance", "show", user, "--json")).json["instance"]
    row = secrets_of(world, user)[1]
    assert row.expires_at
    expires_at = int(row.expires_at.timestamp())
    return issue_token(router_key.encode(), InstanceId(shown["instance_id"]), row.generation, expires_at)


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
    text = "\n".join(f"{ran.stdout}\n{ran.stderr}" for ran in world.said)
    arguments = _arguments_of_all_processes()
    for what, (canary, places) in canaries.items():
        assert len(canary) >= 20
        assert canary not in text, f"{what} was printed"
        assert canary not in arguments, f"{what} is in a process's arguments"
        paths = set(_files_with(home, canary.encode()))
        assert paths == places, f"{what} is in {paths ^ places}"
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
