"""Actions of one instance, each an operation that its command opens too."""

from typing import TYPE_CHECKING

from hermesops.agents.backup.restores import RestoreRequest
from hermesops.agents.instances.requests.settings_patch import setting
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue
from hermesops.console.actions.operations import OperationWork, ProvisionWork
from hermesops.model.access.console_operator import Role
from hermesops.model.plan import Plan
from hermesops.store.operations.kinds.agents import Keep

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.model.operation import Operation


async def _restart(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.restart(request.subject.name, reason=request.reason)


async def _suspend(connected: "Connected", request: ActionRequest) -> "Operation":
    keep = Keep(request.value("machine")) if request.value("machine") else None
    return await connected.instance_requests.suspend(request.subject.name, keep=keep, reason=request.reason)


async def _resume(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.resume(request.subject.name, reason=request.reason)


async def _reboot(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.reboot(request.subject.name, reason=request.reason)


async def _resize(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.resize(
        request.subject.name,
        Plan(request.value("plan")),
        onto_new_machine=request.is_on("onto_new_machine"),
        reason=request.reason,
    )


async def _move(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.move(
        request.subject.name, cell=request.value("cell"), region=request.value("region"), reason=request.reason
    )


async def _configure(connected: "Connected", request: ActionRequest) -> "Operation":
    patch = setting([request.value("set")])
    return await connected.instance_requests.configure(request.subject.name, patch, reason=request.reason)


async def _settings_back(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.configure(request.subject.name, None, reason=request.reason)


async def _back_up(connected: "Connected", request: ActionRequest) -> "Operation":
    instance = connected.container.instances.find(request.subject.name)
    return await connected.backups.open_backup(instance, why="manual", reason=request.reason or None)


async def _restore(connected: "Connected", request: ActionRequest) -> "Operation":
    container, snapshot = connected.container, request.value("snapshot")
    instance = container.instances.find(request.subject.name)
    restore = RestoreRequest(
        request.subject.name,
        instance,
        container.backup_rows.to_restore(instance, snapshot),
        request.reason,
        is_named=bool(snapshot),
        is_damaged=request.is_on("damaged"),
        is_onto_new_machine=request.is_on("onto_new_machine"),
    )
    return await connected.restores.open(restore)


async def _terminate(connected: "Connected", request: ActionRequest) -> "Operation":
    termination = connected.container.termination_policy.choose(
        now=request.is_on("now"), without_backup=request.is_on("without_backup")
    )
    return await connected.instance_requests.end(request.subject.name, termination, reason=request.reason)


async def _undo_termination(connected: "Connected", request: ActionRequest) -> "Operation":
    return await connected.instance_requests.undo_termination(request.subject.name, reason=request.reason)


_ONTO_NEW_MACHINE = ActionValue("onto_new_machine", "Onto a new machine", "--onto-new-machine", is_flag=True)

ACTIONS = (
    Action(
        About.INSTANCE,
        "restart",
        "Restart the gateway",
        ("instance", "restart"),
        OperationWork(_restart),
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "reboot",
        "Reboot a dead machine",
        ("instance", "reboot"),
        OperationWork(_reboot),
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "suspend",
        "Suspend",
        ("instance", "suspend"),
        OperationWork(_suspend),
        (ActionValue("machine", "Keep the machine", "--machine", tuple(Keep), is_served=False),),
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "provision",
        "Provision again",
        ("provision",),
        ProvisionWork(),
        (ActionValue("plan", "Plan", "--plan", tuple(Plan), is_required=True),),
        takes_reason=False,
        role=Role.OPERATOR,
    ),
    Action(About.INSTANCE, "resume", "Resume", ("instance", "resume"), OperationWork(_resume), role=Role.OPERATOR),
    Action(
        About.INSTANCE,
        "back-up",
        "Back up now",
        ("backup", "create"),
        OperationWork(_back_up, is_foreseen=False),
        takes_reason=False,
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "restore",
        "Restore from a backup",
        ("backup", "restore"),
        OperationWork(_restore),
        (
            ActionValue("snapshot", "Backup ID or its first characters; empty: the newest", "--snapshot"),
            ActionValue(
                "damaged", "Do not back up the damaged state first", "--damaged", is_flag=True, is_served=False
            ),
            _ONTO_NEW_MACHINE,
        ),
        destroys=True,
        role=Role.ADMIN,
    ),
    Action(
        About.INSTANCE,
        "move",
        "Move",
        ("instance", "move"),
        OperationWork(_move),
        (ActionValue("cell", "To cell", "--cell"), ActionValue("region", "Or to region", "--region")),
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "resize",
        "Change the plan",
        ("instance", "resize"),
        OperationWork(_resize),
        (ActionValue("plan", "Plan", "--plan", tuple(Plan), is_required=True), _ONTO_NEW_MACHINE),
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "configure",
        "Change a setting",
        ("instance", "settings"),
        OperationWork(_configure),
        (
            ActionValue(
                "set", "Setting, as model=NAME, personality=TEXT or disabled_tools=NAMES", "--set", is_required=True
            ),
        ),
        left_because="a setting may be a user's words or a key, and a request's row is not sealed",
    ),
    Action(
        About.INSTANCE,
        "settings-back",
        "Restore the previous settings",
        ("instance", "settings", "--back"),
        OperationWork(_settings_back),
        role=Role.OPERATOR,
    ),
    Action(
        About.INSTANCE,
        "terminate",
        "Terminate",
        ("instance", "terminate"),
        OperationWork(_terminate),
        (
            ActionValue("now", "End now, without days of grace", "--now", is_flag=True, is_served=False),
            ActionValue("without_backup", "Without a last backup", "--without-backup", is_flag=True, is_served=False),
        ),
        destroys=True,
        role=Role.ADMIN,
    ),
    Action(
        About.INSTANCE,
        "undo-termination",
        "Cancel the termination",
        ("instance", "terminate", "--undo"),
        OperationWork(_undo_termination),
        role=Role.OPERATOR,
    ),
)
