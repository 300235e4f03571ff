"""Bad input gets one line that says what, where and what next, the right exit code, and nothing half-made."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermesops.access.secrets.endpoint import local_endpoint
from tests.support.real.commands.command import HERMESOPS, Command, Ran, local_world


@pytest.fixture
def nowhere(tmp_path: Path) -> Command:
    """An environment in which nothing is up and nothing was ever done."""
    return Command(tmp_path / "home")


def one_line(ran: Ran, exit_code: int, *words: str) -> None:
    assert ran.exit_code == exit_code, str(ran)
    errors = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, str(ran)
    assert "Traceback" not in ran.stderr, str(ran)
    for word in words:
        assert word in ran.stderr, str(ran)


REFUSED: tuple[tuple[tuple[str, ...], int, tuple[str, ...]], ...] = (
    (("provision", "ada", "--plan", "huge"), 2, ("unknown plan 'huge'", "light, heavy")),
    (("provision", "Ada Lovelace!", "--plan", "light"), 2, ("'Ada Lovelace!'", "alias")),
    (("provision", "ada", "--plan", "light"), 4, ("the local world is not up", "hermesops local up")),
    (("provision", "ada"), 2, ("hermesops provision ada --plan light, or --plan heavy",)),
    (("provision",), 2, ("missing USER",)),
    (("provision", "ada", "--from", "users.csv", "--plan", "light"), 2, ("name one user, or use --from FILE",)),
    (("provision", "--from", "nowhere.csv"), 2, ("nowhere.csv: No such file",)),
    (("instance", "export", "nobody", "--reason", "t"), 2, ("no user 'nobody'",)),
    (("instance", "export", "nobody", "--json"), 2, ("--to FILE",)),
    (("instance", "verify", "nobody", "--state"), 2, ("no user 'nobody'",)),
    (("snapshot", "create", "nobody"), 2, ("no user 'nobody'",)),
    (("snapshot", "delete", "nobody", "1"), 2, ("no user 'nobody'",)),
    (("instance", "show", "nobody"), 2, ("no user 'nobody'", "hermesops instance list")),
    (("instance", "list", "--status", "dead"), 2, ("--status 'dead': one of provisioning",)),
    (("instance", "terminate", "nobody", "--yes"), 2, ("nobody",)),
    (("instance", "restart", "nobody"), 2, ("nobody",)),
    (("instance", "model-provider", "nobody"), 2, ("no user 'nobody'",)),
    (("instance", "model-provider", "ada", "--model", "m"), 2, ("--provider", "hermesops instance model-providers")),
    (("instance", "model-provider", "ada", "--clear", "--provider", "openai"), 2, ("--clear excludes",)),
    (("instance", "model-provider", "ada", "--dry-run"), 2, ("--provider or --clear",)),
    (("instance", "model-provider", "ada", "--provider", "openai", "--key-from", "nowhere"), 2, ("nowhere: No such",)),
    (("instance", "exec", "nobody", "--timeout", "nan", "--", "true"), 2, ("--timeout nan",)),
    (("stack", "up", "nope"), 2, ("no cell 'nope'", "hermesops cell list")),
    (("stack", "up"), 2, ("missing CELL", "hermesops cell list")),
    (("stack", "up", "--all"), 2, ("no cells yet",)),
    (("stack", "up", "--where", "region=hel1"), 2, ("selects no cell",)),
    (("stack", "refresh", "--where", "colour=red"), 2, ("no field 'colour'",)),
    (("cell", "show", "nope"), 2, ("no cell 'nope'",)),
    (("stack", "preview", "nope"), 2, ("no cell 'nope'",)),
    (("stack", "up", "../nope"), 2, ("'../nope' is no name of a cell",)),
    (("stack", "destroy", "nope", "--yes"), 2, ("no cell 'nope'",)),
    (("stack", "export", "nope"), 2, ("no stack 'nope'",)),
    (("stack", "outputs", "nope"), 2, ("no stack 'nope'",)),
    (("pool", "list", "nope"), 2, ("no cell 'nope'",)),
    (("operation", "continue", "nope"), 2, ("no operation 'nope'",)),
    (("--env", "../prod", "instance", "list"), 2, ("environment '../prod' is not a name",)),
    (("--env", "staging", "doctor"), 2, ("no environment 'staging'", "hermesops env list")),
    (("fleet", "drift", "-o", "wide"), 2, ("'-o': 'wide' is not one of",)),
    (("bogus",), 2, ("No such command 'bogus'",)),
)


async def test_what_cannot_be_meant_is_named(nowhere: Command) -> None:
    for arguments, exit_code, words in REFUSED:
        one_line(await nowhere.run(*arguments), exit_code, *words)


async def test_an_unknown_setting_is_named_with_what_was_meant(nowhere: Command) -> None:
    ran = await nowhere.with_variables(HERMESOPS_REGOIN="hel1").run("instance", "list")
    one_line(ran, 2, "'regoin'", "nearest: region")


async def test_json_says_the_error_too(nowhere: Command) -> None:
    ran = await nowhere.run("instance", "show", "nobody", "--json")
    assert ran.exit_code == 2
    assert ran.json["kind"] == "error"
    assert (ran.json["error"], ran.json["exit_code"]) == ("UsageError", 2)


async def test_a_damaged_registry_is_named_and_left_alone(nowhere: Command) -> None:
    file = nowhere.home / "local" / "registry.db"
    file.parent.mkdir(parents=True)
    file.write_text("rubbish " * 100)
    one_line(await nowhere.run("instance", "list"), 70, "registry.db", "damaged")
    assert file.read_text() == "rubbish " * 100


async def test_a_registry_without_its_key_is_not_opened_with_a_new_one(nowhere: Command) -> None:
    assert (await nowhere.run("instance", "list")).exit_code == 0
    (nowhere.home / "local" / "keys" / "registry.key").unlink()
    one_line(await nowhere.run("instance", "list"), 3, "registry.key")


async def test_a_damaged_state_is_named_and_left_alone(nowhere: Command) -> None:
    file = nowhere.home / "local" / "pulumi" / ".pulumi" / "stacks" / "fleet" / "cell1.json"
    file.parent.mkdir(parents=True)
    file.write_text("{ half")
    ran = await nowhere.run("stack", "export", "cell1")
    one_line(ran, ran.exit_code, "cell1.json")
    assert ran.exit_code in {3, 70}
    assert file.read_text() == "{ half"


async def test_tools_that_are_missing_are_named_with_the_packages_that_bring_them(nowhere: Command) -> None:
    ran = await nowhere.with_variables(PATH="/nonexistent").run("local", "up")
    one_line(ran, 3, "systemd-nspawn", "apt-get install")
    assert not (nowhere.home / "local" / "world" / "world.json").exists()


async def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "local").write_text("a file where a folder should be")
    for arguments in (("instance", "list"), ("local", "up"), ("image", "list")):
        ran = await Command(tmp_path / "home").run(*arguments)
        one_line(ran, ran.exit_code, str(tmp_path / "home" / "local"))
        assert ran.exit_code in {2, 3}, str(ran)


async def shell(nowhere: Command, line: str) -> tuple[int, str, str]:
    """What a shell says to a line in which ``$H`` is the command; its own exit code is the first command's."""
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"{line}; exit ${{PIPESTATUS[0]}}",
        env={**nowhere.environ, "H": str(HERMESOPS)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stdout.decode(), stderr.decode()


@pytest.mark.turns(8)
async def test_closed_streams_and_readers_that_left_change_no_exit_code(nowhere: Command) -> None:
    for line, exit_code in (
        ("$H instance list 2>&-", 0),
        ("$H instance list >&-", 0),
        ("$H instance list <&- >&- 2>&-", 0),
        ("$H instance show nobody --json 2>&-", 2),
        ("$H settings show --json | true", 0),
        ("$H --help | true", 0),
        ("$H --version | true", 0),
        ("$H instance show nobody --json 2>&1 | true", 2),
        ("$H bogus 2>&1 | true", 2),
    ):
        code, _, stderr = await shell(nowhere, line)
        outcome = (code, "Traceback" in stderr, "Exception ignored" in stderr)
        assert outcome == (exit_code, False, False), f"{line}: {stderr}"


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.machines
async def test_a_full_disk_is_named(full_disk: Path) -> None:
    one_line(await Command(full_disk).run("instance", "list"), 4, "disk is full")
    one_line(await Command(full_disk).run("local", "up"), 4, "world", "make room")


@pytest.fixture
async def simulated(tmp_path: Path) -> AsyncIterator[Command]:
    async with local_world(tmp_path / "simulated", image=False, driver="sim") as command:
        yield command


async def test_without_an_image_and_with_a_vendor_that_refuses_or_is_away_nothing_is_written(
    simulated: Command,
) -> None:
    elsewhere = simulated.with_variables(HERMESOPS_IMAGE="other")
    one_line(await elsewhere.run("provision", "grace", "--plan", "light"), 3, "no image other", "hermesops image build")
    one_line(await elsewhere.run("instance", "show", "grace"), 2, "no user 'grace'")

    endpoint = local_endpoint(simulated.home / "local" / "world" / "world.json")
    known = {
        "HERMESOPS_ROUTER_KEY_FILE": str(endpoint.router_key_file),
        "HERMESOPS_ROUTER_URL": "https://127.0.0.1:9/v1",
    }
    await simulated.ok("image", "build")
    away = simulated.with_variables(HERMESOPS_API_URL="http://127.0.0.1:9/api/v1", HERMESOPS_API_KEY="sk_x", **known)
    one_line(await away.run("provision", "grace", "--plan", "light"), 4, "not reachable")
    wrong = simulated.with_variables(HERMESOPS_API_URL=endpoint.api_url, HERMESOPS_API_KEY="sk_wrong", **known)
    one_line(await wrong.run("provision", "grace", "--plan", "light"), 3, "401")
    one_line(await simulated.run("instance", "show", "grace"), 2, "no user 'grace'")
    await simulated.ok("provision", "grace", "--plan", "light")
    verified = await simulated.run("instance", "verify", "grace")
    one_line(verified, 3, "simulated", "no units", "local up --driver nspawn")
