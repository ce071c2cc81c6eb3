"""The fabric as data: racks, hosts, switches, links, rates and paths, and how each link is shaped."""
