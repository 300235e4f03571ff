"""Where JustAVPS's API and the model router are, and the keys that open them: as set, or as the local world says.

The local world writes down where it is (``world.json``); nothing else in the code knows that it is a local one.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.errors import UnavailableError, UsageError


@dataclass(frozen=True)
class Endpoint:
    """What it takes to reach the vendor and to tell machines where models are.

    Attributes:
        api_url: Base URL of the API, with ``/api/v1``.
        api_key: Its bearer.
        api_key_file: The file it came from; what other programs are given. ``None`` when it came from a variable.
        router_url: The model router as machines reach it, with ``/v1``.
        router_key_file: The key that signs router tokens.
        broker_addresses: From where the vendor's broker speaks to machines; their firewall lets it in.
        daemon_port: To which port of a machine it speaks.
    """

    api_url: str
    api_key: str = field(repr=False)
    api_key_file: Path | None
    router_url: str
    router_key_file: Path | None
    broker_addresses: tuple[str, ...]
    daemon_port: int


def local_endpoint(world_file: Path) -> Endpoint:
    """The endpoint of the local world that wrote ``world_file``.

    Raises:
        UnavailableError: No world is up.
        UsageError: The file is damaged.
    """
    try:
        world = json.loads(world_file.read_text())
        key_file = Path(world["api_key_file"])
        return Endpoint(
            api_url=f"{world['api_url']}/api/v1",
            api_key=read_key(key_file, what="API key"),
            api_key_file=key_file,
            router_url=world["model_base_url"],
            router_key_file=Path(world["model_secret_file"]),
            broker_addresses=(world["broker_address"],),
            daemon_port=int(world["daemon_port"]),
        )
    except FileNotFoundError:
        raise UnavailableError("the local world is not up", hint="hermesops local up") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read {world_file}: {error}", hint="hermesops local up writes it anew") from error


def read_key(file: Path, *, what: str) -> str:
    """The one line of a key file.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the {what} in {file}: {error}", hint="hermesops settings show") from error
    if not key or any(c.isspace() for c in key):
        raise UsageError(f"{file} does not hold one {what}", hint="hermesops settings show")
    return key
