"""The doctor lists extras, and warns where the environment needs one that is missing."""

import pytest

from hermesops.automation.doctor import computer
from hermesops.automation.doctor.computer import check_computer, needed_extras
from hermesops.base.extras import Extra
from hermesops.model.check import Check, Verdict
from hermesops.settings.fields import Settings


def extras(monkeypatch: pytest.MonkeyPatch, missing: tuple[Extra, ...], needed: frozenset[Extra]) -> Check:
    monkeypatch.setattr(computer, "missing_extras", lambda: missing)
    [check] = [check for check in check_computer(needed, runs_machines=False) if check.name == "extras"]
    return check


def test_extras_are_listed_installed_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    check = extras(monkeypatch, (Extra.AWS, Extra.LOCAL), frozenset({Extra.ROLES}))
    assert (check.verdict, check.seen) == (
        Verdict.OK,
        "installed: billing, build, console, platform, roles; missing: aws, local",
    )
    assert extras(monkeypatch, (), frozenset(Extra)).seen.endswith("missing: none")


def test_a_missing_extra_that_the_environment_needs_is_a_warning_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = extras(monkeypatch, (Extra.AWS, Extra.LOCAL, Extra.ROLES), frozenset({Extra.ROLES, Extra.LOCAL}))
    assert check.verdict is Verdict.WARNING
    assert str(check.hint).endswith("'hermesops[local,roles]'")


def test_settings_say_which_extras_are_needed() -> None:
    plain = Settings.model_validate({})
    assert needed_extras(plain, runs_machines=False) == set()
    assert needed_extras(plain, runs_machines=True) == {Extra.BUILD, Extra.LOCAL, Extra.ROLES}
    billed = Settings.model_validate({"billing": {"prices": {"price_1": "light"}}, "platform": {"account": "1" * 12}})
    assert needed_extras(billed, runs_machines=False) == {Extra.AWS, Extra.BILLING}
