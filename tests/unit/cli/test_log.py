"""The log on stderr."""

import json
import logging

import pytest
import structlog

from hermesops.cli.context import _open_log


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
