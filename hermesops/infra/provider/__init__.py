"""``pulumi-resource-justavps``: the Pulumi plugin, a process of its own between an engine and JustAVPS.

It translates Pulumi's provider protocol to the vendor's API, and decides whether a change replaces a machine.
It must not know a machine's owner, read settings, or answer with a secret.
"""
