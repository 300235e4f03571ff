"""The program of an environment's platform on AWS."""

from collections.abc import Callable
from urllib.parse import urlsplit

from hermesops import assets
from hermesops.errors import Hint, UsageError
from hermesops.settings import Environment


def aws_program(env: Environment, engine: str) -> Callable[[], None]:
    """The program of an environment's platform, from its settings and ``pulumi/platform/Pulumi.<environment>.yaml``.

    Args:
        engine: ``cli`` or ``embedded``.

    Raises:
        UsageError: The embedded engine would run it, or settings or the file lack something.
    """
    from hermesops.stacks.platform.aws.functions import read_sources
    from hermesops.stacks.platform.aws.program import AwsPlatformProgram
    from hermesops.stacks.platform.spec import PROJECT, Place, PlatformSpec, read_sizes

    settings = env.settings
    if engine != "cli":
        raise UsageError(
            f"the platform of {env.name} is on AWS, whose plugin the embedded engine does not run",
            hint=Hint(
                "install the pulumi CLI and set HERMESOPS_PULUMI_ENGINE=cli, then", ("stack", "preview", "platform")
            ),
        )
    if not (settings.platform.account and settings.platform.region and settings.pulumi.backend.startswith("s3://")):
        raise UsageError(
            f"environment {env.name} has no platform.account, platform.region or s3:// pulumi.backend",
            hint=Hint(("platform", "bootstrap"), "makes what they name"),
        )
    name = f"Pulumi.{env.name}.yaml"
    file = assets.folder("pulumi") / PROJECT / name
    if not file.is_file():
        known = sorted(one.stem.removeprefix("Pulumi.") for one in file.parent.glob("Pulumi.*.yaml"))
        raise UsageError(
            f"there are no sizes for environment {env.name}: no {file}", hint=f"there are: {', '.join(known)}"
        )
    sizes = read_sizes(file.read_text(encoding="utf-8"), name)
    bucket = urlsplit(settings.pulumi.backend).netloc
    place = Place(env.name, settings.platform.account, settings.platform.region, bucket)
    return AwsPlatformProgram(PlatformSpec(place, sizes), read_sources())
