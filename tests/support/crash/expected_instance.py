"""What an instance has to be after each command: pure, for whoever runs the commands and compares the world with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

_PLANS = {"light": "heavy", "heavy": "light"}
_REGIONS = {"hel1": "nbg1", "nbg1": "hel1"}
_WHY = ("--reason", "test")
_KEEPS_PREVIOUS = {"HERMESOPS_PREVIOUS_DAYS": "7"}


class Phase(StrEnum):
    """Where an instance is in its life."""

    ABSENT = "absent"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"


@dataclass(frozen=True)
class ExpectedInstance:
    """One user's instance as it has to be.

    Attributes:
        has_machine: Whether it has a machine at the vendor.
        memory: What its agent was taught and still knows, oldest first.
        newest: What the agent knew at its newest backup that no restore made for itself; ``None`` without one.
        saved_id: The backup that an operator asked for last; empty without one.
        saved: What the agent knew then.
        previous_machines: Machines that it left and that are kept for a while.
    """

    user: str
    phase: Phase = Phase.ABSENT
    has_machine: bool = False
    plan: str = "light"
    region: str = "hel1"
    memory: tuple[str, ...] = ()
    newest: tuple[str, ...] | None = None
    saved_id: str = ""
    saved: tuple[str, ...] = ()
    previous_machines: int = 0

    def taught(self, word: str) -> "ExpectedInstance":
        """After its agent was taught a word."""
        return replace(self, memory=(*self.memory, word))

    def backed_up(self) -> "ExpectedInstance":
        """After any backup but one that a restore made for itself."""
        return replace(self, newest=self.memory)

    def saved_as(self, backup_id: str) -> "ExpectedInstance":
        """After an operator's backup of that id."""
        return replace(self, saved_id=backup_id, saved=self.memory)


@dataclass(frozen=True)
class Act:
    """A command that makes sense for an instance, and what has to be true once it has finished.

    Attributes:
        kind: What it is called in tables.
        words: The command.
        after: The instance afterwards.
        refusal: What the refusal says where the command has to be refused.
        variables: Added to its environment.
        loses_machine: Whether the machine is deleted at the vendor before, without our knowledge.
        lines: Lines of narration that the command prints at least, when nothing is done yet.
    """

    kind: str
    words: tuple[str, ...]
    after: ExpectedInstance
    refusal: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    loses_machine: bool = False
    lines: int = 4


def acts_of(instance: ExpectedInstance) -> tuple[Act, ...]:
    """Every act that makes sense for an instance as it is: what is done, and what is rightly refused."""
    match instance.phase:
        case Phase.ABSENT:
            return (_provision(instance),)
        case Phase.RUNNING:
            return (*_of_running(instance), *_restores(instance), *_ends(instance))
        case Phase.SUSPENDED:
            return (*_of_suspended(instance), *_restores_elsewhere(instance), *_ends(instance))
        case Phase.ENDING:
            return (*_of_ending(instance), *_restores_elsewhere(instance), *_ends(instance))


def _provision(instance: ExpectedInstance) -> Act:
    new = ExpectedInstance(instance.user, Phase.RUNNING, has_machine=True, previous_machines=instance.previous_machines)
    return Act("provision", ("provision", instance.user, "--plan", "light"), new)


def _of_running(instance: ExpectedInstance) -> tuple[Act, ...]:
    user, plan, region = instance.user, _PLANS[instance.plan], _REGIONS[instance.region]
    at_rest = replace(instance.backed_up(), phase=Phase.SUSPENDED)
    resized, moved = replace(instance.backed_up(), plan=plan), replace(instance.backed_up(), region=region)
    settings = ("instance", "settings", user, "--set", "model=gpt-4o", *_WHY)
    return (
        Act("provision again", ("provision", user, "--plan", instance.plan), instance, lines=1),
        Act("restart", ("instance", "restart", user), instance, lines=2),
        Act("settings", settings, instance, lines=2),
        Act("backup", ("backup", "create", user), instance.backed_up(), lines=1),
        Act("suspend", ("instance", "suspend", user, "--machine", "stopped", *_WHY), at_rest),
        Act("suspend, removed", _suspend_removed(user), replace(at_rest, has_machine=False), lines=5),
        _resize(instance, resized),
        Act(
            "resize onto new machine",
            ("instance", "resize", user, "--plan", plan, "--onto-new-machine", *_WHY),
            resized,
            lines=10,
        ),
        Act("move", _move(user, region), moved, lines=10),
        Act(
            "move, old machine kept",
            _move(user, region),
            replace(moved, previous_machines=instance.previous_machines + 1),
            variables=_KEEPS_PREVIOUS,
            lines=9,
        ),
        _fulfilled(instance, "resume", ("instance", "resume", user, *_WHY)),
        _fulfilled(instance, "resize", ("instance", "resize", user, "--plan", instance.plan, *_WHY)),
        _fulfilled(instance, "move", _move(user, instance.region)),
        _fulfilled(instance, "undo", ("instance", "terminate", user, "--undo", *_WHY)),
    )


def _resize(instance: ExpectedInstance, resized: ExpectedInstance) -> Act:
    """A change of plan in place: up it is done; down the vendor refuses it, and the agent runs on as it was."""
    words = ("instance", "resize", instance.user, "--plan", resized.plan, *_WHY)
    if resized.plan == "heavy":
        return Act("resize", words, resized, lines=6)
    return Act("resize down refused", words, instance.backed_up(), refusal="disks cannot shrink", lines=6)


def _restores(instance: ExpectedInstance) -> tuple[Act, ...]:
    in_place = ("backup", "restore", instance.user, "--yes", *_WHY)
    acts = list(_restores_elsewhere(instance))
    if instance.newest is not None:
        acts.append(Act("restore", in_place, replace(instance, memory=instance.newest), lines=5))
        acts.append(
            Act(
                "restore of a lost machine",
                _restore_elsewhere(instance.user),
                replace(instance, memory=instance.newest),
                loses_machine=True,
                lines=7,
            )
        )
    if instance.saved_id:
        words = (*in_place, "--snapshot", instance.saved_id)
        acts.append(Act("restore of a chosen backup", words, replace(instance, memory=instance.saved), lines=5))
    return tuple(acts)


def _restores_elsewhere(instance: ExpectedInstance) -> tuple[Act, ...]:
    if instance.newest is None:
        return ()
    restored = replace(instance, phase=Phase.RUNNING, has_machine=True, memory=instance.newest)
    return (Act("restore onto new machine", _restore_elsewhere(instance.user), restored, lines=10),)


def _of_suspended(instance: ExpectedInstance) -> tuple[Act, ...]:
    user = instance.user
    running = replace(instance, phase=Phase.RUNNING, has_machine=True)
    removed = replace(instance, has_machine=False)
    again = ("instance", "suspend", user, *_WHY) if instance.has_machine else _suspend_removed(user)
    acts = (
        Act("resume", ("instance", "resume", user, *_WHY), running),
        Act("suspend again", again, instance, lines=0),
        _refused(instance, "provision", ("provision", user, "--plan", instance.plan), "is suspended"),
        _refused(instance, "restart", ("instance", "restart", user), "is suspended"),
        _refused(instance, "resize", ("instance", "resize", user, "--plan", "heavy", *_WHY), "is suspended"),
        _refused(instance, "move", _move(user, _REGIONS[instance.region]), "is suspended"),
    )
    return (*acts, Act("suspend, removed", _suspend_removed(user), removed, lines=5)) if instance.has_machine else acts


def _of_ending(instance: ExpectedInstance) -> tuple[Act, ...]:
    user = instance.user
    running = replace(instance, phase=Phase.RUNNING, has_machine=True)
    return (
        Act("undo", ("instance", "terminate", user, "--undo", *_WHY), running),
        Act("resume", ("instance", "resume", user, *_WHY), running),
        _refused(instance, "provision", ("provision", user, "--plan", instance.plan), "ends at"),
        _refused(instance, "move", _move(user, _REGIONS[instance.region]), "ends at"),
    )


def _ends(instance: ExpectedInstance) -> tuple[Act, ...]:
    user = instance.user
    last = instance.backed_up() if instance.phase is Phase.RUNNING else instance
    gone = ExpectedInstance(user, previous_machines=instance.previous_machines)
    return (
        Act("terminate", ("instance", "terminate", user, "--yes", *_WHY), replace(last, phase=Phase.ENDING)),
        Act("terminate now", ("instance", "terminate", user, "--now", "--yes", *_WHY), gone, lines=6),
    )


def _refused(instance: ExpectedInstance, kind: str, words: tuple[str, ...], refusal: str) -> Act:
    return Act(f"{kind} refused", words, instance, refusal=refusal, lines=0)


def _fulfilled(instance: ExpectedInstance, kind: str, words: tuple[str, ...]) -> Act:
    return Act(f"{kind} fulfilled", words, instance, lines=0)


def _suspend_removed(user: str) -> tuple[str, ...]:
    return ("instance", "suspend", user, "--machine", "removed", *_WHY)


def _move(user: str, region: str) -> tuple[str, ...]:
    return ("instance", "move", user, "--region", region, *_WHY)


def _restore_elsewhere(user: str) -> tuple[str, ...]:
    return ("backup", "restore", user, "--onto-new-machine", "--yes", *_WHY)
