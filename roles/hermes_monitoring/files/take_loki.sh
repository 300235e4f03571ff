#!/bin/sh
# Put PROGRAM.new into the place of PROGRAM if it has that SHA-256 and is Loki: the program itself, or Grafana's archive of it.
# Usage: take_loki.sh PROGRAM SHA256
set -eu
program=$1
sha256=$2

trap 'rm -f "$program.new" "$program.part"' EXIT
if ! echo "$sha256  $program.new" | sha256sum --check --status; then
    echo "not the bytes that $sha256 names" >&2
    exit 1
fi
# An archive begins with PK.
if [ "$(head -c 2 "$program.new")" = PK ]; then
    python3 -c '
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    [name] = [each for each in archive.namelist() if each.startswith("loki-linux-")]
    with archive.open(name) as packed, open(sys.argv[2], "wb") as program:
        shutil.copyfileobj(packed, program)
' "$program.new" "$program.part"
else
    mv "$program.new" "$program.part"
fi
chmod 0755 "$program.part"
# Another program of the same name is in the distribution's archive.
if ! "$program.part" -version 2>&1 | grep --quiet '^loki, version'; then
    echo "it is not Grafana Loki" >&2
    exit 1
fi
rm -f "$program.sha256"
mv "$program.part" "$program"
echo "$sha256" >"$program.sha256"
