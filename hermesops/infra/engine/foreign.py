"""Resources of plugins that are not ours: the pulumi CLI alone fetches and runs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermesops.errors import UsageError
from hermesops.infra.engine.choose import find_cli
from hermesops.infra.engine.options import pulumi_home


@dataclass(frozen=True)
class ForeignPlugin:
    """A provider plugin that hermesops does not ship.

    Attributes:
        package: First part of resource types, as ``aws``.
        version: Version of the Python package and of its plugin.
    """

    package: str
    version: str

    @property
    def install(self) -> str:
        """Return the command that installs the plugin."""
        return f"pulumi plugin install resource {self.package} v{self.version}"

    def folder(self, environment: Mapping[str, str]) -> Path:
        """Return the folder in which the CLI installs the plugin.

        Source: pulumi 3.259.0, sdk/go/common/workspace/plugins.go, ``PluginSpec.Dir``.
        """
        return pulumi_home(environment) / "plugins" / f"resource-{self.package}-v{self.version}"


def require_cli(kind: str, plugin: ForeignPlugin, environment: Mapping[str, str], *, command: str) -> None:
    """Return if a command can run a program with resources of such a plugin.

    Args:
        kind: What the settings ask for: ``cli``, ``embedded`` or ``auto``.
        environment: Of the engine's process.
        command: That would run it, as it is typed, for the error.

    Raises:
        UsageError: The embedded engine would run it, there is no CLI, or the CLI lacks the plugin.
    """
    name = f"pulumi-resource-{plugin.package}"
    if kind == "embedded" or find_cli(environment) is None:
        where = (
            "settings ask for the embedded engine" if kind == "embedded" else "there is none on PATH or in ~/.pulumi"
        )
        raise UsageError(
            f"{command} needs the pulumi CLI ({where}): it makes resources of {plugin.package}, whose plugin {name} "
            "no package registry has; the embedded engine runs hermesops' own plugin alone",
            hint=f"install the CLI (https://www.pulumi.com/docs/install/), run `{plugin.install}`, "
            "and leave pulumi.engine at auto or cli",
        )
    if not plugin.folder(environment).is_dir():
        raise UsageError(
            f"{command} needs plugin {name} {plugin.version}, which the pulumi CLI does not have yet",
            hint=f"run `{plugin.install}`; hermesops does not let the CLI download plugins",
        )
