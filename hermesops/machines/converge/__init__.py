"""Applies Ansible roles to machines: runs a playbook with ansible-runner and turns its events into typed results."""

from hermesops.machines.converge.inventory import Host, hosts_of
from hermesops.machines.converge.playbook import Access, Converger
from hermesops.machines.converge.results import Converged, HostResult, TaskFailure

__all__ = ["Access", "Converged", "Converger", "Host", "HostResult", "TaskFailure", "hosts_of"]
