"""The local world of an environment: server, programs that are built for it, removal."""
