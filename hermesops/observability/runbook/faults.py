"""Faults that the runbooks repair: injection, evidence and runbook of each.

Every runbook has at least one, and `tests/e2e/test_runbook_faults.py` brings each about and runs its runbook. Those of
one machine can be brought about on a machine of the warm pool as well, by ``hermesops drill NAME``.
"""

import shlex
from dataclasses import replace

from hermesops.model.unknown_name import unknown_name
from hermesops.observability.runbook.fault import AtVendor, ByCommand, Fault, OnMachine, Sign
from hermesops.observability.runbook.fault_scripts import (
    FILL,
    FILLER,
    GATEWAY,
    HOLDS_JOBS,
    LEAK,
    OVERWRITES,
    OWN_CAP,
    in_gateway,
)

_FIGURES = "/run/hermes-metrics/hermes.prom"


def _on_machine(script: str) -> tuple[str, ...]:
    """The command that runs a script on the machine."""
    return ("instance", "exec", "USER", script, "--reason", "drill")


def _over(part: str, whole: str, share: float) -> Sign:
    """One figure of the machine is over a share of another, as the alert's expression compares them."""
    script = (
        f'awk \'$1 == "{part}" {{ a = $2 }} $1 == "{whole}" {{ b = $2 }} '
        f'END {{ if (b && a > {share} * b) print "it is over its share" }}\' {_FIGURES}'
    )
    return Sign(_on_machine(script), "it is over its share")


def _above(figure: str, limit: float) -> Sign:
    """A figure of the machine is above a limit."""
    return Sign(
        _on_machine(f'awk \'$1 == "{figure}" && $2 > {limit} {{ print "it is too high" }}\' {_FIGURES}'),
        "it is too high",
    )


_SHOW = ("instance", "show", "USER")
_REACHABILITY = ("AgentReachabilityBurnFast", "AgentReachabilityBurnSlow")

_DATA_FILLED = Fault(
    "data-filled",
    "disk-filling",
    ("DiskFilling",),
    "a file takes most of the room that the data have left",
    inject=(OnMachine(FILL),),
    sign=_over('hermes_data_bytes{state=\\"used\\"}', 'hermes_data_bytes{state=\\"size\\"}', 0.9),
    undo=OnMachine(f"rm -f {FILLER}"),
    needs_real=True,
    picked="resize",
)

FAULTS = (
    # Of one machine
    Fault(
        "gateway-stopped",
        "gateway-down",
        ("GatewayDown",),
        "the gateway's unit is stopped",
        inject=(OnMachine(f"systemctl stop {GATEWAY}"),),
        sign=Sign(_SHOW, "gateway silent"),
        undo=OnMachine(f"systemctl start {GATEWAY}"),
    ),
    Fault(
        "machine-stopped",
        "heartbeat-missed",
        ("HeartbeatMissed",),
        "the machine is switched off at JustAVPS",
        inject=(AtVendor("stop"),),
        sign=Sign(_SHOW, "machine status stopped"),
    ),
    Fault(
        "machine-deleted",
        "machine-gone",
        (),
        "the machine is deleted at JustAVPS",
        prepare=(ByCommand(("backup", "create", "USER")),),
        inject=(AtVendor("delete"),),
        sign=Sign(("fleet", "drift"), "machine-restorable USER"),
    ),
    Fault(
        "agent-suspended",
        "instance-suspended",
        (),
        "an operator suspends the wrong agent",
        inject=(ByCommand(("instance", "suspend", "USER", "--reason", "drill")),),
        sign=Sign(_SHOW, "status suspended"),
    ),
    Fault(
        "managed-files-lost",
        "turns-failing-burn",
        ("TurnsFailingBurnFast", "TurnsFailingBurnSlow"),
        "the file with the agent's keys is deleted, and the gateway restarts without it",
        inject=(
            OnMachine("rm /etc/hermes/.env"),
            OnMachine(f"systemctl restart {GATEWAY}"),
        ),
        sign=Sign(_SHOW, "health down"),  # a gateway without its keys does not even listen
        undo=ByCommand(("provision", "USER", "--plan", "PLAN")),
    ),
    Fault(
        "certificate-revoked",
        "machine-certificate",
        (),  # its figures are refused, so HeartbeatMissed fires, whose runbook leads to this one
        "the machine's certificate is no longer valid",
        inject=(ByCommand(("identity", "revoke", "USER", "--reason", "drill", "--yes")),),
        sign=Sign(("identity", "list"), "USER … revoked"),
        undo=ByCommand(("identity", "renew", "USER")),
    ),
    Fault(
        "certificate-ends",
        "machine-certificate",
        ("CertificateExpiring",),
        "a certificate is not renewed in time",
    ),
    Fault(
        "proxy-token-revoked",
        "proxy-tokens",
        (),
        "the relay's token is revoked",
        prepare=(ByCommand(("token", "renew", "USER", "--reason", "drill")),),
        inject=(ByCommand(("token", "revoke", "USER", "--reason", "drill")),),
        sign=Sign(("token", "list", "USER"), "USER platform", is_absent=True),
        undo=ByCommand(("token", "renew", "USER", "--reason", "drill")),
    ),
    Fault(
        "state-lost",
        "restore-a-user",
        (),
        "a file of the agent's home is deleted",
        prepare=(ByCommand(("backup", "create", "USER")),),
        inject=(OnMachine("rm /var/lib/hermes/config.yaml"),),
        sign=Sign(_on_machine("ls /var/lib/hermes"), "config.yaml", is_absent=True),
    ),
    Fault(
        "payload-emptied",
        "metrics-incomplete",
        ("MetricsIncomplete",),
        "the file with the instance's data on the machine is emptied",
        inject=(OnMachine("truncate -s 0 /etc/hermes-node/instance.json"),),
        sign=Sign(_on_machine("hermes-node metrics"), "payload: not JSON"),
        undo=ByCommand(("provision", "USER", "--plan", "PLAN")),
    ),
    # Of one real machine: simulated ones have nothing that could break so
    Fault(
        "unit-failed",
        "unit-failed",
        ("UnitFailed",),
        "a unit of the machine fails",
        inject=(OnMachine("systemd-run --quiet --unit hermes-drill-fails false; sleep 1"),),
        sign=Sign(
            _on_machine("systemctl --failed --no-pager"),
            "hermes-drill-fails.service",
        ),
        undo=OnMachine("systemctl reset-failed hermes-drill-fails.service"),
        needs_real=True,
    ),
    Fault(
        "database-overwritten",
        "database-corrupt",
        ("DatabaseCorrupt",),
        "pages in the midst of state.db are overwritten",
        prepare=(
            ByCommand(("instance", "chat", "USER", "hello", "--reason", "drill")),
            ByCommand(("backup", "create", "USER")),
        ),
        inject=(
            OnMachine(f"systemctl stop {GATEWAY}"),
            OnMachine("rm -f /var/lib/hermes/state.db-wal /var/lib/hermes/state.db-shm"),
            OnMachine("dd if=/dev/urandom of=/var/lib/hermes/state.db bs=4096 count=4 conv=notrunc status=none"),
            OnMachine("hermes-node databases; hermes-node metrics"),
        ),
        sign=Sign(
            _on_machine(f"grep ^hermes_database_integrity {_FIGURES}"), 'hermes_database_integrity{database="state"} 0'
        ),
        needs_real=True,
    ),
    Fault(
        "database-malformed",
        "database-corrupt",
        ("DatabaseMalformed",),
        "the first page of the agent's messages is overwritten, and the agent is asked something",
        prepare=(
            ByCommand(("instance", "chat", "USER", "hello", "--reason", "drill")),
            ByCommand(("backup", "create", "USER")),
        ),
        inject=(
            OnMachine(f"systemctl stop {GATEWAY}"),
            OnMachine(f"python3 -c {shlex.quote(OVERWRITES)}"),
            OnMachine(f"systemctl start {GATEWAY}"),
            ByCommand(("instance", "chat", "USER", "hello", "--reason", "drill")),
            OnMachine("hermes-node metrics"),
        ),
        sign=Sign(_on_machine("grep malformed /var/lib/hermes/logs/errors.log"), "malformed"),
        needs_real=True,
    ),
    _DATA_FILLED,
    replace(_DATA_FILLED, name="data-full", runbook="data-volume", alerts=()),
    Fault(
        "memory-cap-reached",
        "memory-near-cap",
        ("MemoryNearCap",),
        "a child of the gateway fills the memory cap, which is lowered for this",
        inject=(OnMachine(LEAK),),
        sign=_over("hermes_gateway_memory_bytes", "hermes_gateway_memory_max_bytes", 0.9),
        undo=OnMachine(OWN_CAP),
        needs_real=True,
    ),
    Fault(
        "database-grown",
        "database-growing",
        ("DatabaseGrowing",),
        "a table with 128 MB of nothing is added to state.db",
        inject=(
            OnMachine(
                "runuser -u hermes -- python3 -c '"
                'import sqlite3; c = sqlite3.connect("/var/lib/hermes/state.db", 30); '
                'c.execute("create table drill (x)"); '
                'c.executemany("insert into drill values (zeroblob(1048576))", [()] * 128); c.commit()'
                "'"
            ),
            OnMachine("hermes-node databases; hermes-node metrics"),
        ),
        sign=_above('hermes_database_bytes{database=\\"state\\"}', 100_000_000),
        needs_real=True,
    ),
    Fault(
        "clock-shifted",
        "clock-off",
        ("ClockOff",),
        "the platform's clock is 42 seconds ahead of the machine's, so the machine stops asking",
        inject=(
            OnMachine("systemctl stop hermes-orders.timer hermes-orders.service"),
            # Bounded, for who is killed here: it is everybody's platform.
            ByCommand(("local", "fault", "set", "date-shifted", "--seconds", "42", "--for", "120")),
            OnMachine("hermes-node orders && hermes-node metrics"),
            ByCommand(("local", "fault", "clear")),
        ),
        sign=_above("hermes_clock_offset_seconds", 10),
        undo=OnMachine("systemctl start hermes-orders.timer"),
        needs_real=True,
        needs_local=True,
    ),
    Fault(
        "jobs-held",
        "jobs-late",
        ("JobsLate",),
        "a child of the gateway keeps the lock without which no cron job is begun",
        inject=(OnMachine(in_gateway(HOLDS_JOBS)), OnMachine("sleep 3; hermes-node metrics")),
        sign=_above("hermes_queue_age_seconds", 900),
        undo=OnMachine(f"systemctl restart {GATEWAY}"),
        needs_real=True,
    ),
    # Of more than one machine, or of what hermesops itself stands on
    Fault("gateways-stopped", "agent-reachability-burn", _REACHABILITY, "the gateways of several agents are stopped"),
    Fault("gateways-restart", "gateway-looping", ("GatewayLooping",), "a release restarts its gateways all the time"),
    Fault("orders-refused", "provision-slow", ("ProvisionSlow",), "JustAVPS makes no machines for a while"),
    Fault("model-token-dead", "model-unauthorized", ("ModelUnauthorized",), "the token ends, and no other one arrives"),
    Fault("model-token-leaked", "model-tokens", ("RouterTokenExpiring",), "a model token was seen in a ticket"),
    Fault("model-broken", "model-failing", ("ModelFailing",), "every answer of the model has status 500"),
    Fault("model-limited", "model-rate-limited", ("ModelRateLimited",), "every answer of the model has status 429"),
    Fault("jobs-fail", "jobs-failing", ("JobsFailing",), "every cron job ends with an error"),
    Fault("messenger-lost", "messenger-disconnected", ("MessengerDisconnected",), "a messenger's connection is lost"),
    Fault("monitor-killed", "monitor-down", ("MonitorDown",), "no monitor runs"),
    Fault("many-stopped", "monitor-stopped-acting", ("MonitorStoppedActing",), "many machines are switched off"),
    Fault("provision-killed", "provision-slow", ("ProvisionStuck",), "a provision is killed and not continued"),
    Fault(
        "platform-service-ended",
        "platform-service-down",
        ("PlatformServiceDown",),
        "the ingest of the platform ends",
    ),
    Fault(
        "platform-door-ended",
        "platform-service-down",
        ("PlatformServiceDown",),
        "the public door of the platform ends",
    ),
    Fault(
        "users-processes-ended",
        "platform-service-down",
        ("PlatformServiceDown",),
        "no process of the users' API and of connections runs",
    ),
    Fault(
        "revocations-unheard",
        "revocations-stale",
        ("RevocationsStale",),
        "the platform's list of revoked certificates is not updated",
    ),
    Fault(
        "platform-certificate-old",
        "platform-certificate",
        ("PlatformCertificateExpiring",),
        "the certificate of the platform's host was not renewed",
    ),
    Fault(
        "database-log-stuck",
        "platform-database-backups",
        ("PlatformDatabaseLogStuck",),
        "the bucket accepts no log segments of the platform's database",
    ),
    Fault(
        "database-backup-old",
        "platform-database-backups",
        ("PlatformBackupOverdue",),
        "the platform's database has had no backup for a day",
    ),
    Fault("platform-disk-full", "platform-disk-filling", ("PlatformDiskFilling",), "the platform's host has no room"),
    Fault("router-cut-off", "router-accounts", ("RouterAccountsStale",), "the model router cannot read the registry"),
    Fault("router-folder-gone", "router-accounts", ("RouterUsageLost",), "the model router cannot record usage"),
    Fault("provider-key-ended", "model-providers", ("ProviderKeyRefused",), "a provider's key has ended"),
    Fault("monitoring-away", "watchdog", ("Watchdog",), "the platform's monitoring does not answer"),
    Fault("sshd-left-open", "break-glass-open", ("BreakGlassOpen",), "an order to open sshd was left open"),
    Fault("backups-late", "backups-are-late", ("BackupOverdue",), "no backup was made for a day"),
    Fault("backup-damaged", "backup-does-not-restore", (), "files of the newest backup are overwritten"),
    Fault("release-takes-no-turns", "rollout-halted", ("RolloutHalted",), "a release takes no turns"),
    Fault(
        "agent-left-behind", "node-outdated", ("NodeOutdated",), "an agent comes after a rollout, with an older release"
    ),
    Fault("release-harmful", "revoke-a-release", (), "a release that agents run is harmful"),
    Fault("release-store-older", "release-key", (), "the store of releases is restored to an older state"),
    Fault("cell-deleted", "cell-lost", ("CellLost",), "all machines of a cell are deleted at JustAVPS"),
    Fault("machine-cut-off", "break-glass", (), "neither the toolbox nor the proxy of a machine answers"),
    Fault(
        "toolbox-cut", "vendor-down", ("VendorDown",), "the toolbox refuses connections while JustAVPS's API answers"
    ),
    Fault("vendor-silent", "vendor-down", ("VendorDown",), "every answer of JustAVPS's API is an error"),
    Fault("vendor-and-reports-away", "fleet-gap", ("FleetGap",), "no machine reports, while agents answer"),
    Fault("worker-killed", "controller-lost", (), "a process is killed in the middle of its work"),
    Fault("registry-overwritten", "registry-damaged", (), "the registry's file is overwritten"),
    Fault("platform-database-lost", "platform-database-restored", (), "the platform's database is lost with its host"),
    Fault("registry-lost", "registry-rebuilt", (), "the registry is gone with all its copies"),
    Fault("rotation-unfinished", "registry-key", (), "a rotation of the registry's key is cut short"),
    Fault("key-leaked", "rotate-keys", (), "the registry's key is known to somebody else"),
    Fault(
        "price-unknown",
        "billing-events",
        ("BillingEventsWaiting",),
        "a subscription is of a price that the settings do not name",
    ),
    Fault("api-waits", "api-slow", ("ApiSlow",), "reads of most users take over two seconds"),
    Fault("turns-left", "turns-orphaned", ("TurnsOrphaned",), "a turn has no process of the API any more"),
    Fault("webhook-secret-wrong", "webhooks-refused", ("WebhooksRefused",), "the signing secret is not the endpoint's"),
    Fault("connections-ended", "connections-expired", ("ConnectionsExpired",), "accounts of a service stop working"),
    Fault(
        "callers-unreached",
        "notifications-undelivered",
        ("CallerNotificationsUndelivered",),
        "hosts that callers have notified are not reached",
    ),
    Fault(
        "connector-halted", "messages-waiting", ("MessagesWaiting",), "the connector's process is halted, and not ended"
    ),
    Fault("messenger-away", "answers-undelivered", ("AnswersUndelivered",), "a messenger answers the bot with errors"),
    Fault("messenger-hangs", "answers-uncertain", ("AnswersUncertain",), "a messenger never answers the bot"),
    Fault(
        "windows-closed",
        "answers-outside-window",
        ("AnswersOutsideWindow",),
        "agents write to users whose last message is over a day old",
    ),
    Fault("session-ended", "bot-without-session", ("BotWithoutSession",), "the bot's session at Discord ends"),
    Fault(
        "socket-secret-wrong",
        "agents-without-socket",
        ("AgentsWithoutSocket",),
        "the secret of an agent's socket is another one than the connector's",
    ),
    Fault("bot-token-ended", "messenger-blocked", ("MessengerBlocked",), "a messenger does not take the bot's token"),
    Fault("users-door-shut", "users-on-aws", (), "a load balancer on AWS answers nobody"),
    Fault("pulumi-state-cut", "pulumi-state-damaged", (), "a cell's Pulumi state is cut short"),
)
"""All of them."""


def fault(name: str) -> Fault:
    """A fault of that name, or the first one of the runbook or the alert of that name that can be drilled.

    Raises:
        UsageError: There is none.
    """
    for known in FAULTS:
        if known.name == name:
            return known
    for known in FAULTS:
        if known.is_drilled and (known.runbook == name or name in known.alerts):
            return known
    raise unknown_name("drill", name, [known.name for known in FAULTS if known.is_drilled])
