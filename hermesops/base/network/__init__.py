"""Network access of our clients: the one home of proxies, authorities and the operator's variables.

An address of our own is never reached through a proxy; every other one as the operator's shell says. So clients are
made here, or with what is found here: libraries would read the variables by themselves, each in its own way.
"""
