#!/bin/sh
# Give the agent's home what its first start would make anyway (skills, an empty database), so that no user waits for it.
# Nothing of a user, no key and no configuration may come of it.
set -eu

current=/opt/hermes/current
[ -x "$current/venv/bin/python" ] || { echo "no agent in $current" >&2; exit 1; }

umask 077
cd /var/lib/hermes
runuser --user hermes -- env -i \
    HOME=/var/lib/hermes HERMES_HOME=/var/lib/hermes HERMES_BUNDLED_SKILLS="$(readlink -f "$current")/skills" \
    PATH=/usr/bin:/bin HERMES_DISABLE_LAZY_INSTALLS=1 \
    "$current/venv/bin/python" -c '
from hermes_state import SessionDB
from tools.skills_sync import sync_skills

made = sync_skills(quiet=True)
SessionDB().close()
print(len(made["copied"]), "skills copied")
'
