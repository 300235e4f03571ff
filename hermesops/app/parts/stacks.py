"""Pulumi: engines, states, programs and previews of stacks."""

from secrets import token_urlsafe
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from hermesops.agents.cells.changes.baselines import Baselines
    from hermesops.agents.cells.changes.saved_previews import SavedPreviews
    from hermesops.app.container import Container
    from hermesops.infra.engine.interface import Engine
    from hermesops.infra.engine.options import Program
    from hermesops.infra.stacks.fleet import CellPrograms
    from hermesops.model.fleet.cell import CellSpec
    from hermesops.platform.local.purge import WorldPurge
    from hermesops.platform.stack import HeldLease, PlatformStack


def engine(container: "Container") -> "Engine":
    """Runs the Pulumi programs of cells against this environment's state backend."""
    return _engine_at(container, container.pulumi_backend)


def platform_engine(container: "Container") -> "Engine":
    """Runs the Pulumi program of the platform; a local world has a backend of its own for it."""
    from hermesops.infra.engine.configuration import platform_backend_of

    backend = platform_backend_of(container.env)
    return container.engine if backend == container.pulumi_backend else _engine_at(container, backend)


def _engine_at(container: "Container", backend: str) -> "Engine":
    from hermesops.infra.engine import make_engine
    from hermesops.infra.engine.configuration import engine_config

    env = container.env
    config = engine_config(env, backend, container.pulumi_passphrase, lambda: container.registry)
    return make_engine(env.settings.pulumi.engine, config, production=env.is_production)


def pulumi_backend(container: "Container") -> str:
    """Folder or URL of Pulumi's state."""
    from hermesops.infra.engine.configuration import backend_of

    return backend_of(container.env)


def pulumi_passphrase(container: "Container") -> str:
    """The passphrase that encrypts secrets in Pulumi's state; made on first use."""
    from hermesops.access.secrets.catalog import PULUMI_PASSPHRASE
    from hermesops.infra.engine.configuration import passphrase_of

    return passphrase_of(container.env, lambda: container.secrets.made(PULUMI_PASSPHRASE, token_urlsafe(32)))


async def state_opens(container: "Container") -> str:
    """Open the state of one cell with the passphrase; raises as ``open_first_state``."""
    from hermesops.agents.cells.stack.state_repair import open_first_state

    return await open_first_state(container.registry, container.cell_stacks, container.pulumi_passphrase)


def programs(container: "Container") -> "CellPrograms":
    """Makes the Pulumi program of a cell from its rows and the settings."""
    from hermesops.infra.stacks.fleet import CellPrograms

    return CellPrograms(container.env.settings.data_gb)


def baselines(container: "Container") -> "Baselines":
    """Compares programs with those of main, without a secret."""
    from hermesops.agents.cells.changes.baselines import Baselines
    from hermesops.platform.aws.program import aws_program

    env = container.env

    def specs() -> "Iterator[CellSpec]":
        cells = container.registry.cells  # only now: a comparison on another computer makes no registry
        return (cells.spec(cell.name) for cell in cells.list())

    def platform() -> "Program | None":
        return aws_program(env, container.pulumi_backend) if env.settings.platform.account else None

    return Baselines(env.name, specs, container.programs, platform)


def saved_previews(container: "Container") -> "SavedPreviews":
    """Previews of cells' stacks that operators save and sign."""
    from hermesops.agents.cells.changes.saved_previews import SavedPreviews

    return SavedPreviews(container.env, lambda: container.engine.name)


def platform_previews(container: "Container") -> "SavedPreviews":
    """Previews of the platform's stack that operators save and sign."""
    from hermesops.agents.cells.changes.saved_previews import SavedPreviews

    return SavedPreviews(container.env, lambda: container.platform_engine.name)


def platform_lease(container: "Container", subject: str) -> "AbstractAsyncContextManager[HeldLease]":
    """The lease of a subject while the context lasts; none where the registry does not answer."""
    from hermesops.platform.without_registry import lease_or_none

    return lease_or_none(container.hold_lease, container.report, subject)


def aws_platform_stack(container: "Container") -> "PlatformStack":
    """The stack of the environment's platform on AWS; it needs no vendor."""
    from functools import partial

    from hermesops.platform.aws.bundle import require_pulumi
    from hermesops.platform.aws.program import aws_program
    from hermesops.platform.aws.served import wait_until_served
    from hermesops.platform.stack import PlatformStack

    async def make(state: "Mapping[str, Any]") -> "Callable[[], Any]":
        del state
        return aws_program(container.env, container.pulumi_backend)

    return PlatformStack(
        container.env.name,
        lambda: container.platform_engine,
        make,
        container.platform_previews,
        container.platform_lease,
        container.report,
        partial(require_pulumi, container.env),
        partial(wait_until_served, container.report),
    )


def world_purge(container: "Container") -> "WorldPurge":
    """Removes the local world, and its rows and stacks.

    Raises:
        RefusedError: The environment's machines are rented.
    """
    from hermesops.platform.local.purge import WorldPurge
    from hermesops.platform.local.world import world_of

    env = container.env

    def reopened() -> WorldPurge:
        return container.reopened().world_purge

    return WorldPurge(env, world_of(env), container.registry_place, container.report, reopened)
