"""Programs of Debian packages, unpacked and not installed: a server would run on every computer that tests run on."""

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path


def programs(package: str, program: str) -> Path | None:
    """The folder with a package's programs; ``None`` where they are not to be had.

    Args:
        program: One that is looked for on the path first.
    """
    if on_path := shutil.which(program):
        return Path(on_path).parent
    unpacked = Path(tempfile.gettempdir()) / "hermesops-test-cache" / package
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
    if (unpacked / "usr/bin" / program).exists():
        return unpacked / "usr/bin"
    if not (apt and dpkg):
        return None
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    with (unpacked.parent / f"{package}.lock").open("w") as lock, tempfile.TemporaryDirectory() as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        got = subprocess.run([apt, "download", package], cwd=folder, capture_output=True, check=False)
        packages = list(Path(folder).glob(f"{package}_*.deb"))
        if got.returncode or not packages:
            return None
        subprocess.run([dpkg, "-x", packages[0], unpacked], check=True)
    return unpacked / "usr/bin"
