"""Data of an instance that outlives the registry: its row, the password of its backups, the keys of its volumes.

It is kept sealed beside the backups; see decision 0070.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from hermesops.errors import BrokenInvariantError
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, UserId
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.recovered import Recovered
from hermesops.model.recovery.state import State

_VERSION = 1


@dataclass(frozen=True)
class VolumeKey:
    """The key of a data volume."""

    volume_id: str
    machine_id: MachineId
    key: str = field(repr=False)


@dataclass(frozen=True)
class RecoveryRecord:
    """An instance without its registry.

    Attributes:
        password: Of its backup repository; empty while it has none.
        backups: In that repository, newest first.
    """

    instance: Recovered
    password: str = field(repr=False)
    volumes: tuple[VolumeKey, ...] = field(repr=False)
    backups: tuple[Backup, ...]

    def to_text(self) -> str:
        """As it is sealed; equal records have equal texts."""
        instance = self.instance
        content = {
            "version": _VERSION,
            "instance": {
                **{name: getattr(instance, name) for name in _TEXTS},
                "epoch": instance.epoch,
                "created_at": instance.created_at.isoformat(),
                "settings": instance.settings.to_values(),
                "model_token_generation": instance.model_token_generation,
            },
            "password": self.password,
            "volumes": [asdict(volume) for volume in self.volumes],
            "backups": [
                {**vars(backup), "at": backup.at.isoformat(), "state": backup.state.to_json()}
                | {"checked_at": backup.checked_at.isoformat() if backup.checked_at else None}
                for backup in self.backups
            ],
        }
        return json.dumps(content, sort_keys=True, default=dict)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read one.

        Raises:
            ValueError: It is of another form; the message has none of it.
        """
        try:
            content = json.loads(text)
            described = {_VERSION: content["instance"]}[content["version"]]
            return cls(
                _instance(described),
                str(content["password"]),
                tuple(VolumeKey(**volume) for volume in content["volumes"]),
                tuple(map(_backup, content["backups"])),
            )
        except (BrokenInvariantError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ValueError("a recovery record of another form") from None


_TEXTS = (
    "id",
    "user_id",
    "user_alias",
    "plan",
    "status",
    "cell",
    "machine_id",
    "machine_name",
    "server_type",
    "region",
    "image_id",
    "api_server_key",
)


def _instance(raw: Mapping[str, Any]) -> Recovered:
    known = {setting.name for setting in fields(InstanceSettings)}
    settings = {name: value for name, value in raw["settings"].items() if name in known}
    return Recovered(
        id=InstanceId(raw["id"]),
        user_id=UserId(raw["user_id"]),
        user_alias=str(raw["user_alias"]),
        plan=Plan(raw["plan"]),
        status=InstanceStatus(raw["status"]),
        cell=CellName(raw["cell"]),
        epoch=int(raw["epoch"]),
        machine_id=MachineId(raw["machine_id"]),
        machine_name=MachineName(raw["machine_name"]),
        server_type=str(raw["server_type"]),
        region=str(raw["region"]),
        image_id=ImageId(raw["image_id"]) if raw["image_id"] else None,
        created_at=datetime.fromisoformat(raw["created_at"]),
        settings=InstanceSettings.from_values(settings),
        api_server_key=str(raw["api_server_key"]),
        model_token_generation=int(raw["model_token_generation"]),
    )


def _backup(raw: Mapping[str, Any]) -> Backup:
    checked_at = raw["checked_at"]
    times = {
        "at": datetime.fromisoformat(raw["at"]),
        "checked_at": datetime.fromisoformat(checked_at) if checked_at else None,
    }
    return Backup(**{**raw, **times, "state": State.from_json(raw["state"])})
