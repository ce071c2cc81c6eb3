"""The software-defined network's controller: it routes jobs over the fabric and marks them with their priority.

`rules` and `difference` are pure: from the state of the network to flow entries, and from one set of entries to the
next. `service` carries them out on `switches`, which `adapter` (os-ken or Ryu) brings it; `server` takes the
supervisor's requests, and `flow_table` plays switch for the tests.
"""
