"""Stand-ins of vendors that a local world cannot have, each enforcing the documented limits that it knows."""
