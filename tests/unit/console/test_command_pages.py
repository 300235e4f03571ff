"""A command leads to the page of the action that it is, or to the page that shows the same, and to no other."""

from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.base import assets
from hermesops.console.actions.action import Action, offer_served
from hermesops.console.actions.command_pages import ListPage, page_of_command, page_of_reading
from hermesops.console.topics.listings import LISTINGS, OF_OPERATORS
from hermesops.console.topics.questions import QUESTIONS
from hermesops.errors import UsageError
from hermesops.model.access.console_operator import Role
from hermesops.observability.runbook.document import Kind, load, names
from tests.support.fakes.instances import ADA

_LISTS: list[ListPage] = [*LISTINGS.values(), *QUESTIONS.values()]


def _found(known: str, id_: str) -> Any:  # noqa: ANN401 - a finder of one row
    def find(name: str) -> Any:  # noqa: ANN401 - a row
        if name not in {known, id_}:
            raise UsageError("there is none of that name")
        return SimpleNamespace(id=id_, name=known, title=known, cell=SimpleNamespace(name=known))

    return find


CONTAINER: Any = SimpleNamespace(
    instances=SimpleNamespace(find=_found("ada", ADA.id)),
    rollouts=SimpleNamespace(find=_found("r1", "r1"), get=_found("r1", "r1")),
    operation_directory=SimpleNamespace(get=_found("0123", "0123-whole")),
    cells=SimpleNamespace(view=_found("cell1", "cell1")),
)

COMMANDS = {
    "backup restore ada --onto-new-machine": f"instances/{ADA.id}/change/restore?onto_new_machine=on",
    "backup restore ada --damaged --yes --reason corrupt": f"instances/{ADA.id}/change/restore?damaged=on",
    "instance terminate ada --now --without-backup": f"instances/{ADA.id}/change/terminate?now=on&without_backup=on",
    "instance terminate ada --undo --reason x": f"instances/{ADA.id}/change/undo-termination",
    "instance restart ada": f"instances/{ADA.id}/change/restart",
    "instance restart ada --reason x": f"instances/{ADA.id}/change/restart",
    "instance settings ada --back --reason x": f"instances/{ADA.id}/change/settings-back",
    "instance settings ada": "",
    "instance resize ada --plan heavy --reason x": f"instances/{ADA.id}/change/resize?plan=heavy",
    "instance resize ada --plan huge": "",
    "instance resize ada": "",
    "backup create ada": f"instances/{ADA.id}/change/back-up",
    "fleet repair accept-size ada": f"instances/{ADA.id}/change/accept-size",
    "fleet repair adopt hermes-a": "machines/hermes-a/change/adopt",
    "fleet repair remove-orphan hermes-a --id m-1": "machines/hermes-a/change/remove-orphan?id=m-1",
    "fleet repair remove-orphan hermes-a --id": "",
    "job run lifecycle": "jobs/lifecycle/change/run",
    "job run pools cell1": "",
    "pool drain cell1 --yes": "cells/cell1/change/drain-pool",
    "instance restart ada --unknown": "",
    "instance restart ada --unknown x": "",
    "instance restart ada bob": "",
    "instance restart bob": "",
    "instance restart USER": "",
    "instance restart": "",
    "restart instance ada": "",
    "stack up cell1": "cells/cell1/change/up",
    "stack up platform": "",
    "stack up --all": "",
    "stack up CELL": "",
    "stack refresh cell1": "",
    "provision ada --plan light": f"instances/{ADA.id}/change/provision?plan=light",
    "provision bob --plan light": "",
    "provision ada --plan PLAN": "",
    "operation continue 0123": "operations/0123-whole/change/continue",
    "operation abandon 0123 --reason x": "operations/0123-whole/change/abandon",
    "operation abandon 0123 --reason": "",
    "operation continue OPERATION": "",
    "rollout abort r1 --reason x": "rollouts/r1/change/abort",
    "rollout promote r1 --full": "rollouts/r1/change/promote?full=on",
    "rollout abort r2": "",
    "rollback --rollout r1 --yes --reason x": "rollouts/r1/change/roll-back",
    "rollback ada --reason x": "",
    "rollback --rollout ROLLOUT --yes": "",
    "token rotate --all --reason rotation": "change/rotate-tokens?everybody=on",
    "rollout start 0.19.0 --all": "change/start-rollout?release=0.19.0&everybody=on",
    "rollout start RELEASE --all": "",
    "rollout freeze --until 12h --reason x": "change/freeze?until=12h",
    "alert ack GatewayDown --instance ada --reason x": "alerts/GatewayDown/change/acknowledge?instance=ada",
    "alert silence --where alert=GatewayDown --for 2h": "change/silence?where=alert%3DGatewayDown&length=2h",
    "alert silence --lift 12 --reason x": "silences/12/change/lift",
    "alert silence --list": "",
}


@pytest.mark.parametrize(("command", "page"), COMMANDS.items(), ids=COMMANDS)
def test_a_command_leads_to_the_page_of_the_action_that_it_is_and_to_no_other(command: str, page: str) -> None:
    assert page_of_command(CONTAINER, command.split(), lambda action: action) == page


SERVED = {
    "backup restore ada --damaged --yes": "",
    "backup restore ada --yes": f"instances/{ADA.id}/change/restore",
    "instance terminate ada --now": "",
    "instance settings ada --set model=x": "",
    "fleet repair remove-orphan hermes-a --forget": "",
    "rollback --rollout r1 --lose": "",
    "rollback --rollout r1": "rollouts/r1/change/roll-back",
    "runbook run machine-gone --instance ada": "",
}


@pytest.mark.parametrize(("command", "page"), SERVED.items(), ids=SERVED)
def test_the_served_console_leads_to_no_page_that_would_do_something_else(command: str, page: str) -> None:
    assert page_of_command(CONTAINER, command.split(), offer_served) == page


def test_no_page_is_named_that_the_operator_may_not_open() -> None:
    def offer(action: Action) -> Action | None:
        return action if action.role is Role.OPERATOR else None

    assert page_of_command(CONTAINER, ["instance", "restart", "ada"], offer)
    assert page_of_command(CONTAINER, ["instance", "terminate", "ada"], offer) == ""


READING = {
    "fleet status --live --ask": "",
    "fleet status --health down": None,
    "alert list": "alerts",
    "alert list --all": None,
    "instance show ada": f"instances/{ADA.id}",
    "instance timeline ada": f"instances/{ADA.id}",
    "instance timeline ada --since 1d": None,
    "instance show bob": None,
    "instance show USER": None,
    "instance logs ada": None,
    "operation list": "operations",
    "operation show 0123": "operations/0123-whole",
    "rollout status r1": "rollouts/r1",
    "rollout status": None,
    "backup list": "backups",
    "backup list ada": "backups?q=ada",
    "backup list --late": None,
    "audit log --subject releases": "audit?subject=releases",
    "audit log --subject instance/i-1": "audit?subject=instance%2Fi-1",
    "audit log --subject instance/INSTANCE": None,
    "audit verify": None,
    "token list ada": "tokens?q=ada",
    "token list USER": None,
    "fleet drift": "drift",
    "fleet changes --since 2h": "changes?since=2h",
    "job list": "jobs",
    "pool list": "pools",
    "release list": "releases",
    "cell show cell1": "cells/cell1",
}


@pytest.mark.parametrize(("command", "page"), READING.items(), ids=READING)
def test_a_command_that_reads_leads_to_the_page_that_shows_the_same(command: str, page: str | None) -> None:
    assert page_of_reading(CONTAINER, command.split(), _LISTS) == page
    if page == "drift":
        assert page_of_reading(CONTAINER, command.split(), [*OF_OPERATORS.values()]) is None


def test_steps_of_runbooks_whose_command_is_an_action_have_its_page() -> None:
    values = {"USER": "ada", "CELL": "cell1", "OPERATION": "0123", "ROLLOUT": "r1", "PLAN": "light"}
    folder = assets.folder("runbooks")
    steps = [step for name in names(folder) for step in load(folder, name).steps if step.kind is not Kind.READ]
    commands = {tuple(values.get(word, word) for word in step.command) for step in steps}
    without = {command for command in commands if not page_of_command(CONTAINER, command, offer_served)}
    assert sorted({" ".join(command[:2]) for command in without}) == [
        *("backup check", "backup restore", "billing retry", "billing sweep", "fleet converge", "fleet outdated"),
        *("identity renew", "instance break-glass", "instance chat", "instance exec", "monitor --once"),
        *("platform restart", "registry rebuild", "registry restore", "release signers", "rollback ada"),
        *("secrets rotate", "stack rollback-state", "token renew", "token revoke"),
    ]
    assert [command for command in without if command[:2] == ("backup", "restore")] == [
        ("backup", "restore", "ada", "--damaged", "--yes", "--reason", "its database is corrupt")
    ], "the served console takes no such value"
