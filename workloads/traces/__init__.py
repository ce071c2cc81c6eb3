"""Readers of what others recorded: job logs, profiler traces, topologies and benchmarks. One format a module.

Files are strangers' work: sizes and nesting are bounded, a bad row is counted and passed over, and what can't be read
at all is a TraceError that names the place.
"""
