"""Policies: one file each, all of them `Snapshot -> Plan`."""
