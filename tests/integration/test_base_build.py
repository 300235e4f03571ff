"""Building the base, with a mmdebstrap that makes a tiny root: whole or not at all, once for all who ask at a time."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from hermesops.errors import UnavailableError
from hermesops.localcloud.drivers.nspawn.disks.base_image import BaseDefinition, ensure_base
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.machines, pytest.mark.turns(15)]

DEFINITION = BaseDefinition("tiny", "bookworm", ("main",), ("dbus",), ("getty.target",), (), ())

MMDEBSTRAP = """#!/bin/sh
for word; do case "$word" in /*/root) root=$word;; esac; done
echo started >> {log}
mount -t tmpfs none /mnt || exit 9
while [ -e {hold} ]; do sleep 0.05; done
[ -e {fail} ] && {{ echo "E: no mirror today"; exit 25; }}
mkdir -p $root/etc/systemd/system $root/etc/ssh $root/etc/apt/apt.conf.d $root/root $root/tmp $root/var/lib/dpkg
echo secret > $root/etc/apt/apt.conf.d/99mmdebstrap
echo key > $root/etc/ssh/ssh_host_rsa_key
echo id > $root/etc/machine-id
printf '%s\\n' 'Package: dbus' 'Status: install ok installed' 'Version: 1.2' 'Architecture: all' \\
  'Maintainer: x' 'Description: x' \\
  > $root/var/lib/dpkg/status
"""


class Bench:
    """A cache folder and a mmdebstrap that waits while ``hold`` exists and fails while ``fail`` does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache, self.log, self.hold, self.fail = (folder / name for name in ("cache", "log", "hold", "fail"))
        tool = folder / "bin/mmdebstrap"
        tool.parent.mkdir()
        tool.write_text(MMDEBSTRAP.format(log=self.log, hold=self.hold, fail=self.fail))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")  # noqa: TID251 - the tool's own way in

    def built(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir() if not path.name.endswith(".lock"))

    def runs(self) -> int:
        return self.log.read_text().count("started") if self.log.exists() else 0


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    require(os.geteuid() == 0, "root")
    return Bench(tmp_path, monkeypatch)


def silent(_: str) -> None:
    """Say nothing."""


def test_a_base_is_built_once_and_holds_no_identity_and_no_way_to_a_mirror(bench: Bench) -> None:
    root = ensure_base(DEFINITION, bench.cache, silent)
    assert ensure_base(DEFINITION, bench.cache, silent) == root
    assert bench.runs() == 1
    assert (root / "etc/systemd/system/getty.target").readlink() == Path("/dev/null")
    left = [path for path in root.rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["status"]
    assert '"dbus": "1.2"' in (root.parent / "base.json").read_text()
    assert str(bench.cache) not in Path("/proc/mounts").read_text()


def test_a_failed_build_names_the_reason_and_leaves_nothing(bench: Bench) -> None:
    bench.fail.touch()
    with pytest.raises(UnavailableError, match="no mirror today") as caught:
        ensure_base(DEFINITION, bench.cache, silent)
    assert "apt update" in str(caught.value.hint)
    assert bench.built() == []
    bench.fail.unlink()
    assert ensure_base(DEFINITION, bench.cache, silent).is_dir()


def test_two_who_ask_at_once_get_one_base(bench: Bench) -> None:
    bench.hold.touch()
    roots: list[Path] = []
    threads = [
        threading.Thread(target=lambda: roots.append(ensure_base(DEFINITION, bench.cache, silent))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: bench.runs() == 1)
    bench.hold.unlink()
    for thread in threads:
        thread.join(20)
    assert len(roots) == 2
    assert bench.runs() == 1


def test_a_killed_build_leaves_no_mount_and_is_waited_for_and_replaced(bench: Bench) -> None:
    bench.hold.touch()
    program = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
        from pathlib import Path
        from tests.integration.test_base_build import DEFINITION, ensure_base, silent
        ensure_base(DEFINITION, Path({str(bench.cache)!r}), silent)
    """
    builder = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    wait_for(lambda: bench.runs() == 1)
    mounted = Path("/proc/mounts").read_text()
    assert " /mnt tmpfs" not in mounted
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    reports: list[str] = []
    rebuilt = threading.Thread(target=lambda: ensure_base(DEFINITION, bench.cache, reports.append))
    rebuilt.start()
    wait_for(lambda: bool(reports))
    assert "waiting" in reports[0]
    bench.hold.unlink()
    rebuilt.join(20)
    assert bench.runs() == 2
    assert bench.built() == [f"tiny-{DEFINITION.digest}"]


def wait_for(check: "object", limit_s: float = 20.0) -> None:
    assert callable(check)
    begun = time.monotonic()
    while not check():
        assert time.monotonic() - begun < limit_s
        threading.Event().wait(0.02)
