"""Machines prove who they are to the service of a local world, from their first user to the end; by commands."""

import json
import time
import uuid
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.model.ids import MachineId
from hermesops.settings.environment import Environment
from hermesops.wire.errors import RefusedError
from hermesops.wire.protocol import Credential
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.machine_identities import Machine, machine_by_id, machine_of

ASKED = ("--reason", "test")


@pytest.fixture
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("identities"), driver="sim") as command:
        yield command


@pytest.mark.turns(10)
async def test_a_machine_proves_whose_it_is_until_it_is_its_no_more(simulated: Command) -> None:
    await simulated.with_variables(HERMESOPS_POOL_SIZE="light=1").ok("job", "run", "pools")
    [waiting] = (await simulated.ok("identity", "list", "--json")).json["certificates"]
    assert (waiting["instance_id"], waiting["state"]) == (None, "good")
    pooled = await machine_by_id(simulated, MachineId(waiting["machine_id"]))
    assert (await pooled.ask())["instance"] is None

    await simulated.ok("provision", "ada", "--plan", "light")
    first = await machine_of(simulated, "ada")
    standing = await first.ask()
    # The user is root on that machine and may have kept what it was before: it is worth nothing any more.
    requests = (("/v1/standing", b""), ("/v1/certificate", pooled.request), (f"/v1/data-key/{uuid.uuid4()}", b""))
    for path, body in requests:
        with pytest.raises(RefusedError, match="is no longer valid"):
            await pooled.fetch(path, body)
    [valid] = (await simulated.ok("identity", "list", "--json")).json["certificates"]
    assert (valid["machine_id"], valid["serial"] != waiting["serial"]) == (waiting["machine_id"], True)
    [row] = (await simulated.ok("instance", "list", "--json")).json["instances"]
    assert (standing["instance"], standing["cell"], standing["machine"]) == (
        row["instance_id"],
        row["cell"],
        row["machine_id"],
    )
    assert waiting["machine_id"] == row["machine_id"]
    fresh = Credential.parse(await first.ask("/v1/certificate", first.request))
    assert fresh.names == first.credential.names
    volume = f"/v1/data-key/{uuid.uuid4()}"
    data_key = await first.fetch(volume)
    await simulated.ok("provision", "bob", "--plan", "light")
    with pytest.raises(RefusedError, match="another instance's"):
        await (await machine_of(simulated, "bob")).fetch(volume)

    await simulated.ok("identity", "revoke", "ada", "--yes", *ASKED)
    for old in (first, Machine(fresh, first.key, first.request)):
        for what in ("/v1/standing", volume):
            with pytest.raises(RefusedError, match="is no longer valid"):
                await old.fetch(what)
    await simulated.ok("provision", "ada", "--plan", "light")
    assert (await machine_of(simulated, "ada")).credential == first.credential  # who revoked it has the last word
    await simulated.ok("identity", "renew", "ada")
    renewed = await machine_of(simulated, "ada")
    assert await renewed.ask() == {**standing, "not_after": renewed.credential.not_after}
    assert await renewed.fetch(volume) == data_key

    await simulated.ok("local", "down")
    await simulated.ok("local", "up")
    await renewed.ask()
    await simulated.ok("instance", "move", "ada", "--region", "nbg1", *ASKED)
    with pytest.raises(RefusedError, match="is no longer valid"):
        await renewed.ask()
    moved = await machine_of(simulated, "ada")
    assert (await moved.ask())["cell"] != standing["cell"]
    await simulated.ok("instance", "terminate", "ada", "--yes", *ASKED)
    with pytest.raises(RefusedError, match="is no longer valid"):
        await moved.ask()
    text = "".join(ran.stdout + ran.stderr for ran in simulated.said)
    text += (simulated.home / "local" / "world" / "server.log").read_text()
    assert "data_key_released" in text
    assert "PRIVATE KEY" not in text
    assert data_key.decode() not in text


@pytest.mark.turns(40)
async def test_an_authority_is_replaced_by_one_that_is_trusted_beside_it(simulated: Command) -> None:
    await simulated.ok("provision", "ada", "--plan", "light")
    before = await machine_of(simulated, "ada")
    await before.ask()
    file = simulated.home / "next.key"
    await simulated.ok("identity", "trust", str(file))
    await simulated.ok("identity", "renew", "--all")
    both = await machine_of(simulated, "ada")
    assert both.credential.authority.count("BEGIN CERTIFICATE") == 2
    await simulated.ok("secrets", "set", "authority.key", "--from", str(file), "--yes")
    await simulated.ok("local", "down")
    await simulated.ok("local", "up")
    await both.ask()
    await simulated.ok("identity", "renew", "ada")
    await (await machine_of(simulated, "ada")).ask()
    stranger = await simulated.run("identity", "renew")
    assert stranger.exit_code == 2
    (simulated.home / "local" / "keys" / "authority.key").unlink()
    lost = await simulated.run("identity", "renew", "ada")
    assert lost.exit_code == 3
    assert "authority.key" in lost.stderr


@pytest.mark.turns(40)
@pytest.mark.machines
async def test_a_real_machine_makes_its_key_and_renews_its_certificate_by_itself(world: Command) -> None:
    user = f"u{uuid.uuid4().hex[:8]}"

    async def on_machine(command: str) -> str:
        return (await world.ok("instance", "exec", user, command, *ASKED)).stdout

    await world.ok("provision", user, "--plan", "light")
    [given] = (await world.ok("identity", "show", user, "--json")).json["certificates"][:1]
    files = "/etc/hermes-node/machine.key /etc/hermes-node/machine.crt"
    first = await on_machine(
        f"hermes-node certificate show; runuser -u hermes -- cat {files} 2>&1 || sha256sum {files}"
    )
    text, *denied, key, _ = first.splitlines()
    assert (given["state"], given["serial"]) == ("good", json.loads(text)["serial"])
    assert len(denied) == len(files.split())
    assert all("denied" in line for line in denied)

    # Of so short a life that two thirds are over at once: it counts from some minutes before it was made.
    await world.with_variables(HERMESOPS_CERTIFICATE_DAYS="0.0015").ok("identity", "renew", user)
    second = await on_machine(
        "hermes-node certificate show; systemctl start hermes-certificate; hermes-node certificate show; "
        "cat /proc/sys/kernel/random/boot_id; systemctl reboot --no-block"
    )
    short, renewed, boot = second.splitlines()
    assert len({given["serial"], json.loads(short)["serial"], json.loads(renewed)["serial"]}) == len("gsr")

    async def is_back() -> bool | Pending[bool]:
        observe = "cat /proc/sys/kernel/random/boot_id; systemctl is-active hermes-certificate.timer"
        ran = await world.run(
            "instance", "exec", user, f"{observe}; hermes-node certificate show; sha256sum {files}", *ASKED
        )
        outputs.append(ran.stdout.splitlines())
        return True if ran.exit_code == 0 and boot not in ran.stdout else Pending(ran.stderr)

    outputs: list[list[str]] = []
    await until(is_back, what="the machine", timeout_s=120, every_s=0.5)
    assert outputs[-1][1:4] == ["active", renewed, key]
    await world.ok("instance", "terminate", user, "--yes", *ASKED)


async def test_machines_are_told_a_wrong_time_until_the_fault_is_cleared(tmp_path: Path) -> None:
    async with local_world(tmp_path, driver="sim") as command:
        container = Container(Environment.load("local", command.environ), lambda _: None)
        context, url = container.authority.client_context("hermesops"), container.endpoint.platform_url
        container.registry.close()

        async def ahead_s() -> float:
            async with httpx.AsyncClient(verify=context, trust_env=False, timeout=60) as client:
                answer = await client.get(url)
            return parsedate_to_datetime(answer.headers["Date"]).timestamp() - time.time()

        assert abs(await ahead_s()) < 20
        await command.ok("local", "fault", "set", "date-shifted", "--seconds", "600")
        assert 580 < await ahead_s() < 620
        await command.ok("local", "fault", "clear")
        assert abs(await ahead_s()) < 20
