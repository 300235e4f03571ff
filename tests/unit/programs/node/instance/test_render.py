import dataclasses
import json
from typing import Any

import pytest

from hermesops.programs.node.instance.agent.installation import Base, Route
from hermesops.programs.node.instance.render import (
    HOME_CHAT,
    OWN_KEY_VARIABLE,
    TOKEN_VARIABLE,
    managed_config,
    managed_environment,
    payload_environment,
    user_config,
)
from hermesops.users.messaging.outbound import answers
from hermesops.wire.errors import BadRequestError
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.protocol import Connector, Identity, Payload, Secrets
from hermesops.wire.settings import Settings, merged
from tests.support.suite.cases import each_case

_NONE = Settings()
_BASE = Base(
    unit="hermes-gateway.service",
    user="hermes",
    home="/var/lib/hermes",
    port=8642,
    routes=(Route("claude-haiku", 200_000), Route("gpt-4o", 128_000)),
    adapters=("discord-platform", "telegram-platform"),
    config={"agent": {"restart_drain_timeout": 45}, "approvals": {"mode": "manual"}},
    environment={"VIRTUAL_ENV": "/opt/hermes/current/venv", "PYTHONHOME": ""},
    user_config={"_config_version": 33},
)


def payload(settings: Settings) -> Payload:
    return Payload(
        Identity("i", "u", "light", "c1", 1),
        Secrets("k" * 64, "hm1.i.1." + "a" * 40),
        "http://10.0.0.1/v1",
        settings,
    )


def config(settings: Settings = _NONE) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(managed_config(_BASE, payload(settings)))
    return parsed


def environment(settings: Settings = _NONE) -> dict[str, str]:
    lines = managed_environment(_BASE, payload(settings)).decode().splitlines()
    return {name: value[1:-1] for name, _, value in (line.partition("=") for line in lines)}


def test_the_provider_and_the_model_are_always_named() -> None:
    model = config()["model"]
    assert model == {"default": "claude-haiku", "provider": "custom:helium"}


ENDPOINT = ModelEndpoint("openai", "https://api.openai.com/v1", "codex_responses", "gpt-5.2", "sk-proj-0123456789")
OWN = Settings(model="claude-haiku", endpoint=ENDPOINT)


def test_a_users_own_provider_is_named_and_the_only_one() -> None:
    assert config(OWN)["model"] == {"default": "gpt-5.2", "provider": "custom:own"}
    assert config(OWN)["providers"] == {
        "own": {
            "name": "own",
            "base_url": "https://api.openai.com/v1",
            "key_env": OWN_KEY_VARIABLE,
            "api_mode": "codex_responses",
            "discover_models": False,
        }
    }


def test_the_users_key_is_in_the_environment_alone_and_under_no_vendors_name() -> None:
    assert "sk-proj-0123456789" not in json.dumps(config(OWN))
    with_key, without = environment(OWN), environment(_NONE)
    assert with_key.items() - without.items() == {(OWN_KEY_VARIABLE, "sk-proj-0123456789")}
    assert without.keys() - with_key.keys() == {TOKEN_VARIABLE}, "the router's token is of no use there"
    assert f"{OWN_KEY_VARIABLE}='sk-proj-0123456789'\n".encode() in payload_environment(payload(OWN))


def test_a_model_that_the_router_lacks_does_not_matter_beside_an_own_provider() -> None:
    assert config(dataclasses.replace(OWN, model="gone"))["model"]["default"] == "gpt-5.2"


def test_a_router_with_tls_is_trusted_by_the_machines_authorities() -> None:
    [plain] = config(_NONE)["providers"].values()
    assert "ssl_ca_cert" not in plain
    secured = dataclasses.replace(payload(_NONE), model_base_url="https://10.0.0.1:18090/v1")
    [provider] = json.loads(managed_config(_BASE, secured))["providers"].values()
    assert provider["ssl_ca_cert"] == "/etc/hermes-router-authorities.crt"


CONNECTOR = Connector("https://10.0.0.1:8449", "5" * 64, {"telegram": "our_bot"})
AUTHORITIES = "/etc/hermes-router-authorities.crt"


def socket_variables(**changes: str) -> dict[str, str]:
    """Those with the connector that are not there without."""
    with_it = dataclasses.replace(payload(_NONE), connector=CONNECTOR)
    lines = managed_environment(_BASE, with_it, **changes).decode().splitlines()
    return dict(line.split("=", 1) for line in lines if line.split("=")[0] not in environment())


def test_an_agent_is_told_of_the_connector_and_its_home_channel() -> None:
    assert socket_variables() == {
        "GATEWAY_RELAY_URL": "'https://10.0.0.1:8449'",
        "GATEWAY_RELAY_ID": "'i'",
        "GATEWAY_RELAY_SECRET": f"'{'5' * 64}'",
        "GATEWAY_RELAY_PLATFORMS": "'telegram'",
        "GATEWAY_RELAY_BOT_IDS": """'{"telegram": {"botId": "our_bot", "username": "our_bot"}}'""",
        "RELAY_HOME_CHANNEL": "'home'",
    }
    assert answers.HOME == HOME_CHAT


def test_the_socket_trusts_the_platforms_authority_only_where_all_authorities_are_in_its_file() -> None:
    assert socket_variables(authorities=AUTHORITIES)["SSL_CERT_FILE"] == f"'{AUTHORITIES}'"
    assert "SSL_CERT_FILE" not in socket_variables()
    assert b"SSL_CERT_FILE" not in managed_environment(_BASE, payload(_NONE), authorities=AUTHORITIES)


def test_neither_a_user_nor_a_role_replaces_what_leads_to_the_connector() -> None:
    base = dataclasses.replace(_BASE, environment={"GATEWAY_RELAY_URL": "https://other.example"})
    theirs = dataclasses.replace(payload(Settings(messengers={"GATEWAY_RELAY_URL": "x"})), connector=CONNECTOR)
    assert b"GATEWAY_RELAY_URL='https://10.0.0.1:8449'\n" in managed_environment(base, theirs)


def test_a_machine_has_its_payload_only_with_the_connector_in_its_environment() -> None:
    with_it = dataclasses.replace(payload(_NONE), connector=CONNECTOR)
    assert f"GATEWAY_RELAY_SECRET='{'5' * 64}'\n".encode() in payload_environment(with_it)


def test_the_user_may_choose_any_route() -> None:
    assert config(Settings(model="gpt-4o"))["model"]["default"] == "gpt-4o"
    with pytest.raises(BadRequestError, match="claude-haiku, gpt-4o"):
        config(Settings(model="gpt-5"))


def test_every_route_carries_its_own_context_length() -> None:
    models = config()["providers"]["helium"]["models"]
    assert {name: entry["context_length"] for name, entry in models.items()} == {
        "claude-haiku": 200_000,
        "gpt-4o": 128_000,
    }


def test_no_key_is_in_the_configuration() -> None:
    text = managed_config(_BASE, payload(_NONE)).decode()
    assert "k" * 64 not in text
    assert "hm1." not in text
    assert config()["providers"]["helium"]["key_env"] == TOKEN_VARIABLE


def test_an_adapter_is_off_unless_its_messenger_is_configured() -> None:
    assert config()["plugins"]["disabled"] == ["discord-platform", "telegram-platform"]
    assert config(Settings(messengers={"TELEGRAM_BOT_TOKEN": "1:x"}))["plugins"]["disabled"] == ["discord-platform"]


def test_adapters_that_a_release_disables_stay_disabled() -> None:
    base = dataclasses.replace(
        _BASE, config={**_BASE.config, "plugins": {"disabled": ["a2a-platform", "discord-platform"]}}
    )
    config = json.loads(managed_config(base, payload(_NONE)))
    assert config["plugins"]["disabled"] == ["discord-platform", "telegram-platform", "a2a-platform"]
    for odd in ({"plugins": None}, {"plugins": {"disabled": "all"}}):
        config = json.loads(managed_config(dataclasses.replace(_BASE, config={**_BASE.config, **odd}), payload(_NONE)))
        assert config["plugins"]["disabled"] == ["discord-platform", "telegram-platform"]


def test_tools_and_servers_of_the_user_join_the_base() -> None:
    rendered = config(Settings(disabled_tools=("web", "browser"), mcp_servers={"notes": {"url": "http://x"}}))
    assert rendered["agent"] == {"restart_drain_timeout": 45, "disabled_toolsets": ["browser", "web"]}
    assert rendered["mcp_servers"] == {"notes": {"url": "http://x"}}


@pytest.mark.parametrize("name", ["API_SERVER_KEY", "VIRTUAL_ENV", "PATH", "TELEGRAMX"])
def test_a_variable_of_no_messenger_is_refused(name: str) -> None:
    with pytest.raises(BadRequestError, match=name):
        config(Settings(messengers={name: "x"}))


def test_the_environment_holds_the_keys_and_what_is_pinned() -> None:
    held = environment(Settings(messengers={"TELEGRAM_ALLOWED_USERS": "1"}))
    assert held["API_SERVER_KEY"] == "k" * 64
    assert held["API_SERVER_HOST"] == "127.0.0.1"
    assert held["TELEGRAM_ALLOWED_USERS"] == "1"
    assert held["VIRTUAL_ENV"] == "/opt/hermes/current/venv"
    assert held["PYTHONHOME"] == ""


@each_case("value", ["a'b", "a\\b", "${HOME}", " a", '"a"'])
def test_a_value_that_two_readers_would_read_differently_is_refused(value: str) -> None:
    with pytest.raises(BadRequestError, match="SLACK_BOT_TOKEN"):
        environment(Settings(messengers={"SLACK_BOT_TOKEN": value}))


def test_the_token_has_a_name_that_the_agent_keeps_from_its_terminal() -> None:
    assert TOKEN_VARIABLE.startswith("AUXILIARY_")
    assert TOKEN_VARIABLE.endswith("_API_KEY")


def test_what_lies_above_wins_key_by_key() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"c": 3}, "d": [2]}) == {"a": {"b": 1, "c": 3}, "d": [2]}


def test_the_users_first_file_says_which_schema_it_has() -> None:
    assert user_config(_BASE) == b"_config_version: 33\n"


def test_tools_are_searched_only_where_servers_bring_many() -> None:
    assert config()["tools"]["tool_search"]["enabled"] == "off"
    assert "tools" not in config(Settings(mcp_servers={"notes": {"url": "http://x"}}))
