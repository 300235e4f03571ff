"""Reads templates and files of the role for module ``hermes_files``, which then needs one request for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOKUPS = {"template": "ansible.builtin.template", "source": "ansible.builtin.file"}


class ActionModule(ActionBase):
    """Ansible looks for this class."""

    _requires_connection = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Bring the machine's files to what the task says."""
        del tmp
        variables = task_vars or {}
        files = self._task.args.get("files")
        if not isinstance(files, list) or set(self._task.args) != {"files"}:
            raise AnsibleActionFail("hermes_files takes a list, files, and nothing else")
        given = [self._read(one, variables) for one in files]
        # A module writes its arguments to the machine's log, where whole files have no place.
        unlogged = {**variables, "ansible_no_target_syslog": True}
        result: dict[str, Any] = self._execute_module(
            module_name="hermes_files", module_args={"files": given}, task_vars=unlogged
        )
        return result

    def _read(self, entry: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """An entry with its content in the place of where that is written."""
        read = {key: value for key, value in entry.items() if key not in _LOOKUPS}
        for key, name in _LOOKUPS.items():
            if key in entry:
                lookup = lookup_loader.get(name, loader=self._loader, templar=self._templar)
                options = {"rstrip": False} if key == "source" else {}
                read["content"] = lookup.run([entry[key]], variables, **options)[0]
        return read
