"""The files of a world: their paths, its base, and writing of keys and ``world.json``.

Keys are never kept in memory: each call reads or writes.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermesops.base.files.private_file import make_private_folder
from hermesops.errors import BrokenInvariantError, Hint


class WorldFiles:
    """The files of one world; everything else in its folder is the driver's.

    Attributes:
        world: Where the running world is reachable; absent while it is down.
        model_key: Signs instances' tokens of the model router.
        composio_key: Of the project at the world's Composio.
        provider_key: With it the platform's router asks the world's, as it would a model's provider.
        own_provider_keys: Of users at the world's stand-in of a model provider, a key a line.
        base: Names the base of the world's machines and images, once it has been up.
        lock: Held by the server; contains its process id.
        object_store: Folder of the object store's data and log.
        platform: Holds the id of the machine that the platform is on; absent while there is none.
        monitoring: There once monitoring has come up on it.
        date_shift: By how much the platform's service is to tell machines a wrong time; absent for not at all.
        object_store_key: The object store's root credential, in the format of AWS's programs.
        composio: Accounts and sessions at the stand-in of Composio.
        stripe: The account of the stand-in of Stripe; there once the world has come up with vendors.
        stripe_key: Opens the stand-in's API.
        stripe_secret: Signs the stand-in's events.
        telegram_token: Of the bot at the stand-in of Telegram.
        telegram_secret: Proves its updates.
        slack_token: Of the app at the stand-in of Slack; ``slack_secret`` proves its events.
        whatsapp_token: Of the number at the stand-in of WhatsApp; ``whatsapp_secret`` proves its reports.
        discord_token: Of the bot at the stand-in of Discord.
        whatsapp_key: Makes the digests that stand for telephone numbers.
        connector_key: Root of the secrets by which agents open their sockets.
        users_door: The door that takes reports of vendors; there once the world's platform serves users.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = folder / "world.json"
        self.api_key = folder / "api.key"
        self.model_key = folder / "model.key"
        self.provider_key = folder / "provider.key"
        self.own_provider_keys = folder / "own-provider.keys"
        self.composio_key = folder / "composio.key"
        self.composio = folder / "composio.json"
        self.database = folder / "world.db"
        self.base = folder / "base"
        self.lock = folder / "server.lock"
        self.log = folder / "server.log"
        self.object_store = folder / "object-store"
        self.platform = folder / "platform"
        self.monitoring = folder / "monitoring"
        self.date_shift = folder / "date-shift.json"
        self.model_usage = folder / "model-usage"
        self.object_store_key = folder / "object-store.key"
        self.stripe = folder / "stripe.json"
        self.stripe_key = folder / "stripe.key"
        self.stripe_secret = folder / "stripe.secret"
        self.telegram_token = folder / "telegram.token"
        self.telegram_secret = folder / "telegram.secret"
        self.slack_token = folder / "slack.token"
        self.slack_secret = folder / "slack.secret"
        self.whatsapp_token = folder / "whatsapp.token"
        self.whatsapp_secret = folder / "whatsapp.secret"
        self.whatsapp_key = folder / "whatsapp.key"
        self.discord_token = folder / "discord.token"
        self.connector_key = folder / "connector.key"
        self.users_door = folder / "users-door.json"

    @property
    def stripe_keys(self) -> tuple[Path, Path]:
        """Keys of the stand-in of Stripe."""
        return self.stripe_key, self.stripe_secret

    @property
    def messenger_keys(self) -> tuple[Path, ...]:
        """Keys of the stand-ins of messengers, and of agents' sockets."""
        slack, whatsapp = (self.slack_token, self.slack_secret), (self.whatsapp_token, self.whatsapp_secret)
        telegram = (self.telegram_token, self.telegram_secret)
        return (*telegram, *slack, *whatsapp, self.whatsapp_key, self.discord_token, self.connector_key)


PROVIDER_KEY = "sk_local_model_"
"""What the key of the world's model as a provider begins with."""

SIMULATED = "simulated"
"""Takes the place of a base's name in a world of simulated machines."""


def base_of(folder: Path) -> str:
    """The base of a world's machines; empty before its first start."""
    try:
        return WorldFiles(folder).base.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def is_simulated(folder: Path, driver: str = "") -> bool:
    """Whether a world's machines are simulated, or would be after its first start.

    Args:
        driver: The driver that is set for it; empty for none.
    """
    return (base_of(folder) or (SIMULATED if driver == "sim" else "")) == SIMULATED


def write_private(path: Path, data: bytes) -> None:
    """Replace a file at once, mode 0600 from its first byte; a reader sees the old or the new content."""
    make_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def key_of(path: Path, prefix: str) -> str:
    """Read the key in a file; a missing key is made, with 256 random bits.

    Args:
        prefix: First characters of a new key, so that people and scanners recognise it.
    """
    try:
        key = path.read_text().strip()
    except FileNotFoundError:
        key = ""
    if not key:
        key = prefix + secrets.token_urlsafe(32)
        write_private(path, key.encode() + b"\n")
    return key


_LOCAL_UP = Hint(("local", "up"), "writes it anew")
_STACK_UP = Hint(("stack", "up", "platform"), "writes it anew once the file is removed")


def read_object(path: Path, *, hint: Hint = _LOCAL_UP) -> dict[str, Any] | None:
    """A JSON object from a file; ``None`` if the file is missing. ``hint`` is the remedy for a damaged file.

    Raises:
        BrokenInvariantError: The content is no JSON object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BrokenInvariantError(f"{path} is damaged: {error}", hint=hint) from error
    if not isinstance(value, dict):
        raise BrokenInvariantError(f"{path} is damaged: it is not a JSON object", hint=hint)
    return value


def read_users_door(path: Path) -> dict[str, Any]:
    """What ``stack up platform`` wrote of the platform's door; empty where there is none.

    Raises:
        BrokenInvariantError: The file is damaged; ``local up`` leaves it as it is.
    """
    return read_object(path, hint=_STACK_UP) or {}


def write_object(path: Path, value: Mapping[str, object]) -> None:
    """Replace a file by a JSON object."""
    write_private(path, json.dumps(value, indent=2).encode() + b"\n")
