"""An action: the command that it is, the values that it takes, its preview, and what it begins."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hermesops.errors import UsageError
from hermesops.model.access.console_operator import Role
from hermesops.model.ids import OperationId

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container

REASON = "WHY"
"""Stands for the reason in the command that a page shows."""

LONGEST = 500
"""Characters of a value or a reason."""

_ON = "on"
"""The value of a checked box (https://html.spec.whatwg.org/multipage/input.html#attr-input-value)."""


class About(StrEnum):
    """Subjects of actions; each is the first part of the path of its pages, but for the fleet's."""

    FLEET = "fleet"
    INSTANCE = "instances"
    OPERATION = "operations"
    ROLLOUT = "rollouts"
    FREEZE = "freezes"
    RUNBOOK = "runbooks"
    ALERT = "alerts"
    SILENCE = "silences"
    RELEASE = "releases"
    CELL = "cells"
    MACHINE = "machines"
    JOB = "jobs"
    DRILL = "drills"
    CALLER = "callers"


@dataclass(frozen=True)
class Subject:
    """The subject of an action.

    Attributes:
        id: In addresses; empty for the fleet.
        name: In commands; empty for the fleet.
        title: On pages; an operator types it to confirm that something is destroyed.
        page: Path of its page below the console's.
    """

    id: str
    name: str
    title: str
    page: str


def bounded(text: str, field: str) -> str:
    """A text of a form or an address, with single spaces.

    Raises:
        UsageError: It is too long, or has invisible characters.
    """
    value = " ".join(text.split())
    if len(value) > LONGEST or not value.isprintable():
        raise UsageError(f"must have at most {LONGEST} characters, all of them visible", field=field)
    return value


@dataclass(frozen=True)
class ActionValue:
    """A value that an action takes.

    Attributes:
        option: Of the command; empty for an argument.
        choices: All values that it can have; empty for any text.
        is_flag: Whether it is given or not, without a value.
        default: In the form of a new preview.
        is_served: Whether operators of the served console may give it.
    """

    name: str
    label: str
    option: str = ""
    choices: tuple[str, ...] = ()
    is_required: bool = False
    is_flag: bool = False
    default: str = ""
    is_served: bool = True

    def words(self, value: str) -> tuple[str, ...]:
        """The words of the command that give this value; none for an empty one."""
        if not value:
            return ()
        if self.is_flag:
            return (self.option,)
        return (self.option, value) if self.option else (value,)

    def parse(self, text: str) -> str:
        """A value from a form.

        Raises:
            UsageError: It is none of the choices, too long, or has invisible characters.
        """
        value = bounded(text, self.name)
        choices = (_ON,) if self.is_flag else self.choices
        if value and choices and value not in choices:
            raise UsageError(f"must be one of {', '.join(choices)}", field=self.name)
        return value


@dataclass(frozen=True)
class ActionRequest:
    """An operator's request of an action.

    Attributes:
        values: By the name of their field; empty texts for those not given.
        reason: Empty for a preview.
    """

    subject: Subject
    values: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def value(self, name: str) -> str:
        """The value of a field; empty where it is not given."""
        return self.values.get(name, "")

    def is_on(self, name: str) -> bool:
        """Whether a flag is given."""
        return bool(self.value(name))


@dataclass(frozen=True)
class Preview:
    """The effects of an action, if it began now.

    Attributes:
        kind: Name of the template that shows them.
        shape: As the command prints them with ``--dry-run --json``.
        words: Sentences about them.
    """

    kind: str
    shape: Mapping[str, Any]
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Begun:
    """An action that has begun.

    Attributes:
        page: Path of the page that shows it, below the console's.
        go_on: Carries it on to its end; ``None`` where it has ended.
        leave: Leaves it to the workers; returns its name in words, empty where it has ended or another process has it.
        operation_id: Its operation, where that is its page.
    """

    page: str
    go_on: Callable[[], Awaitable[object]] | None = None
    leave: "Callable[[Connected], str] | None" = None
    operation_id: OperationId | None = None


class ActionWork(Protocol):
    """The preview of an action, and its begin. Both raise HermesError where the action is refused now."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """Run every check, and write nothing."""

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Begin it; nothing was changed where it raises."""


@runtime_checkable
class RepeatableWork(ActionWork, Protocol):
    """Work that is begun once for a reason, whoever dies in between."""

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """Whatever has begun for the reason of this request, which no other request has; ``None`` for nothing."""


@dataclass(frozen=True)
class Action:
    """An action that has a page.

    Attributes:
        name: Last part of its path.
        title: Of its page and its button.
        words: Of its command, before subject and values.
        subject_option: Option of the command that names the subject; empty for an argument.
        takes_reason: Whether its command has ``--reason``.
        destroys: Whether something is lost by it: the operator types the subject's title, and of the served console
            has signed in within the last minutes.
        role: Of operators of the served console who may begin it; ``None`` where that leaves it to its command.
        left_because: Why it does; empty where it offers the action.
    """

    about: About
    name: str
    title: str
    words: tuple[str, ...]
    work: ActionWork
    fields: tuple[ActionValue, ...] = ()
    subject_option: str = ""
    takes_reason: bool = True
    destroys: bool = False
    role: Role | None = None
    left_because: str = ""

    def as_served(self) -> "Action":
        """The action with the values that operators of the served console may give."""
        return replace(self, fields=tuple(field for field in self.fields if field.is_served))

    def command(self, request: ActionRequest) -> tuple[str, ...]:
        """The same action as a command of hermesops."""
        name = request.subject.name
        subject = (self.subject_option, name) if self.subject_option else (name,)
        values = [word for field in self.fields for word in field.words(request.value(field.name))]
        reason = ("--reason", request.reason or REASON) if self.takes_reason else ()
        return (*self.words, *(subject if name else ()), *values, *reason)

    def values(self, form: Mapping[str, str]) -> Mapping[str, str]:
        """The values of its fields in a form or an address.

        Raises:
            UsageError: A field cannot have its value.
        """
        return {field.name: field.parse(form.get(field.name, "")) for field in self.fields}

    def missing(self, values: Mapping[str, str]) -> Sequence[ActionValue]:
        """Fields that need a value and have none."""
        return [field for field in self.fields if field.is_required and not values.get(field.name)]


def offer_served(action: Action) -> Action | None:
    """The action as the served console offers it; ``None`` for one that it leaves to commands."""
    return action.as_served() if action.role is not None else None
