"""The vendor's layer on every machine, between base and image: its daemon, units, host keys.

It is a layer of its own so that a machine booted from an older image gets today's daemon, as it does at the vendor.
"""

import hashlib
import os
import py_compile
import shutil
from pathlib import Path

_DAEMON = Path(__file__).resolve().parents[3] / "vendor_daemon"
_LAUNCHER = """#!/bin/sh
exec /usr/bin/python3 -I -S -c '
import runpy, sys
sys.path.insert(0, "/usr/local/lib/justavps")
runpy.run_module("justavps_daemon", run_name="__main__")
'
"""
_WANTED_BY = {
    "justavps-daemon.service": "sysinit.target",
    "justavps-init.service": "multi-user.target",
    "justavps-watchdog.timer": "timers.target",
}
_HOST_KEYS = """# Machines share a base without host keys; each makes its own at its first start of sshd.
[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c 'key=/etc/ssh/ssh_host_ed25519_key; test -e $$key || ssh-keygen -q -t ed25519 -N "" -f $$key'
ExecStartPre=/usr/sbin/sshd -t
"""


def ensure_vendor_layer(store: Path) -> Path:
    """The layer in ``store``, made first if the daemon has changed; older ones stay for the machines that use them."""
    sources = sorted((*_DAEMON.glob("*.py"), *(_DAEMON / "units").iterdir()))
    digest = hashlib.sha256((_LAUNCHER + _HOST_KEYS).encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    layer = store / f"vendor-{digest.hexdigest()[:12]}"
    if layer.is_dir():
        return layer
    making = store / f".{layer.name}.{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    _fill(making, sources)
    try:
        making.rename(layer)
    except OSError:  # another process was faster; the content is the same
        shutil.rmtree(making)
    return layer


def _fill(layer: Path, sources: list[Path]) -> None:
    program = layer / "usr/local/lib/justavps/justavps_daemon"
    units = layer / "etc/systemd/system"
    for folder in (
        program / "__pycache__",
        units / "ssh.service.d",
        layer / "usr/local/bin",
        layer / "var/lib/justavps",
    ):
        folder.mkdir(parents=True)
    for source in sources:
        target = (program if source.suffix == ".py" else units) / source.name
        shutil.copyfile(source, target)
        if source.suffix == ".py":
            # Unchecked: nobody edits it there, and a boot should not read each file twice.
            py_compile.compile(
                str(target), dfile=target.name, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
            )
    for unit, target_name in _WANTED_BY.items():
        wants = units / f"{target_name}.wants"
        wants.mkdir(exist_ok=True)
        (wants / unit).symlink_to(f"../{unit}")
    (units / "ssh.service.d/justavps.conf").write_text(_HOST_KEYS, encoding="utf-8")
    launcher = layer / "usr/local/bin/justavps-daemon"
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)
