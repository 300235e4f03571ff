"""Agents that somebody has taken over: ``hostile_hook`` put into a real one, and how it answers, changed at will."""

import base64
import io
import tarfile
from pathlib import Path

from tests.support import hostile_hook, hostile_moods
from tests.support.command import Command, Ran

FOLDER = "/var/lib/hermes/hooks/hostile"
_FILES = {
    "HOOK.yaml": hostile_hook.MANIFEST.encode(),
    "handler.py": Path(hostile_hook.__file__).read_bytes(),
    "hostile_moods.py": Path(hostile_moods.__file__).read_bytes(),
}


async def take_over(world: Command, user: str, *deeds: str) -> None:
    """Put the hook into an agent's home, as the agent can, and start the agent anew; it answers as it should still."""
    files = {**_FILES, "deeds": " ".join(deeds).encode()}
    packed = base64.b64encode(_archive(files)).decode()
    await _as_agent(world, user, f"mkdir -p {FOLDER} && echo {packed} | base64 -d | tar -xzf - -C {FOLDER}")
    restarted = await world.run("instance", "exec", user, "--reason", "test", "--", "systemctl restart hermes-gateway")
    assert restarted.exit_code == 0, str(restarted)


async def set_mood(world: Command, user: str, *, proxy: str = "", node: str = "") -> None:
    """How it answers from now on; without a mood it answers as it should."""
    words = [
        f"printf %s {mood} > {FOLDER}/{name}" if mood else f"rm -f {FOLDER}/{name}"
        for name, mood in (("proxy", proxy), ("node", node))
    ]
    await _as_agent(world, user, " && ".join(words))


async def _as_agent(world: Command, user: str, words: str) -> Ran:
    ran = await world.run("instance", "exec", user, "--user", "hermes", "--reason", "test", "--", words)
    assert ran.exit_code == 0, str(ran)
    return ran


def _archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def check_text(ran: Ran) -> None:
    """Nothing that a terminal obeys, no bug, and no line that poses as one of ours."""
    said = ran.stdout + ran.stderr
    assert all(char.isprintable() or char == "\n" for char in said), ascii(said)
    assert "Traceback" not in said, said
    assert "a bug" not in said, said
    assert not [line for line in said.splitlines() if line.startswith("hermes-node: all is well")]
