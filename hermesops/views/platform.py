"""Shapes of the shared platform: its services, connection, restores, bundles and bootstrap."""

from typing import TYPE_CHECKING, Any

from hermesops.model.fleet.cell import PLATFORM
from hermesops.views import stacks
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermesops.infra.stacks.platform.outputs import PlatformOutputs
    from hermesops.machines.image.bundles.platform import Bundle
    from hermesops.platform.bootstrap.decide import Step
    from hermesops.platform.bootstrap.runner import Preview
    from hermesops.platform.bootstrap.spec import BootstrapSpec
    from hermesops.platform.connection.connect import Connected, Disconnected
    from hermesops.platform.connection.settings import SettingChange
    from hermesops.platform.restore import Restored
    from hermesops.platform.services import ServiceLog
    from hermesops.platform.stack import PlatformUp
    from hermesops.platform.state import HostState, ServiceState


def show(
    outputs: "PlatformOutputs[str] | None", links: "Mapping[str, str]", host: "HostState | None", *, connected: bool
) -> dict[str, Any]:
    """A platform; ``outputs`` are null where it has no stack, ``services`` and more where it is on no single host."""
    state: dict[str, Any] = {"services": None, "versions": None, "database_backup": None, "certificate_until": None}
    if host:
        state = {
            "services": services(host.services),
            "versions": dict(host.versions),
            "database_backup": timestamp(host.database_backup),
            "certificate_until": timestamp(host.certificate_until),
        }
    healthy = host.is_healthy if host else None
    addresses = {"outputs": outputs.by_name() if outputs else None, "links": dict(links)}
    return {**addresses, "connected": connected, "healthy": healthy, **state}


def services(service_states: "Sequence[ServiceState]") -> list[dict[str, object]]:
    """JSON objects of a host's services: state, health and restarts."""
    return [
        {"service": service.name, "state": service.state, "healthy": service.is_healthy, "restarts": service.restarts}
        for service in service_states
    ]


def logs(service_logs: "Sequence[ServiceLog]") -> list[dict[str, object]]:
    """Logs of services; ``problem`` says why one could not be read."""
    return [
        {
            "service": log.service,
            "lines": list(log.lines),
            "problem": log.problem.message if log.problem else None,
        }
        for log in service_logs
    ]


def changes(setting_changes: "Sequence[SettingChange]") -> list[dict[str, object]]:
    """JSON objects of settings that ``platform connect`` changes."""
    return [
        {"setting": change.name, "before": change.before or None, "after": change.after} for change in setting_changes
    ]


def connected(setting_changes: "Sequence[SettingChange]", done: "Connected") -> dict[str, object]:
    """The result of ``platform connect``: changed settings, and what was copied."""
    return {
        "settings": changes(setting_changes),
        "rows": done.rows,
        "epoch": done.epoch,
        "files": done.files,
        "moves_backups": done.moves_backups,
        "audit": done.audit or None,
    }


def disconnected(done: "Disconnected") -> dict[str, object]:
    """The result of ``platform connect --undo``: the epoch that began, and the state of the audit."""
    return {"epoch": done.epoch, "audit": done.audit}


def restored(done: "Restored") -> dict[str, object]:
    """A database that was restored to a moment; ``epoch`` is null where none began."""
    return {
        "restored_to": done.target,
        "set_aside": done.set_aside,
        "epoch": done.epoch or None,
        "seconds": done.seconds,
        "audit": done.audit.told if done.audit else None,
    }


def bundle(host_bundle: "Bundle") -> dict[str, object]:
    """A bundle from which hosts on AWS set themselves up."""
    return {"version": host_bundle.version, "folder": str(host_bundle.folder), "bytes": host_bundle.bytes}


def up(done: "PlatformUp") -> dict[str, object]:
    """A run of the platform's stack, and of the roles on its host."""
    return {
        "stack": PLATFORM,
        "machine": done.machine or None,
        "image": done.image or None,
        "changes": stacks.changes(done.stack.changes),
        "changed": list(done.changed),
        "seconds": done.seconds,
        "outputs": dict(done.stack.outputs),
        "links": dict(done.links),
    }


def bootstrap(spec: "BootstrapSpec", preview: "Preview", done: "Sequence[Step]") -> dict[str, object]:
    """The steps that prepared a cloud account, and the names of everything in it."""
    return {"done": steps(done), "notes": list(preview.notes), **_account(spec)}


def bootstrap_preview(spec: "BootstrapSpec", preview: "Preview") -> dict[str, object]:
    """The caller that would prepare a cloud account, and the names of everything in it."""
    return {"caller": preview.caller, "notes": list(preview.notes), **_account(spec)}


def steps(bootstrap_steps: "Sequence[Step]") -> list[dict[str, object]]:
    """Steps of a bootstrap, with the thing that each makes or mends."""
    return [{"thing": step.thing, "step": step.action.value} for step in bootstrap_steps]


def _account(spec: "BootstrapSpec") -> dict[str, object]:
    from hermesops.platform.bootstrap.spec import PipelineRole

    return {
        "account": spec.account,
        "region": spec.region,
        "backend": spec.backend_url,
        "key": spec.alias,
        "preview_role": spec.role_arn(PipelineRole.PREVIEW),
        "apply_role": spec.role_arn(PipelineRole.APPLY),
        "boundary": spec.policy_arn(spec.boundary),
    }
