"""The script with which a new machine makes itself a platform host, by the roles that the local platform gets."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hermesops.errors import Hint, UsageError
from hermesops.infra.stacks.platform.served_console import TABLE
from hermesops.infra.stacks.platform.spec import Place, PlatformSpec
from hermesops.infra.stacks.platform.users_half import TABLES

SIGNATURE_NAMESPACE = "hermesops-platform"
"""What a bundle is signed for (``ssh-keygen -Y``), so that no other signature of the same key is one of a bundle."""

SIGNER = "release"
BUNDLES = "platform"
"""Folder of bundles in the bucket of releases; below it each version has a folder."""

FOLDER = "/var/lib/hermesops-platform"

ACT_AS_HOST = ("hermesops", "hermesops-identity", "hermesops-relay", "hermes-alarms")
"""Users of the host, beside root, whose programs act with its role: not those that tenants or the internet feed."""

LARGEST = 16 * 1024
"""Bytes of user data that EC2 takes, before base64. Source: EC2 user guide, "Run commands when you launch"."""

_OTHERS = 7 * 1024
"""Bytes of role variables beside the environment's settings, and of names that AWS gives; a test measures them."""

_CONSOLE = 2 * 1024
"""Bytes of further role variables with a served console, as of its pool of operators, which two roles are told."""

_SCRIPT = r"""#!/bin/bash
# Written by hermesops' program of the platform. This machine becomes a platform host by hermesops' own roles; if it
# cannot, its group puts another in its place.
set -euo pipefail
umask 022
export AWS_DEFAULT_REGION=@REGION@ DEBIAN_FRONTEND=noninteractive HOME=/root

token=$(curl -fsS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 900' http://169.254.169.254/latest/api/token)
instance=$(curl -fsS -H "X-aws-ec2-metadata-token: $token" http://169.254.169.254/latest/meta-data/instance-id)

finish() {
	aws autoscaling complete-lifecycle-action --auto-scaling-group-name @GROUP@ --lifecycle-hook-name @HOOK@ \
		--instance-id "$instance" --lifecycle-action-result "$1"
}
trap 'finish ABANDON' ERR

apt-get update -qq
apt-get install -y -qq --no-install-recommends awscli ca-certificates openssh-client python3 >/dev/null

mkdir -p @FOLDER@
cd @FOLDER@

# The bundle: hermesops with its roles, and all that roles install, as its signers made it, of this version alone.
for file in @BUNDLE@ SHA256SUMS SHA256SUMS.sig; do
	aws s3 cp --only-show-errors "s3://@RELEASES@/@BUNDLES@/@VERSION@/$file" "$file"
done
cat >allowed_signers <<'END'
@SIGNERS@
END
ssh-keygen -Y verify -q -f allowed_signers -I @SIGNER@ -n @NAMESPACE@ -s SHA256SUMS.sig <SHA256SUMS
grep -F '  @BUNDLE@' SHA256SUMS | sha256sum --check --strict --quiet
rm -rf bundle hermesops venv
mkdir bundle hermesops
tar -xf @BUNDLE@ -C bundle
rm @BUNDLE@
tar -xf bundle/control.tar -C hermesops
hermesops/uv --offline --no-config venv --python=/usr/bin/python3 venv
(cd hermesops && ./uv --offline --no-config pip install --no-cache --no-index --no-deps --find-links=wheels \
	--python=../venv/bin/python --requirements=requirements.txt)

cat >variables.json <<'END'
@VARIABLES@
END
cat >inventory.yml <<'END'
platforms: {hosts: {localhost: {ansible_connection: local, ansible_python_interpreter: /usr/bin/python3}}}
END

# To apply the roles once more, after a change of a secret: systemctl start hermes-platform-roles
cat >apply <<'END'
#!/bin/bash
set -euo pipefail
umask 077
cd @FOLDER@
secrets=$(mktemp /run/hermes-platform-secrets.XXXXXX)
trap 'rm -f "$secrets"' EXIT
AWS_DEFAULT_REGION=@REGION@ aws secretsmanager get-secret-value --secret-id @SECRET@ \
	--query SecretString --output text >"$secrets"
ansible=$(venv/bin/python -c 'from hermesops.base import assets; print(assets.folder("ansible"))')
export ANSIBLE_CONFIG=$ansible/ansible.cfg PATH=@FOLDER@/venv/bin:$PATH HOME=/root
ansible-playbook -i inventory.yml -e @bundle/variables.json -e @variables.json -e "@$secrets" \
	"$ansible/playbooks/platform.yml"
END
chmod 755 apply
cat >/etc/systemd/system/hermes-platform-roles.service <<'END'
[Unit]
Description=Applies the roles of the platform to this host
[Service]
Type=oneshot
ExecStart=@FOLDER@/apply
END
systemctl daemon-reload
systemctl start hermes-platform-roles || { journalctl -u hermes-platform-roles -n 60 --no-pager; false; }

# Last, so that a host which does not work takes nothing from one that does.
aws ec2 associate-address --allocation-id @ADDRESS@ --instance-id "$instance" --allow-reassociation
finish CONTINUE
"""


@dataclass(frozen=True)
class UserData:
    """Parameters of a new host's first script.

    Attributes:
        version: Version of hermesops.
        signers: Public keys of allowed signers of the bundle.
        releases: Name of the bucket with the bundle.
        secret: ARN of the secret whose JSON holds the role variables that are secret.
        address: Allocation id of the hosts' public address.
        group: Name of the autoscaling group.
        hook: Name of the group's lifecycle hook, which waits for this script.
        variables: Role variables that are not secret.
    """

    place: Place
    version: str
    signers: Sequence[str]
    releases: str
    secret: str
    address: str
    group: str
    hook: str
    variables: Mapping[str, object]


def user_data(data: UserData) -> str:
    """The script; it holds no secret."""
    words = {
        "REGION": data.place.region,
        "GROUP": data.group,
        "HOOK": data.hook,
        "BUNDLE": f"hermesops-{data.version}.tar",
        "VERSION": data.version,
        "RELEASES": data.releases,
        "SECRET": data.secret,
        "ADDRESS": data.address,
        "SIGNER": SIGNER,
        "NAMESPACE": SIGNATURE_NAMESPACE,
        "BUNDLES": BUNDLES,
        "FOLDER": FOLDER,
    }
    script = _SCRIPT
    for name, word in words.items():
        script = script.replace(f"@{name}@", shlex.quote(word))
    signers = "\n".join(f"{SIGNER} {key}" for key in data.signers)
    variables = json.dumps(dict(data.variables), indent=1, sort_keys=True)
    return script.replace("@SIGNERS@", signers).replace("@VARIABLES@", variables)


def most_bytes(spec: PlatformSpec) -> int:
    """The size of the script that a platform's host gets, rounded up: parts of it are known only once AWS has them."""
    host = spec.sizes.host
    of_users = {name: spec.settings.get(name, {}) for name in TABLES}
    of_console = {TABLE: spec.settings.get(TABLE, {})}
    variables = {
        "settings": spec.settings,
        "api": of_users,
        "connections": of_users,
        "connector": of_users,
        "console": of_console,
    }
    data = UserData(spec.place, host.version, host.signers, "", "", "", "", "", variables)
    return len(user_data(data).encode()) + _OTHERS + (_CONSOLE if spec.settings.get(TABLE) else 0)


def refuse_long(spec: PlatformSpec) -> None:
    """Return where EC2 takes the script of a platform's host, before anything of the platform is made.

    Raises:
        UsageError: It may be too long, as the settings that the host is handed on are.
    """
    if (size := most_bytes(spec)) <= LARGEST:
        return
    lengths = {name: len(json.dumps(value, indent=1)) for name, value in _named(spec.settings)}
    longest = max(lengths, key=lambda name: lengths[name])
    raise UsageError(
        f"the platform's host would get a first script of {size} bytes, and EC2 takes {LARGEST}; "
        f"the longest of the settings in it is {longest} with {lengths[longest]}",
        hint=Hint("make it shorter: of a hook, a program's name is enough;", ("settings", "show"), "has all of them"),
    )


def _named(settings: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for table, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{table}.{key}", inner) for key, inner in value.items())
        else:
            yield table, value
