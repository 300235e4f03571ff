"""JustAVPS's API on this computer: server, drivers, vendor daemon, proxy, faults, scripted model."""
