"""What a machine promises about its user's data: a volume of its own where one was ordered, and room in it.

Each look runs its commands first and judges afterwards; see ``Look``.
"""

from testinfra.host import Host

from hermesops.node.protocol import DATA_PATH, DATA_VARIABLE, GB, VARIABLES
from hermesops.verify.checks.promise import Expected, Promise, broken_unless, output_of

_FULL = 80
"""Per cent; the rest is for what is kept beside while a backup is put in place."""

_ENCRYPTED = "/dev/mapper/hermes-data"


def _volume(host: Host, _: Expected) -> str:
    ordered = host.run(f"grep -c '^{DATA_VARIABLE}=' {VARIABLES}").stdout.strip()
    mounted = host.run(f"findmnt --noheadings --output SOURCE --mountpoint {DATA_PATH}").stdout.strip()
    wanted = ordered.isdecimal() and int(ordered) > 0
    broken_unless(mounted or not wanted, f"a volume was ordered, and {DATA_PATH} is a folder of the machine's disk")
    if not mounted:
        return "a folder of the machine's disk, as ordered"
    return "encrypted" if mounted == _ENCRYPTED else f"mounted from {mounted}, not encrypted by the machine"


def _room(host: Host, _: Expected) -> str:
    shown = output_of(host, f"df --block-size=1 --output=pcent,ipcent,used,size {DATA_PATH}").split()[-4:]
    # A file system that makes inodes as it goes says "-".
    fullest = max(int(figure.rstrip("%")) for figure in shown[:2] if figure != "-")
    used, size = (int(figure) / GB for figure in shown[2:])
    seen = f"{used:.1f} of {size:.1f} GB used ({shown[0]}), inodes {shown[1]}"
    broken_unless(fullest < _FULL, seen)
    return seen


DATA_PROMISES = (
    Promise("volume", "data have a volume of their own", _volume, "runbooks/data-volume.md"),
    Promise(
        "disk",
        "the data have room",
        _room,
        "hermesops instance resize USER --plan heavy, or its user deletes some: runbooks/data-volume.md",
    ),
)
"""In the order in which a person wants to read them."""
