"""The Pulumi program of a platform on AWS, from settings and from the stack's file."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from hermesops.base import assets
from hermesops.base.extras import Extra, require
from hermesops.errors import Hint, UsageError
from hermesops.infra.stacks.platform.served_console import served_console
from hermesops.infra.stacks.platform.spec import PROJECT, Place, PlatformSpec, read_sizes
from hermesops.infra.stacks.platform.users_half import users_half
from hermesops.machines.converge.variables import literal
from hermesops.platform.parts.control import handed_settings
from hermesops.settings.environment import Environment

_LONGEST_NAME = 16
"""Characters of an environment's name: a load balancer's has 32, with ``hermesops-`` before it and a word behind."""


def aws_program(env: Environment, backend: str) -> Callable[[], Any]:
    """The Pulumi program of an environment's platform.

    Args:
        backend: URL of Pulumi's state.

    Raises:
        UsageError: Extra ``aws`` is missing, the settings say too little, or the stack's file is missing or wrong.
    """
    require(Extra.AWS, "the stack of a platform on AWS")
    from hermesops.infra.stacks.platform.aws.functions import read_sources
    from hermesops.infra.stacks.platform.aws.program import AwsPlatformProgram

    return AwsPlatformProgram(platform_spec(env, backend), read_sources())


def platform_spec(env: Environment, backend: str) -> PlatformSpec:
    """Read the specification of an environment's platform on AWS; raises as ``aws_program``."""
    from hermesops.infra.stacks.platform.aws.hosts.user_data import refuse_long

    file = assets.folder("pulumi") / PROJECT / f"Pulumi.{env.name}.yaml"
    place = _place(env, backend)
    if not file.exists():
        raise UsageError(
            f"environment {env.name} has no file {file}", hint="pulumi/platform/README.md describes the file"
        )
    spec = PlatformSpec(place, read_sizes(file.read_text(), str(file)), literal(handed_settings(env)))
    served_console(spec, users_half(spec))  # refuses names that no load balancer can have
    refuse_long(spec)
    return spec


def _place(env: Environment, backend: str) -> Place:

    platform, state = env.settings.platform, urlsplit(backend)
    if not platform.account or not platform.region:
        raise UsageError(
            f"environment {env.name} has no platform.account and platform.region", hint=Hint(("settings", "show"))
        )
    if state.scheme != "s3":
        raise UsageError(
            f"environment {env.name} keeps Pulumi's state in {backend}, not in a bucket",
            hint=Hint(("platform", "bootstrap"), "creates one, and prints the value of pulumi.backend"),
        )
    if not env.name.isalnum():
        raise UsageError(f"environment {env.name} cannot be on AWS: names of buckets take letters and digits alone")
    if len(env.name) > _LONGEST_NAME:
        raise UsageError(
            f"environment {env.name} cannot be on AWS: with more than {_LONGEST_NAME} characters it is too long for "
            "names of load balancers"
        )
    return Place(env.name, platform.account, platform.region, state.netloc)
