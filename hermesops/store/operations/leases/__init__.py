"""Leases on subjects: who holds one, how it is kept, and what a process that waits for it reads."""
