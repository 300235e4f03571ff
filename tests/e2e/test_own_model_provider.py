"""A user's own key at the model provider of a local world, by commands, with simulated machines."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hermesops.programs.node.instance.render import OWN_KEY_VARIABLE
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.model_tokens import managed_environment

WHY = ("--reason", "test")
ADA = ("instance", "model-provider", "ada")


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("provider"), driver="sim", vendors=True) as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


async def asked_with(url: str, key: str) -> int:
    """What the provider answers to a question."""
    question = {"model": "world-small", "messages": [{"role": "user", "content": "hello"}]}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        headers = {"authorization": f"Bearer {key}"}
        return (await http.post(f"{url}/chat/completions", json=question, headers=headers)).status_code


async def test_a_key_of_the_world_is_verified_and_the_machine_gets_it(world: Command, tmp_path: Path) -> None:
    status = await world.ok("local", "status", "--json")
    url, keys = status.json["model_provider_url"], world.home / "local" / "world" / "own-provider.keys"
    assert status.json["model_provider_keys_file"] == str(keys)
    key = keys.read_text().strip()
    use = (*ADA, "--provider", "custom", "--base-url", url, "--model", "world-small", *WHY)
    shown = (await world.ok("local", "status")).stdout
    assert url in shown
    assert str(keys) in shown
    for name, output in (("status", shown), ("json", status.stdout), ("log", (keys.parent / "server.log").read_text())):
        assert key not in output, name

    (other := tmp_path / "other.key").write_text("world-key-of-nobody")
    refused = await world.run(*use, "--key-from", str(other), "--unverified")
    assert (refused.exit_code, "refuses the key" in refused.stderr) == (2, True)
    chosen = await world.ok(*use, "--key-from", str(keys))
    assert key not in chosen.stdout + chosen.stderr
    provider = (await world.ok(*ADA, "--json")).json["provider"]
    assert (provider["id"], provider["address"], provider["model"]) == ("custom", url, "world-small")
    assert provider["verified_at"], "without --unverified"

    held = (await managed_environment(world, "ada"))[OWN_KEY_VARIABLE]
    assert (held == key, await asked_with(url, held), await asked_with(url, "x")) == (True, 200, 401)
    assert "YOU SAID: hello" in (await world.ok("instance", "chat", "ada", "hello", *WHY)).stdout
    keys.write_text("another-key-of-the-world\n")
    taken = await world.run("instance", "chat", "ada", "hello", *WHY)
    assert (taken.exit_code, "model_error" in taken.stderr) == (4, True), taken
    await world.ok(*ADA, "--clear", *WHY)
    assert OWN_KEY_VARIABLE not in await managed_environment(world, "ada")
    assert "YOU SAID: hello" in (await world.ok("instance", "chat", "ada", "hello", *WHY)).stdout
