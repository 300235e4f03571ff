"""The units that something of a release's slot runs under."""

from pathlib import Path

import pytest

from hermesops.programs.node.release.slots.transient_unit import GATEWAY, migration_text, unit_text
from hermesops.wire.errors import NotReadyError

UNIT = """\
[Unit]
Description=Hermes Agent gateway
ConditionPathExists=|/etc/hermes-node/identity.json
ConditionPathExists=!/etc/hermes-node/fenced

[Service]
Type=notify
WatchdogSec=30
User=hermes
ExecStart=/opt/hermes/libexec/hermes-gateway
ExecReload=/bin/kill -USR1 $MAINPID
Restart=always
RestartSec=5
RestartForceExitStatus=75
ProtectSystem=strict

[Install]
WantedBy=multi-user.target
"""


SLOT = Path("/opt/hermes/releases/r")
COPY = "BindPaths=/var/lib/hermes/.hermes-node/trial:/var/lib/hermes"


def test_it_is_the_releases_own_but_for_what_runs_and_on_which_state() -> None:
    assert (
        unit_text(UNIT, SLOT, GATEWAY, COPY)
        == """\
[Unit]
Description=Hermes Agent gateway

[Service]
Restart=no
ExecStart=/opt/hermes/releases/r/venv/bin/python -P -m hermes_cli.main gateway run
Environment=HERMES_BUNDLED_SKILLS=/opt/hermes/releases/r/skills VIRTUAL_ENV=/opt/hermes/releases/r/venv
Environment=PATH=/opt/hermes/releases/r/venv/bin:/usr/local/bin:/usr/bin:/bin
BindPaths=/var/lib/hermes/.hermes-node/trial:/var/lib/hermes
Type=notify
WatchdogSec=30
User=hermes
ProtectSystem=strict

"""
    )


def test_folders_of_a_release_are_those_of_the_slot_that_is_tried() -> None:
    unit = UNIT.replace("User=", "Environment=HERMES_BUNDLED_LOCALES=/opt/hermes/current/resources/locales\nUser=")
    for text in (unit_text(unit, SLOT, GATEWAY), migration_text(unit, SLOT)):
        assert f"Environment=HERMES_BUNDLED_LOCALES={SLOT}/resources/locales" in text.splitlines()
        assert "/opt/hermes/current" not in text


def test_what_moves_the_configuration_runs_under_it_too_and_ends() -> None:
    assert migration_text(UNIT, SLOT, COPY).splitlines()[3:] == [
        "[Service]",
        "Restart=no",
        "ExecStart=/opt/hermes/releases/r/venv/bin/python -P -m hermes_cli.main config migrate",
        "Environment=HERMES_BUNDLED_SKILLS=/opt/hermes/releases/r/skills VIRTUAL_ENV=/opt/hermes/releases/r/venv",
        "Environment=PATH=/opt/hermes/releases/r/venv/bin:/usr/local/bin:/usr/bin:/bin",
        "Type=oneshot",
        "TimeoutStartSec=120",
        COPY,
        "User=hermes",
        "ProtectSystem=strict",
        "",
    ]


def test_one_that_is_no_service_is_refused() -> None:
    with pytest.raises(NotReadyError, match="no \\[Service\\]"):
        unit_text("[Unit]\n", SLOT, GATEWAY)
