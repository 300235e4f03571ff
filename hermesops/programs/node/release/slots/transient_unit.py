"""Units of systemd that run something of a slot once, and are gone with the next boot at the latest.

They are made of the release's own unit, so that unit and slot are tried together.
"""

from collections.abc import Sequence
from pathlib import Path

from hermesops.programs.node.system import systemd
from hermesops.wire.errors import NotReadyError
from hermesops.wire.layout import UNIT

_FOLDER = Path("/run/systemd/system")

GATEWAY = "gateway run"
MIGRATION = "config migrate"
"""Words to the agent's program. Source: hermes-agent 0.19.0, ``hermes --help``."""

_MIGRATION_S = 120
_RUNNING = "=/opt/hermes/current/"
"""A unit names the folders that its release brings through the link to the running slot; this is another slot."""

_LEFT_OUT = ("ConditionPathExists=", "Restart", "ExecStart=", "ExecReload=")
_OF_SERVERS = ("Type=", "NotifyAccess=", "WatchdogSec=", "TimeoutStartSec=")


def unit_text(unit: str, slot: Path, words: str, *lines: str) -> str:
    """A unit that runs a slot's agent without the release's conditions, and does not restart it.

    ``words`` go to the agent's program, ``lines`` to ``[Service]``.

    Raises:
        NotReadyError: The release's unit is no service.
    """
    return _text(unit, slot, words, lines, _LEFT_OUT)


def migration_text(unit: str, slot: Path, *lines: str) -> str:
    """A unit that migrates the user's configuration to the schema that a release writes; it ends by itself.

    Raises:
        NotReadyError: The release's unit is no service.
    """
    once = ("Type=oneshot", f"TimeoutStartSec={_MIGRATION_S}")
    return _text(unit, slot, MIGRATION, (*once, *lines), (*_LEFT_OUT, *_OF_SERVERS))


def _text(unit: str, slot: Path, words: str, added: Sequence[str], left_out: tuple[str, ...]) -> str:
    lines = [line.replace(_RUNNING, f"={slot}/") for line in unit.splitlines() if not line.startswith(left_out)]
    if "[Install]" in lines:
        del lines[lines.index("[Install]") :]
    if "[Service]" not in lines:
        raise NotReadyError(f"{UNIT} of the release has no [Service]")
    at = lines.index("[Service]") + 1
    lines[at:at] = [
        "Restart=no",
        f"ExecStart={slot}/venv/bin/python -P -m hermes_cli.main {words}",
        f"Environment=HERMES_BUNDLED_SKILLS={slot}/skills VIRTUAL_ENV={slot}/venv",
        f"Environment=PATH={slot}/venv/bin:/usr/local/bin:/usr/bin:/bin",
        *added,
    ]
    return "\n".join(lines) + "\n"


def install(name: str, text: str) -> None:
    """Install a transient unit.

    Raises:
        NotReadyError: systemd does not read it.
    """
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / name).write_text(text, encoding="utf-8")
    systemd.systemctl("daemon-reload")


def remove(name: str) -> None:
    """Stop a transient unit and remove it; safe where there is none."""
    systemd.systemctl("stop", name, check=False)
    if (_FOLDER / name).exists():
        (_FOLDER / name).unlink()
        systemd.systemctl("daemon-reload", check=False)
