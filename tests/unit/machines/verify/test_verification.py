import asyncio
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testinfra.host import Host

from hermesops.base.waiting import pause
from hermesops.errors import Hint
from hermesops.machines.verify import verification
from hermesops.machines.verify.backend import answers_of, command_of, commands_of
from hermesops.machines.verify.checks.machine import DROP_INS
from hermesops.machines.verify.checks.promise import Expected, Promise, broken_unless
from hermesops.machines.verify.failure_catalog import Failure, Finding
from hermesops.machines.verify.verification import PROMISES, WITHOUT_USER, Verification, verify, verify_without_user
from hermesops.model.check import Check, Verdict
from hermesops.vendor.channel import Channel, Completed, MachineUnreachableError
from tests.support.fakes.machines.healthy_machine import HEALTHY, INSTANCE, KEY_DIGEST, PromisingMachine
from tests.support.real.machines.one_by_one import QUICK, verify_one_by_one
from tests.support.suite.cases import each_case

EXPECTED = Expected(INSTANCE, 1, KEY_DIGEST, "session-1")


def as_channel(machine: object) -> Channel:
    return machine  # type: ignore[return-value]  # a channel as far as it is used here


def failed(verification: Verification) -> list[str]:
    return [check.name for check in verification.checks if check.verdict is not Verdict.OK]


async def test_a_healthy_machine_keeps_every_promise_in_one_round_trip() -> None:
    machine = PromisingMachine()
    verification = await verify(as_channel(machine), EXPECTED)
    assert failed(verification) == []
    assert verification.is_ok
    assert [check.name for check in verification.checks] == [promise.name for promise in PROMISES]
    assert (verification.round_trips, len(machine.runs)) == (1, 1)


def test_a_known_failure_is_enough_to_be_not_ok() -> None:
    good = Check("api", Verdict.OK, "answers")
    assert Verification((good,), (), 1).is_ok
    assert not Verification((good,), (Finding(Failure.UNKNOWN_MODEL, "seen", Hint("hint")),), 1).is_ok


async def test_one_by_one_asks_often_and_sees_the_same() -> None:
    machine = PromisingMachine()
    slow, fast = await verify_one_by_one(as_channel(machine), EXPECTED), await verify(as_channel(machine), EXPECTED)
    assert slow.round_trips > 25
    assert (slow.checks, slow.findings) == (fast.checks, fast.findings)


def observe(path: str, value: object) -> Callable[[PromisingMachine], None]:
    """A break of what the observer sees."""
    group, _, name = path.partition(".")

    def apply(machine: PromisingMachine) -> None:
        if name:
            machine.observe[group][name] = value
        else:
            machine.observe[group] = value

    return apply


def sqlite_of(gateway: str, node: str) -> str:
    """What hermes-node says of SQLite."""
    return json.dumps({"pid": 7, "path": "/usr/lib/libsqlite3.so.0", "version": gateway, "node": node})


_PYTHON = "runuser -u hermes -- /opt"
"""The beginning of the command whose output names the Python of the slot."""


def says(beginning: str, code: int, output: str) -> Callable[[PromisingMachine], None]:
    """A break of what a command prints."""

    def apply(machine: PromisingMachine) -> None:
        rest = {other: answer for other, answer in machine.answers.items() if other != beginning}
        machine.answers = {beginning: (code, output), **rest}

    return apply


def unit(name: str, **values: str) -> Callable[[PromisingMachine], None]:
    """A break of what systemd shows."""
    return lambda machine: machine.units[name].update(values)


def turn(**values: object) -> Callable[[PromisingMachine], None]:
    """A break of a turn."""
    return lambda machine: machine.chat.update(values)


_OPEN_TO_ALL = (
    '{"nftables": [{"chain": {"hook": "input", "policy": "drop"}}, {"rule": {"expr": [{"match": {"op": "==", "left": '
    '{"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}, {"accept": null}]}}]}'
)

_IN = "nft --json list chain inet hermes input"
_OUT = "nft --json list chain inet hermes output"
_OUT_RULES = HEALTHY[_OUT][1]

BREAKS = [
    ("vendor-daemon", unit("justavps-daemon.service", ActiveState="inactive")),
    ("vendor-daemon", unit("justavps-daemon.service", UnitFileState="disabled")),
    ("gateway-service", unit("hermes-gateway.service", ActiveState="failed")),
    ("sandbox-socket", unit("hermes-sandbox.socket", ActiveState="inactive")),
    ("firewall-service", unit("hermes-firewall.service", UnitFileState="disabled")),
    ("firewall", says(_IN, 0, '{"nftables": [{"chain": {"hook": "input", "policy": "accept"}}]}')),
    ("firewall", says(_IN, 0, _OPEN_TO_ALL)),
    ("egress", says(_OUT, 0, '{"nftables": []}')),
    ("egress", says(_OUT, 0, _OUT_RULES.replace('"hook": "output"', '"hook": "input"'))),
    ("egress", says(_OUT, 0, _OUT_RULES.replace('"right": 3300', '"right": 33'))),
    ("egress", says(_OUT, 0, _OUT_RULES.replace('"169.254.0.0"', '"169.253.0.0"'))),
    ("egress", says(_OUT, 0, _OUT_RULES.replace('"fe80::"', '"fd80::"'))),
    ("egress", says(_OUT, 0, _OUT_RULES.replace('"op": "!="', '"op": "=="'))),
    ("egress", says(_OUT, 0, _OUT_RULES.replace('"reject"', '"counter"'))),
    ("sshd", unit("ssh.service", LoadState="loaded")),
    ("ports", says("ss ", 0, 'tcp LISTEN 0 128 0.0.0.0:80 0.0.0.0:* users:(("nginx",pid=5,fd=6))')),
    ("ports", says("ss ", 0, 'tcp LISTEN 0 128 [::]:9119 [::]:* users:(("python",pid=5,fd=6))')),
    ("units", says("systemctl list-units", 0, "logrotate.service loaded failed failed Rotate\n")),
    ("release", observe("release", {})),
    ("release", observe("release", {"id": "0.19.0-abc"})),
    ("release", observe("alive.version", "0.18.2")),
    ("machine-key", says("find /etc/hermes-node", 0, "/etc/hermes-node/machine.key\n")),
    ("machine-key", unit("hermes-identity.service", UnitFileState="disabled")),
    ("machine-key", unit("hermes-certificate.timer", ActiveState="inactive")),
    ("orders", unit("hermes-orders.timer", UnitFileState="disabled")),
    ("watch", unit("hermes-metrics.timer", ActiveState="inactive")),
    ("watch", unit("hermes-databases.timer", UnitFileState="disabled")),
    ("watch", unit("hermes-recovery.timer", ActiveState="failed")),
    ("exporter", unit("hermes-monitoring.target", ActiveState="inactive")),
    ("exporter", says("curl --silent --fail --max-time 10 http://127.0.0.1:9100", 7, "")),
    ("exporter", says("curl --silent --fail --max-time 10 http://127.0.0.1:9100", 0, "# of somebody else\n")),
    ("programs", says("find -H", 0, "/opt/hermes/current/venv/lib\n")),
    ("secrets", says("stat --format='%n %U:%G %a' /etc", 1, "/etc/hermes root:hermes 755\n")),
    ("home", says("stat --format='%n %U:%G %a' /var", 0, "/var/lib/hermes root:root 755\n")),
    ("home", says("stat --format='%n %U:%G %a' /var", 1, "/var/lib/hermes hermes:hermes 700\n")),
    ("identity", observe("identity", None)),
    ("identity", observe("identity.instance", "somebody-else")),
    ("identity", observe("identity.epoch", 2)),
    ("memory", unit("hermes-gateway.service", MemoryMax="infinity")),
    ("memory", unit("hermes-gateway.service", DropInPaths=f"{DROP_INS[0]} /run/systemd/system.control/y.conf")),
    ("drop-ins", says("stat --format=%n ", 1, "")),
    ("drop-ins", unit("hermes-gateway.service", DropInPaths="")),
    ("sandbox", unit("hermes-sandbox@verify.service", MemoryMax="infinity")),
    ("sandbox", says("ls /opt/hermes/current/venv", 0, "")),
    ("python", says(_PYTHON, 0, "unknown\nnothing\n")),
    ("python", says(_PYTHON, 0, "Python 3.11.2\n/usr/bin/python3.11\n/opt/hermes/releases/r/python/bin/python3.14\n")),
    ("python", says(_PYTHON, 0, "Python 3.11.2\n/usr/bin/python3.11\n/opt/hermes/releases/r/python\n")),
    ("hardening", unit("hermes-gateway.service", NoNewPrivileges="no")),
    ("journal", says("cat /etc/systemd/journald", 0, "[Journal]\n")),
    ("time-zone", says("env --unset=TZ date", 0, "CET\n")),
    ("backup", says("getent passwd hermes-backup", 2, "")),
    ("backup", says("getent passwd hermes-backup", 0, "hermes-backup:x:998:998::/nonexistent:/bin/sh\n")),
    ("backup", says("stat --format='%U %a' /usr/bin/restic", 1, "")),
    ("disk", says("df ", 0, "Use% IUse% Used 1B-blocks\n 80%  3% 32000000000 40000000000\n")),
    ("disk", says("df ", 0, "Use% IUse% Used 1B-blocks\n 9%  99% 1 40000000000\n")),
    ("volume", says("findmnt", 1, "")),
    ("api", observe("alive.status", 0)),
    ("key", observe("detailed.status", 401)),
    ("key", observe("key_digest", "e" * 64)),
    ("ready", observe("detailed.verdict", "degraded")),
    ("ready", observe("detailed.state", "draining")),
    ("sqlite", says("hermes-node sqlite", 0, sqlite_of("3.40.1", "3.53.4"))),
    ("sqlite", says("hermes-node sqlite", 0, sqlite_of("", "3.53.4"))),
    ("sqlite", says("hermes-node sqlite", 0, sqlite_of("3.53.4", "3.40.1"))),
    ("watchdog", observe("unit.WatchdogUSec", "0")),
    ("model", observe("model.has_key", False)),
    ("model", observe("model.router_status", 401)),
    ("model", observe("model.name", "claude-opus")),
    ("skills", observe("home.filesystem", "tmpfs")),
    ("skills", observe("home.used", "/root/.hermes")),
    ("skills", observe("home.skills", -1)),
    ("payload", observe("handed", value=False)),
    ("user-settings", observe("home.settings", -1)),
    ("user-settings", observe("home.settings", 0)),
    ("chat", turn(status=500, answered=False, error="no provider")),
    ("chat", turn(answered=False)),
    ("chat", turn(session_removed=False)),
]


GATEWAY_STARTS = "Starting hermes-gateway.service\nStarted hermes-gateway.service\n"
UNITS = "LC_ALL=C; export LC_ALL; set --"
RESTARTER = """Id=restarter.timer
ActiveState=active
InactiveExitTimestamp=Thu 2026-11-26 17:00:00 UTC
Unit=restarter.service

Id=restarter.service
ActiveState=inactive
InactiveExitTimestamp=

command restarter.timer \

command restarter.service { path=/bin/sh ; argv[]=/bin/sh -c while true; do restart; done ; ignore_errors=no ; }"""

WARNINGS = [
    ("starts", says("journalctl ", 0, GATEWAY_STARTS * 5), "started 5 times within ten minutes"),
    ("starts", says("journalctl ", 0, "Starting hermes-gateway.service\n" * 9), "started 9 times"),
    (
        "foreign-units",
        says(UNITS, 0, RESTARTER),
        "“restarter.timer” since “Thu 2026-11-26 17:00:00 UTC”: “/bin/sh -c while",
    ),
    (
        "foreign-units",
        says(
            UNITS,
            0,
            "Id=a@1.service\nActiveState=active\n\ncommand a@*.service { argv[]=/x \x1b[2J ; ignore_errors=no ; }",
        ),
        "foreign units: “a@1.service”: “/x \\x1b[2J”",
    ),
]


@pytest.mark.parametrize(("name", "break_it", "expected"), WARNINGS)
async def test_what_somebody_should_look_at_is_a_warning_and_breaks_no_promise(
    name: str, break_it: Callable[[PromisingMachine], None], expected: str
) -> None:
    machine = PromisingMachine()
    break_it(machine)
    verification = await verify(as_channel(machine), EXPECTED)
    (warned,) = (check for check in verification.checks if check.verdict is not Verdict.OK)
    assert (warned.name, warned.verdict) == (name, Verdict.WARNING)
    assert expected in warned.seen
    assert str(warned.hint)
    assert verification.is_ok


async def test_a_long_list_of_foreign_units_and_a_long_command_are_cut() -> None:
    block = "Id={0}.service\nActiveState=active\nInactiveExitTimestamp=\n\n"
    command = "\ncommand {0}.service {{ path=/x ; argv[]=/x " + "y" * 1900 + " ; ignore_errors=no ; }}"
    units = "".join(block.format(f"u{number}") for number in range(20))
    commands = "".join(command.format(f"u{number}") for number in range(20))
    machine = PromisingMachine()
    says(UNITS, 0, units + commands)(machine)
    (warned,) = (c for c in (await verify(as_channel(machine), EXPECTED)).checks if c.verdict is Verdict.WARNING)
    assert warned.seen.endswith(" and 15 more")
    assert len(warned.seen) < 1000


async def test_what_only_one_change_needs_of_starts_is_not_worth_a_look() -> None:
    machine = PromisingMachine()
    says("journalctl ", 0, GATEWAY_STARTS * 4)(machine)
    assert failed(await verify(as_channel(machine), EXPECTED)) == []


async def test_a_missing_drop_in_is_named_with_what_puts_it_back() -> None:
    machine = PromisingMachine()
    says("stat --format=%n ", 1, DROP_INS[1])(machine)
    (broken,) = (
        check for check in (await verify(as_channel(machine), EXPECTED)).for_user("ada") if not check.verdict.holds
    )
    assert broken.seen == "missing: /etc/systemd/system/hermes-gateway.service.d/data.conf"
    assert str(broken.hint) == "hermesops fleet converge ada"


@each_case(("name", "break_it"), BREAKS)
async def test_a_broken_promise_is_named(name: str, break_it: Callable[[PromisingMachine], None]) -> None:
    machine = PromisingMachine()
    break_it(machine)
    verification = await verify(as_channel(machine), EXPECTED)
    (broken,) = (check for check in verification.checks if check.name == name)
    assert broken.verdict is Verdict.FAILED
    assert str(broken.hint)
    assert not verification.is_ok


async def test_what_an_agent_says_of_itself_stands_in_marks() -> None:
    machine = PromisingMachine()
    observe("detailed.verdict", "ok hermes-node: all is well")(machine)
    verification = await verify(as_channel(machine), EXPECTED)
    (ready,) = (check for check in verification.checks if check.name == "ready")
    assert ready.seen.startswith("“ok hermes-node: all is well")
    assert ready.seen.endswith("”")


def test_every_promise_has_a_break_that_shows_it_can_fail() -> None:
    broken, warned = {name for name, _ in BREAKS}, {name for name, _, _ in WARNINGS}
    assert broken | warned == {promise.name for promise in PROMISES}
    assert not broken & warned


async def test_a_gateway_that_answers_before_systemd_calls_it_ready_runs() -> None:
    machine = PromisingMachine()
    machine.units["hermes-gateway.service"]["ActiveState"] = "activating"
    assert failed(await verify(as_channel(machine), EXPECTED)) == []


async def test_a_release_whose_unit_tells_systemd_nothing_is_not_watched_and_not_broken() -> None:
    machine = PromisingMachine()
    observe("unit.WatchdogUSec", "0")(machine)
    observe("unit.Type", "simple")(machine)
    assert failed(await verify(as_channel(machine), EXPECTED)) == []


async def test_what_could_not_be_looked_at_is_unknown_not_broken() -> None:
    machine = PromisingMachine()
    machine.answers = {beginning: answer for beginning, answer in HEALTHY.items() if beginning != "ss "}
    verification = await verify(as_channel(machine), EXPECTED)
    of = {check.name: check.verdict for check in verification.checks}
    assert (of["ports"], of["egress"]) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert failed(verification) == ["egress", "ports"]


async def test_a_command_that_does_not_end_is_unknown() -> None:
    machine = PromisingMachine()
    machine.too_slow = {"find -H"}
    verification = await verify(as_channel(machine), EXPECTED)
    assert failed(verification) == ["programs"]
    (programs,) = (check for check in verification.checks if check.name == "programs")
    assert programs.verdict is Verdict.UNKNOWN
    assert verification.round_trips == 1


class Unreachable(PromisingMachine):
    async def run(self, command: str, **_options: object) -> Completed:
        self.runs.append(command)
        raise MachineUnreachableError("machine m-1 does not answer")


class Refused(PromisingMachine):
    async def run(self, command: str, **_options: object) -> Completed:
        self.runs.append(command)
        raise MachineUnreachableError("502, an answer that is not JSON", hint=Hint(("instance", "list")))


class WithoutPython(PromisingMachine):
    async def run(self, command: str, **_options: object) -> Completed:
        self.runs.append(command)
        return Completed(127, b"", b"sh: 1: python3: not found")


@pytest.mark.parametrize("kind", [Unreachable, Refused, WithoutPython])
async def test_a_machine_that_does_not_answer_is_unknown_and_told_once(kind: type[PromisingMachine]) -> None:
    machine = kind()
    verification = await verify(as_channel(machine), EXPECTED)
    [check] = verification.checks
    assert check.verdict is Verdict.UNKNOWN
    assert "hermesops runbook show break-glass" in str(check.hint), "what to do, where a cut toolbox is the cause"
    assert (verification.findings, verification.is_ok, len(machine.runs)) == ((), False, 1)


class Hanging(Unreachable):
    """Answers nothing, and the channel gives a long command up late."""

    async def run(self, command: str, **options: object) -> Completed:
        if command != "true":
            await asyncio.Event().wait()
        return await super().run(command, **options)


async def test_a_machine_that_does_not_answer_is_given_up_before_its_checks_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "_QUICK_S", 0.2)
    async with asyncio.timeout(10):
        verified = await verify(as_channel(Hanging()), EXPECTED)
    assert [check.verdict for check in verified.checks] == [Verdict.UNKNOWN]


class Slow(PromisingMachine):
    async def run(self, command: str, **options: object) -> Completed:
        if command != "true":
            await pause(0.5)
        return await super().run(command, **options)


async def test_a_machine_that_is_slow_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_QUICK_S", 0.1)
    machine = Slow()
    machine.answers["true"] = (0, "")
    assert (await verify(as_channel(machine), EXPECTED)).is_ok


def _suspicious(host: Host, _: Expected) -> str:
    # On a healthy machine the second question is never asked, so no rehearsal foresees it.
    if host.run("find /opt").stdout:
        broken_unless(holds=False, problem=host.check_output("stat /opt"))
    return "fine"


async def test_an_unforeseen_command_costs_a_round_trip_and_no_verdict() -> None:
    promises = (Promise("suspicion", "nothing there", _suspicious, Hint("look")), *QUICK)
    machine = PromisingMachine()
    machine.answers["find /opt"] = machine.answers["stat /opt"] = (0, "something")
    machine.answers["find -H"] = machine.answers.pop("find -H")
    verification = await verify(as_channel(machine), EXPECTED, promises)
    assert verification.round_trips == 2
    assert failed(verification) == ["suspicion"]
    assert verification.checks == (await verify_one_by_one(as_channel(machine), EXPECTED, promises)).checks


async def test_testinfras_own_modules_work_over_the_channel() -> None:
    def observe(host: Host, _: Expected) -> str:
        service, file = host.service("hermes-gateway"), host.file("/etc/hermes/.env")
        broken_unless(service.is_running and service.is_enabled and file.exists, "not there")
        return "there"

    machine = PromisingMachine()
    machine.answers |= {
        "uname -s": (0, "Linux\n"),
        "uname -m": (0, "x86_64\n"),
        "cat /etc/os-release": (0, 'ID=debian\nVERSION_ID="12"\n'),
        "test -": (0, ""),
        "systemctl is-enabled": (0, "enabled\n"),
        "systemctl is-active": (0, "active\n"),
    }
    verification = await verify(as_channel(machine), EXPECTED, (Promise("unit", "it runs", observe, Hint("start it")),))
    assert (failed(verification), verification.round_trips) == ([], 1)


ANSWERS = st.sampled_from(
    [
        (0, ""),
        (1, ""),
        (4, "unknown\n"),
        (127, ""),
        (0, "active\n"),
        (0, "{}"),
        (0, '{"nftables": []}'),
        (0, "100%\n"),
        (0, "a b"),
    ]
)


@pytest.mark.turns(8)
@settings(max_examples=40)
@given(
    changed=st.dictionaries(st.sampled_from(sorted(HEALTHY)), ANSWERS, max_size=6),
    breaks=st.lists(st.sampled_from(range(len(BREAKS))), max_size=3),
)
async def test_in_one_batch_the_verdicts_are_those_of_testinfra_one_by_one(
    changed: dict[str, tuple[int, str]], breaks: list[int]
) -> None:
    machine = PromisingMachine()
    machine.observe["identity"] = dict(machine.observe["identity"])
    for number in breaks:
        try:
            BREAKS[number][1](machine)
        except TypeError:
            continue  # an earlier break took away what this one would change
    machine.answers.update(changed)
    batched = await verify(as_channel(machine), EXPECTED)
    single = await verify_one_by_one(as_channel(machine), EXPECTED)
    assert batched.checks == single.checks
    assert batched.findings == single.findings


async def test_an_agent_with_its_users_own_provider_keeps_every_promise_without_a_turn() -> None:
    machine = PromisingMachine()
    machine.observe["model"] |= {"own": True, "name": "gpt-5.2", "router_status": 0, "offered": []}
    machine.chat = {"own": True}
    verification = await verify(as_channel(machine), EXPECTED)
    assert failed(verification) == []
    details = {check.name: check.seen for check in verification.checks}
    assert "own provider" in details["model"]
    assert "no turn taken" in details["chat"]


async def test_findings_come_first_and_name_the_user() -> None:
    machine = PromisingMachine()
    machine.observe["detailed"]["status"] = 401
    verification = await verify(as_channel(machine), EXPECTED)
    first, *rest = verification.for_user("ada")
    assert first.name == f"diagnosis:{Failure.KEY_MISMATCH}"
    assert str(first.hint) == "hermesops instance restart ada"
    assert not any("USER" in str(check.hint).split() for check in rest)


async def test_a_machine_of_nobodys_is_asked_for_less() -> None:
    machine = PromisingMachine()
    machine.observe |= {"identity": None, "alive": {}, "detailed": {}, "model": {}, "home": {}, "key_digest": ""}
    machine.units["hermes-gateway.service"]["ActiveState"] = "inactive"
    assert failed(await verify(as_channel(machine), Expected(""), WITHOUT_USER)) == []
    machine.answers["find -H"] = (0, "/opt/hermes/current/venv\n")
    assert failed(await verify(as_channel(machine), Expected(""), WITHOUT_USER)) == ["programs"]


async def test_the_checks_of_a_machine_without_a_user_are_summed_up_in_a_line() -> None:
    machine, lines = PromisingMachine(), list[str]()
    machine.observe |= {"identity": None, "alive": {}, "detailed": {}, "model": {}, "home": {}, "key_digest": ""}
    machine.units["hermes-gateway.service"]["ActiveState"] = "inactive"
    assert await verify_without_user(as_channel(machine), lines.append) == ()
    machine.answers["find -H"] = (0, "/opt/hermes/current/venv\n")
    assert len(await verify_without_user(as_channel(machine), lines.append)) == 1
    count = len(WITHOUT_USER)
    assert lines == [f"{count} checks passed", f"1 of {count} checks failed"]


def test_the_quick_promises_leave_out_only_the_turn() -> None:
    assert {promise.name for promise in PROMISES} - {promise.name for promise in QUICK} == {"chat"}
    assert len(QUICK) >= 20


def test_no_command_carries_a_secret() -> None:
    assert not any(KEY_DIGEST in command for command in commands_of(PROMISES, EXPECTED))


def test_a_batch_fits_into_one_command() -> None:
    longest = 128 * 1024  # Linux's MAX_ARG_STRLEN
    assert len(command_of(commands_of(PROMISES, EXPECTED), limit_s=60)) < longest


@each_case("output", [b"", b"[]", b"nonsense", b'[["x", "", ""]]', b"{}"])
def test_a_damaged_batch_is_one_clear_error(output: bytes) -> None:
    with pytest.raises(Exception, match="did not run") as damaged:
        answers_of(["true"], Completed(0, output, b""))
    assert getattr(damaged.value, "exit_code", None) == 4
