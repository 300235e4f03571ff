"""What a preview says of roles, which it does not show: how they were applied last."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import PartlyDoneError
from hermesops.model.ids import MachineId
from hermesops.model.stack import Change, ChangeKind
from hermesops.platform.local.roles import RolesRecord, RolesState
from hermesops.platform.stack import LocalPlatforms
from tests.support.fakes.parts import part

AT = datetime(2026, 11, 28, 4, 30, tzinfo=UTC)


def record(folder: Path) -> RolesRecord:
    return RolesRecord(folder / "platform-roles.json", lambda: AT)


def platforms(roles: RolesRecord, monkeypatch: pytest.MonkeyPatch, *outcomes: object) -> LocalPlatforms:
    """A platform whose roles end so, one run after another."""
    left = list(outcomes)

    async def apply(*_: object, **__: object) -> Any:  # noqa: ANN401 - as the outcome says
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def parts() -> list[Any]:
        return []

    monkeypatch.setattr(LocalPlatforms, "apply", apply)
    unused: Any = None
    return LocalPlatforms(
        "local", unused, unused, {}, unused, unused, unused, parts, dict, unused, roles, lambda _: None
    )


async def test_roles_that_failed_are_told_with_their_step_until_they_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = PartlyDoneError("hermes-local-platform: step 'Run\x1b its processes' failed: error: line 19")
    roles = record(tmp_path)
    host = platforms(roles, monkeypatch, failed, KeyboardInterrupt(), ("a task",))
    assert roles.read() == RolesState()
    assert "up applies them" in roles.read().told

    with pytest.raises(PartlyDoneError, match="line 19"):
        await host._apply_noted(MachineId("m"), has_packages=False)
    text = roles.read().told
    assert "failed on 2026-11-28 04:30 UTC (hermes-local-platform: step" in text
    assert text.endswith("up applies them again")
    assert "\x1b" not in text
    assert not roles.read().is_done

    with pytest.raises(KeyboardInterrupt):
        await host._apply_noted(MachineId("m"), has_packages=False)
    assert "were interrupted on 2026-11-28 04:30 UTC, up applies them again" in roles.read().told

    assert await host._apply_noted(MachineId("m"), has_packages=False) == ("a task",)
    assert roles.read() == RolesState(AT, is_done=True)


def test_a_note_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    for text in ("", "[]", '{"at": 1, "done": true, "error": ""}', '{"at": "yesterday", "done": 1, "error": ""}'):
        (tmp_path / "platform-roles.json").write_text(text)
        assert record(tmp_path).read() == RolesState(), text


def test_a_preview_ends_with_what_remains_though_the_stack_has_no_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hermesops.cli.options import platform_stack  # noqa: PLC0415 - loads typer

    same = Change(ChangeKind.SAME, "urn", "t", "n", "i")
    monkeypatch.setattr(platform_stack, "_with_stack", lambda _: part(changes=(same,)))
    for state, code in ((RolesState(AT, error="line 19"), 7), (RolesState(AT), 7), (RolesState(AT, is_done=True), 0)):
        monkeypatch.setattr(platform_stack, "_roles", lambda: state)  # noqa: B023 - called within the round
        assert platform_stack.preview(remaining=True) == code, state
        assert platform_stack.preview(remaining=False) == 0, state
        captured = capsys.readouterr()
        assert "its roles are not previewed" in captured.out + captured.err, state
