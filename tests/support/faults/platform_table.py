"""Faults of a platform's host that has all services: its database, its bucket, its model router, its disk.

The host is a machine of the local world, so its own disk is this computer's: a small one below its folder is filled.
"""

from tests.support.faults.chains import Act, Chain, both, commands, on_platform
from tests.support.faults.watched import WatchedFleet

_KEYS_OF_THE_BUCKET = "/etc/hermes-platform/secrets/pgbackrest/repository.conf"
_FIGURES = "/var/lib/hermes-platform/metrics/postgresql.prom"
_FIGURES_TIMER = "hermes-platform-postgresql-metrics.timer"
_BACKUP_AGED = "hermes-drill-backup-aged"
_AGE_AGAIN = (
    f'at=$(($(date +%s) - 97200)); while sed -i "/backup_timestamp/s/ [0-9]*$/ $at/" {_FIGURES}; do sleep 5; done'
)
_ROUTER_FOLDER = "/var/lib/hermes-platform-router"
_SMALL_DISK = "/var/lib/hermes-platform/drill"
UP = commands(("stack", "up", "platform"))
_MIGRATED = commands(("registry", "migrate"))
_RESTARTED = frozenset({"PlatformServiceDown", "ModelFailing"})
"""What may be told of a router that is started anew, as its alerts wait less where times are scaled."""

_QUIET_S = 900.0


def in_database(statement: str) -> str:
    """A line that runs a statement in the platform's database, as its owner."""
    psql = (
        "runuser --user postgres -- psql --no-psqlrc --quiet --host=/run/hermes-platform-postgresql --dbname=hermesops"
    )
    return f'{psql} --command="{statement}"'


def ended(alert: str) -> Act:
    """Wait until nobody is told of it any more, which is what the runbook looks for at its end."""

    async def do(fleet: WatchedFleet, _: str) -> None:
        await fleet.ended((alert, "fleet"), within_s=_QUIET_S)

    return do


def _of_the_host(
    fault: str,
    alert: str,
    inject: str,
    repair: Act,
    *,
    meaning: str = "",
    beside: frozenset[str] = frozenset(),
    turns: bool = False,
    undo: Act | None = None,
) -> Chain:
    """A fault whose runbook ends with something that is done on the host."""
    return Chain(
        fault,
        alert,
        about="fleet",
        is_alone=True,
        meaning=meaning,
        inject=on_platform(inject),
        whose=("",),
        halts=True,
        by_hand=both(repair, ended(alert)),
        again="alerts-after",
        beside=beside,
        turns=turns,
        undo=undo,
        # The longest is that of a provider's key: no good answer for ten minutes, which nothing scales.
        alert_s=1000,
    )


PLATFORM_CHAINS = (
    _of_the_host(
        "database-log-stuck",
        "PlatformDatabaseLogStuck",
        f"sed -i 's/^repo1-s3-key-secret=.*/repo1-s3-key-secret=ended/' {_KEYS_OF_THE_BUCKET}",
        UP,
    ),
    _of_the_host(
        "database-backup-old",
        "PlatformBackupOverdue",
        f"systemctl stop {_FIGURES_TIMER}; systemd-run --quiet --collect --unit {_BACKUP_AGED} sh -c '{_AGE_AGAIN}'",
        on_platform(
            "systemctl start hermes-platform-postgresql-backup@diff",
            f"systemctl stop {_BACKUP_AGED}; systemctl start {_FIGURES_TIMER}",
        ),
        undo=on_platform(f"systemctl stop {_BACKUP_AGED} 2>/dev/null || true; systemctl start {_FIGURES_TIMER}"),
    ),
    _of_the_host(
        "platform-disk-full",
        "PlatformDiskFilling",
        f"install -d {_SMALL_DISK}; mount -t tmpfs -o size=16m tmpfs {_SMALL_DISK}; "
        f"head -c 16000000 /dev/zero >{_SMALL_DISK}/full",
        on_platform(f"rm -f {_SMALL_DISK}/full"),
        undo=on_platform(f"umount {_SMALL_DISK}"),
    ),
    _of_the_host(
        "router-cut-off",
        "RouterAccountsStale",
        in_database("REVOKE SELECT ON model_budgets FROM router"),
        _MIGRATED,
        undo=_MIGRATED,
    ),
    _of_the_host(
        "router-folder-gone",
        "RouterUsageLost",
        f"{in_database('REVOKE INSERT ON model_usage FROM router')}; chown root: {_ROUTER_FOLDER}",
        both(_MIGRATED, on_platform(f"chown hermes-router: {_ROUTER_FOLDER}")),
        turns=True,
        undo=_MIGRATED,
    ),
    _of_the_host(
        "provider-key-ended",
        "ProviderKeyRefused",
        "printf ended >/etc/hermes-platform/secrets/router/openai; systemctl restart hermes-platform-router",
        UP,
        beside=_RESTARTED,
        turns=True,
    ),
    _of_the_host(
        "platform-router-ended",
        "PlatformServiceDown",
        "systemctl stop hermes-platform-router.socket hermes-platform-router.service",
        UP,
        meaning="the model router does not run",
        turns=True,
    ),
    _of_the_host(
        "platform-database-ended",
        "PlatformServiceDown",
        "systemctl stop hermes-platform-postgresql",
        on_platform("systemctl start hermes-platform-postgresql"),
        meaning="the platform's database does not run",
    ),
)
