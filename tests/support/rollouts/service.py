"""The service that starts rollouts over a registry, with one release that may be rolled out and no machine."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from hermesops.agents.instances.directory import Instances
from hermesops.agents.operator_requests.links import OperatorLinks
from hermesops.agents.rollout.operators.freezes import Freezes
from hermesops.agents.rollout.operators.service import RolloutCommands
from hermesops.agents.rollout.plan.checks import RolloutRequests
from hermesops.agents.rollout.records.directory import Rollouts as Directory
from hermesops.agents.rollout.service import Rollouts
from hermesops.settings.fields import Settings
from hermesops.store.operations.directory import OperationDirectory
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry
from tests.support.rollouts.rows import NEW


def rollouts_of(registry: Registry, prometheus: str = "") -> Rollouts:
    """The service; its release is ``NEW``."""
    lock = SimpleNamespace(id=NEW, node=SimpleNamespace(protocol=1))
    releases: Any = SimpleNamespace(find=lambda _: lock, refuse_revoked=lambda _: None, verify=lambda _: ())
    settings = Settings.model_validate({"prometheus_url": prometheus})
    env: Any = SimpleNamespace(name="local", settings=settings, is_local=True)
    client: Any = SimpleNamespace(channel=None)
    unused: Any = None
    operations = Operations(registry, {}, lambda _: None)
    requests = RolloutRequests(registry, releases, env.settings, lambda: None)
    return Rollouts(env, registry, requests, client, unused, lambda: operations, lambda _: None)


def connected_of(registry: Registry, instance_requests: object = None, dry_requests: object = None) -> Any:  # noqa: ANN401 - the parts of a worker, as far as actions use them
    """The parts with which a worker begins actions; no machine is asked.

    Args:
        instance_requests: Opens operations of instances.
        dry_requests: Does the same for previews; its operation is the preview.
    """
    service = rollouts_of(registry)

    async def no_losses(_: object) -> tuple[()]:
        return ()

    async def planned(operation: object) -> object:
        return operation

    container = SimpleNamespace(
        env=service.env,
        instances=Instances(registry),
        operation_directory=OperationDirectory(registry),
        rollouts=Directory(registry),
        freezes=Freezes(registry),
        now=registry.now,
        rollout_commands=RolloutCommands(service.env, registry),
        rollout_requests=service.requests,
        rollout_losses=SimpleNamespace(preview=no_losses),
        rollbacks=SimpleNamespace(preview_rollout=no_losses),
        termination_policy=SimpleNamespace(choose=lambda **_: None),
        operator_links=OperatorLinks(registry),
    )
    dry = SimpleNamespace(
        container=container, instance_requests=dry_requests, change_previews=SimpleNamespace(of=planned)
    )
    connected = SimpleNamespace(
        container=container,
        instance_requests=instance_requests,
        operations=service.operations(),
        rollouts=service,
        dry_run=lambda: dry,
    )
    container.connect = lambda: nullcontext(connected)
    return connected
