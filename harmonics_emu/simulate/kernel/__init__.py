"""The compiled inner parts: an event queue, max-min sharing by priority, and the loop of jobs that iterate.

Everything in here works on plain arrays and is compiled by numba; nothing in here knows a fabric, a policy or a name.
"""
