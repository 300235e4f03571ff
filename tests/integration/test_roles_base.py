"""Role hermes_base on a booted machine; the tests of one machine build on each other, in this order."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import HermesError
from hermesops.machines.converge import HostResult
from hermesops.model.ids import MachineId
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.converged import ConvergedWorld, converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(100)]

ROLE = ("hermes_base",)


@dataclass
class Applied:
    world: ConvergedWorld
    machine_id: MachineId
    user_after_check: int
    checked: HostResult
    first: HostResult
    second: HostResult

    async def run(self, command: str) -> str:
        done = await self.world.channel(self.machine_id).run(command)
        assert done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[ConvergedWorld]:
    require(os.geteuid() == 0, "root")
    async with converged_world() as world:
        yield world


@pytest.fixture(scope="module")
async def applied(world: ConvergedWorld) -> AsyncIterator[Applied]:
    variables = world.base_variables
    async with world.machine() as machine_id:
        checked = await world.apply(machine_id, ROLE, variables, check=True)
        user = (await world.channel(machine_id).run("id hermes")).exit_code
        first = await world.apply(machine_id, ROLE, variables)
        second = await world.apply(machine_id, ROLE, variables)
        yield Applied(world, machine_id, user, checked, first, second)


def test_check_mode_works_before_the_first_run_and_changes_nothing(applied: Applied) -> None:
    assert applied.checked.status == "done", applied.checked.failure
    assert applied.checked.changed
    assert applied.user_after_check != 0


def test_the_first_run_changes_and_the_second_does_not(applied: Applied) -> None:
    assert applied.first.status == "done", applied.first.failure
    assert applied.first.changed
    assert applied.second.changed == ()


async def test_the_agents_home_is_its_users_alone(applied: Applied) -> None:
    listed = await applied.run("cd /var/lib/hermes && stat -c '%n %U:%G %a' . cron sessions logs memories")
    assert listed.splitlines() == [
        f"{name} hermes:hermes 700" for name in (".", "cron", "sessions", "logs", "memories")
    ]
    assert "/usr/sbin/nologin" in await applied.run("getent passwd hermes")
    assert int(await applied.run("id -u hermes")) < 1000


async def test_strangers_are_dropped_and_loopback_is_not(applied: Applied) -> None:
    await applied.run("systemd-run --unit=listener python3 -m http.server 9999 --bind 0.0.0.0")
    try:
        inside = "for i in 1 2 3 4 5 6 7 8 9; do curl -s -o /dev/null 127.0.0.1:9999 && exit; sleep 0.3; done; exit 1"
        await applied.run(inside)
        address, _ = applied.world.driver.daemon_address(applied.machine_id)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.open_connection(str(address), 9999), 2)
    finally:
        await applied.run("systemctl stop listener")


async def test_sshd_is_masked_with_its_socket_and_silent(applied: Applied) -> None:
    states = await applied.run("systemctl is-enabled ssh.service ssh.socket; systemctl is-active ssh.service; true")
    assert states.split() == ["masked", "masked", "inactive"]
    assert ":22 " not in await applied.run("ss --no-header --listening --tcp --numeric")


async def test_kernel_settings_hold_where_the_kernel_takes_them(applied: Applied) -> None:
    assert await applied.run("cat /proc/sys/net/ipv4/conf/all/accept_redirects") == "0"


async def test_the_journal_is_bounded_and_kept(applied: Applied) -> None:
    settings = await applied.run("systemd-analyze cat-config systemd/journald.conf")
    assert "SystemMaxUse=500M" in settings
    assert await applied.run("ls -d /var/log/journal/$(cat /etc/machine-id)")


async def test_a_time_zone_set_by_hand_is_utc_again(applied: Applied) -> None:
    await applied.run("ln -sf /usr/share/zoneinfo/Europe/Berlin /etc/localtime && test $(env -u TZ date +%Z) != UTC")
    repaired = await applied.world.apply(applied.machine_id, ROLE, applied.world.base_variables)
    assert repaired.status == "done", repaired.failure
    assert await applied.run("env -u TZ date +%Z") == "UTC"


async def test_nothing_failed_to_start(applied: Applied) -> None:
    assert await applied.run("systemctl --failed --no-legend --plain") == ""


async def test_a_reboot_brings_the_rules_back_once_and_keeps_sshd_off(applied: Applied) -> None:
    before = await applied.run("cat /proc/sys/kernel/random/boot_id")
    loaded = await applied.run("nft list ruleset")
    await applied.world.cloud.http.post(f"/api/v1/machines/{applied.machine_id}/reboot")
    await _rebooted(applied, before)
    rules = await applied.run("nft list ruleset")
    assert rules == loaded
    assert (rules.count("table "), rules.count("policy drop")) == (1, 1)
    assert (await applied.run("systemctl is-enabled ssh.service || true")) == "masked"


async def test_presets_of_a_first_boot_do_not_open_the_machine(applied: Applied) -> None:
    await applied.run("systemctl preset ssh.service ssh.socket nftables.service hermes-firewall.service || true")
    units = "ssh.service ssh.socket nftables.service hermes-firewall.service"
    states = await applied.run(f"systemctl is-enabled {units}; true")
    assert states.split() == ["masked", "masked", "disabled", "enabled"]


async def test_whoever_breaks_the_glass_gets_sshd_on_loopback_with_keys_of_its_own(applied: Applied) -> None:
    await applied.run("rm -f /etc/ssh/ssh_host_* && systemctl unmask ssh.service && systemctl start ssh.service")
    listening = await applied.run("ss --no-header --listening --tcp --numeric sport = :22")
    assert {line.split()[3] for line in listening.splitlines()} == {"127.0.0.1:22", "[::1]:22"}


async def test_what_somebody_opened_by_hand_is_closed_again(applied: Applied) -> None:
    await applied.run("systemctl unmask ssh.service && systemctl start ssh.service && nft flush ruleset")
    repaired = await applied.world.apply(applied.machine_id, ROLE, applied.world.base_variables)
    assert any("mask both" in task for task in repaired.changed)
    assert (await applied.run("systemctl is-active ssh.service || true")) == "inactive"
    assert "policy drop" in await applied.run("nft list table inet hermes")


async def test_what_a_killed_run_wrote_holds_after_the_next_one(applied: Applied) -> None:
    # Files are as they should be, and newer than what was read of them.
    files = "/etc/hermes-firewall.nft /etc/systemd/journald.conf.d/50-hermes.conf"
    journal = "systemctl show --property=InvocationID --value systemd-journald.service"
    await applied.run("nft add rule inet hermes input tcp dport 9998 accept")
    await applied.run("systemctl unmask ssh.service && systemctl start ssh.service && systemctl mask ssh.service")
    await applied.run(f"for file in {files}; do cp -p $file $file.new && mv $file.new $file; done")
    before = await applied.run(journal)
    done = await applied.world.apply(applied.machine_id, ROLE, applied.world.base_variables)
    assert done.status == "done", done.failure
    assert "9998" not in await applied.run("nft list table inet hermes")
    assert (await applied.run("systemctl is-active ssh.service || true")).strip() == "inactive"
    assert await applied.run(journal) != before
    again = await applied.world.apply(applied.machine_id, ROLE, applied.world.base_variables)
    assert again.changed == ()


async def test_rules_that_lock_the_vendor_out_take_themselves_back(applied: Applied) -> None:
    wrong = {"hermes_base_broker_addresses": ["192.0.2.1"], "hermes_base_firewall_guard_seconds": 6}
    locked = await applied.world.apply(applied.machine_id, ROLE, {**applied.world.base_variables, **wrong})
    assert locked.status != "done"

    async def answers() -> str | Pending[str]:
        try:
            return await applied.run("nft list ruleset; systemctl is-enabled hermes-firewall.service || true")
        except HermesError as error:
            return Pending(error.message)

    assert await until(answers, what="the daemon to answer", timeout_s=60) == "disabled"
    repaired = await applied.world.apply(applied.machine_id, ROLE, applied.world.base_variables)
    assert repaired.status == "done", repaired.failure
    assert await applied.run("systemctl is-enabled hermes-firewall.service") == "enabled"


async def test_a_firewall_for_nobody_is_refused_before_anything_changes(applied: Applied) -> None:
    nobody = {**applied.world.base_variables, "hermes_base_broker_addresses": []}
    refused = await applied.world.apply(applied.machine_id, ROLE, nobody)
    assert refused.status == "failed"
    assert refused.failure is not None
    assert "hermes_base_broker_addresses is empty" in refused.failure.message
    assert refused.changed == ()


async def _rebooted(applied: Applied, before: str) -> None:
    async def observe() -> bool | Pending[bool]:
        try:
            now = await applied.run("cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait")
        except (HermesError, AssertionError) as error:
            return Pending(str(error))
        return Pending("the same boot") if before in now else True

    await until(observe, what="the reboot", timeout_s=60)
