"""A request that cannot be is refused in one line that says where, and never repeats a value."""

import re
from dataclasses import replace

import pytest

from hermesops.agents.instances.requests.settings_patch import replacing, setting
from hermesops.errors import UsageError
from hermesops.model.fleet.instance import InstanceSettings
from hermesops.model.providers.table import BY_ID
from tests.support.suite.cases import each_case
from tests.support.users.model_provider import choice_of

CANARY = "canary-3f9b"
HELD = InstanceSettings(model="gpt-4o", messengers={"SLACK_BOT_TOKEN": "x"}, disabled_tools=("web",))


def test_a_file_replaces_everything() -> None:
    text = """
        model: gemini-flash
        personality: |
          Kurz und klar.
        messengers: {TELEGRAM_BOT_TOKEN: "1:a"}
        mcp_servers:
          notes: {url: "https://example.org/mcp", headers: {Authorization: Bearer x}, timeout: 5}
        cron:
        - {cron: 0 9 * * 1-5, prompt: Good morning}
        disabled_tools: [code_execution]
    """
    assert replacing(text, where="f")(HELD) == InstanceSettings(
        model="gemini-flash",
        personality="Kurz und klar.\n",
        messengers={"TELEGRAM_BOT_TOKEN": "1:a"},
        mcp_servers={
            "notes": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer x"}, "timeout": 5}
        },
        cron=({"cron": "0 9 * * 1-5", "prompt": "Good morning", "enabled": True},),
        disabled_tools=("code_execution",),
    )


@pytest.mark.parametrize("text", ["", "{}", "# nothing\n"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    assert replacing(text, where="f")(HELD) == InstanceSettings()


@each_case(
    ("text", "message"),
    [
        (f"surprise: {CANARY}", "settings: unknown field surprise"),
        ("model: gpt-9", "settings.model: no route 'gpt-9'; there are claude-haiku"),
        ("model: [a]", "settings.model: not a text"),
        (f"messengers: {{API_SERVER_KEY: {CANARY}}}", "settings.messengers.API_SERVER_KEY: belongs to no messenger"),
        (f"messengers: {{telegram: {CANARY}}}", "settings.messengers: a name"),
        (f'messengers: {{SLACK_BOT_TOKEN: "{CANARY}\'"}}', "settings.messengers.SLACK_BOT_TOKEN: holds a quote"),
        (f"messengers: {{SLACK_BOT_TOKEN: [{CANARY}]}}", "settings.messengers.SLACK_BOT_TOKEN: not a text"),
        ("messengers: {SLACK_BOT_TOKEN: '***'}", "in place of a secret"),
        (
            f"mcp_servers: {{notes: {{args: [{CANARY}]}}}}",
            "settings.mcp_servers.notes: wants either a command or a url",
        ),
        ("mcp_servers: {notes: {url: 'https://h/***'}}", "in place of a secret"),
        (f"cron: [{{cron: 61 * * * *, prompt: {CANARY}}}]", "settings.cron[0].cron: not a schedule"),
        (f"cron: [{{prompt: {CANARY}}}]", "settings.cron[0]: lacks cron"),
        ("disabled_tools: web", "settings.disabled_tools: not a list"),
        (f"model: {CANARY}: [", "line 1, column"),
        (f"- {CANARY}", "settings: not an object"),
        (f"personality: !!python/object:{CANARY} x", "f, line 1"),
        ("personality: 2026-01-01", "a date without quotes"),
        (f"personality: {CANARY * 50_000}", "larger than"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        replacing(text, where="f")
    assert caught.value.message.startswith("f")
    assert CANARY not in caught.value.message
    assert "\n" not in caught.value.message


def test_assignments_change_what_they_name_and_nothing_else() -> None:
    request = setting(["model=", "disabled_tools=browser, code_execution"])
    assert request(HELD) == InstanceSettings(
        messengers={"SLACK_BOT_TOKEN": "x"}, disabled_tools=("browser", "code_execution")
    )


@each_case("assignment", ["model", "model=gpt-9", "cron=x", "disabled_tools=../x", "messengers=A=b"])
def test_a_bad_assignment_is_refused(assignment: str) -> None:
    with pytest.raises(UsageError, match=r"can be set alone|^assignment: "):
        setting([assignment])


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ("{a: ", "}"), ("[{a: ", "}]")])
def test_deep_nesting_is_refused_while_it_is_read(opens: str, closes: str) -> None:
    with pytest.raises(UsageError, match="settings cannot hold this value"):
        replacing(opens * 40 + closes * 40, where="FILE")
    with pytest.raises(UsageError, match="settings cannot hold this value"):
        replacing(opens * 4000, where="FILE")


def test_a_model_provider_is_not_changed_with_the_others_and_stays() -> None:
    held = replace(HELD, provider=choice_of(BY_ID["openai"]))
    assert replacing("model: gpt-4o", where="f")(held) == InstanceSettings(model="gpt-4o", provider=held.provider)
    assert setting(["model="])(held).provider == held.provider
    for name in ("provider", "endpoint"):
        with pytest.raises(UsageError, match="its key is verified first") as refused:
            replacing(f"{name}: {{key: {CANARY}}}", where="f")
        assert "instance model-provider" in str(refused.value.hint)
        assert CANARY not in refused.value.message
