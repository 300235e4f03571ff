"""Brings files, folders and links to what a list says, all of them in one request."""

from __future__ import annotations

import contextlib
import errno
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
    - No link above a file is followed that somebody but root may have put there.
    - Contents that not everybody may read are in no difference, and not in what Ansible says that was asked.
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
_HIDDEN = "(not shown: not everybody may read it)\n"
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
        try:
            is_changed = _bring_one(module, entry, difference)
        except OSError as error:
            module.fail_json(msg=f"{entry.path}: {error.strerror}", changed=bool(changed), changed_files=changed)
        if is_changed:
            changed.append(entry.path)
            differences.append(difference)
    return changed, differences


def _bring_one(module: AnsibleModule, entry: Entry, difference: dict[str, str]) -> bool:
    acts = {"absent": _remove, "directory": _make_folder, "link": _link}
    try:
        folder = _open_folder(str(Path(entry.path).parent), makes=entry.state == "directory" and not module.check_mode)
    except FileNotFoundError:
        if entry.state != "absent" and not module.check_mode:
            raise
        return entry.state != "absent"
    try:
        # By the folder that is open: nobody who may rename folders above moves what is done here.
        place = f"/proc/self/fd/{folder}/{Path(entry.path).name}"
        return acts.get(entry.state, _write)(module, entry, place, difference)
    finally:
        os.close(folder)


def _open_folder(path: str, *, makes: bool) -> int:
    """Open a folder without following a link that somebody but root may have put above it.

    Raises:
        OSError: It is not there, or a link of somebody else's is in its path.
    """
    folder = os.open("/", os.O_PATH | os.O_DIRECTORY)
    for part in Path(path).parts[1:]:
        try:
            inner = _step(folder, part, makes=makes)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _step(folder: int, part: str, *, makes: bool) -> int:
    if makes:
        with contextlib.suppress(FileExistsError):  # two runs may make the same folder at the same time
            os.mkdir(part, dir_fd=folder)
    above, found = os.fstat(folder), os.stat(part, dir_fd=folder, follow_symlinks=False)
    flags = os.O_PATH | os.O_DIRECTORY
    if stat.S_ISLNK(found.st_mode):
        others = stat.S_IMODE(above.st_mode) & 0o022 and not above.st_mode & stat.S_ISVTX
        if found.st_uid or above.st_uid or others:
            raise OSError(errno.ELOOP, f"{part} in its path is a link that is not root's alone")
        return os.open(part, flags, dir_fd=folder)
    return os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)


def _check(module: AnsibleModule, entry: Entry) -> None:
    if not entry.validate or entry.state != "file" or _text_of(entry.path) == entry.content.encode():
        return
    candidate = _candidate(entry, module.tmpdir)
    code, out, err = module.run_command(entry.validate % candidate)
    Path(candidate).unlink()
    if code:
        module.fail_json(msg=f"{entry.path}: {entry.validate} refused it: {(err or out).strip()[-2000:]}")


def _candidate(entry: Entry, folder: str) -> str:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".hermes-")
    with os.fdopen(handle, "wb") as file:
        file.write(entry.content.encode())
        file.flush()
        os.fsync(file.fileno())
    return name


def _write(module: AnsibleModule, entry: Entry, place: str, difference: dict[str, str]) -> bool:
    before, after = _text_of(place), entry.content.encode()
    is_other = before is None or (entry.state == "file" and before != after)
    if not is_other:
        return _attribute(module, entry, place)
    if is_secret(entry) or _is_hidden(place):
        difference.update(before="" if before is None else _HIDDEN, after=_HIDDEN)
    else:
        difference.update(before=(before or b"").decode(errors="replace"), after=entry.content)
    if not module.check_mode:
        candidate = _candidate(entry, str(Path(place).parent))
        try:
            _attribute(module, entry, candidate)
            # Not Ansible's atomic_move: it first gives a new secret the permissions of the file that it replaces.
            Path(candidate).rename(place)
        except BaseException:
            Path(candidate).unlink(missing_ok=True)
            raise
    return True


def is_secret(entry: Entry) -> bool:
    """Whether what it holds is not for everybody, and so not for what Ansible prints and keeps."""
    return entry.state in {"file", "kept"} and not int(entry.mode or _MODES[entry.state], 8) & stat.S_IROTH


def _is_hidden(place: str) -> bool:
    try:
        return not os.lstat(place).st_mode & stat.S_IROTH
    except FileNotFoundError:
        return False


def _make_folder(module: AnsibleModule, entry: Entry, place: str, _: dict[str, str]) -> bool:
    path = Path(place)
    if path.is_symlink() and path.lstat().st_uid:
        raise OSError(errno.ELOOP, "it is a link of another user's")
    is_missing = not path.is_dir()
    if is_missing and module.check_mode:
        return True
    # Two runs may make the same folder at the same time.
    path.mkdir(exist_ok=True)
    return _attribute(module, entry, place) or is_missing


def _link(module: AnsibleModule, entry: Entry, place: str, difference: dict[str, str]) -> bool:
    path = Path(place)
    if path.is_symlink() and str(path.readlink()) == entry.content:
        return False
    difference["after"] = f"link to {entry.content}\n"
    if not module.check_mode:
        # Of its own name: two runs may mask the same unit at the same time.
        made = Path(f"{place}.hermes-{os.getpid()}")
        made.unlink(missing_ok=True)
        made.symlink_to(entry.content)
        made.rename(path)
    return True


def _remove(module: AnsibleModule, entry: Entry, place: str, difference: dict[str, str]) -> bool:
    path = Path(place)
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
    entries = [Entry(**one) for one in given]
    # Ansible prints and keeps what a module was asked, too.
    for one, entry in zip(given, entries, strict=True):
        if is_secret(entry):
            one["content"] = _HIDDEN
    changed, differences = bring(module, entries)
    module.exit_json(changed=bool(changed), changed_files=changed, diff=differences)


if __name__ == "__main__":
    main()
