"""The shell completes nouns, verbs and options."""

from pathlib import Path

from tests.support.real.commands.command import Command


async def test_bash_is_offered_what_can_be_typed(tmp_path: Path) -> None:
    for typed, offered in (
        ("hermesops inst", {"instance"}),
        ("hermesops instance rest", {"restart"}),
        ("hermesops stack up --sh", {"--share"}),
        ("hermesops provision ada --pl", {"--plan"}),
        ("hermesops runbook run machine-g", {"machine-gone"}),
    ):
        variables = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
        ran = await Command(tmp_path, {**variables, "_HERMESOPS_COMPLETE": "complete_bash"}).run()
        assert set(ran.stdout.split()) == offered, typed
