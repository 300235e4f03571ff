"""Operations: their kinds, the loop that brings a row to its end, leases, and the worker."""
