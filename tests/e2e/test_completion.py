"""The shell completes nouns, verbs and options."""

import os
import subprocess

import pytest

from tests.support.real.command import HERMESOPS


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hermesops inst", {"instance"}),
        ("hermesops instance rest", {"restart"}),
        ("hermesops stack up --sh", {"--share"}),
        ("hermesops provision ada --pl", {"--plan"}),
        ("hermesops runbook run machine-g", {"machine-gone"}),
    ],
)
def test_bash_is_offered_what_can_be_typed(typed: str, offered: set[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    variables = {**os.environ, **words, "_HERMESOPS_COMPLETE": "complete_bash"}  # noqa: TID251 - as a shell has it
    ran = subprocess.run([HERMESOPS], env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert set(ran.stdout.split()) == offered
