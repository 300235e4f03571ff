"""Every action of every page, by its subject and its name; and the subjects that addresses name."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from hermesops.base import assets
from hermesops.console.actions import (
    alerts,
    builds,
    callers,
    instances,
    machines,
    operations,
    rollouts,
    runbooks,
    stacks,
    upkeep,
)
from hermesops.console.actions.action import About, Action, Subject
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import RolloutId
from hermesops.model.unknown_name import unknown_name
from hermesops.observability.runbook.document import load

if TYPE_CHECKING:
    from hermesops.app.container import Container

ACTIONS: Sequence[Action] = (
    *instances.ACTIONS,
    *operations.ACTIONS,
    *rollouts.ACTIONS,
    *alerts.ACTIONS,
    *runbooks.ACTIONS,
    *machines.ACTIONS,
    *stacks.ACTIONS,
    *upkeep.ACTIONS,
    *builds.ACTIONS,
    *callers.ACTIONS,
)


_ALERT = re.compile(r"[A-Za-z0-9]{1,100}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")


def about(subject: About) -> Mapping[str, Action]:
    """The actions of one kind of subject, by their names."""
    return {action.name: action for action in ACTIONS if action.about is subject}


def find(kind: str, name: str) -> Action | None:
    """The action of a kind of subject, as addresses name both; ``None`` where there is none."""
    return next((action for action in ACTIONS if action.about == kind and action.name == name), None)


def find_subject(container: "Container", kind: About, subject_id: str) -> Subject:
    """The subject that an address names; blocks.

    Raises:
        UsageError: There is none of that id.
    """
    return _SUBJECTS[kind](container, subject_id)


async def subject_of(container: "Container", kind: About, subject_id: str) -> Subject:
    """As ``find_subject``, in a thread."""
    return await asyncio.to_thread(find_subject, container, kind, subject_id)


def _fleet(container: "Container", _id: str) -> Subject:
    return Subject("", "", container.env.name, "")


def _instance(container: "Container", instance_id: str) -> Subject:
    """An instance; in commands by its user, or by its id where the user has a newer one."""
    instance = container.instances.get(InstanceId(instance_id))
    same = container.instances.find(instance.title)
    name = instance.title if same.id == instance.id else instance.id
    return Subject(instance.id, name, instance.title, f"instances/{instance.id}")


def _rollout(container: "Container", rollout_id: str) -> Subject:
    rollout = container.rollouts.get(RolloutId(rollout_id))
    return Subject(rollout.id, rollout.id, rollout.id, f"rollouts/{rollout.id}")


def _freeze(container: "Container", freeze_id: str) -> Subject:
    freeze = next((row for row in container.freezes.list(past=True) if row.id == freeze_id), None)
    if freeze is None:
        raise unknown_name("freeze", freeze_id)
    return Subject(freeze.id, freeze.id, freeze.id, "rollouts")


def _runbook(_container: "Container", name: str) -> Subject:
    runbook = load(assets.folder("runbooks"), name)
    return Subject(runbook.name, runbook.name, runbook.name, f"runbooks/{runbook.name}")


def _operation(container: "Container", operation_id: str) -> Subject:
    operation = container.operation_directory.get(operation_id)
    return Subject(operation.id, operation.id, operation.id[:8], f"operations/{operation.id}")


def _cell(container: "Container", name: str) -> Subject:
    cell = container.cells.view(name).cell
    return Subject(cell.name, cell.name, cell.name, f"cells/{cell.name}")


def _machine(_container: "Container", name: str) -> Subject:
    """A machine by its name; whether there is one is JustAVPS's to say."""
    return _named("machine", name, "drift")


def _job(_container: "Container", name: str) -> Subject:
    return _named("job", name, "jobs")


def _drill(_container: "Container", name: str) -> Subject:
    return _named("drill", name, "drills")


def _named(kind: Literal["machine", "job", "drill"], name: str, page: str) -> Subject:
    """A subject that its action looks up."""
    if not _NAME.fullmatch(name):
        raise unknown_name(kind, name)
    return Subject(name, name, name, page)


def _caller(container: "Container", caller_id: str) -> Subject:
    caller = container.calling_agents.get(caller_id)
    return Subject(caller.id, caller.id, caller.id[:8], "callers")


def _alert(_container: "Container", name: str) -> Subject:
    if not _ALERT.fullmatch(name):
        raise unknown_name("alert", name)
    return Subject(name, name, name, "alerts")


def _silence(_container: "Container", silence_id: str) -> Subject:
    """A silence by its id; whether there is one is Alertmanager's to say."""
    if not _NAME.fullmatch(silence_id):
        raise unknown_name("silence", silence_id)
    return Subject(silence_id, silence_id, silence_id, "alerts")


def _release(_container: "Container", release: str) -> Subject:
    """A release by its id; whether there is one is the store's to say."""
    if not _RELEASE.fullmatch(release):
        raise unknown_name("release", release)
    return Subject(release, release, release, f"releases/{quote(release, safe='')}")


_SUBJECTS: "Mapping[About, Callable[[Container, str], Subject]]" = {
    About.FLEET: _fleet,
    About.INSTANCE: _instance,
    About.ROLLOUT: _rollout,
    About.FREEZE: _freeze,
    About.RUNBOOK: _runbook,
    About.OPERATION: _operation,
    About.ALERT: _alert,
    About.SILENCE: _silence,
    About.RELEASE: _release,
    About.CELL: _cell,
    About.MACHINE: _machine,
    About.JOB: _job,
    About.DRILL: _drill,
    About.CALLER: _caller,
}
