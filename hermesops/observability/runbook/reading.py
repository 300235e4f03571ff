"""Allowlist of read-only commands: runbook steps run these without confirmation."""

READING = frozenset(
    {
        *(
            "alert list",
            "api status",
            "audit log",
            "audit verify",
            "backup list",
            "cell list",
            "cell show",
            "connector status",
            "doctor",
            "fleet cost",
        ),
        *("billing list", "billing show", "user caller list", "user show"),
        *("fleet changes", "fleet drift", "fleet outdated", "fleet status", "fleet top", "fleet usage"),
        *("identity list", "identity show", "instance list", "instance model-providers"),
        *("instance logs", "instance show", "instance timeline", "instance verify"),
        *("message list", "message show", "messenger check", "messenger list"),
        *("job list", "operation list", "operation show", "platform logs", "platform show", "pool list"),
        *("registry check", "registry copies"),
        *("relay list", "release list", "release show", "rollout explain", "rollout freezes", "rollout history"),
        *("rollout list", "rollout status", "secrets check", "secrets list"),
        *("snapshot list", "stack list", "stack preview", "token list", "wait"),
    }
)
"""Commands that a step may run without asking; a tag cannot make another one harmless."""

READING_ON_MACHINES = frozenset(
    {
        *("hermes-node certificate show", "hermes-node metrics", "hermes-node status", "hermes-node volume show"),
        *("hermes-node health", "hermes-node release show"),
        *("systemctl --failed --no-pager", "systemctl status --state=failed --no-pager -n 20"),
        "systemctl status --no-pager hermes-gateway.service",
        "journalctl _PID=1 UNIT=hermes-gateway.service -n 20 --no-pager",
        "grep ^hermes_queue_age_seconds /run/hermes-metrics/hermes.prom",
        "lslocks --noheadings --output COMMAND,PID,PATH",
        "ls -l /var/lib/hermes/cron",
    }
)
"""Commands of ``instance exec`` that a step may run without asking, word for word."""


def is_reading(command: tuple[str, ...]) -> bool:
    """Whether a command, in its words after ``hermesops``, changes nothing."""
    match command:
        case ("instance", "settings" | "model-provider", user):
            return not user.startswith("-")
        case ("instance", "exec", user, script, *reason):
            is_why = not reason or (len(reason) == len(("--reason", "why")) and reason[0] == "--reason")
            return script in READING_ON_MACHINES and is_why and not user.startswith("-")
        case ("monitor", "--check"):
            return True
    return bool({" ".join(command[:count]) for count in (1, 2, 3)} & READING)
