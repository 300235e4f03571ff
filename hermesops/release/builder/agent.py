"""What a wheel of the agent says of itself. It is read, never run."""

import io
import re
import zipfile
import zlib
from dataclasses import dataclass
from email.parser import HeaderParser

from hermesops.errors import RefusedError

PACKAGE = "hermes-agent"

_CONFIG = "hermes_cli/config.py"
_GATEWAY = "gateway/config.py"
_SCHEMA = re.compile(rb'^ {4}"_config_version": (\d+),', re.MULTILINE)
_WATCHDOG = b"systemd_watchdog_seconds"


@dataclass(frozen=True)
class Agent:
    """One version of the agent.

    Attributes:
        config_schema: ``_config_version`` of the user's file as it writes it.
        notifies: Whether it tells systemd that it is ready and alive.
    """

    version: str
    config_schema: int
    notifies: bool


def read_agent(wheel: str, content: bytes) -> Agent:
    """What a wheel says.

    Args:
        wheel: Its name, for people.
        content: Its bytes.

    Raises:
        RefusedError: It is damaged, not the agent's, or does not say which configuration it writes.

    Source:
        hermes-agent 0.18.2 and 0.19.0: ``DEFAULT_CONFIG["_config_version"]`` in ``hermes_cli/config.py``;
        ``gateway.systemd_watchdog_seconds`` came with 0.19.0, and before that nothing spoke to systemd.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if broken := archive.testzip():
                raise RefusedError(f"{wheel}: {broken} in it is damaged", hint="fetch the wheel again")
            about = _about(wheel, archive)
            config, gateway = archive.read(_CONFIG), archive.read(_GATEWAY)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise RefusedError(f"{wheel} is no whole wheel: {error}", hint="fetch the wheel again") from error
    except KeyError as error:
        raise RefusedError(f"{wheel} is no wheel of the agent: {error}", hint="name a wheel of hermes-agent") from error
    schema = _SCHEMA.search(config)
    if schema is None:
        raise RefusedError(
            f"{wheel} does not say which configuration it writes: no _config_version in {_CONFIG}",
            hint="it is read as 0.19.0 has it; an agent that says it elsewhere needs a newer hermesops",
        )
    return Agent(about["Version"], int(schema[1]), _WATCHDOG in gateway)


def _about(wheel: str, archive: zipfile.ZipFile) -> dict[str, str]:
    name = next((one for one in archive.namelist() if one.endswith(".dist-info/METADATA")), None)
    about = HeaderParser().parsestr(archive.read(name).decode() if name else "")
    if about["Name"] != PACKAGE or not about["Version"]:
        raise RefusedError(f"{wheel} is a wheel of {about['Name'] or 'nothing'}, not of {PACKAGE}")
    return dict(about.items())
