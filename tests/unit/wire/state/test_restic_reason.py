"""Why restic ended: its own reason, never the place that it names last; bounded, whatever a store answers."""

import os
from pathlib import Path

import pytest

from hermesops.agents.backup.store.restic import failure_of
from hermesops.errors import RefusedError as Refused
from hermesops.programs.node.system import restic
from hermesops.programs.node.system.files import Access
from hermesops.programs.node.system.restic import Repository, Restic
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.state.restic_reason import KEY_REFUSED, reason_in

PLACE = "s3:http://10.213.92.1:18081/backups/local/f04f"
_NOT_OPENED = "Fatal: unable to open config file: Stat: {}\nIs there a repository at the following location?\n" + PLACE
REFUSALS = (
    "Access Denied.",
    "AccessDenied",
    "The Access Key Id you provided does not exist in our records.",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
)


def test_a_refused_key_is_told_as_that_by_machine_and_platform_and_repeating_does_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "restic"
    monkeypatch.setattr(restic, "PROGRAM", str(program))
    for refusal in REFUSALS:
        text = _NOT_OPENED.format(refusal)
        program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 1\n")
        program.chmod(0o755)
        reader = Restic(Repository("/nowhere", "p"), Access(0o600, os.geteuid(), os.getegid()))
        with pytest.raises(RefusedError) as caught:
            reader.full_id("abc")
        assert str(caught.value).startswith(f"restic: {KEY_REFUSED}: Fatal: unable to open config file"), refusal
        assert refusal in str(caught.value)
        assert isinstance(failure_of(text), Refused), refusal
        assert refusal in failure_of(text).message


def test_another_failure_is_told_by_its_reason_and_may_be_repeated() -> None:
    cases = {
        _NOT_OPENED.format("connection reset"): "Fatal: unable to open config file: Stat: connection reset",
        "loading\nFatal: no room\nmore words": "Fatal: no room",
        "only this": "only this",
        "": "ended without a message",
        "Fatal: \x1b[31m" + "x" * 1000: "Fatal: ?[31m" + "x" * 288,
    }
    for output, reason in cases.items():
        assert reason_in(output) == reason
    assert NotReadyError.exit_code != RefusedError.exit_code
