"""What roles of the users' half have hermesops of their host issue: run as who may, and read under the names it has."""

from typing import Any

import pytest
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
CONNECTOR, CONSOLE = "hermes_platform_connector", "hermes_platform_console"


def _tasks(role: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = yaml.safe_load((assets.folder("roles") / role / "tasks/keys.yml").read_text())
    return tasks


@pytest.mark.parametrize(("role", "noun"), [(API, "api"), (CONSOLE, "console")])
def test_the_command_runs_as_the_worker_with_its_home_and_environment(role: str, noun: str) -> None:
    """runuser keeps root's HOME, where neither the database's password is nor the region of AWS."""
    command, _ = _tasks(role)[0]["block"]
    words = command["ansible.builtin.command"]["argv"]
    home = "/var/lib/hermesops"

    assert words[:4] == ["runuser", f"--user={{{{ __{role}_issuer }}}}", "--", "env"]
    assert {f"HOME={home}", f"HERMESOPS_HOME={home}", f"HERMESOPS_ENV={{{{ {role}_environment }}}}"} <= set(words)
    assert words[words.index(f"{{{{ __{role}_program }}}}") + 1 :][:2] == [noun, "credentials"]
    assert defaults_of(role)[f"__{role}_issuer"] == "hermesops"
    assert str(defaults_of(role)[f"__{role}_issued_folder"]).startswith(f"{home}/")


def test_the_consoles_files_go_where_its_process_reads_them_and_to_no_other_folder() -> None:
    configure = (assets.folder("roles") / CONSOLE / "tasks/configure.yml").read_text()
    read = _tasks(CONSOLE)[0]["block"][1]

    assert read["loop"] == ["client.crt", "client.key"]
    assert read["no_log"] is True
    pair = f"{{'registry-client.key': __{CONSOLE}_pair[1], 'registry-client.crt': __{CONSOLE}_pair[0]}}"
    assert pair in " ".join(configure.split())
    assert "of-users" not in str(defaults_of(CONSOLE)[f"__{CONSOLE}_issued_folder"])


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
    for role in (API, CONNECTIONS, CONNECTOR, CONSOLE):
        assert defaults_of(role)[f"{role}_issues_credentials"] is False
        assert f"{role}_issues_credentials" in _tasks(role)[0]["when"]
