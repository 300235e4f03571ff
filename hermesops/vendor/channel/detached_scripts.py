"""Scripts that run a detached command on the machine: for dash, with tools of Debian and Ubuntu. Pure.

A command has a folder of its own with a file ``claim`` that only the first script can make: the start, which has locked
the folder by then; or else a look or a stop, and then the start is refused for good. The shell around the command holds
the lock, which is released when that shell ends.
"""

import shlex

FOLDER = "/run/hermesops-runs"
"""In memory: output may be secret, must not get into images, and is gone after a reboot."""

SWEEPER = "hermesops-sweep-"
"""What the names of the units begin with that remove what commands left."""

DONE, RUNNING, EXPIRED, BROKEN = "done", "running", "expired", "broken"
UNSTARTED, REFUSED, NEVER = "unstarted", "refused", "never"

COMMAND = 3
"""Where the command is among the arguments of the script that starts it."""

STATES = frozenset({DONE, RUNNING, EXPIRED, BROKEN, UNSTARTED, REFUSED, NEVER})

# $1 folder. Whichever command makes the common folder starts its sweeper, which may sweep meanwhile. What is old and
# not locked was read, or is not wanted. systemd writes a transient unit's command to a file and reads it back when it
# reloads, which breaks every dollar sign, backslash and semicolon (252, seen 2026): the sweeper's command has none.
# A folder in use stays, and is no failure: a failed unit would be one of the machine's.
_MAKE = """
sweeper="hermesops-sweep-${1##*/}"
sweep="find '${1%/*}' -mindepth 1 -maxdepth 1 -mmin +10 -print0 | xargs -0 -I {} flock -n {} rm -rf {}
rmdir '${1%/*}' 2>/dev/null && systemctl stop $sweeper.timer || true"
for _ in 1 2 3; do
  mkdir -m 700 "$1" && break
  [ ! -d "$1" ] || break
  mkdir -m 700 "${1%/*}" && systemd-run --quiet --collect --unit="$sweeper" \\
    --description="Removal of what commands left" --on-active=600 --on-unit-inactive=600 \\
    sh -c "$sweep" </dev/null >/dev/null || rmdir "${1%/*}"
done 2>/dev/null
if [ ! -d "$1" ]; then
  echo "cannot make $1" >&2
  exit 126
fi
"""

# $2 seconds to wait, $3 bytes that fit into the answer. flock waits without polling.
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

# $4 command, $5 limit, $6 what runs it. setsid --fork rather than &, which would have the command ignore signals. The
# descriptor 9 carries the lock along.
_LAUNCH = """
exec 9<"$1"
set -C
if ! flock -n 9 || ! echo start 2>/dev/null >"$1/claim"; then
  echo refused
  exit
fi
set +C
setsid --fork systemd-run --scope --quiet --collect --unit="${1##*/}" sh -c "$6" sh "$1" "$4" "$5" \\
  </dev/null >/dev/null 2>"$1/trouble"
exec 9<&-
"""

# $1 folder, $2 command, $3 limit. Processes that the command leaves behind run on after its end, until its limit.
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

# The age is that of the first process, which counts from boot in a container too.
_CLAIM = """
set -C
if echo observe 2>/dev/null >"$1/claim"; then claim=observe; else read -r claim <"$1/claim"; fi
set +C
if [ "$claim" = observe ]; then
  read -r up rest </proc/uptime
  read -r stat </proc/1/stat
  set -- ${stat##*) }
  shift 19
  echo "never $((${up%.*} - $1 / 100))"
  exit
fi
"""

# The folder first: without it a command cannot begin, and one that has begun is in its scope.
_STOP = """
rm -rf "$1"
systemctl kill --signal=KILL "${1##*/}.scope" 2>/dev/null
rm -rf "$1"
"""


def script_command(script: str, *arguments: str) -> str:
    """The command line that runs a script in ``sh`` with these as ``$1``, ``$2`` and so on."""
    return shlex.join(["sh", "-c", script, "sh", *arguments])


def start(folder: str, command: str, limit_s: str, wait_s: str, inline: str) -> str:
    """The command line that starts one, waits a while and prints its status."""
    return script_command(_MAKE + _LAUNCH + _TELL, folder, wait_s, inline, command, limit_s, _RUN)


def observe(folder: str, wait_s: str, inline: str) -> str:
    """The command line that waits a while and prints its status; one that has not begun will never begin."""
    return script_command(_MAKE + _CLAIM + _TELL, folder, wait_s, inline)


def stop(folder: str) -> str:
    """The command line that kills one and deletes its files; one that has not begun will never begin."""
    return script_command(_MAKE + _CLAIM + _STOP, folder)
