"""Addresses and keys of JustAVPS's API and of the model router: from settings, or of the local world.

The local world writes its addresses to ``world.json``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.base.files.private_file import read_secret
from hermesops.errors import Hint, UnavailableError, UsageError
from hermesops.model.billing.metering import Meter
from hermesops.model.plan import Plan


@dataclass(frozen=True)
class Endpoint:
    """Addresses and keys of the vendor and of the model router.

    Attributes:
        api_url: Base URL of the API, with ``/api/v1``.
        api_key: Its bearer.
        api_key_file: The file it came from, for other programs; ``None`` when it came from a variable.
        router_url: The model router as machines reach it, with ``/v1``.
        broker_addresses: Of the vendor's broker, which machines' firewalls accept.
        daemon_port: Port of machines to which the broker connects.
        platform_url: The platform's service for machines; empty where there is none.
        issuer_url: The local world's issuer of users' tokens; empty where there is none.
        stripe_url: The local world's stand-in of Stripe; empty where there is none.
        stripe_prices: Plans by the stand-in's prices.
        stripe_meters: Names of the stand-in's events, by what they count; ``stripe_metered_prices`` are their prices.
        users_url: The local world's users' API; empty where there is none.
        door_url: The door of the local world's platform; empty while no users are served there.
        messengers: Settings of the bots at the local world's stand-ins of messengers; empty where there are none.
        phone_url: The local world's phone, which shows chats in messengers; empty where there is none.
        connector_url: The local world's connector as machines reach it; empty where there is none.
        model_provider_url: The local world's stand-in of a model provider for users' own keys, as machines and this
            computer reach it; empty where there is none.
        composio_url: The local world's Composio; empty where there is none.
        composio_key: Of its project.
    """

    api_url: str
    api_key: str = field(repr=False)
    api_key_file: Path | None
    router_url: str
    router_key_file: Path | None
    broker_addresses: tuple[str, ...]
    daemon_port: int
    platform_url: str = ""
    issuer_url: str = ""
    stripe_url: str = ""
    stripe_prices: Mapping[str, Plan] = field(default_factory=dict)
    stripe_meters: Mapping[Meter, str] = field(default_factory=dict)
    stripe_metered_prices: frozenset[str] = frozenset()
    users_url: str = ""
    door_url: str = ""
    messengers: Mapping[str, str] = field(default_factory=dict)
    phone_url: str = ""
    connector_url: str = ""
    model_provider_url: str = ""
    composio_url: str = ""
    composio_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Refuse a key that no request could carry.

        Raises:
            UsageError: It is not one word.
        """
        if not self.api_key or any(c.isspace() for c in self.api_key):
            where = self.api_key_file or "the setting api_key"
            raise UsageError(f"{where} does not hold one API key", hint=Hint(("settings", "show")))


def local_endpoint(world_file: Path) -> Endpoint:
    """The endpoint of the local world that wrote ``world_file``.

    Raises:
        UnavailableError: No world is up.
        UsageError: The file is damaged.
        RefusedError: Its key cannot be read, or may be read by others.
    """
    try:
        world = json.loads(world_file.read_text())
        key_file = Path(world["api_key_file"])
        return Endpoint(
            api_url=f"{world['api_url']}/api/v1",
            api_key=read_secret(key_file, what="API key"),
            api_key_file=key_file,
            router_url=world["model_base_url"],
            router_key_file=Path(world["model_secret_file"]),
            broker_addresses=(world["broker_address"],),
            daemon_port=int(world["daemon_port"]),
            platform_url=str(world.get("platform_url", "")),
            issuer_url=str(world.get("issuer_url", "")),
            stripe_url=str(world.get("stripe_url", "")),
            stripe_prices={price: Plan(plan) for price, plan in world.get("stripe_prices", {}).items()},
            stripe_meters={Meter(meter): name for meter, name in world.get("stripe_meters", {}).items()},
            stripe_metered_prices=frozenset(map(str, world.get("stripe_metered_prices", ()))),
            users_url=str(world.get("users_url", "")),
            door_url=_door_url(world_file.with_name("users-door.json")),
            messengers={str(name): str(value) for name, value in world.get("messengers", {}).items()},
            phone_url=str(world.get("phone_url", "")),
            connector_url=str(world.get("connector_url", "")),
            model_provider_url=str(world.get("model_provider_url", "")),
            composio_url=str(world.get("composio_url", "")),
            composio_key=_composio_key(world),
        )
    except FileNotFoundError:
        raise UnavailableError("the local world is not up", hint=Hint(("local", "up"))) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read {world_file}: {error}", hint=Hint(("local", "up"), "writes it anew")) from error


def _door_url(file: Path) -> str:
    """The door that a world's file names; empty without one."""
    try:
        return str(json.loads(file.read_text())["url"])
    except FileNotFoundError:
        return ""


def _composio_key(world: Mapping[str, object]) -> str:
    file = world.get("composio_key_file")
    return read_secret(Path(str(file)), what="project key of the local Composio") if file else ""
