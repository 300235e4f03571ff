"""hermesops's own walls around a build, for a machine that has its system's Python and bubblewrap and no hermesops.

``PACKED`` is unpacked in ``SOURCES``; ``RUN`` is a program that builds: its arguments are the limits as JSON and the
name of bubblewrap, its standard input is the ``setup.py``, and it prints an ``End`` as JSON.
"""

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermesops.base import assets

SOURCES = "/opt/walls"
_SOURCE = "machines/release/source"
_CODE = (
    "errors.py",
    *(f"{_SOURCE}/{name}.py" for name in ("archive", "inside", "isolation", "limits", "memory_scope")),
)
_PACKAGES = ("", "machines", "machines/release", _SOURCE)
RUN = f"""
import json, sys
sys.path.insert(0, "{SOURCES}")
from hermesops.errors import RefusedError
from hermesops.machines.release.source.archive import SourceFile
from hermesops.machines.release.source.isolation import PYTHON, Isolation
from hermesops.machines.release.source.limits import Limits
isolation = Isolation(Limits(**json.loads(sys.argv[1])), bwrap=sys.argv[2])
files = {{"source/setup.py": SourceFile(sys.stdin.buffer.read())}}
end = {{"counted": isolation.scope.limit_bytes if isolation.scope else 0}}
try:
    end["output"] = isolation.run("the build", [PYTHON, "-I", "setup.py"], files, {{}}).decode()
except RefusedError as error:
    end |= {{"refused": error.message, "hint": str(error.hint)}}
print(json.dumps(end))
"""


@dataclass(frozen=True)
class End:
    """The end of a build.

    Attributes:
        counted: The limit of its memory in bytes that systemd counted; 0 where it counted none.
        output: Of a build that succeeded.
        refused: Of one that did not, the message.
    """

    counted: int
    output: str = ""
    refused: str = ""
    hint: str = ""

    @classmethod
    def read(cls, text: str) -> "End":
        """Parse the output of ``RUN``."""
        return cls(**json.loads(text))


def command(limits: Mapping[str, float], *, bwrap: str = "bwrap", around: str = "") -> str:
    """A command that builds ``/run/setup.py`` with the program at ``/opt/build.py``."""
    return f"{around} python3 -I /opt/build.py '{json.dumps(limits)}' {bwrap} </run/setup.py"


def bubblewrap() -> bytes:
    """This computer's bubblewrap, as the base of machines has none; both are Debian 12 or newer."""
    return Path(shutil.which("bwrap") or "").read_bytes()


def packed() -> bytes:
    """The modules of the walls, without the packages around them, whose imports a machine lacks."""
    content, root = io.BytesIO(), assets.folder("roles").parent / "hermesops"
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in _CODE:
            archive.add(root / name, f"hermesops/{name}")
        for package in _PACKAGES:
            archive.addfile(tarfile.TarInfo(f"hermesops/{package}/__init__.py"), io.BytesIO())
    return content.getvalue()


UNPACK = f"mkdir -p {SOURCES} && tar -xf /run/walls.tar -C {SOURCES} && useradd -m builder"
"""Unpacks the modules, and adds a user without rights."""

LEFT = "find / -xdev \\( -name planted -o -name 'hermesops-kills-*' -o -path '/tmp/*' -newer /run/begun \\)"
"""Prints files of a build; ``/run/begun`` is older than it."""

RUNNING = "ps -eo args= | grep -e '[b]wrap --' -e '[s]etup.py' || true"
"""Prints processes of a build."""

LINGERS = """
import os, time
if not os.fork():
    os.setsid()
    time.sleep(4242)
time.sleep(4242)
"""
FORKS = "import os, time\nfor _ in range(99): os.fork() or time.sleep(60)"
FILLS = "open('/build/huge', 'wb').write(bytes(300 << 20))"
FILLS_MANY = "for number in range(20): open(f'/build/huge{number}', 'wb').write(bytes(8 << 20))"
