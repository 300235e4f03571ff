"""Brings files, folders and links to what a list says, all of them in one request."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
name: hermes_files
short_description: Bring many files to what they should be, in one request
description:
    - What C(copy), C(template) and C(file) do in a loop, which asks the machine two to four times for each item.
    - Every content is checked before the first file changes; then all of it is done in order.
author: hermesops
options:
    files:
        description: Files, in the order in which they are made.
        type: list
        elements: dict
        required: true
        suboptions:
            path:
                description: Where it is.
                type: path
                required: true
            state:
                description: C(kept) is a file that is made where there is none, and left alone where there is one.
                type: str
                default: file
                choices: [file, kept, directory, link, absent]
            template:
                description: Name of a template of the role whose text is the content. Read by the action of this name.
                type: str
            source:
                description: Name of a text file of the role which is the content. Read by the action of this name.
                type: str
            content:
                description: Content of a file, or what a link leads to.
                type: str
                default: ""
            owner:
                description: Name of the user that owns it.
                type: str
                default: root
            group:
                description: Name of the group that owns it.
                type: str
                default: root
            mode:
                description: Permissions; 0644 of a file and 0755 of a folder where it is not given.
                type: str
            validate:
                description: Command that must accept the content, with C(%s) for a file of it.
                type: str
"""

EXAMPLES = """
- name: Configure the service
  hermes_files:
    files:
      - {path: /etc/service, state: directory}
      - {path: /etc/service/key, content: "{{ key }}", mode: "0600"}
      - {path: /etc/service/settings, template: settings.j2, validate: service --check %s}
"""

RETURN = """
changed_files:
    description: Paths of what was changed, in order.
    type: list
    elements: str
    returned: always
"""

_ENTRY = {
    "path": {"type": "path", "required": True},
    "state": {"default": "file", "choices": ["file", "kept", "directory", "link", "absent"]},
    "content": {"default": ""},
    "owner": {"default": "root"},
    "group": {"default": "root"},
    "mode": {},
    "validate": {},
}
_MODES = {"file": "0644", "kept": "0644", "directory": "0755"}


@dataclass(frozen=True)
class Entry:
    """One file, folder or link as it should be."""

    path: str
    state: str
    content: str
    owner: str
    group: str
    mode: str | None
    validate: str | None


def bring(module: AnsibleModule, entries: list[Entry]) -> tuple[list[str], list[dict[str, str]]]:
    """Bring all of them to what they should be; those that changed, and their differences."""
    for entry in entries:
        _check(module, entry)
    changed, differences = list[str](), list[dict[str, str]]()
    for entry in entries:
        difference = {"before": "", "after": "", "before_header": entry.path, "after_header": entry.path}
        acts = {"absent": _remove, "directory": _make_folder, "link": _link}
        try:
            is_changed = acts.get(entry.state, _write)(module, entry, difference)
        except OSError as error:
            module.fail_json(msg=f"{entry.path}: {error.strerror}", changed=bool(changed), changed_files=changed)
        if is_changed:
            changed.append(entry.path)
            differences.append(difference)
    return changed, differences


def _check(module: AnsibleModule, entry: Entry) -> None:
    if not entry.validate or entry.state != "file" or _text_of(entry.path) == entry.content.encode():
        return
    candidate = _candidate(module, entry, module.tmpdir)
    code, out, err = module.run_command(entry.validate % candidate)
    Path(candidate).unlink()
    if code:
        module.fail_json(msg=f"{entry.path}: {entry.validate} refused it: {(err or out).strip()[-2000:]}")


def _candidate(module: AnsibleModule, entry: Entry, folder: str) -> str:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".hermes-")
    with os.fdopen(handle, "wb") as file:
        file.write(entry.content.encode())
        file.flush()
        os.fsync(file.fileno())
    module.add_cleanup_file(name)
    return name


def _write(module: AnsibleModule, entry: Entry, difference: dict[str, str]) -> bool:
    before, after = _text_of(entry.path), entry.content.encode()
    is_other = before is None or (entry.state == "file" and before != after)
    if not is_other:
        return _attribute(module, entry, entry.path)
    difference.update(before=(before or b"").decode(errors="replace"), after=entry.content)
    if not module.check_mode:
        candidate = _candidate(module, entry, str(Path(entry.path).parent))
        _attribute(module, entry, candidate)
        # Not Ansible's atomic_move: it first gives a new secret the permissions of the file that it replaces.
        Path(candidate).rename(entry.path)
    return True


def _make_folder(module: AnsibleModule, entry: Entry, _: dict[str, str]) -> bool:
    is_missing = not Path(entry.path).is_dir()
    if is_missing and module.check_mode:
        return True
    # Two runs may make the same folder at the same time.
    Path(entry.path).mkdir(parents=True, exist_ok=True)
    return _attribute(module, entry, entry.path) or is_missing


def _link(module: AnsibleModule, entry: Entry, difference: dict[str, str]) -> bool:
    path = Path(entry.path)
    if path.is_symlink() and str(path.readlink()) == entry.content:
        return False
    difference["after"] = f"link to {entry.content}\n"
    if not module.check_mode:
        # Of its own name: two runs may mask the same unit at the same time.
        made = Path(f"{entry.path}.hermes-{os.getpid()}")
        made.unlink(missing_ok=True)
        made.symlink_to(entry.content)
        made.rename(path)
    return True


def _remove(module: AnsibleModule, entry: Entry, difference: dict[str, str]) -> bool:
    path = Path(entry.path)
    if not path.is_symlink() and not path.exists():
        return False
    if path.is_dir() and not path.is_symlink():
        module.fail_json(msg=f"{entry.path} is a folder; only files and links are removed")
    difference["before"] = "there\n"
    if not module.check_mode:
        path.unlink()
    return True


def _attribute(module: AnsibleModule, entry: Entry, path: str) -> bool:
    """Owner, group and permissions; whether one of them changed or would."""
    changed = module.set_owner_if_different(path, entry.owner, changed=False)
    changed = module.set_group_if_different(path, entry.group, changed=changed)
    return bool(module.set_mode_if_different(path, entry.mode or _MODES[entry.state], changed=changed))


def _text_of(path: str) -> bytes | None:
    """What a regular file holds; None where there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return Path(path).read_bytes() if stat.S_ISREG(found.st_mode) else None


def main() -> None:
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True, "options": _ENTRY}},
        supports_check_mode=True,
    )
    given: list[dict[str, Any]] = module.params["files"]
    changed, differences = bring(module, [Entry(**one) for one in given])
    module.exit_json(changed=bool(changed), changed_files=changed, diff=differences)


if __name__ == "__main__":
    main()
