"""The gateway's start: the agent finds a configuration of the user's that it can read, whatever became of it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.releases.role_files import rendered

TIMEOUT_S = 20
OWN = {"_config_version": 33, "command_allowlist": ["execute_code"]}


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], str]:
    """Starts a gateway that ends at once, with this computer's Python for the slot's; what it said."""
    (tmp_path / "home").mkdir()
    python = tmp_path / "slot/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ncase "$*" in *hermes_cli*) echo runs;; *) exec {sys.executable} "$@";; esac\n')
    python.chmod(0o755)
    (tmp_path / "current").symlink_to("slot")
    given = {"hermes_gateway_root": str(tmp_path), "hermes_gateway_home": str(tmp_path / "home")}
    script = tmp_path / "hermes-gateway"
    script.write_text(rendered("hermes_gateway", "hermes-gateway.sh.j2", given))

    def run() -> str:
        words = ["sh", str(script)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        assert done.stdout == "runs\n"
        return done.stderr

    return run


def configuration(folder: Path) -> object:
    """What the agent reads."""
    return yaml.safe_load((folder / "home/config.yaml").read_text())


def test_one_that_the_agent_can_read_stays_as_it_is(start: Callable[[], str], tmp_path: Path) -> None:
    file = tmp_path / "home/config.yaml"
    file.write_text("model: {default: gpt-4o}\n")
    assert start() == ""
    assert file.read_text() == "model: {default: gpt-4o}\n"


def test_one_that_was_deleted_is_made_again(start: Callable[[], str], tmp_path: Path) -> None:
    assert start() == ""
    assert configuration(tmp_path) == OWN


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b"- a list", b"", b"[" * 5000], ids=range(5))
def test_one_that_cannot_be_read_is_kept_beside_a_new_one(
    start: Callable[[], str], tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "home/config.yaml").write_bytes(text)
    assert "config.yaml.unreadable" in start()
    assert configuration(tmp_path) == OWN
    assert (tmp_path / "home/config.yaml.unreadable").read_bytes() == text


def test_what_is_no_file_delays_no_start(start: Callable[[], str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "home/config.yaml")
    assert "config.yaml.unreadable" in start()
    assert configuration(tmp_path) == OWN
