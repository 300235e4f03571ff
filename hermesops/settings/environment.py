"""A named set of settings with its folder: ``local``, ``staging``, ``production``.

An environment is a folder ``<home>/<environment>`` that holds its ``settings.toml``, keys and state. A value comes from
``HERMESOPS_<NAME>``, else from that file, else from the default.
"""

import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import SecretStr

from hermesops.base import child_environment
from hermesops.errors import UsageError
from hermesops.settings.checks import refuse_exposed, refuse_user_info
from hermesops.settings.fields import FIELDS, PREFIX, Settings, is_secret
from hermesops.settings.reading import read_file, read_variables, secrets_in, validated

LOCAL = "local"
"""The environment that is always there."""

FILE = "settings.toml"
"""Name of the settings file in an environment's folder."""


@dataclass(frozen=True)
class Environment:
    """A named set of settings with its folder.

    Attributes:
        folder: Holds settings.toml, keys/ and state of this environment.
        sources: Where each value came from: ``environment``, the file's path, or ``default``.
        variables: All that this process was given, secrets too; no child gets them, see ``for_child``.
        secrets: What variables ``HERMESOPS_SECRET_<NAME>`` hold, by name as the variable spells it.
    """

    name: str
    folder: Path
    settings: Settings
    sources: Mapping[str, str]
    variables: Mapping[str, str] = field(repr=False)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether its machines are this computer's own."""
        return self.name == LOCAL and not self.settings.api_url

    @property
    def is_production(self) -> bool:
        """Whether this environment serves real users: its name is ``production``."""
        return self.name == "production"

    @property
    def world(self) -> Path:
        """Folder of the local world, below the environment's folder."""
        return self.folder / "world"

    @property
    def keys(self) -> Path:
        """Folder of keys made on first use."""
        return self.folder / "keys"

    @property
    def cache(self) -> Path:
        """Folder of files that can be downloaded or built again."""
        return self.settings.cache or Path(self.variables["HOME"]) / ".cache" / "hermesops"

    def for_child(self, *names: child_environment.Names, added: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a program that is not ours; see ``child_environment.made``."""
        return child_environment.made(*names, variables=self.variables, added=added)

    def for_hermesops(self, *names: child_environment.Names, secrets: Collection[str] = ()) -> dict[str, str]:
        """The environment of another hermesops process: every plain setting, and the secret ones that it needs.

        Args:
            names: Lists of what it, or a program that it starts, needs beside settings.
            secrets: Variables that hold secrets, as ``HERMESOPS_API_KEY``, which it cannot work without.
        """
        ours = {
            name: text
            for name, text in self.variables.items()
            if name.startswith(PREFIX) and (name in secrets or not is_secret(name))
        }
        return self.for_child(*names, added={**ours, "HERMESOPS_ENV": self.name})

    @classmethod
    def load(cls, name: str = "", environ: Mapping[str, str] | None = None) -> Self:
        """Read one environment.

        Args:
            name: Which; empty takes ``HERMESOPS_ENV``, else ``local``.
            environ: The process's variables; a test passes its own.

        Raises:
            UsageError: An unknown key, a bad value, an unreadable file, a bad environment name, or an address outside
                the local world that is asked in the clear, or one with a password in it.
            RefusedError: The file holds a secret and others may read it.
        """
        name, folder, variables = _place(name, environ)
        return cls._of(name, folder, read_file(folder / FILE), variables, read_variables(variables))

    @classmethod
    def file(cls, name: str = "", environ: Mapping[str, str] | None = None) -> Path:
        """The settings.toml of an environment, which need not exist; as ``load``."""
        return _place(name, environ)[1] / FILE

    @classmethod
    def judged(
        cls, name: str, from_file: Mapping[str, object], environ: Mapping[str, str] | None = None, *, without: str
    ) -> Self:
        """An environment as it would be with other contents of its file; as ``load``.

        Args:
            without: A setting of which the variable does not count.
        """
        name, folder, variables = _place(name, environ)
        from_variables = {key: value for key, value in read_variables(variables).items() if key != without}
        return cls._of(name, folder, from_file, variables, from_variables)

    @classmethod
    def _of(
        cls,
        name: str,
        folder: Path,
        from_file: Mapping[str, object],
        variables: Mapping[str, str],
        from_variables: Mapping[str, object],
    ) -> Self:
        merged = {**from_file, **from_variables}
        sources = {
            key: "environment" if key in from_variables else str(folder / FILE) if key in from_file else "default"
            for key in FIELDS
        }
        refuse_user_info(merged, sources)
        env = cls(name, folder, validated(merged, sources), sources, variables, secrets_in(variables))
        refuse_exposed(env.settings, sources, is_local=env.is_local)
        return env


def _place(name: str, environ: Mapping[str, str] | None) -> tuple[str, Path, Mapping[str, str]]:
    """Name and folder of an environment, and the variables of the process."""
    variables = dict(os.environ if environ is None else environ)
    if "HOME" not in variables:
        variables["HOME"] = _home_of_this_user()
    name = name or variables.get("HERMESOPS_ENV", "") or LOCAL
    if not name.isidentifier() or name.lower() != name:
        raise UsageError(f"environment {name!r} is not a name: lower-case letters, digits and _ only")
    return name, _home_of_environments(variables) / name, variables


def _home_of_this_user() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # a container's user id need not have one
        raise UsageError(
            "this user has no home: neither HOME nor the user database names one",
            hint="set HOME to a folder this user may write to",
        ) from None


def _home_of_environments(variables: Mapping[str, str]) -> Path:
    value = variables.get("HERMESOPS_HOME", "")
    if not value:
        return Path(variables["HOME"], ".hermesops").absolute()
    if value == "~" or value.startswith("~/"):  # in quotes, in a unit of systemd or in a .env file no shell expands it
        value = variables["HOME"] + value[1:]
    home = Path(value)
    if not home.is_absolute():
        raise UsageError(
            f"HERMESOPS_HOME is {value!r}, another folder in each place where hermesops is started",
            hint=f"export HERMESOPS_HOME={shlex.quote(str(home.absolute()))}",
        )
    if home.exists() and not home.is_dir():
        raise UsageError(f"HERMESOPS_HOME is {value}, a file", hint="set HERMESOPS_HOME to a folder")
    return home
