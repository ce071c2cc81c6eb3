"""A fabric as a Mininet Topo, with the names, ports and addresses that the rest of the project expects."""

from __future__ import annotations

from mininet.topo import Topo

from topologies.addressing import NIC, datapath_ids, host_interface, host_mac, port_name, port_numbers
from topologies.fabric import Fabric


class FabricTopo(Topo):
    """Any fabric, unshaped: hosts with their base addresses, switches with datapath ids, links with their ports."""

    def build(self, fabric: Fabric) -> None:
        for index, host in enumerate(fabric.hosts):
            self.addHost(host.name, ip=str(host_interface(index)), mac=host_mac(index))
        for name, dpid in datapath_ids(fabric).items():
            self.addSwitch(name, dpid=f"{dpid:016x}")
        ports = port_numbers(fabric)
        for cable in fabric.cables.values():
            lower, upper = fabric.links[cable.up].src, fabric.links[cable.up].dst
            self.addLink(
                lower,
                upper,
                port1=ports[lower][upper] if lower in ports else 0,
                port2=ports[upper][lower],
                intfName1=port_name(lower, upper) if lower in ports else NIC,
                intfName2=port_name(upper, lower),
            )
