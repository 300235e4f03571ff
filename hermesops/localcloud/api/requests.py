"""Parses requests of callers. Pure: bytes in, checked values out.

Unknown fields are ignored without a word, as the vendor is believed to do.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from hermesops.localcloud.api.problem import Problem, location_disabled
from hermesops.localcloud.fleet.catalog import PROVIDER, REGIONS, SERVER_TYPES, ServerType

_NAME_LIMIT = 128
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DAY_S = 24 * 3600


@dataclass(frozen=True)
class MachineOrder:
    """A checked body of ``POST /machines``."""

    server_type: ServerType
    region: str
    name: str
    image_id: str | None
    env: Mapping[str, str] = field(repr=False)
    init_script: str = field(repr=False)
    backups: bool
    ssh_key_ids: tuple[str, ...] = ()


def object_of(body: bytes) -> Mapping[str, object]:
    """A JSON object; an empty body is an empty one.

    Raises:
        Problem: 400, it is no JSON object.
    """
    try:
        value = json.loads(body) if body else {}
    except ValueError as error:
        raise Problem(400, "The body is not JSON") from error
    if not isinstance(value, dict):
        raise Problem(400, "The body is not a JSON object")
    return value


def machine_order(body: Mapping[str, object]) -> MachineOrder:
    """Check an order for a machine.

    Raises:
        Problem: 400 for a field that is missing or of the wrong kind, 422 for an order that the catalog lacks.
    """
    server_type, region = text(body, "server_type"), text(body, "region")
    if text(body, "provider", PROVIDER) != PROVIDER or region not in REGIONS:
        raise location_disabled()
    if server_type not in SERVER_TYPES:
        raise Problem(422, f"unknown server type {server_type!r}")
    env = body.get("env_vars") or {}
    if not isinstance(env, dict) or not all(isinstance(v, str) and _VARIABLE.fullmatch(k) for k, v in env.items()):
        raise Problem(400, "env_vars: an object of strings is expected")
    return MachineOrder(
        server_type=SERVER_TYPES[server_type],
        region=region,
        name=text(body, "name", ""),
        image_id=None if body.get("image_id") is None else _uuid("image_id", body["image_id"]),
        env=env,
        # Both names are in use among callers, and it is not known which one the vendor reads.
        init_script=text(body, "cloud_init_script", "") or text(body, "startup_script", ""),
        backups=_flag(body, "enable_backups"),
        ssh_key_ids=_uuids(body, "ssh_key_ids"),
    )


def token_order(body: Mapping[str, object]) -> tuple[str, str, int]:
    """Machine id, label and lifetime in seconds from a body of ``POST /proxy-tokens``."""
    seconds = body.get("expires_in_seconds", 7 * _DAY_S)
    if isinstance(seconds, float) and seconds.is_integer():
        seconds = int(seconds)
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 1:
        raise Problem(400, "expires_in_seconds: a positive number is expected")
    return text(body, "machine_id"), text(body, "label", ""), seconds


def text(body: Mapping[str, object], name: str, default: str | None = None) -> str:
    """A field that holds text; required when there is no default."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value):
        raise Problem(400, f"{name}: text is expected")
    if name == "name" and len(value) > _NAME_LIMIT:
        raise Problem(400, f"name: at most {_NAME_LIMIT} characters")
    return value


def _flag(body: Mapping[str, object], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Problem(400, f"{name}: true or false is expected")
    return value is True


def _uuids(body: Mapping[str, object], name: str) -> tuple[str, ...]:
    values = body.get(name) or []
    if not isinstance(values, list):
        raise Problem(400, f"{name}: a list of UUIDs is expected")
    return tuple(_uuid(name, value) for value in values)


def _uuid(name: str, value: object) -> str:
    try:
        return str(UUID(str(value)))
    except ValueError as error:
        raise Problem(400, f"{name}: a UUID is expected") from error
