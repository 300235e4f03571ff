"""The commands, one module or folder per noun: parse, call ``app``, show the result."""

SUMMARIES = {
    "provision": "Give a user a running agent.",
    "doctor": "Check programs, rights, disk space, keys, registry and the vendor's API.",
    "worker": "Run operations and scheduled jobs.",
    "monitor": "Watch heartbeats, and bring dead machines up again.",
    "instance": "One user's agent.",
    "wait": "Wait until agents are healthy, or in another state.",
    "image": "Images that machines boot from.",
    "release": "Releases: the software of instances, locked and signed.",
    "stack": "Pulumi stacks of cells and of the platform.",
    "platform": "The shared platform, and the cloud account that it is in.",
    "cell": "Cells: some 40 machines each, in one Pulumi stack.",
    "pool": "Warm pools: machines prepared in advance.",
    "backup": "Backups: encrypted copies of agents' states, outside the vendor.",
    "drill": "Drills: rehearsals of disaster recovery.",
    "snapshot": "Snapshots: JustAVPS's images of one agent's machine, private to it.",
    "identity": "Identities: the certificates by which machines authenticate themselves.",
    "token": "Tokens: they open JustAVPS's proxy to one machine, for one purpose and six hours at most.",
    "api": "The users' API and chat page.",
    "connector": "The connector: messengers' messages to agents, and agents' answers.",
    "messenger": "Messengers: the bots by which users write to their agents.",
    "message": "Messages in messengers, without their texts.",
    "relay": "The relay: the one way by which the platform's services reach agents.",
    "rollout": "Rollouts: one release deployed to many instances, in stages that halt when a gate fails.",
    "rollback": "Roll one instance, or all of a rollout, back to the release before.",
    "user": "Users: their agents, subscriptions and requests.",
    "billing": "Billing: Stripe's events about subscriptions, and the changes of agents that follow.",
    "job": "Scheduled jobs: work that workers start by themselves.",
    "fleet": "The whole fleet.",
    "console": "The console: pages of the fleet for operators.",
    "alert": "Alerts of the platform's monitoring: problem, duration and next step.",
    "runbook": "Runbooks: the steps that end an alert's cause.",
    "operation": "Operations: long-running work with intent, lease and outcome.",
    "local": "The local world: JustAVPS's API and machines on this computer, real or simulated.",
    "registry": "The registry's database.",
    "audit": "The audit log: each change with its operator and reason.",
    "secrets": "Keys and passwords that hermesops itself needs.",
    "approval": "Approvals: a second operator's signature on a saved preview or list of another one.",
    "env": "Environments: named sets of settings, keys and state.",
    "settings": "Settings of an environment.",
}
"""Help of each. One without verbs has more in its docstring."""

SECTIONS = {
    "Everyday": (
        *("provision", "instance", "wait", "fleet", "console", "operation", "alert", "runbook", "user", "message"),
        *("billing", "worker", "monitor", "job"),
    ),
    "Releases": ("image", "release", "rollout", "rollback"),
    "Infrastructure": ("platform", "cell", "pool", "stack", "relay", "api", "connector", "messenger"),
    "Recovery": ("backup", "snapshot", "drill", "registry"),
    "Security": ("audit", "approval", "identity", "token", "secrets"),
    "This computer": ("doctor", "env", "settings", "local"),
}
"""Where each stands in ``--help``."""

FOLDERS = frozenset({"instance", "platform", "rollout"})
"""Nouns with a folder in ``commands``; its module ``group`` assembles their commands."""

LISTS = frozenset({"doctor"})
"""Commands without verbs whose result is a table."""
