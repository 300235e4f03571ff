"""``hermesops platform bundle``: the signed bundle of hosts on AWS."""

from pathlib import Path
from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.views import platform as shapes


def bundle(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the folder of its version is made.")],
    no_logs: Annotated[
        bool, typer.Option("--no-logs", help="Without Loki, which has to be built from source once.")
    ] = False,
) -> None:
    """Write the signed bundle from which hosts on AWS set themselves up: hermesops, its roles and their packages.

    It is of the code that runs this command. Signed with the key of releases. Upload it as shown, then name its version
    in pulumi/platform/Pulumi.ENVIRONMENT.yaml.
    """
    from hermesops.platform.aws.bundle import write_bundle

    container = context.compose()
    host_bundle = context.run(
        write_bundle(container.env, container.release_key, container.report, folder, has_logs=not no_logs)
    )
    lines = [
        f"bundle {host_bundle.version}: {host_bundle.bytes / 1e6:.0f} MB in {host_bundle.folder}",
        f"  $ aws s3 cp --recursive {host_bundle.folder} s3://BUCKET-OF-RELEASES/platform/{host_bundle.version}/",
        f"  platform:host:  version: {host_bundle.version}",
    ]
    result("platform-bundle", shapes.bundle(host_bundle), lines)
