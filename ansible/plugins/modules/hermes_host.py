"""Says of a host, in one request, what roles ask before they change anything: distribution, packages, files."""

from __future__ import annotations

import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
name: hermes_host
short_description: What roles ask of a host before they change anything, in one request
description:
    - What C(setup), C(dpkg-query) and C(stat) say in a request each. It changes nothing.
author: hermesops
options:
    packages:
        description: Debian packages that are wanted.
        type: list
        elements: str
        default: []
    paths:
        description: Names of the role's own, each with a path.
        type: dict
        default: {}
"""

EXAMPLES = """
- name: Read the host's state
  hermes_host:
    packages: [redis-server]
    paths: {unit: /etc/systemd/system/example.service}
  register: seen
"""

RETURN = """
distribution:
    description: As os-release says, for example C(debian 12).
    type: str
    returned: always
missing:
    description: Packages that are wanted and not installed, in the order given.
    type: list
    elements: str
    returned: always
container:
    description: Whether it is a container, which shares the kernel and the clock of another host.
    type: bool
    returned: always
there:
    description: For each name whether there is something at its path.
    type: dict
    returned: always
"""


def distribution() -> str:
    """Name and version as os-release has them; ``unknown`` where it says neither."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{release['ID']} {release.get('VERSION_ID', '')}".strip()


def missing(module: AnsibleModule, packages: list[str]) -> list[str]:
    """Which of these packages are not installed."""
    if not packages:
        return []
    # An unknown package makes it exit with 1, and say the others all the same.
    shown = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\\n", "--", *packages]
    _, out, _ = module.run_command(shown)
    return [package for package in packages if f"installed {package}" not in out.splitlines()]


def main() -> None:
    """Run as Ansible's module."""
    spec = {"packages": {"type": "list", "elements": "str", "default": []}, "paths": {"type": "dict", "default": {}}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    module.exit_json(
        changed=False,
        distribution=distribution(),
        container=module.run_command(["systemd-detect-virt", "--container", "--quiet"])[0] == 0,
        missing=missing(module, module.params["packages"]),
        there={name: Path(path).exists() for name, path in module.params["paths"].items()},
    )


if __name__ == "__main__":
    main()
