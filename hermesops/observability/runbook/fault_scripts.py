"""Scripts that bring faults about on a machine."""

import shlex

GATEWAY = "hermes-gateway.service"

FILLER = "/var/lib/hermes/.drill"
FILL = (
    "set -- $(stat -f -c '%a %S' /var/lib/hermes); "
    # Only a file system of the data's own is filled, and never by more than 5 GB: others' room may be below it.
    'test "$(stat -c %d /var/lib/hermes)" != "$(stat -c %d /)" && '
    f"size=$(($1 * $2 / 100 * 95)) && test $size -lt 5000000000 && fallocate -l $size {FILLER}"
)
"""Takes nearly all the room that the data have left."""


def in_gateway(program: str) -> str:
    """The script that runs a Python program in the gateway's control group, so that it ends with the unit."""
    return (
        f"group=$(systemctl show -p ControlGroup --value {GATEWAY}); "
        f"setsid python3 -c {shlex.quote(program)} >/dev/null 2>&1 & "
        # systemd ends what is in its own hierarchy, which is one of these.
        "for root in /sys/fs/cgroup/unified /sys/fs/cgroup/systemd /sys/fs/cgroup; do "
        'test ! -e "$root$group/cgroup.procs" || echo $! > "$root$group/cgroup.procs"; done'
    )


LEAK = f"systemctl set-property --runtime {GATEWAY} MemoryMax=400M && " + in_gateway(
    'import time; kept = b"x" * 300_000_000; time.sleep(3600)'
)
"""Takes most of the gateway's memory, whose cap is lowered for this."""

OWN_CAP = f"rm -rf /run/systemd/system.control/{GATEWAY}.d; systemctl daemon-reload"
"""Undoes a cap that was changed by hand. Not "revert", which removes the unit's drop-ins that are ours as well."""

OVERWRITES = """
import os, sqlite3
home = "/var/lib/hermes/state.db"
connection = sqlite3.connect(home)
connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()[0]
size = connection.execute("PRAGMA page_size").fetchone()[0]
connection.close()
with open(home, "r+b") as file:
    file.seek((page - 1) * size)
    file.write(os.urandom(size))
"""
"""Of an agent whose gateway is stopped."""

_ADDS_JOB = """
import fcntl, json, os, time, urllib.request
home = "/var/lib/hermes/cron/"
key = json.load(open("/etc/hermes-node/instance.json"))["secrets"]["api_server_key"]
port = json.load(open("/etc/hermes-node/gateway.json"))["port"]
job = json.dumps({"name": "drill", "schedule": SCHEDULE, "prompt": "hello"}).encode()
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/api/jobs", job, headers), timeout=20).read()
lock = open(home + ".tick.lock", "w")
os.chown(home + ".tick.lock", *os.stat(home)[4:6])
fcntl.flock(lock, fcntl.LOCK_EX)
jobs = json.load(open(home + "jobs.json"))
for each in jobs["jobs"]:
    if each["name"] == "drill":
        each["next_run_at"] = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - AGO_S))
        each.update(MORE)
with open(home + ".drill", "w") as file:
    json.dump(jobs, file)
os.chown(home + ".drill", *os.stat(home)[4:6])
os.chmod(home + ".drill", 0o600)
os.replace(home + ".drill", home + "jobs.json")
"""


def _job(schedule: str, ago_s: int, more: str = "{}") -> str:
    """The program that adds a job, due for some seconds, and then has the lock without which the agent begins none."""
    return _ADDS_JOB.replace("SCHEDULE", f'"{schedule}"').replace("AGO_S", f"{ago_s}").replace("MORE", more)


HOLDS_JOBS = _job("0 0 1 1 *", 1200) + "time.sleep(3600)\n"
"""Makes a job that has been due for 20 minutes, and keeps the lock without which the agent begins none."""

FAILS_JOBS = "python3 -c " + shlex.quote(_job("* * * * *", 1, '{"no_agent": True, "script": None}'))
"""Makes a job that runs every minute and fails: it wants a script in the place of the agent, and names none."""

ENDS_JOBS = """python3 -c '
import json, urllib.request
key = json.load(open("/etc/hermes-node/instance.json"))["secrets"]["api_server_key"]
url = "http://127.0.0.1:%d/api/jobs" % json.load(open("/etc/hermes-node/gateway.json"))["port"]
def ask(url, method):
    headers = {"Authorization": "Bearer " + key}
    return urllib.request.urlopen(urllib.request.Request(url, None, headers, method=method), timeout=20).read()
for job in json.loads(ask(url, "GET"))["jobs"]:
    if job["name"] == "drill":
        ask(url + "/" + job["id"], "DELETE")
'; hermes-node metrics"""
"""Deletes those jobs."""
