"""Why a job can't go on: a path that is down, or links that higher levels keep for themselves."""

from __future__ import annotations

from harmonics_emu.schedulers.interface import Plan
from harmonics_emu.simulate.kernel.loop import Jobs
from harmonics_emu.simulate.network import Layout, Network


def explain_stall(network: Network, layout: Layout, plan: Plan, jobs: Jobs, job: int, now: float) -> str:
    """One line on a job that is sending and will never end, with what stands in its way."""
    stalled = f"stalled at {now:g} s in iteration {jobs.done[job]}"
    for index in range(jobs.entity[job], jobs.entity[job + 1]):
        if not layout.sharing.active[index] or layout.sharing.rate[index] > 0:
            continue
        for flow, path in zip(network.entities[index].flows, network.load(index, plan).paths, strict=True):
            down = [link for link in path if link in network.router.down]
            if down:
                return f"{stalled}: no path from {flow.src} to {flow.dst} is up ({down[0]} is down)"
        return f"{stalled}: starved {_starved_by(network, layout, index)}"
    raise AssertionError(f"job {job} is not stalled")


def _starved_by(network: Network, layout: Layout, entity: int) -> str:
    """The link that others of earlier levels fill, and who they are."""
    sharing = layout.sharing
    level = sharing.level[entity]
    names = {index: name for name, index in network.links.items()}
    crossed = layout.link[layout.owner == entity]
    for link in crossed:
        users = layout.owner[layout.link == link]
        before = [user for user in users if sharing.active[user] and sharing.level[user] < level]
        used = sum(
            sharing.rate[user] * layout.carried[(layout.owner == user) & (layout.link == link)][0] / layout.scale[user]
            for user in before
        )
        if before and used >= sharing.capacity[link] * (1 - 1e-9):
            owners = dict.fromkeys(network.entities[user].owner for user in before)
            return f"at level {level} on {names[int(link)]}, which {', '.join(owners)} of earlier levels fill"
    return f"at level {level}"
