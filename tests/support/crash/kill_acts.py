"""Commands that are cut at each write, and what each needs to have something to do."""

import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.images import another_image
from tests.support.real.commands.command import Command
from tests.support.vendor.outside_changes import resize_behind_its_back, stop_behind_its_back

AT_ONCE = 3


@dataclass(frozen=True)
class Owner:
    """Whom a life is about; what stands in an act's words for it.

    Attributes:
        cell: Their machine's, once they have one.
        machine: Its name.
    """

    user: str
    cell: str = ""
    machine: str = ""
    machine_id: str = ""
    instance: str = ""

    def words(self, act: Sequence[str]) -> list[str]:
        """A command about them."""
        names = {"USER": self.user, "CELL": self.cell, "MACHINE": self.machine}
        return [names.get(word, word.replace("=USER", f"={self.user}")) for word in act]


Preparation = Callable[[Command, Owner], Awaitable[None]]
"""Brings about what a command is to change."""


@dataclass(frozen=True)
class Act:
    """A command that is cut.

    Attributes:
        name: What it is called in the table.
        words: The command; ``USER``, ``CELL`` and ``MACHINE`` stand for the owner's.
        before: The command that makes the instance which it is about; none where it makes one itself.
        prepared: What else is done before it.
        leaves_machine: Whether the user has one after it.
        check: A command that finds nothing more to do afterwards.
        at_once: Lives at the same time.
        variables: Added to the environment of the command.
        keeps_machine: Whether that user's machine exists after it; its row does, where ``leaves_machine``.
        undone: A command that takes away what it made beside its user's machine.
    """

    name: str
    words: tuple[str, ...]
    before: tuple[str, ...] = ()
    prepared: Preparation | None = None
    leaves_machine: bool = True
    check: tuple[str, ...] = ()
    at_once: int = AT_ONCE
    variables: Mapping[str, str] = field(default_factory=dict)
    keeps_machine: bool = True
    undone: tuple[str, ...] = ()


PROVISIONING = ("provision", "USER", "--plan", "light")
TERMINATING = ("instance", "terminate", "USER", "--yes", "--reason", "test")
PROVISION = Act("provision", PROVISIONING)
TERMINATE = Act("terminate", TERMINATING, before=PROVISIONING, leaves_machine=False)
SETTINGS = Act(
    "settings", ("instance", "settings", "USER", "--set", "model=gpt-4o", "--reason", "test"), before=PROVISIONING
)
RESTART = Act("restart", ("instance", "restart", "USER"), before=PROVISIONING)


async def _asleep(world: Command, owner: Owner) -> None:
    await world.ok("instance", "suspend", owner.user, *_ASKED)


async def _asleep_nowhere(world: Command, owner: Owner) -> None:
    await world.ok("instance", "suspend", owner.user, "--machine", "removed", *_ASKED)


_ASKED = ("--reason", "test")
SUSPEND = Act("suspend", ("instance", "suspend", "USER", *_ASKED), before=PROVISIONING)
GIVE_BACK = Act(
    "suspend, removed",
    ("instance", "suspend", "USER", "--machine", "removed", *_ASKED),
    before=PROVISIONING,
    keeps_machine=False,
)
RESUME = Act("resume", ("instance", "resume", "USER", *_ASKED), before=PROVISIONING, prepared=_asleep)
RESUME_ANEW = Act(
    "resume, anew", ("instance", "resume", "USER", *_ASKED), before=PROVISIONING, prepared=_asleep_nowhere
)
RESIZE = Act("resize", ("instance", "resize", "USER", "--plan", "heavy", *_ASKED), before=PROVISIONING)
MOVE = Act("move", ("instance", "move", "USER", "--region", "nbg1", *_ASKED), before=PROVISIONING)
SCHEDULE_TERMINATION = Act(
    "terminate with grace",
    TERMINATING,
    before=PROVISIONING,
    variables={"HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_LAST_BACKUP": "required"},
)


async def _switched_off(world: Command, owner: Owner) -> None:
    await stop_behind_its_back(world.home / "local" / "world", owner.machine_id)


REBOOT = Act("reboot", ("instance", "reboot", "USER", *_ASKED), before=PROVISIONING, prepared=_switched_off)
LIVES = (SUSPEND, GIVE_BACK, RESUME, RESUME_ANEW, RESIZE, MOVE, SCHEDULE_TERMINATION)


async def _backed_up(world: Command, owner: Owner) -> None:
    await world.ok("backup", "create", owner.user)


SNAPSHOT = Act("snapshot", ("snapshot", "create", "USER", *_ASKED), before=PROVISIONING)
DRILL = Act("restore drill", ("drill", "restore", "USER"), before=PROVISIONING, prepared=_backed_up)
POOL_FILL = Act(
    "pool fill",
    ("job", "run", "pools", "CELL"),
    before=PROVISIONING,
    variables={"HERMESOPS_POOL_SIZE": "light=1", "HERMESOPS_CELL_SIZE": "3"},
    check=("stack", "preview", "CELL", "--exit-code"),
    undone=("pool", "drain", "CELL", "--yes", *_ASKED),
)


async def _released(world: Command, _owner: Owner) -> None:
    if not (await world.ok("release", "list", "--json")).json["releases"]:
        await world.ok("release", "build")


_AT_ONCE_DONE = ("--soak", "0s", "--settle", "0s", "--vitals", "none", "--drill", "no")
ROLLOUT = Act(
    "rollout",
    ("rollout", "start", "0.19.0", "--where", "user=USER", *_AT_ONCE_DONE, *_ASKED),
    before=PROVISIONING,
    prepared=_released,
)


async def _with_another_image(world: Command, _owner: Owner) -> None:
    if not any(image["name"] == _ANOTHER for image in (await world.ok("image", "list", "--json")).json["images"]):
        await another_image.make(world, _ANOTHER)


_ANOTHER = "hermes-next"
_ONTO_IT = ("--where", "user=USER", "--action", "machine")
ROLLOUT_OF_MACHINES = Act(
    "rollout of machines",
    ("rollout", "start", _ANOTHER, *_ONTO_IT, *_AT_ONCE_DONE, *_ASKED),
    before=PROVISIONING,
    prepared=_with_another_image,
)


async def _resized(world: Command, owner: Owner) -> None:
    await resize_behind_its_back(world.home / "local" / "world", owner.machine_id)


async def _of_another_image(world: Command, owner: Owner) -> None:
    """Let the state say that the machine boots from another image than the rows say: it has to be made anew."""
    state = json.loads((await world.ok("stack", "export", owner.cell)).stdout)
    resources = state["deployment"]["resources"]
    [machine] = [resource for resource in resources if resource["urn"].endswith(f"::{owner.machine}")]
    machine["inputs"]["image_id"] = str(uuid.uuid4())
    edited = world.home / f"{owner.machine}.json"
    edited.write_text(json.dumps(state))
    await world.ok("stack", "import", owner.cell, str(edited), "--yes")


async def _emptied(world: Command, owner: Owner) -> None:
    await world.ok(*owner.words(TERMINATING))


_PREVIEW = ("stack", "preview", "CELL", "--exit-code")
STACK_UP = Act("stack up", ("stack", "up", "CELL"), before=(*PROVISIONING, "--no-wait"), check=_PREVIEW)
STACK_REPLACE = Act(
    "stack up, anew",
    ("stack", "up", "CELL", "--destroy", "MACHINE"),
    before=PROVISIONING,
    prepared=_of_another_image,
    check=_PREVIEW,
)
STACK_REFRESH = Act(
    "stack refresh",
    ("stack", "refresh", "CELL"),
    before=PROVISIONING,
    prepared=_resized,
    check=("stack", "refresh", "CELL", "--preview", "--exit-code"),
)
STACK_DESTROY = Act(
    "stack destroy",
    ("stack", "destroy", "CELL", "--yes"),
    before=PROVISIONING,
    prepared=_emptied,
    leaves_machine=False,
    at_once=1,  # the next life's user would move into the empty cell
)
ACTS = (
    *(
        PROVISION,
        TERMINATE,
        SETTINGS,
        RESTART,
        REBOOT,
        *LIVES,
        SNAPSHOT,
        DRILL,
        POOL_FILL,
        ROLLOUT,
        ROLLOUT_OF_MACHINES,
    ),
    *(STACK_UP, STACK_REPLACE, STACK_REFRESH, STACK_DESTROY),
)
