"""What fulfils the ports of rollouts and relocations with the registry, machines and health."""
