"""What a machine's shell finds of units that are not ours, and that the lists of ours are what the roles write."""

import re
import subprocess
from pathlib import Path

import pytest

from hermesops.machines.verify.checks import foreign_units
from hermesops.machines.verify.checks.machine import DROP_INS
from hermesops.vendor.channel import detached_scripts

TOP = Path(__file__).parents[4]
ROLES = re.findall(r"role: (\w+)", (TOP / "ansible/playbooks/instance.yml").read_text())
TASKS = "\n".join(path.read_text() for role in ROLES for path in (TOP / "roles" / role / "tasks").glob("*.yml"))


def test_the_roles_units_are_known() -> None:
    templates = (path for role in ROLES for path in (TOP / "roles" / role / "templates").glob("*.j2"))
    written = {path.stem for path in templates if re.search(r"\.(service|timer|path|socket)$", path.stem)}
    assert written == foreign_units.OF_ROLES


def test_the_roles_drop_ins_are_known() -> None:
    written = re.findall(r"(?:dest|path): (/etc/systemd/system/[^/]+\.d/[^\s,]+)", TASKS)
    assert sorted(written) == sorted(DROP_INS)


def test_the_sweeper_of_detached_commands_is_known() -> None:
    assert f'sweeper="{detached_scripts.SWEEPER}${{' in detached_scripts.start("/f", "true", "1", "1", "1")


SYSTEMCTL = """#!/bin/sh
for last; do :; done
case $* in
  *ExecStart*) printf '{ path=/x ; argv[]=/x of %s ; ignore_errors=no }' "$last" ;;
  *) while [ "$1" != -- ]; do shift; done; shift; for name; do echo "Id=$name"; echo ActiveState=active; echo; done ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Its folders of units, and a systemctl."""
    for folder in ("run/systemd/transient", "etc/systemd/system/x.service.d", "usr/lib/systemd", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin/systemctl").write_text(SYSTEMCTL)
    (tmp_path / "bin/systemctl").chmod(0o755)
    return tmp_path


def listed(machine: Path) -> str:
    script = foreign_units._LIST.replace("/run/systemd/", f"{machine}/run/systemd/").replace("/etc/", f"{machine}/etc/")
    path = {"PATH": f"{machine}/bin:/usr/bin:/bin"}
    return subprocess.run(["/bin/sh", "-c", script], env=path, check=True, capture_output=True, text=True).stdout


def put(machine: Path, *names: str) -> None:
    for name in names:
        folder = machine / ("run/systemd/transient" if name.startswith("run-") else "etc/systemd/system")
        (folder / name).write_text("[Unit]\n")


def test_a_healthy_machine_has_none(machine: Path) -> None:
    put(
        machine,
        *foreign_units.OF_ROLES,
        "hermes-monitoring.target",
        "justavps-daemon.service",
        "snap.lxd.daemon.service",
    )
    for name in (
        "hermesops-sweep-hermesops-run-0a.timer",
        "hermesops-sweep-hermesops-run-0a.service",
        "session-3.scope",
    ):
        (machine / "run/systemd/transient" / name).touch()
    for name in ("hermes-firewall-guard.timer", "hermesops-run-0a.scope", "run-u7.scope"):
        (machine / "run/systemd/transient" / name).touch()
    (machine / "etc/systemd/system/dbus-org.freedesktop.timesync1.service").symlink_to("/usr/lib/systemd/x.service")
    (machine / "etc/systemd/system/ssh.service").symlink_to("/dev/null")
    assert listed(machine) == ""


def test_foreign_ones_come_with_their_command(machine: Path) -> None:
    put(machine, "run-u9.service", "run-u9.timer", "hermes-gatekeeper.service", "watch@.service", "a b;rm.service")
    output = listed(machine)
    names = re.findall(r"^Id=(.*)$", output, re.MULTILINE)
    assert names == ["run-u9.service", "run-u9.timer", "hermes-gatekeeper.service", "watch@*.service"]
    assert "\ncommand run-u9.service { path=/x ; argv[]=/x of run-u9.service ; ignore_errors=no }" in output


def test_of_very_many_not_all_are_asked_about(machine: Path) -> None:
    put(machine, *(f"run-u{number}.service" for number in range(200)))
    assert listed(machine).count("Id=") == 20
