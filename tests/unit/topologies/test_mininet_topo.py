"""FabricTopo gives Mininet the names, ports and addresses of topologies.addressing."""

from topologies.addressing import port_name, port_numbers
from topologies.fat_tree import fat_tree
from topologies.mininet_topo import FabricTopo
from topologies.rack_spine import mininet_topo


def test_links_carry_the_fabrics_ports_and_interface_names() -> None:
    fabric = fat_tree(4, 10**9)
    topo = FabricTopo(fabric)
    numbers = port_numbers(fabric)
    links = topo.links(withInfo=True)
    assert len(links) == len(fabric.cables)
    for lower, upper, info in links:
        ends = {info["node1"]: (info["port1"], info["intfName1"]), info["node2"]: (info["port2"], info["intfName2"])}
        for node, peer in ((lower, upper), (upper, lower)):
            if node in fabric.host_index:
                assert ends[node] == (0, "eth0")
            else:
                assert ends[node] == (numbers[node][peer], port_name(node, peer))


def test_hosts_and_switches_have_their_addresses() -> None:
    topo = mininet_topo(racks=2, hosts_per_rack=2)
    assert topo.nodeInfo("r1h0") | {"ip": "10.0.0.3/16", "mac": "02:00:00:00:00:02"} == topo.nodeInfo("r1h0")
    assert topo.nodeInfo("spine0")["dpid"] == "0000000000000003"
