"""Agents of a simulated world get the connector, keep its id whatever becomes of them, and lose it in stages."""

import secrets
from collections.abc import AsyncIterator

import pytest

from hermesops.model.ids import InstanceId
from hermesops.users.messaging.relay_secrets import derive
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.model_tokens import managed_environment

pytestmark = pytest.mark.turns(90)

WHY = ("--reason", "test")
QUICK = ("--soak", "1s", "--settle", "1s", "--vitals", "none", "--stages", "100%", "--max-unavailable", "50%")
ROTATE = ("token", "rotate", "--all", *QUICK, *WHY)
KEY = f"canary-root-{secrets.token_hex(24)}"
URL = "https://10.0.0.1:18091"


@pytest.fixture(scope="module")
async def plain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A world without a bot, and an agent in it."""
    async with local_world(tmp_path_factory.mktemp("connector"), driver="sim") as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


@pytest.fixture(scope="module")
def offered(plain: Command) -> Command:
    """The same world with a bot, for commands that read its settings anew."""
    key = plain.home / "connector.key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    return plain.with_variables(
        HERMESOPS_MESSENGERS_TELEGRAM_BOT="our_bot",
        HERMESOPS_MESSENGERS_AGENTS_URL=URL,
        HERMESOPS_MESSENGERS_CONNECTOR_KEY_FILE=str(key),
    )


async def handed(world: Command, user: str) -> dict[str, str]:
    """The variables of the connector that a user's agent has."""
    variables = await managed_environment(world, user)
    return {name: value for name, value in variables.items() if "RELAY" in name}


async def expected(world: Command, user: str) -> dict[str, str]:
    """Those that it should have, by the generation of its model token."""
    shown = (await world.ok("instance", "show", user, "--json")).json["instance"]
    [row] = [
        row for row in (await world.ok("token", "list", user, "--json")).json["tokens"] if row["purpose"] == "models"
    ]
    return {
        "GATEWAY_RELAY_URL": URL,
        "GATEWAY_RELAY_ID": shown["instance_id"],
        "GATEWAY_RELAY_SECRET": derive(KEY.encode(), InstanceId(shown["instance_id"]), row["generation"]),
        "GATEWAY_RELAY_PLATFORMS": "telegram",
        "GATEWAY_RELAY_BOT_IDS": '{"telegram": {"botId": "our_bot", "username": "our_bot"}}',
        "RELAY_HOME_CHANNEL": "home",
    }


async def test_an_agent_without_the_connector_is_listed_and_gets_it_in_stages(plain: Command, offered: Command) -> None:
    assert await handed(plain, "ada") == {}
    drift = (await offered.run("fleet", "drift", "--deep", "--json")).stdout
    assert "payload-differs" in drift
    await offered.ok(*ROTATE)
    first = await handed(offered, "ada")
    assert first == await expected(offered, "ada")
    assert "payload-differs" not in (await offered.run("fleet", "drift", "--deep", "--json")).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("instance", "settings", "{user}", "--set", "personality=Terse.", *WHY),
        ("instance", "resize", "{user}", "--plan", "heavy", *WHY),
        ("instance", "move", "{user}", "--region", "nbg1", *WHY),
        ("token", "revoke", "{user}", "--models", *WHY),
    ],
    ids=lambda words: "-".join(words[:2]),
)
async def test_a_new_agent_has_it_and_keeps_its_id_with_the_secret_of_its_generation(
    offered: Command, words: tuple[str, ...]
) -> None:
    user = f"u{secrets.token_hex(4)}"
    await offered.ok("provision", user, "--plan", "light")
    first = await handed(offered, user)
    assert first == await expected(offered, user)
    await offered.ok(*(word.format(user=user) for word in words))
    assert await handed(offered, user) == await expected(offered, user)
    assert (await handed(offered, user))["GATEWAY_RELAY_ID"] == first["GATEWAY_RELAY_ID"]


async def test_a_woken_agent_has_another_secret_than_before_its_sleep(offered: Command) -> None:
    user = f"u{secrets.token_hex(4)}"
    await offered.ok("provision", user, "--plan", "light")
    first = await handed(offered, user)
    await offered.ok("instance", "suspend", user, *WHY)
    await offered.ok("instance", "resume", user, *WHY)
    second = await handed(offered, user)
    assert second == await expected(offered, user)
    assert second["GATEWAY_RELAY_SECRET"] != first["GATEWAY_RELAY_SECRET"]


async def test_no_command_shows_the_secret_or_its_root(offered: Command) -> None:
    secret = (await handed(offered, "ada"))["GATEWAY_RELAY_SECRET"]
    for words in (
        ("instance", "show", "ada", "--json"),
        ("instance", "settings", "ada", "--json"),
        ("instance", "logs", "ada"),
        ("audit", "log", "--json"),
        ("operation", "list", "--json"),
        ("settings", "show", "--json"),
        ("fleet", "drift", "--json"),
    ):
        ran = await offered.run(*words)
        assert ran.stdout, words
        assert secret not in ran.stdout + ran.stderr, words
        assert KEY not in ran.stdout + ran.stderr, words


async def test_who_names_a_variable_of_the_connector_as_a_messengers_is_refused(
    offered: Command, plain: Command
) -> None:
    file = plain.home / "messengers.json"
    for name in ("GATEWAY_RELAY_URL", "GATEWAY_RELAY_SECRET", "RELAY_HOME_CHANNEL", "SSL_CERT_FILE"):
        file.write_text(f'{{"messengers": {{"{name}": "https://elsewhere.example"}}}}')
        refused = await offered.run("instance", "settings", "ada", "--from", str(file), *WHY)
        assert (refused.exit_code, "belongs to no messenger" in refused.stderr) == (2, True), refused.stderr
    assert (await handed(offered, "ada"))["GATEWAY_RELAY_URL"] == URL


async def test_without_the_bot_agents_lose_it_in_stages(plain: Command) -> None:
    await plain.ok(*ROTATE)
    assert await handed(plain, "ada") == {}
