"""Units of systemd's that are there for one errand and gone with the next boot at the latest."""

from pathlib import Path

from hermesops.node.system import systemd

_FOLDER = Path("/run/systemd/system")


def lay(name: str, text: str) -> None:
    """Have systemd know a unit.

    Raises:
        NotReadyError: It does not read it.
    """
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / name).write_text(text, encoding="utf-8")
    systemd.systemctl("daemon-reload")


def take_away(name: str) -> None:
    """Stop it, if it runs, and have systemd forget it; safe where there is none."""
    systemd.systemctl("stop", name, check=False)
    if (_FOLDER / name).exists():
        (_FOLDER / name).unlink()
        systemd.systemctl("daemon-reload", check=False)
