"""Agents' sockets: hermes-agent dials out to the connector and gets messengers' messages through it."""
