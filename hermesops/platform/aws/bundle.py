"""The platform on AWS: whether its program can run here, and the bundle that its hosts are made from."""

import asyncio
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.base.extras import Extra, require
from hermesops.base.narration import Reporter
from hermesops.infra.engine.foreign import ForeignPlugin, require_cli
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from hermesops.machines.image.bundles.platform import Bundle
    from hermesops.machines.release.signing import ReleaseKey


def require_pulumi(env: Environment, verb: str) -> None:
    """Return if the platform's program can run here; that of a local world always can.

    Args:
        verb: What is asked for, ``preview`` or ``up``.

    Raises:
        UsageError: It is for AWS, and extra ``aws``, the pulumi CLI or its plugin of AWS is missing.
    """
    if not env.is_local:
        command = f"stack {verb} platform"
        require(Extra.AWS, command)
        require_cli(env.settings.pulumi.engine, aws_plugin(), env.variables, command=command)


def aws_plugin() -> "ForeignPlugin":
    """The plugin that the program's resources need."""
    return ForeignPlugin("aws", metadata.version("pulumi-aws"))


async def write_bundle(
    env: Environment, release_key: "ReleaseKey", report: Reporter, target: Path, *, has_logs: bool
) -> "Bundle":
    """Write the bundle that hosts on AWS make themselves from, signed with the key of releases.

    Args:
        target: Folder in which one of the bundle's version is made.
        has_logs: Whether Loki is in it; it may have to be built from source.

    Raises:
        RefusedError: Nobody signs releases in this environment, or a wheel is not what is locked.
        UnavailableError: The package index does not answer.
    """
    from hermesops.infra.stacks.platform.aws.hosts.user_data import FOLDER, SIGNATURE_NAMESPACE
    from hermesops.machines.image.bundles import platform as platform_bundle
    from hermesops.platform.image.bundles import control_bundle_of, router_wheels
    from hermesops.platform.local.world import loki_of
    from hermesops.platform.parts.control import host_proof
    from hermesops.programs.ingest import build as ingest
    from hermesops.programs.model_router import build as router

    sign = partial(release_key.sign, namespace=SIGNATURE_NAMESPACE)
    await asyncio.to_thread(release_key.find)  # refuses before anything is fetched
    control = await asyncio.to_thread(control_bundle_of, env, report)
    wheels = await asyncio.to_thread(router_wheels, env, report)
    parts: dict[str, Path | bytes] = {
        platform_bundle.CONTROL: control.file,
        "hermes-ingest": ingest.zipapp(),
        "hermes-router.pyz": router.zipapp(),
        "router-wheels.tar": wheels,
    }
    variables = {
        "hermes_platform_control_bundle": f"{FOLDER}/bundle/{platform_bundle.CONTROL}",
        "hermes_platform_control_version": control.version,
        "hermes_platform_llm_router_program": f"{FOLDER}/bundle/hermes-router.pyz",
        "hermes_platform_llm_router_wheels": f"{FOLDER}/bundle/router-wheels.tar",
        "hermes_platform_monitoring_ingest": f"{FOLDER}/bundle/hermes-ingest",
    }
    # Processes there check approvals, and prove who they are, as an operator's computer does.
    proof = host_proof(env)
    for name in ("allowed_signers", "revoked_signers"):
        if proof[name]:
            parts[name] = Path(proof[name])
            proof[name] = f"{FOLDER}/bundle/{name}"
    variables |= {f"hermes_platform_control_{name}": value for name, value in proof.items()}
    if has_logs:
        parts["loki"] = await loki_of(env, report)
        variables["hermes_platform_monitoring_loki"] = f"{FOLDER}/bundle/loki"
    version = metadata.version("hermesops")
    return await asyncio.to_thread(platform_bundle.write, target, version, parts, variables, sign)
