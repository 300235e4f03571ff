"""A unit that does not come up: the end of its log is told, bounded, and no secret in it."""

from typing import Any

import pytest

from hermesops.base import assets
from hermesops.errors import PartlyDoneError
from hermesops.machines.converge.results import Converged, EventFold
from hermesops.machines.converge.variables import literal, secret_lines, without
from hermesops.model.ids import MachineId
from hermesops.platform.host import HostAddress, PlatformHost
from tests.support.fakes.parts import part

NAME = "hermes-local-platform"
TASK = "hermes_platform_control : Start the processes of hermesops"
ERROR = "error: cannot read settings.toml: line 19"
LOG = [*(f"line {number}" for number in range(30)), ERROR, "hint: repair\x1b[2J it"]


def failed(log: object = LOG) -> Converged:
    """A run whose unit did not come up, as Ansible tells it."""
    fold = EventFold((NAME,))
    unit = "hermesops-migrate.service"
    result = {"msg": f"{unit}: is activating (success)", "unit": unit, "log": log}
    fold.take({"event": "runner_on_failed", "event_data": {"host": NAME, "task": TASK, "res": result}})
    fold.take({"event": "playbook_on_stats", "event_data": {"failures": {NAME: 1}}})
    return Converged("platform", fold.results(), 1.0)


def test_the_line_that_names_the_error_is_in_the_message_and_terminals_obey_none() -> None:
    failure = failed().hosts[NAME].failure
    assert failure is not None
    assert failure.log[-1] == "hint: repair\\x1b[2J it"
    assert len(failure.log) == 10
    with pytest.raises(PartlyDoneError, match=rf"step '.*' failed: .*: {ERROR}"):
        failed().require_ok()


def test_a_log_of_no_lines_and_one_that_is_no_list_are_told_without_one() -> None:
    logs: tuple[object, ...] = ([], None, "text", {"a": 1})
    for log in logs:
        failure = failed(log).hosts[NAME].failure
        assert failure is not None, log
        assert (failure.log, failure.telling) == ((), ""), log


async def test_of_a_platforms_host_each_line_is_shown_and_the_hint_names_its_log() -> None:
    shown: list[str] = []

    async def run(*_: object, **__: object) -> Converged:
        return failed()

    converger: Any = part(run=run)
    unused: Any = part(step=None)
    host = PlatformHost("local", lambda _: unused, converger, lambda: unused, {}, lambda: unused, shown.append)
    with pytest.raises(PartlyDoneError) as caught:
        await host._run(HostAddress(NAME, MachineId("m"), "10.0.0.1"), ("hermes_platform_control",), {}, unused)

    assert caught.value.message == f"{NAME}: step '{TASK}' failed: error: cannot read settings.toml: line 19"
    assert "platform logs hermesops-migrate" in str(caught.value.hint)
    assert shown[-2:] == [
        "hermesops-migrate.service: error: cannot read settings.toml: line 19",
        "hermesops-migrate.service: hint: repair\\x1b[2J it",
    ]


def test_secrets_of_roles_and_passwords_in_addresses_are_hidden() -> None:
    properties = {
        "hermes_platform_control_keys": {"registry.key": "first-secret\nsecond-secret\n", "short": "abc"},
        "hermes_platform_control_environment": "production",
    }
    secrets = secret_lines(properties, assets.folder("roles"))
    assert secrets == {"first-secret", "second-secret"}
    line = "production: no first-secret second-secret abc at postgresql://user:pa:ss@host/db"
    assert without(line, secrets) == "production: no *** *** abc at postgresql://user:***@host/db"
    hidden = failed(["key first-secret"]).hiding(lambda text: without(text, secrets)).hosts[NAME].failure
    assert hidden is not None
    assert hidden.log == ("key ***",)


def test_no_text_of_a_variable_is_a_template() -> None:
    for text in ("{{ 1 }}", "{% if x %}", "{# x #}"):
        assert literal({"a": [text]}) == {"a": [{"__ansible_unsafe": text}]}, text
    assert literal({"a": ("plain {", 1, True, None)}) == {"a": ["plain {", 1, True, None]}
