"""Programs of Debian's packages for tests: unpacked and not installed, as they would run services on every computer."""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.suite.kept import shared_cache

PLATFORM = ("nginx", "prometheus", "prometheus-alertmanager", "libsnappy1v5")
"""What the platform's monitoring runs; Prometheus and Alertmanager bring promtool and amtool."""

REDIS = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")
"""Redis, and libraries that are on few computers."""


def unpacked(*packages: str) -> Path | None:
    """The root below which these packages are unpacked; ``None`` where they are not to be had."""
    root = shared_cache() / "debian"
    root.mkdir(parents=True, exist_ok=True)
    with (root.parent / "debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes want them at once
        missing = [name for name in packages if not is_unpacked(name)]
        return root if not missing or _unpack(missing, root) else None


def is_unpacked(package: str) -> bool:
    """Whether a package is there."""
    return (shared_cache() / "debian" / ".unpacked" / package).exists()


def programs(package: str, program: str) -> Path | None:
    """The folder with a package's programs; ``None`` where they are not to be had.

    Args:
        program: One that is looked for on the path first.
    """
    if on_path := shutil.which(program):
        return Path(on_path).parent
    root = unpacked(package)
    return root / "usr/bin" if root else None


def _unpack(packages: Sequence[str], root: Path) -> bool:
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
    if not (apt and dpkg):
        return False
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run([apt, "download", *packages], cwd=folder, capture_output=True, check=False)
        files = list(Path(folder).glob("*.deb"))
        if got.returncode or len(files) != len(packages):
            return False
        for file in files:
            subprocess.run([dpkg, "-x", file, root], check=True)
    (root / ".unpacked").mkdir(exist_ok=True)
    for name in packages:
        (root / ".unpacked" / name).touch()
    return True
