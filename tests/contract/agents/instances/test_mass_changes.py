"""Many agents that end or change their plan: a second operator's signature, checked when asked for and when begun."""

import subprocess
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hermesops.access.identity.mass_change import APPROVED, COUNTED, asked_by
from hermesops.agents.cells.changes.approvals import Approvals
from hermesops.agents.instances.requests.mass_changes import MassChanges
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import instance_subject
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.settings.environment import Environment
from hermesops.store.operations.kinds.agents import ApprovedList
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

LIMIT = 2
END, RESIZE, SCHEDULE_TERMINATION = OperationKind.TERMINATE, OperationKind.RESIZE, OperationKind.SCHEDULE_TERMINATION


class Place:
    """An environment in which two operators have to want what is done to many."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self.folder, self.registry = folder, registry
        lines = []
        for name in ("ada", "bob"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, timeout=30)
            lines.append(
                f'{name}@example.org namespaces="hermesops-*" {(folder / name).with_suffix(".pub").read_text()}'
            )
        (folder / "allowed").write_text("".join(lines))
        self.agents = [placed(registry, f"user{number}") for number in range(5)]

    def env(self, who: str = "ada", **more: str) -> Environment:
        settings = {
            "operators": "verified",
            "approvals": "required",
            "unapproved_changes": str(LIMIT),
            "operator_key": str(self.folder / who),
            "allowed_signers": str(self.folder / "allowed"),
            **more,
        }
        variables = {f"HERMESOPS_{name.upper()}": value for name, value in settings.items()}
        return Environment.load("staging", {"HOME": str(self.folder), "HERMESOPS_HOME": str(self.folder), **variables})

    def changes(self, given: ApprovedList | None = None, **more: str) -> MassChanges:
        return MassChanges(self.env(**more), self.registry, given)

    def listed(self, agents: Sequence[Instance], *, approver: str = "bob", asker: str = "ada") -> ApprovedList:
        text = MassChanges(self.env(asker), self.registry).request([instance.id for instance in agents], reason="cost")
        change, signer = self.changes().open(text)
        return ApprovedList(text, Approvals(self.env(approver)).sign(asked_by(change, signer))[0])

    def begin(self, agent: Instance, kind: OperationKind = END, given: ApprovedList | None = None) -> Operation:
        """As a command does it: admitted first, then the row."""
        approved = self.changes(given).admit(kind, agent.id)
        marks = {COUNTED: kind is OperationKind.RELOCATE, **({APPROVED: asdict(approved)} if approved else {})}
        intent = {"user": agent.title, **marks}
        return self.registry.operations.open(kind, instance_subject(agent.id), intent=intent, instance_id=agent.id)

    def write(self, agent: Instance, kind: OperationKind = END, **intent: object) -> Operation:
        """A row that somebody wrote by hand."""
        return self.registry.operations.open(kind, instance_subject(agent.id), intent=intent, instance_id=agent.id)


@pytest.fixture
def place(tmp_path: Path, registry: Registry) -> Place:
    return Place(tmp_path, registry)


def test_beyond_so_many_a_day_another_operator_approves(place: Place, clock: TurnedClock) -> None:
    for agent, kind in zip(place.agents[:LIMIT], (END, RESIZE), strict=True):
        place.changes().refuse_unapproved(place.begin(agent, kind))
    for kind in (END, RESIZE, SCHEDULE_TERMINATION, OperationKind.RELOCATE):
        with pytest.raises(RefusedError, match=r"2 other agents end .* more than 2 need another operator's approval"):
            place.begin(place.agents[2], kind)
    place.changes().refuse_unapproved(place.begin(place.agents[0]))  # it goes on
    given = place.listed(place.agents[2:4])
    for agent in place.agents[2:4]:
        place.changes().refuse_unapproved(place.begin(agent, END, given))
    with pytest.raises(RefusedError, match="is not about instance"):
        place.begin(place.agents[4], END, given)
    clock.turn(24 * 3600 + 1)
    assert APPROVED not in place.begin(place.agents[4]).intent


def test_where_no_approvals_are_asked_for_nothing_is_counted(place: Place) -> None:
    changes = place.changes(approvals="none")
    assert all(changes.admit(END, agent.id) is None for agent in place.agents)


@pytest.mark.parametrize("kind", [END, RESIZE, SCHEDULE_TERMINATION, OperationKind.RELOCATE])
def test_rows_written_by_hand_are_stopped_where_their_work_begins(place: Place, kind: OperationKind) -> None:
    given = place.listed(place.agents[:1])
    intents: list[dict[str, object]] = [
        {},
        {APPROVED: True},
        {APPROVED: {"change": "", "approval": ""}},
        {APPROVED: {"change": given.change, "approval": given.approval}},
    ]
    for agent in place.agents[1:3]:
        place.write(agent, END)
    for number, intent in enumerate(intents):
        row = place.write(place.agents[3], kind, number=number, **intent)
        with pytest.raises(RefusedError, match=r"need another operator's approval|does not count|is not about"):
            place.changes().refuse_unapproved(row)
        place.registry.operations.finish(row.id, OperationStatus.FAILED, "refused")


@pytest.mark.parametrize(("asker", "approver"), [("ada", "ada"), ("bob", "bob")])
def test_nobody_approves_their_own_list(place: Place, asker: str, approver: str) -> None:
    with pytest.raises(RefusedError, match="cannot approve it"):
        place.listed(place.agents, asker=asker, approver=approver)


def test_a_list_that_was_changed_and_another_approval_do_not_count(place: Place) -> None:
    given, other = place.listed(place.agents[:2]), place.listed(place.agents[2:])
    longer = given.change.replace(place.agents[0].id, place.agents[4].id)
    for harmed in (
        replace(given, change=longer),
        replace(given, approval=other.approval),
        replace(given, approval="{}"),
    ):
        with pytest.raises(RefusedError, match="does not count"):
            place.begin(place.agents[0], END, harmed)
    with pytest.raises(UsageError, match="not a list of agents"):
        place.changes().open("{}")


def test_who_was_approved_for_days_of_grace_is_approved_for_the_end(place: Place, clock: TurnedClock) -> None:
    given = place.listed(place.agents)
    for agent in place.agents:
        farewell = place.begin(agent, SCHEDULE_TERMINATION, given)
        place.registry.operations.finish(farewell.id, OperationStatus.DONE, "sleeps")
    clock.turn(8 * 24 * 3600)
    for agent in place.agents:  # as the job does it, with nothing brought along
        place.changes().refuse_unapproved(place.begin(agent))
