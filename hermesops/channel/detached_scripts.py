"""What runs on the machine for a detached command: for dash, with what Debian and Ubuntu always have. Pure.

A command has a folder of its own, and in it a file ``claim`` that only the first comer can make: the start, which has
locked the folder by then, or else whoever looks or stops, and then the start is refused for good. The lock is held by
the shell around the command and goes when that ends, however it ends.
"""

import shlex

FOLDER = "/run/hermesops-runs"
"""In memory: what commands print may be secret, images must not carry it, and a machine that was restarted has none."""

DONE, RUNNING, EXPIRED, BROKEN = "done", "running", "expired", "broken"
UNSTARTED, REFUSED, NEVER = "unstarted", "refused", "never"
STATES = frozenset({DONE, RUNNING, EXPIRED, BROKEN, UNSTARTED, REFUSED, NEVER})

# $1 folder, $2 seconds to wait, $3 bytes that may be told at once. flock waits without looking again and again.
_TELL = """
exec 9<"$1" || exit
flock -s -w "$2" -E 75 9
if [ "$?" = 75 ]; then
  echo running
elif [ -s "$1/code" ]; then
  read -r code <"$1/code"
  size=$(stat -c +%s "$1/out" "$1/err")
  if [ "$((0 $size))" -le "$3" ]; then
    echo "done $code inline"
    for stream in out err; do
      if [ -s "$1/$stream" ]; then base64 -w0 "$1/$stream"; fi
      echo
    done
  else
    echo "done $code kept"
  fi
elif [ -e "$1/expired" ]; then
  echo expired
elif [ -e "$1/out" ]; then
  echo broken
else
  echo unstarted
  base64 -w0 "$1/trouble"
  echo
fi
"""

# $4 command, $5 limit, $6 what runs it, $7 what sweeps. Who makes the folder of all commands sees to its sweeping.
# setsid --fork rather than &, which would have the command ignore signals. The descriptor 9 carries the lock along.
_START = (
    """
name=${1##*/} all=${1%/*}
until mkdir -m 700 "$1"; do
  if [ -d "$1" ]; then
    echo refused
    exit
  fi
  mkdir -m 700 "$all" || exit 126
  systemd-run --quiet --collect --unit="hermesops-sweep-$name" --description="What commands left behind" \\
    --on-active=600 --on-unit-inactive=600 sh -c "$7" sh "$all" "hermesops-sweep-$name" </dev/null >/dev/null
done 2>/dev/null
exec 9<"$1"
flock -n 9 || exit 126
set -C
if ! echo start 2>/dev/null >"$1/claim"; then
  echo refused
  exit
fi
set +C
setsid --fork systemd-run --scope --quiet --collect --unit="$name" sh -c "$6" sh "$1" "$4" "$5" \\
  </dev/null >/dev/null 2>"$1/trouble"
exec 9<&-
"""
    + _TELL
)

# $1 folder, $2 command, $3 limit. What the command leaves behind lives on after its end, but not after its limit.
_RUN = """
(
  exec 9<"$1"
  flock -s -w "$3" -E 75 9
  [ "$?" = 75 ] || exit
  : >"$1/expired"
  systemctl kill --signal=KILL "${1##*/}.scope"
) </dev/null >/dev/null 2>&1 &
sh -c "$2" >"$1/out" 2>"$1/err" 9<&-
echo "$?" >"$1/code"
"""

# $1 all folders, $2 this sweeper. Old and no longer locked means told, or wanted by nobody.
_SWEEP = """
find "$1" -mindepth 1 -maxdepth 1 -mmin +10 -exec flock -n {} rm -rf {} \\;
rmdir "$1" && systemctl stop "$2.timer"
"""

# The age is of the first process, which counts from boot also in a container.
_CLAIM = """
[ -d "$1" ] || mkdir -p -m 700 "$1"
set -C
if echo look 2>/dev/null >"$1/claim"; then claim=look; else read -r claim <"$1/claim"; fi
set +C
if [ "$claim" = look ]; then
  read -r up rest </proc/uptime
  read -r stat </proc/1/stat
  set -- ${stat##*) }
  shift 19
  echo "never $((${up%.*} - $1 / 100))"
  exit
fi
"""

# The folder first: a command that has not begun cannot begin without it, and one that has is in its scope.
_STOP = """
rm -rf "$1"
systemctl kill --signal=KILL "${1##*/}.scope" 2>/dev/null
rm -rf "$1"
"""


def start(folder: str, command: str, limit_s: str, wait_s: str, inline: str) -> str:
    """The command that starts one, waits a while and tells."""
    return _script(_START, folder, wait_s, inline, command, limit_s, _RUN, _SWEEP)


def look(folder: str, wait_s: str, inline: str) -> str:
    """The command that waits a while and tells; of one that has not begun it makes that it never will."""
    return _script(_CLAIM + _TELL, folder, wait_s, inline)


def stop(folder: str) -> str:
    """The command that ends one and removes what it left; one that has not begun never will."""
    return _script(_CLAIM + _STOP, folder)


def _script(script: str, *arguments: str) -> str:
    return shlex.join(["sh", "-c", script, "sh", *arguments])
