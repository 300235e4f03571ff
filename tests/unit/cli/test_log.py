"""The log on stderr."""

import json
import logging
import secrets
from pathlib import Path

import pytest
import structlog

import hermesops
from hermesops.base import process_log
from hermesops.cli.context import _open_log

PACKAGE = Path(hermesops.__file__).parent


def test_a_traceback_shows_no_values_to_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    token = secrets.token_hex(16)
    missing: dict[str, str] = {}
    forms = [process_log.for_terminal(coloured=True), process_log.for_terminal(coloured=False), process_log.AS_JSON]
    try:
        for rendered in forms:
            process_log.open_log(logging.INFO, rendered)
            try:
                missing["nothing"]
            except KeyError:
                structlog.get_logger("x").exception("pass_broke")
            printed = capsys.readouterr().err
            assert "KeyError" in printed
            assert token not in printed
    finally:
        structlog.reset_defaults()


def test_nothing_but_the_one_form_is_configured() -> None:
    # Another process that configures structlog by itself would print local variables again.
    places = [path for path in PACKAGE.rglob("*.py") if "structlog.configure(" in path.read_text(encoding="utf-8")]
    assert [path.name for path in places] == ["process_log.py"]


def test_a_bug_is_logged_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    missing: dict[str, str] = {}
    try:
        _open_log.__wrapped__(logging.INFO, as_json=True)
        try:
            missing["of a bug"]
        except KeyError:
            structlog.get_logger("x").exception("pass_broke")
    finally:
        structlog.reset_defaults()
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "pass_broke"
    assert "KeyError: 'of a bug'" in line["exception"]
    assert "test_log.py" in line["exception"]
