"""What roles of the users' half have hermesops of their host issue: run as who may, and read under the names it has."""

from typing import Any

import yaml

from hermesops.access.secrets.catalog import (
    BILLING_SECRET,
    CONNECTIONS_KEY,
    CONNECTOR_KEY,
    DISCORD_TOKEN,
    MESSAGES_KEY,
    SLACK_SECRET,
    SLACK_TOKEN,
    TELEGRAM_SECRET,
    TELEGRAM_TOKEN,
    WHATSAPP_KEY,
    WHATSAPP_SECRET,
    WHATSAPP_TOKEN,
)
from hermesops.base import assets
from hermesops.platform.parts.user_credentials import PROCESSES
from tests.support.releases.role_files import defaults_of

API, CONNECTIONS = "hermes_platform_api", "hermes_platform_connections"
CONNECTOR = "hermes_platform_connector"


def _tasks(role: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = yaml.safe_load((assets.folder("roles") / role / "tasks/keys.yml").read_text())
    return tasks


def test_the_command_runs_as_the_worker_with_its_home_and_environment() -> None:
    """runuser keeps root's HOME, where neither the database's password is nor the region of AWS."""
    command, _ = _tasks(API)[0]["block"]
    words = command["ansible.builtin.command"]["argv"]
    home = "/var/lib/hermesops"

    assert words[:4] == ["runuser", f"--user={{{{ __{API}_issuer }}}}", "--", "env"]
    assert {f"HOME={home}", f"HERMESOPS_HOME={home}", f"HERMESOPS_ENV={{{{ {API}_environment }}}}"} <= set(words)
    assert words[words.index(f"{{{{ __{API}_program }}}}") + 1 :][:2] == ["api", "credentials"]
    assert defaults_of(API)[f"__{API}_issuer"] == "hermesops"
    assert str(defaults_of(API)[f"__{API}_issued_folder"]).startswith(f"{home}/")


def test_roles_read_the_files_that_the_command_writes() -> None:
    written = {
        MESSAGES_KEY.name,
        BILLING_SECRET.name,
        TELEGRAM_SECRET.name,
        SLACK_SECRET.name,
        WHATSAPP_SECRET.name,
        WHATSAPP_KEY.name,
        *(f"relay-{number}.pem" for number in PROCESSES),
    }
    variables, folder = defaults_of(CONNECTIONS), str(defaults_of(API)[f"__{API}_issued_folder"])

    assert set(defaults_of(API)[f"__{API}_issued_files"]) == written
    issued = str(variables[f"__{CONNECTIONS}_issued"]).replace(CONNECTIONS, API)
    assert issued == f"{folder}/{CONNECTIONS_KEY.name}"
    connector = defaults_of(CONNECTOR)
    assert str(connector[f"__{CONNECTOR}_issued_folder"]).replace(CONNECTOR, API) == folder
    keys = {CONNECTOR_KEY.name, TELEGRAM_TOKEN.name, SLACK_TOKEN.name, WHATSAPP_TOKEN.name, DISCORD_TOKEN.name}
    assert set(connector[f"__{CONNECTOR}_issued_files"]) == {*keys, "relay-connector.pem"}


def test_elsewhere_keys_are_given_and_nothing_is_run() -> None:
    for role in (API, CONNECTIONS, CONNECTOR):
        assert defaults_of(role)[f"{role}_issues_credentials"] is False
        assert f"{role}_issues_credentials" in _tasks(role)[0]["when"]
