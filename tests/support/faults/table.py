"""Which fault of real machines has to make which alert fire, and what ends it.

The order matters in few places: what leaves a machine another one (a larger plan, a restore) comes late.
"""

import asyncio
import json
import time
from datetime import timedelta

import sqlalchemy as sa

from hermesops.base.waiting import Pending, pause, until
from hermesops.observability.runbook.fault import AtVendor
from hermesops.observability.runbook.fault_scripts import ENDS_JOBS, FAILS_JOBS, OWN_CAP
from hermesops.store.registry.schema import tables
from tests.support.faults.chains import Act, Chain, NotHad, act, both, commands, each, on_machine, on_platform
from tests.support.faults.watched import REASON, SCALE, USERS, WatchedFleet

_GATEWAY = "hermes-gateway.service"
_ROLLOUT = ("--soak", "1s", "--settle", "1s", "--vitals", "none", "--drill", "no", *REASON)
_STARTED = "hermes-drill"

_CLEAR = commands(("local", "fault", "clear"))


def _again_and_again(script: str) -> str:
    """A unit of a machine that runs a script without end, until it is stopped; it knows ``$release``."""
    unit = f"systemd-run --quiet --collect --setenv=release=$release --unit {_STARTED}"
    return f"{unit} sh -c 'while true; do {script}; done'"


_SHRINK = on_machine(
    'runuser -u hermes -- python3 -c \'import sqlite3; c = sqlite3.connect("/var/lib/hermes/state.db", 30); '
    'c.execute("drop table if exists drill"); c.execute("vacuum"); c.execute("pragma wal_checkpoint(truncate)")'
    "'; hermes-node databases; hermes-node metrics"
)

_REPORTS = on_machine("systemctl restart hermes-monitoring.target hermes-metrics.timer")
_HEARD_OF_REVOCATIONS = on_platform(
    "systemctl start hermes-platform-revocations.timer hermes-platform-revocations.service"
)
_NO_MORE = on_machine(f"systemctl stop {_STARTED} 2>/dev/null || true; systemctl start {_GATEWAY}")


_FILL = "set -- $(stat -f -c '%a %S' /var/lib/hermes); fallocate -l $(($1 * $2 / 100 * {share})) /var/lib/hermes/.drill"

# The receiver outside, of which the platform's host has one for once: it notes when it last heard from Alertmanager.
_HEARD, _RECEIVER_PORT = "/run/hermes-drill-heard", 9099
_RECEIVER = f"""\
import http.server, pathlib
class Heard(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        pathlib.Path("{_HEARD}").touch()
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", {_RECEIVER_PORT}), Heard).serve_forever()
"""
_MISSED_S = 3 * 60 * SCALE
"""Three of the dead-man's switch's messages."""


async def _monitoring_dies(fleet: WatchedFleet, _: str) -> None:
    settings = "/etc/hermes-platform/alertmanager.yml"
    line = f'    webhook_configs: [{{url: "http://127.0.0.1:{_RECEIVER_PORT}/", send_resolved: false}}]'
    await fleet.on_platform(
        f"cat > /run/receiver.py <<'END'\n{_RECEIVER}END\n"
        "systemd-run --quiet --collect --unit hermes-drill-receiver python3 /run/receiver.py; "
        f"sed -i '/name: watchdog/a\\{line}' {settings}; systemctl restart hermes-platform-alertmanager"
    )

    async def heard() -> bool | Pending[bool]:
        return not await _is_unheard(fleet) or Pending("nothing was heard")

    await until(heard, what="the receiver outside to hear of the watchdog", timeout_s=120, every_s=1)
    await fleet.on_platform("systemctl stop hermes-platform-prometheus")


async def _is_unheard(fleet: WatchedFleet) -> bool:
    """What the receiver outside pages for."""
    age = await fleet.on_platform(f"test -e {_HEARD} && echo $(($(date +%s) - $(stat -c %Y {_HEARD}))) || echo 999999")
    return float(age) > _MISSED_S


# Faults that take more than actions on one machine


async def _token_ends(fleet: WatchedFleet, user: str) -> None:
    path = f"/machines/{(await fleet.instance(user))['machine_id']}/toolbox"
    await fleet.command.ok("local", "fault", "set", "server-error", "--path", path, "--times", "500")
    revoked = await fleet.command.run("token", "revoke", user, "--models", *REASON)
    await fleet.command.ok("local", "fault", "clear")
    assert revoked.exit_code == 6, str(revoked)


async def _short_token(fleet: WatchedFleet, user: str) -> None:
    short = fleet.command.with_variables(HERMESOPS_MODEL_TOKEN_DAYS="1")
    await short.ok("token", "revoke", user, "--models", *REASON)


async def _short_certificate(fleet: WatchedFleet, user: str) -> None:
    await fleet.command.with_variables(HERMESOPS_CERTIFICATE_DAYS="1").ok("identity", "renew", user)


async def _backups_late(fleet: WatchedFleet, user: str) -> None:
    await fleet.command.ok("backup", "create", user)
    instance_id = (await fleet.instance(user))["instance_id"]
    rows = tables.backups
    with fleet.container.registry._database.writing() as connection:
        of = rows.c.instance_id == instance_id
        for key, at in connection.execute(sa.select(rows.c.id, rows.c.at).where(of)).all():
            late = at - timedelta(hours=27)
            connection.execute(rows.update().where(rows.c.id == key).values(at=late))


async def _messenger_without_a_good_token(fleet: WatchedFleet, user: str) -> None:
    settings = fleet.folder / "messengers.yaml"
    settings.write_text('messengers: {TELEGRAM_BOT_TOKEN: "1:x", TELEGRAM_ALLOWED_USERS: "1"}\n')
    await fleet.command.ok("instance", "settings", user, "--from", str(settings), *REASON)


async def _release(fleet: WatchedFleet, note: str, **environment: str) -> str:
    """Another release of the same agent."""
    managed = fleet.folder / f"{note}.json"
    managed.write_text(json.dumps({"config": {"gateway": {"note": note}}, "environment": environment}))
    built = await fleet.ok("release", "build", "--managed", str(managed), "--note", note)
    return str(built["release"]["id"])


async def _left_behind(fleet: WatchedFleet, user: str) -> None:
    newer = await _release(fleet, f"newer-{time.time():.0f}")
    await fleet.command.ok("rollout", "start", newer, "--all", *_ROLLOUT)
    await fleet.provision(user)


async def _second_release(fleet: WatchedFleet, user: str) -> None:
    """One to roll back to, where there is none yet."""
    if int(await fleet.on_machine(user, "ls /opt/hermes/releases | wc -l")) < 2:
        newer = await _release(fleet, f"newer-{time.time():.0f}")
        await fleet.command.ok("rollout", "start", newer, "--all", *_ROLLOUT)


async def _halted_rollout(fleet: WatchedFleet, _: str) -> None:
    # No model is reached through it. A provider's address would be no fault: the instance's own wins over a release's.
    bad = await _release(fleet, f"bad-{time.time():.0f}", HTTP_PROXY="http://127.0.0.1:9")
    halted = await fleet.command.run("rollout", "start", bad, "--all", *_ROLLOUT)
    assert halted.exit_code == 8, str(halted)


async def _promote(fleet: WatchedFleet, _: str) -> None:
    """A rollout soaks for minutes, unless a person goes on."""
    await fleet.command.run("rollout", "promote", "--full", *REASON)


async def _leave(fleet: WatchedFleet, user: str) -> None:
    await fleet.terminate(user)


async def _killed_provision(fleet: WatchedFleet, _: str) -> None:
    await fleet.command.killed_at("creating machine", "provision", "gus", "--plan", "light")


def _gone(*users: str) -> Act:
    """End agents that only a fault needed."""

    async def do(fleet: WatchedFleet, _: str) -> None:
        for user in users:
            await fleet.terminate(user)

    return do


async def _no_alerts(fleet: WatchedFleet, _: str) -> None:
    """Wait for what the runbook looks for at its end."""

    async def ended() -> bool | Pending[bool]:
        return not fleet.record.told or Pending(str(sorted(fleet.record.told)))

    await until(ended, what="alerts to end", timeout_s=300, every_s=1)


async def _monitor_killed(fleet: WatchedFleet, _: str) -> None:
    await fleet.monitor.kill()


async def _monitor_started(fleet: WatchedFleet, _: str) -> None:
    await fleet.monitor.start()


async def _deleted_cell(fleet: WatchedFleet, _: str) -> None:
    for user in ("ada", "bob"):
        await fleet.command.ok("backup", "create", user)
    for user in ("ada", "bob"):
        await act(fleet, user, AtVendor("delete"))


async def _many_stopped(fleet: WatchedFleet, _: str) -> None:
    # At once: a machine takes half a minute to stop, in which the monitor repairs the one before.
    await asyncio.gather(*(act(fleet, user, AtVendor("stop")) for user in ("bob", "cyd")))


_SLOW_S = 320.0
"""Longer than the objective of a provisioning, which is of seconds that nothing scales."""


async def _orders_refused(fleet: WatchedFleet, _: str) -> None:
    await fleet.command.ok("local", "fault", "set", "payment-required", "--times", "50")
    for user in ("dee", "eve"):
        stuck = await fleet.command.run("provision", user, "--plan", "light")
        assert stuck.exit_code, str(stuck)
    await fleet.command.ok("local", "fault", "clear")
    await pause(_SLOW_S)
    for user in ("dee", "eve"):
        await fleet.provision(user)


async def _an_hour_later(fleet: WatchedFleet, _: str) -> None:
    """The alert is of the last hour's provisions."""
    rows = tables.operations
    with fleet.container.registry._database.writing() as connection:
        provisions = connection.execute(sa.select(rows.c.id, rows.c.updated_at).where(rows.c.kind == "provision")).all()
        for key, at in provisions:
            connection.execute(rows.update().where(rows.c.id == key).values(updated_at=at - timedelta(hours=1)))


CHAINS: tuple[Chain, ...] = (
    # Of one machine, which ends as it was
    Chain("gateway-stopped", "GatewayDown"),
    Chain(
        "gateway-killed",
        user="bob",
        meaning="the gateway is killed once",
        inject=on_machine(f"systemctl kill --signal=KILL {_GATEWAY}"),
        runbook="none",
    ),
    Chain(
        "gateway-hangs",
        meaning="the gateway's processes are halted; its watchdog ends them",
        user="bob",
        inject=on_machine(f"systemctl kill --signal=STOP {_GATEWAY}"),
        runbook="none",
        quiet_s=90,
        beside=frozenset({"GatewayDown"}),  # the watchdog's 30 s are not scaled, and longer than a scaled minute
    ),
    Chain("unit-failed", "UnitFailed", user="bob"),
    Chain(
        "reports-stopped",
        "HeartbeatMissed",
        user="cyd",
        meaning="what sends a machine's figures is stopped",
        inject=on_machine("systemctl stop hermes-vmagent.service"),
        undo=_REPORTS,
    ),
    Chain(
        "exporter-stopped",
        "HeartbeatMissed",
        user="cyd",
        meaning="what reads a machine's figures is stopped",
        inject=on_machine("systemctl stop hermes-node-exporter.service"),
        undo=_REPORTS,
    ),
    Chain(
        "figures-stand-still",
        "HeartbeatMissed",
        user="cyd",
        meaning="hermes-node writes no figures any more",
        inject=on_machine("systemctl stop hermes-metrics.timer"),
        undo=_REPORTS,
    ),
    Chain("machine-stopped", "HeartbeatMissed", user="cyd"),
    Chain(
        "machine-rebooted",
        user="cyd",
        meaning="somebody reboots the machine",
        # A moment later, so that the machine still answers that it will.
        inject=on_machine("systemd-run --quiet --on-active=2s --timer-property=AccuracySec=100ms systemctl reboot"),
        runbook="none",
    ),
    Chain(
        "certificate-revoked",
        "HeartbeatMissed",
        user="cyd",
        runbook="machine-certificate",
        # Of what asks for orders: until ingest hears of a revocation, 30 s that nothing scales, it takes figures.
        beside=frozenset({"UnitFailed"}),
    ),
    Chain(
        "certificate-ends",
        "CertificateExpiring",
        user="bob",
        inject=_short_certificate,
    ),
    Chain(
        "model-token-ends",
        "RouterTokenExpiring",
        user="ada",
        meaning="a token of the model router is not renewed in time",
        inject=_short_token,
        pick="hand",
    ),
    Chain("model-token-dead", "ModelUnauthorized", inject=_token_ends, turns=True),
    Chain(
        "model-limited",
        "ModelRateLimited",
        is_alone=True,  # as for each fault that the world's model, or its clock, has for everybody
        inject=commands(("local", "fault", "set", "model-limited", "--times", "5000")),
        turns=True,
        halts=True,
        by_hand=_CLEAR,
        again="turn",
    ),
    Chain(
        "model-broken",
        "ModelFailing",
        is_alone=True,
        inject=commands(("local", "fault", "set", "model-fails", "--times", "5000")),
        turns=True,
        halts=True,
        by_hand=_CLEAR,
        again="turn",
    ),
    Chain("managed-files-lost", "GatewayDown", user="bob"),  # whose gateway has no API without its key
    Chain(
        "memory-cap-reached",
        "MemoryNearCap",
        user="bob",
        undo=on_machine(OWN_CAP),
    ),
    Chain("jobs-held", "JobsLate"),
    Chain(
        "clock-shifted",
        "ClockOff",
        user="bob",
        is_alone=True,
        # Less than the drill's: where times are scaled, three heartbeats take 18 s, and the clock itself is right.
        inject=both(
            commands(("local", "fault", "set", "date-shifted", "--seconds", "14", "--for", "120")),
            on_machine(
                "systemctl stop hermes-orders.timer hermes-orders.service; hermes-node orders && hermes-node metrics"
            ),
            _CLEAR,
        ),
        by_hand=on_machine("systemctl start hermes-orders.timer; systemctl restart hermes-orders.service"),
        undo=on_machine("systemctl start hermes-orders.timer"),
    ),
    Chain(
        "backup-mark-damaged",
        "MetricsIncomplete",
        user="bob",
        meaning="the file that says when the machine was backed up is damaged",
        inject=on_machine("mkdir -p /etc/hermes-node; echo rubbish > /etc/hermes-node/last-backup.json"),
        undo=on_machine("rm -f /etc/hermes-node/last-backup.json"),
    ),
    Chain("payload-emptied", "MetricsIncomplete", user="ada"),
    Chain("backups-late", "BackupOverdue", inject=_backups_late, whose=("",)),
    Chain(
        "messenger-lost",
        "MessengerDisconnected",
        user="bob",
        inject=_messenger_without_a_good_token,
        halts=None,
        by_hand=commands(("instance", "settings", "USER", "--back", *REASON)),
    ),
    Chain(
        "sshd-left-open",
        "BreakGlassOpen",
        user="cyd",
        inject=commands(("instance", "break-glass", "USER", "--for", "20m", "--print", *REASON)),
    ),
    # Nothing that anybody is told of
    Chain("agent-suspended", user="cyd", quiet_s=60),
    Chain("proxy-token-revoked", user="bob", quiet_s=60),
    Chain("state-lost", user="ada", quiet_s=60),
    # Of several
    Chain(
        "vendor-silent",
        "VendorDown",
        about="fleet",
        is_alone=True,
        inject=commands(("local", "fault", "set", "server-error", "--times", "50000")),
        whose=("",),
        halts=True,
        by_hand=_CLEAR,
        again="status-after",
    ),
    Chain(
        "toolbox-cut",
        "VendorDown",
        about="fleet",
        is_alone=True,
        inject=commands(("local", "fault", "set", "edge-error", "--path", "/machines/*/toolbox", "--for", "900")),
        whose=("",),
        halts=True,  # it says that JustAVPS answers, and that break glass is the way in
        by_hand=_CLEAR,
        again="status-after",
    ),
    Chain(
        "machine-cut-off",
        is_alone=True,
        beside=frozenset({"BreakGlassOpen", "VendorDown"}),  # of the runbook's doing, and of the cause
        inject=commands(
            ("local", "fault", "set", "edge-error", "--path", "/machines/*/toolbox", "--for", "900"),
            ("local", "fault", "set", "proxy-unauthorised", "--for", "900"),
        ),
        quiet_s=60,
        by_hand=_CLEAR,
    ),
    Chain(
        "gateways-stopped",
        "GatewayDown",
        about="fleet",
        is_alone=True,
        inject=each(USERS, on_machine(f"systemctl stop {_GATEWAY}")),
        beside=frozenset({"GatewayDown"}),  # of each, until the third makes them many
        whose=USERS,
        restarted=USERS,
    ),
    Chain(
        "jobs-fail",
        "JobsFailing",
        about="fleet",
        is_alone=True,
        inject=each(USERS, on_machine(FAILS_JOBS)),
        beside=frozenset({"JobsFailing"}),  # of each, until the third makes them many
        whose=("ada",),
        halts=True,
        by_hand=both(each(USERS, on_machine(ENDS_JOBS)), _no_alerts),
        again="alerts-after",
        undo=each(USERS, on_machine(ENDS_JOBS)),
    ),
    Chain(
        "agents-come-and-go",
        "AgentReachabilityBurnFast",
        about="fleet",
        is_alone=True,
        meaning="gateways are stopped and started again and again",
        inject=each(
            USERS,
            on_machine(_again_and_again(f"systemctl stop {_GATEWAY}; sleep 3; systemctl start {_GATEWAY}; sleep 8")),
        ),
        whose=("",),
        halts=None,
        by_hand=each(USERS, _NO_MORE),
        again="status-after",
        restarted=USERS,
        undo=each(USERS, _NO_MORE),
    ),
    Chain(
        "monitor-killed",
        "MonitorDown",
        about="fleet",
        is_alone=True,
        inject=_monitor_killed,
        whose=("",),
        halts=True,
        by_hand=_monitor_started,
        again="monitor-after",
    ),
    Chain(
        "vendor-and-reports-away",
        "FleetGap",
        about="fleet",
        is_alone=True,
        inject=each(USERS, on_machine("systemctl stop hermes-vmagent.service")),
        whose=("",),
        by_hand=each(USERS, _REPORTS),
        undo=each(USERS, _REPORTS),
    ),
    Chain(
        "platform-service-ended",
        "PlatformServiceDown",
        about="fleet",
        is_alone=True,
        inject=on_platform("systemctl stop hermes-platform-ingest"),
        beside=frozenset({"FleetGap"}),  # seconds longer: a sender's pause after refusals is not scaled
        whose=("",),
        halts=True,
        by_hand=_no_alerts,
        again="alerts-after",
    ),
    Chain(
        "revocations-unheard",
        "RevocationsStale",
        about="fleet",
        is_alone=True,
        inject=on_platform(
            "systemctl stop hermes-platform-revocations.timer; "
            "touch -d '30 minutes ago' /var/lib/hermes-platform/revocations/revoked.map"
        ),
        whose=("",),
        halts=True,
        by_hand=both(_HEARD_OF_REVOCATIONS, _no_alerts),
        again="alerts-after",
        undo=_HEARD_OF_REVOCATIONS,
    ),
    Chain(
        "monitoring-away",
        "Watchdog",
        about="fleet",
        is_alone=True,
        beside=frozenset({"FleetGap"}),  # as above, until all senders have come back
        inject=_monitoring_dies,
        shows=_is_unheard,
        whose=("",),
        by_hand=on_platform("systemctl start hermes-platform-prometheus"),
        undo=commands(("local", "up", "--monitoring")),
    ),
    Chain(
        "many-stopped",
        "MonitorStoppedActing",
        about="fleet",
        is_alone=True,
        inject=_many_stopped,
        beside=frozenset({"HeartbeatMissed"}),
        whose=("",),
        halts=True,
        by_hand=commands(
            *(("runbook", "run", "HeartbeatMissed", "--instance", user, "--yes") for user in ("bob", "cyd"))
        ),
        again="status-after",
        # Once the first of two is mended, the other is one that the monitor may repair.
        repairs=frozenset({("start", "cyd")}),
        restarted=("bob", "cyd"),
    ),
    Chain(
        "provision-killed",
        "ProvisionStuck",
        about="fleet",
        is_alone=True,
        inject=_killed_provision,
        alert_s=420,
        whose=("gus",),
        undo=_gone("gus"),
    ),
    Chain(
        "orders-refused",
        "ProvisionSlow",
        about="fleet",
        is_alone=True,
        inject=_orders_refused,
        beside=frozenset({"ProvisionStuck"}),  # which is told of first, and ends as they are there
        whose=("dee",),
        resolves="it is of the last hour",
        undo=both(_an_hour_later, _gone("dee", "eve")),
    ),
    # What leaves machines with another release, plan or state
    Chain(
        "agent-left-behind",
        "NodeOutdated",
        user="fay",
        is_alone=True,
        inject=_left_behind,
        meanwhile=_promote,
        restarted=USERS,
        alert_s=600,
        undo=_leave,
    ),
    Chain(
        "gateways-restart",
        "GatewayLooping",
        is_alone=True,
        inject=both(
            _second_release,
            on_machine(
                "release=$(readlink /opt/hermes/current); "
                + _again_and_again(
                    f'test "$(readlink /opt/hermes/current)" = $release || exit; '
                    f"systemctl kill --kill-who=main --signal=KILL {_GATEWAY}; sleep 14"
                )
            ),
        ),
        # What kills the gateways of that release is a unit of its own, which whoever looks finds first, and lets be.
        halts=True,
        again="roll-back",
        restarted=USERS,  # by the release
        undo=_NO_MORE,
    ),
    Chain(
        "release-takes-no-turns",
        "RolloutHalted",
        about="fleet",
        is_alone=True,
        inject=_halted_rollout,
        whose=("",),
        pick="abort",
        restarted=USERS,
    ),
    Chain("database-overwritten", "DatabaseCorrupt"),
    # It stops the gateway to write the page, and a gateway may take longer to start than the shortened minute of
    # GatewayDown: 56 s were seen at load 37. The agent's own line comes with its first turn after that.
    Chain("database-malformed", "DatabaseMalformed", before=frozenset({"GatewayDown"})),
    Chain("database-grown", "DatabaseGrowing", user="bob", resolves="the user deletes what may go", undo=_SHRINK),
    Chain(
        "data-grow",
        "DiskFilling",
        user="bob",
        meaning="data grow to more than 70 % within minutes, at a pace that fills them in hours",
        inject=on_machine(_FILL.format(share=76)),
        alert_s=600,
        pick="status-after",
        resolves="the user deletes what may go",
        undo=on_machine("rm -f /var/lib/hermes/.drill"),
    ),
    Chain("data-filled", "DiskFilling", user="bob", pick="resize"),
    Chain("machine-deleted", "HeartbeatMissed", user="cyd", runbook="machine-gone"),
    Chain(
        "cell-deleted",
        "CellLost",
        about="cell1",
        is_alone=True,
        inject=_deleted_cell,
        whose=("",),
        halts=True,
        by_hand=commands(*(("runbook", "run", "machine-gone", "--instance", user, "--yes") for user in ("ada", "bob"))),
        again="drift-after",
        restarted=("ada", "bob"),
    ),
    # Last: the failed turns burn the slow budget for half an hour more
    Chain(
        "model-unknown",
        "TurnsFailingBurnFast",
        about="fleet",
        is_alone=True,
        meaning="an agent asks for a model that the router does not have",
        inject=on_machine(
            f"sed -i s/claude-haiku/no-such-model/ /etc/hermes/config.yaml; systemctl restart {_GATEWAY}"
        ),
        turns=True,
    ),
)

NOT_HAD: tuple[NotHad, ...] = (
    NotHad(
        "AgentReachabilityBurnSlow",
        "",
        "its budget burns over six hours; whatever burns it within a test burns the fast one's too, which mutes it",
    ),
    NotHad("TurnsFailingBurnSlow", "", "as AgentReachabilityBurnSlow"),
    NotHad(
        "PlatformCertificateExpiring",
        "platform-certificate-old",
        "tried with real services beside simulated machines, in tests/e2e/test_runbook_faults.py",
    ),
    NotHad(
        "BillingEventsWaiting",
        "price-unknown",
        "no machine has a part in it; tried with real services beside simulated machines, in"
        " tests/e2e/test_runbook_faults.py",
    ),
    NotHad(
        "CallerNotificationsUndelivered",
        "callers-unreached",
        "notifications go to hosts on the internet alone; tried with real services beside simulated machines, in"
        " tests/e2e/test_runbook_faults.py",
    ),
    NotHad(
        "AnswersOutsideWindow",
        "windows-closed",
        "three users have to be silent for a day; tried with real services beside simulated machines, in"
        " tests/e2e/test_runbook_faults.py",
    ),
    NotHad("BotWithoutSession", "session-ended", "the stand-in of Discord never refuses a session; tried as above"),
    NotHad(
        "", "data-full", "it is data-filled, and its runbook is about a volume that has no room left for its own way"
    ),
)
