import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from hermesops.model.fleet.instance import InstanceSettings
from hermesops.wire.errors import BadRequestError
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.protocol import TAKES, Connector, Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from hermesops.wire.strict_json import string
from tests.support.suite.cases import each_case

_CANARY = "CANARY" * 8


def a_payload(settings: Settings) -> Payload:
    return Payload(
        Identity("0b9f3a52-5d1c", "u-1", "light", "c1", 3),
        Secrets(_CANARY, "hm1.x.1.0123456789abcdef"),
        "http://10.0.0.1:18080/v1",
        settings,
    )


def changed(path: str, value: object) -> bytes:
    raw: dict[str, Any] = json.loads(a_payload(Settings()).to_json())
    *folders, last = path.split(".")
    place = raw
    for folder in folders:
        place = place[folder]
    place[last] = value
    return json.dumps(raw).encode()


def test_a_payload_survives_the_way_to_the_machine() -> None:
    payload = a_payload(
        Settings(
            model="gpt-4o",
            personality="Terse.\nKind.",
            messengers={"TELEGRAM_BOT_TOKEN": "1:x"},
            mcp_servers={"notes": {"url": "http://127.0.0.1:1/mcp"}},
            cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": False},),
            disabled_tools=("browser",),
        )
    )
    assert Payload.from_json(payload.to_json()) == payload


def with_connector(**changes: object) -> dict[str, object]:
    return {"url": "https://10.0.0.1:8449", "secret": "5" * 64, "bots": {"telegram": "our_bot"}} | changes


def test_a_connector_survives_the_way_and_a_payload_without_one_has_no_word_of_it() -> None:
    payload = replace(a_payload(Settings()), connector=Connector.parse(with_connector()))
    assert Payload.from_json(payload.to_json()) == payload
    assert "5555" not in repr(payload)
    assert b"connector" not in a_payload(Settings()).to_json()


@each_case(
    ("path", "value", "named"),
    [
        ("connector", {}, "connector: lacks bots"),
        ("connector", with_connector(more=_CANARY), "connector: unknown field more"),
        ("connector", with_connector(url=f"http://{_CANARY}"), "connector.url: not of the expected form"),
        ("connector", with_connector(url=f"https://x/{_CANARY}"), "connector.url: not of the expected form"),
        ("connector", with_connector(secret=_CANARY), "connector.secret: not of the expected form"),
        ("connector", with_connector(bots={}), "connector.bots: there is none"),
        ("connector", with_connector(bots={"telegram": f"{_CANARY}'\n"}), "connector.bots: not of the expected form"),
        ("connector", with_connector(bots={f"{_CANARY}=": "b"}), "a messenger: not of the expected form"),
        ("settings.messengers", {"GATEWAY_RELAY_URL": _CANARY}, "belongs to no messenger"),
        ("settings.messengers", {"GATEWAY_RELAY_SECRET": _CANARY}, "belongs to no messenger"),
        ("settings.messengers", {"RELAY_HOME_CHANNEL": _CANARY}, "belongs to no messenger"),
        ("settings.messengers", {"SSL_CERT_FILE": _CANARY}, "belongs to no messenger"),
        ("version", 0, "version 0 is not understood"),
        ("surprise", 1, "unknown field surprise"),
        ("identity.epoch", True, "identity.epoch: not a whole number"),
        ("identity.epoch", -1, "identity.epoch: not a whole number"),
        ("identity.instance", "../etc", "identity.instance: not of the expected form"),
        ("secrets.api_server_key", "short", "api_server_key: not of the expected form"),
        ("secrets.api_server_key", _CANARY + "\nINJECTED=1", "api_server_key: not of the expected form"),
        ("secrets.model_token", "", "model_token: not of the expected form"),
        ("model_base_url", "file:///etc/shadow", "model_base_url: not of the expected form"),
        (
            "settings.messengers",
            {"TELEGRAM_BOT_TOKEN": _CANARY + "\nAPI_SERVER_KEY=x"},
            "BOT_TOKEN: holds a line break",
        ),
        ("settings.messengers", {"lower": _CANARY}, "messengers: a name: not of the expected form"),
        ("settings.messengers", {"NOBODY_TOKEN": _CANARY}, "belongs to no messenger"),
        ("settings.messengers", {"SLACK_BOT_TOKEN": _CANARY + "'"}, "holds a quote"),
        ("settings.mcp_servers", {"notes": _CANARY}, "notes: not an object"),
        ("settings.mcp_servers", {"notes": {"headers": {"a": _CANARY}}}, "either a command or a url"),
        ("settings.mcp_servers", {"notes": {"url": "http://x", "command": _CANARY}}, "either a command or a url"),
        ("settings.cron", [{"cron": _CANARY, "prompt": "x"}], "not a schedule such as"),
        ("settings.cron", [{"cron": "* * * * *"}], "lacks prompt"),
        ("settings.disabled_tools", [{"x": _CANARY}], "disabled_tools: not of the expected form"),
    ],
)
def test_what_is_not_a_payload_is_refused_without_repeating_it(path: str, value: object, named: str) -> None:
    with pytest.raises(BadRequestError, match=named) as caught:
        Payload.from_json(changed(path, value))
    assert _CANARY not in str(caught.value)


@each_case(
    ("data", "named"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"null", "not an object"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, named: str) -> None:
    with pytest.raises(BadRequestError, match=f"payload: {named}"):
        Payload.from_json(data)


def test_secrets_do_not_show_in_a_representation() -> None:
    assert _CANARY not in repr(
        a_payload(Settings(messengers={"TELEGRAM_BOT_TOKEN": _CANARY}, mcp_servers={"a": {"k": _CANARY}}))
    )


def test_the_users_settings_have_the_fields_and_defaults_of_the_model() -> None:
    stored = ["provider" if field.name == "endpoint" else field.name for field in fields(Settings)]
    assert stored == [field.name for field in fields(InstanceSettings)]
    assert list(asdict(Settings()).values()) == list(asdict(InstanceSettings()).values())
    assert [field.repr for field in fields(Settings)] == [field.repr for field in fields(InstanceSettings)]


def test_what_is_left_out_of_settings_is_the_default() -> None:
    assert Settings.parse({}) == Settings()


def test_a_text_holds_no_nul() -> None:
    with pytest.raises(BadRequestError, match="where: not a text"):
        string("a\0b", "where")


ENDPOINT = {
    "provider": "openai",
    "base_url": "https://api.openai.com/v1",
    "api_mode": "codex_responses",
    "model": "gpt-5.2",
    "key": "sk-proj-0123456789",
}


def test_a_node_of_before_users_own_providers_is_handed_nothing_that_it_does_not_know() -> None:
    assert "endpoint" not in json.loads(a_payload(Settings()).to_json())["settings"]
    own = a_payload(Settings(endpoint=ModelEndpoint(**ENDPOINT)))
    assert Payload.from_json(own.to_json()) == own
    assert "endpoint" in TAKES
    assert "sk-proj-0123456789" not in repr(own)


@pytest.mark.parametrize("url", ["http://10.64.0.1:9321/provider/v1", "http://127.0.0.1:18080/provider/v1"])
def test_a_stand_in_of_a_local_world_is_asked_in_clear(url: str) -> None:
    assert ModelEndpoint.parse({**ENDPOINT, "base_url": url}).base_url == url


@each_case(
    "field, value",
    [
        ("base_url", "http://api.openai.com/v1"),
        ("base_url", "http://8.8.8.8:80/v1"),
        ("base_url", "http://10.0.0.1/v1"),
        ("base_url", "http://10.0.0.1.example.org:80/v1"),
        ("base_url", "http://10.0.0.1:80@example.org/v1"),
        ("base_url", "https://api.openai.com/v1?a=b"),
        ("base_url", "https://user@api.openai.com/v1"),
        ("base_url", "https://api.openai.com/v1\n"),
        ("api_mode", "anthropic_messages"),
        ("api_mode", "chat_completions|codex_responses"),
        ("model", "gpt 5"),
        ("model", ""),
        ("key", "short"),
        ("key", "sk-proj-0123456789'\nPATH=x"),
        ("key", "k" * 513),
        ("provider", "Open AI"),
        ("provider", None),
        ("more", "x"),
    ],
)
def test_an_endpoint_that_no_machine_writes(field: str, value: object) -> None:
    with pytest.raises(BadRequestError, match="endpoint") as refused:
        ModelEndpoint.parse({**ENDPOINT, field: value})
    assert not value or value == "x" or str(value) not in str(refused.value)
