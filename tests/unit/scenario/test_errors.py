"""Every kind of mistake in a scenario file, with the exact lines that its author reads."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import textwrap

import pytest
import yaml

from harmonics_emu.scenario import ScenarioError, composer, parse_scenario
from harmonics_emu.scenario.problems import MAX_SHOWN

HEAD = """\
name: demo
fabric: {kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 400Mbit, uplink_rate: 200Mbit}
"""
JOB = "{name: a, gradients: 1MB, compute: {iteration: 75ms}, workers: 2, iterations: 9}"
GOOD = f"{HEAD}jobs:\n- {JOB}\n"
RACKS = "kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 400Mbit"
REST = "compute: {iteration: 1s}, iterations: 9"


def job(*fields: str) -> str:
    """A file whose jobs have these fields, one job a line from line 4 on."""
    return HEAD + "jobs:\n" + "".join(f"- {{{job}}}\n" for job in fields)


def fabric(fields: str) -> str:
    """A file whose fabric, on line 3, has these fields."""
    return f"name: demo\njobs: [{JOB}]\nfabric: {{{fields}}}\n"


NOT_READABLE = {
    "empty": (
        "",
        """
        1:1: the file is empty; hint: `harmonics-emu scenarios` lists examples
        """,
    ),
    "only a comment": (
        "# to do\n",
        """
        1:1: the file is empty; hint: `harmonics-emu scenarios` lists examples
        """,
    ),
    "null": (
        "---\n...",
        """
        1:1: the file is empty; hint: `harmonics-emu scenarios` lists examples
        """,
    ),
    "a list": (
        "- name: demo\n",
        """
        1:1: a scenario is a mapping (key: value), not a list
        """,
    ),
    "a text": (
        "demo",
        """
        1:1: a scenario is a mapping (key: value), not 'demo'
        """,
    ),
    "two documents": (
        "name: a\n---\nname: b",
        """
        2:1: a second document begins here; hint: one file holds one scenario: remove the ---
        """,
    ),
    "not UTF-8": (
        b"name: d\xe9mo\n",
        """
        1:8: the file is not UTF-8 (byte 0xe9); hint: save it as UTF-8
        """,
    ),
    "UTF-16": (
        "name: demo".encode("utf-16"),
        """
        1:1: the file is not UTF-8 (byte 0xff); hint: save it as UTF-8
        """,
    ),
    "control character": (
        "name: demo\nseed: \x1b[2J1",
        """
        2:7: the file holds the control character U+001B; hint: remove it
        """,
    ),
    "too large": (
        b"#" * 1_000_001,
        """
        1:1: the file is larger than 1 MB; hint: split the scenario
        """,
    ),
    "cyclic alias": (
        "name: &a [*a]",
        """
        1:11: name[0]: the value marked &a contains itself
        """,
    ),
    "unknown alias": (
        "name: *a",
        """
        1:7: name: no value above is marked &a
        """,
    ),
    "deep nesting": (
        "name: " + "[" * 33,
        """
        1:38: name[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: values are nested more than 32 deep
        """,
    ),
    "a key that is a list": (
        "? [a]\n: 1",
        """
        1:3: a key must be plain text
        """,
    ),
    "too many values": (
        "capture: [" + "a, " * 100_000 + "]",
        """
        1:300002: capture[99997]: the file holds more than 100000 values
        """,
    ),
    "billion laughs": (
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in itertools.pairwise("abcdefghi")),
        """
        1:35: aliases make more than 100000 values of this file; hint: write the values out
        """,
    ),
    "aliases nest too deep": (
        "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(40)),
        """
        1:10: aliases nest values more than 32 deep
        """,
    ),
}

WRONG = {
    "tag": (
        f"{GOOD}seed: !!python/object/apply:os.system [ls]",
        """
        5:7: seed: the YAML tag tag:yaml.org,2002:python/object/apply:os.system is not allowed; hint: remove the tag
        """,
    ),
    "duplicate key": (
        f"{GOOD}seed: 1\nseed: 2",
        """
        6:1: seed: this key is given twice; hint: it stands on line 5 too
        """,
    ),
    "no value": (
        f"{GOOD}seed:\ncapture: [~]",
        """
        5:1: seed: has no value; hint: give it one, or remove it
        6:11: capture[0]: has no value; hint: give it one, or remove it
        """,
    ),
    "merge key": (
        f"{GOOD}<<: {{seed: 1}}",
        """
        5:1: <<: unknown key; hint: merge keys are not supported: write the keys out
        """,
    ),
    "unknown keys": (
        job(f"name: a, gradients: 1MB, {REST}, worker: 2, xyzzy: 1"),
        """
        4:3: jobs[0].workers: missing; hint: say how many, as workers: 4, or list the hosts in placement
        4:70: jobs[0].worker: unknown key; hint: did you mean 'workers'?
        4:81: jobs[0].xyzzy: unknown key; hint: there are: name, model, gradients, sizes, workers, placement, movable, program, collective, servers, stages, activations, ... (28 in all)
        """,
    ),
    "unknown key in a nested section": (
        job("name: a, gradients: 1MB, workers: 2, iterations: 9, compute: {iteraton: 75ms}"),
        """
        4:66: jobs[0].compute.iteraton: unknown key; hint: did you mean 'iteration'?
        """,
    ),
    "missing keys": (
        "seed: 1",
        """
        1:1: fabric: missing; hint: add it, as fabric: {kind: dumbbell, hosts_per_side: 2, host_rate: 400Mbit, uplink_rate: 200Mbit}
        1:1: jobs: missing; hint: add it, as jobs: [{name: vision, model: vgg16, workers: 4, iterations: 60}]
        1:1: name: missing; hint: add it, as name: two-tenants
        """,
    ),
    "types": (
        f"{HEAD}jobs: 3\nseed: 1.5\nworst_case: 'yes'\ncapture: leaf0-spine0\ndescription: 7",
        """
        3:7: jobs: must be a list, not 3
        4:7: seed: must be a whole number, not 1.5
        5:13: worst_case: must be true or false, not 'yes'
        6:10: capture: must be a list, not 'leaf0-spine0'
        7:14: description: must be text, not 7; hint: put it in quotes: "7"
        """,
    ),
    "a value in place of a section": (
        f"{GOOD}policy: fair\nscale: 1/100",
        """
        5:9: policy: must be a mapping (key: value), not 'fair'; hint: write policy: {name: fair}
        6:8: scale: must be a mapping (key: value), not '1/100'; hint: write scale: {rate: 1/100}
        """,
    ),
    "not finite": (
        f"{GOOD}scale: {{rate: .nan}}\npolicy: {{name: fair, epsilon: .inf}}",
        """
        5:15: scale.rate: .nan is not a finite number
        6:31: policy.epsilon: .inf is not a finite number
        """,
    ),
    "escaped control character": (
        f'{GOOD}description: "\\e[2J"',
        """
        5:14: description: this text holds the control character U+001B; hint: remove it
        """,
    ),
    "numbers out of range": (
        job(
            "name: a, gradients: 1MB, compute: {iteration: 1s, overlap: 2, jitter: -1}, workers: 0, iterations: 1e9, priority: 8, weight: 0"
        ),
        """
        4:63: jobs[0].compute.overlap: must be at most 1, not 2
        4:74: jobs[0].compute.jitter: must be at least 0, not -1
        4:88: jobs[0].workers: must be at least 1, not 0
        4:103: jobs[0].iterations: must be a whole number, not 1000000000.0
        4:118: jobs[0].priority: must be below 8, not 8
        4:129: jobs[0].weight: must be above 0, not 0
        """,
    ),
    "bare numbers": (
        fabric("kind: dumbbell, hosts_per_side: 2, host_rate: 100, uplink_rate: '100'"),
        """
        3:56: fabric.host_rate: 100 has no unit; hint: write a rate with its unit, as 100Mbit or 1.5Gbit
        3:74: fabric.uplink_rate: 100 has no unit; hint: write a rate with its unit, as 100Mbit or 1.5Gbit
        """,
    ),
    "mixed-up units": (
        fabric("kind: dumbbell, hosts_per_side: 2, host_rate: 100MBps, uplink_rate: 1Gbps"),
        """
        3:56: fabric.host_rate: 'MBps' is no unit of rate; hint: rates are in bits: 100 MBps is 800Mbit
        3:78: fabric.uplink_rate: 'Gbps' is no unit of rate; hint: did you mean 1Gbit?
        """,
    ),
    "impossible rates": (
        fabric("kind: rack-spine, racks: 2, hosts_per_rack: 2, spines: 1, host_rate: 0Mbit, uplink_rate: -5Mbit"),
        """
        3:79: fabric.host_rate: a rate must be above zero, not 0Mbit; hint: write a rate as 100Mbit or 1.5Gbit
        3:99: fabric.uplink_rate: a rate must be above zero, not -5Mbit; hint: write a rate as 100Mbit or 1.5Gbit
        """,
    ),
    "rates that are no rates": (
        fabric("kind: dumbbell, hosts_per_side: 2, host_rate: infMbit, uplink_rate: .inf"),
        """
        3:56: fabric.host_rate: 'infMbit' is no rate; hint: write a rate with its unit, as 100Mbit or 1.5Gbit
        3:78: fabric.uplink_rate: .inf is not a finite number
        """,
    ),
    "times and sizes": (
        job(
            "name: a, gradients: 4Mb, compute: {iteration: 75}, workers: 2, iterations: 9, start: -1s, timeout: 0s, bucket: 25mib"
        ),
        """
        4:24: jobs[0].gradients: 'Mb' is no unit of size; hint: sizes are in bytes: 4 Mb is 500kB
        4:50: jobs[0].compute.iteration: 75 has no unit; hint: write a time with its unit, as 75ms or 2s
        4:89: jobs[0].start: a time can't be below zero, as -1s is
        4:103: jobs[0].timeout: this time must be above zero, not 0s
        4:115: jobs[0].bucket: 'mib' is no unit of size; hint: did you mean 25MiB?
        """,
    ),
    "scale": (
        f"{GOOD}scale: {{rate: 100}}",
        """
        5:15: scale.rate: a scale must be above 0 and at most 1, not 100; hint: 1/100 means that real links are 100 times faster than the emulated ones
        """,
    ),
    "kind of fabric": (
        fabric("kind: rack-spin"),
        """
        3:16: fabric.kind: no kind of fabric is called 'rack-spin'; hint: did you mean 'rack-spine'?
        """,
    ),
    "no kind": (
        fabric("racks: 2"),
        """
        3:9: fabric.kind: missing; hint: a fabric's kind is one of rack-spine, dumbbell, fat-tree, custom
        """,
    ),
    "uplink missing": (
        fabric(RACKS),
        """
        3:9: fabric.uplink_rate: missing; hint: give uplink_rate, or oversubscription instead
        """,
    ),
    "uplink twice": (
        fabric(RACKS + ", uplink_rate: 1Gbit, oversubscription: 2"),
        """
        3:126: fabric.oversubscription: given together with uplink_rate; hint: remove one of the two
        """,
    ),
    "intra-host rate": (
        fabric(RACKS + ", uplink_rate: 1Gbit, gpus_per_host: 2"),
        """
        3:9: fabric.intra_host_rate: missing, but gpus_per_host is above 1; hint: say how fast the GPUs of one host are joined, as intra_host_rate: 200Gbit
        """,
    ),
    "intra-host rate without GPUs": (
        fabric(RACKS + ", uplink_rate: 1Gbit, intra_host_rate: 1Gbit"),
        """
        3:125: fabric.intra_host_rate: given, but a host has one GPU only; hint: set gpus_per_host, or remove this key
        """,
    ),
    "odd fat-tree": (
        fabric("kind: fat-tree, k: 3, rate: 1Gbit"),
        """
        3:9: fabric: k is 3 but a fat-tree needs an even number of at least 2
        """,
    ),
    "huge fabric": (
        fabric(RACKS.replace("racks: 2", "racks: 1000000") + ", uplink_rate: 1Gbit"),
        """
        3:16: fabric.kind: this fabric has 3000000 cables; at most 500000 are possible
        """,
    ),
    "custom fabric": (
        fabric("kind: custom, hosts: [a, b>c], links: [{between: [a], rate: 1Gbit, loss: 1}]"),
        """
        3:35: fabric.hosts[1]: must consist of letters, digits, _, . and -, not 'b>c'
        3:59: fabric.links[0].between: has 1 entries, but needs at least 2
        3:83: fabric.links[0].loss: 1 has no unit; hint: write a percentage, as 0.1%
        """,
    ),
    "impossible custom fabric": (
        fabric("kind: custom, hosts: [a, b], links: [{between: [a, s], rate: 1Gbit}, {between: [s, t], rate: 1Gbit}]"),
        """
        3:9: fabric: host b has 0 links but needs exactly one
        """,
    ),
    "names": (
        job(*[f"name: {n}, gradients: 1MB, workers: 1, {REST}" for n in ("''", "' a '", '"a\\nb"', "3", "a", "a")]),
        """
        4:10: jobs[0].name: a name must not be empty
        5:10: jobs[1].name: a name must be one line of printable text without spaces around it
        6:10: jobs[2].name: a name must be one line of printable text without spaces around it
        7:10: jobs[3].name: must be text, not 3; hint: put it in quotes: "3"
        8:38: jobs[4].workers: asks for one GPU, but the fabric has 4, none of them free; hint: ask for fewer, add hosts, set share_gpus: true, or let jobs wait with queue: fifo
        9:10: jobs[5].name: 'a' is the name of jobs[4] already; hint: give each job a name of its own
        9:38: jobs[5].workers: asks for one GPU, but the fabric has 4, none of them free; hint: ask for fewer, add hosts, set share_gpus: true, or let jobs wait with queue: fifo
        """,
    ),
    "model, program, precision": (
        job("name: a, model: vgg61, program: dpp, precision: fp64, workers: 2, iterations: 9"),
        """
        4:20: jobs[0].model: the catalogue has no model 'vgg61'; hint: did you mean 'vgg16'?
        4:36: jobs[0].program: must be ddp or fsdp or pipeline or tensor or moe or ps or hierarchical or allreduce or {command: [...]}, not 'dpp'; hint: did you mean 'ddp'?
        4:52: jobs[0].precision: must be fp32 or fp16, not 'fp64'; hint: did you mean 'fp16'?
        """,
    ),
    "policy": (
        f"{GOOD}policy: {{name: fare}}",
        """
        5:16: policy.name: there is no policy 'fare'; hint: did you mean 'fair'?
        """,
    ),
    "payloads": (
        job(
            f"name: a, model: vgg16, gradients: 1MB, workers: 1, {REST}",
            f"name: b, workers: 1, {REST}",
            f"name: c, sizes: [1MB], workers: 1, {REST}",
            f"name: d, program: allreduce, gradients: 1MB, workers: 2, {REST}",
        ).replace("hosts_per_rack: 2", "hosts_per_rack: 8"),
        """
        4:38: jobs[0].gradients: given together with model; hint: keep one of them
        5:3: jobs[1].model: missing; hint: say what the job sends, as model: vgg16 or gradients: 100MB
        6:20: jobs[2].sizes: only for program allreduce; hint: give model or gradients instead
        7:44: jobs[3].gradients: not for program allreduce, which takes sizes; hint: say what to all-reduce, as sizes: [64kB, 1MB]
        """,
    ),
    "programs": (
        job(
            f"name: a, program: tensor, gradients: 1MB, workers: 2, {REST}",
            f"name: b, program: ddp, model: vgg16, activations: 1MB, layers: 2, workers: 2, {REST}",
            f"name: c, program: moe, sizes: [1MB], activations: 1MB, layers: 2, workers: 2, {REST}",
            "name: d, program: fsdp, gradients: 1MB, workers: 2, compute: {iteration: 1s, overlap: 0.5}, iterations: 9",
            f"name: e, program: ps, gradients: 1MB, workers: 2, servers: 3, {REST}",
            f"name: f, program: hierarchical, gradients: 1MB, workers: 3, {REST}",
            f"name: g, program: fsdp, gradients: 1MB, collective: all-gather, servers: 2, workers: 2, {REST}",
        ).replace("hosts_per_rack: 2", "hosts_per_rack: 8"),
        """
        4:3: jobs[0].activations: missing for program tensor; hint: give it, as activations: 4MB
        4:3: jobs[0].layers: missing for program tensor; hint: give it, as layers: 12
        4:41: jobs[0].gradients: not for program tensor, which sends activations; hint: remove it
        5:54: jobs[1].activations: only for programs moe, pipeline, tensor; hint: remove it
        5:67: jobs[1].layers: only for programs fsdp, moe, tensor; hint: remove it
        6:34: jobs[2].sizes: only for program allreduce; hint: give activations instead
        7:90: jobs[3].compute.overlap: not for program fsdp, which has its collectives in places of their own; hint: remove it
        8:22: jobs[4].program: 0 workers and 2 parameter servers; each needs at least one; hint: change the ranks or the program
        9:22: jobs[5].program: a hierarchical all-reduce needs equally many ranks in each rack, not 1 to 2; hint: change the ranks or the program
        10:56: jobs[6].collective: only for program ddp; hint: remove it
        10:77: jobs[6].servers: only for collective parameter-server; hint: remove it, or change the collective
        """,
    ),
    "devices": (
        job(
            f"name: a, gradients: 1MB, device: gpu, workers: 1, {REST}",
            f"name: b, gradients: 1MB, device: cpu, backend: nccl, workers: 1, {REST}",
            f"name: c, gradients: 1MB, collective: broadcast, backend: nccl, workers: 1, {REST}",
            "name: d, program: {command: [x]}, backend: gloo, workers: 1",
        ),
        """
        4:37: jobs[0].device: must be auto or cpu or cuda, not 'gpu'; hint: did you mean 'cpu'?
        5:51: jobs[1].backend: given, but NCCL moves data between GPUs and device is cpu; hint: use gloo
        6:61: jobs[2].backend: given, but NCCL has no broadcast; hint: use gloo
        7:47: jobs[3].backend: not for a command, which chooses its own; hint: remove it
        """,
    ),
    "too many buckets": (
        job(f"name: a, gradients: 1GB, bucket: 4B, workers: 1, {REST}"),
        """
        4:37: jobs[0].bucket: makes 250000000 buckets of the gradients; at most 20000 are possible; hint: use larger buckets
        """,
    ),
    "compute times": (
        job(
            "name: a, gradients: 1MB, workers: 1, iterations: 9",
            "name: b, model: vgg16, gpu: v100-batch61, workers: 1, iterations: 9",
            "name: c, model: vgg16, gpu: v100-batch16, compute: {iteration: 1s}, workers: 1, iterations: 9",
            "name: d, gradients: 1MB, gpu: v100, workers: 1, iterations: 9",
        ),
        """
        4:3: jobs[0].compute: has no iteration time, and the catalogue has none; hint: give it, as compute: {iteration: 75ms}
        5:32: jobs[1].gpu: the catalogue has no compute time of vgg16 on 'v100-batch61'; hint: did you mean 'v100-batch16'?
        6:32: jobs[2].gpu: given together with compute.iteration; hint: remove one of the two
        7:34: jobs[3].gpu: the catalogue has no compute time of a job without model on 'v100'; hint: give compute.iteration instead
        """,
    ),
    "command": (
        job(
            "name: a, program: {command: []}, workers: 1, iterations: 9",
            "name: b, program: {comand: [x]}, workers: 1, iterations: 9",
        ),
        """
        4:32: jobs[0].program.command: has 0 entries, but needs at least 1
        5:22: jobs[1].program.command: missing; hint: add it, as command: [python, train.py]
        5:23: jobs[1].program.comand: unknown key; hint: did you mean 'command'?
        """,
    ),
    "no workers": (
        job(f"name: a, gradients: 1MB, {REST}"),
        """
        4:3: jobs[0].workers: missing; hint: say how many, as workers: 4, or list the hosts in placement
        """,
    ),
    "only warm-up": (
        job("name: a, gradients: 1MB, workers: 1, compute: {iteration: 1s}, iterations: 1"),
        """
        4:3: jobs[0].warmup: is 1, which leaves none of 1 iterations to measure; hint: give more iterations than warmup
        """,
    ),
    "one rank reduces nothing": (
        job("name: a, program: allreduce, sizes: [1MB], workers: 1, iterations: 9"),
        """
        4:56: jobs[0].workers: an all-reduce needs at least 2 workers
        """,
    ),
    "more workers than GPUs": (
        job(
            f"name: a, gradients: 1MB, workers: 3, {REST}",
            f"name: b, gradients: 1MB, workers: 2, placement: packed, {REST}",
            f"name: c, gradients: 1MB, workers: 5, {REST}",
        ),
        """
        5:38: jobs[1].workers: asks for 2 GPUs, but the fabric has 4, 1 of them free; hint: ask for fewer, add hosts, set share_gpus: true, or let jobs wait with queue: fifo
        6:38: jobs[2].workers: asks for 5 GPUs, but the fabric has 4, 1 of them free; hint: ask for fewer, add hosts, set share_gpus: true, or let jobs wait with queue: fifo
        """,
    ),
    "hosts that do not exist": (
        job(f"name: a, gradients: 1MB, placement: [r0h0, r0h2, x], {REST}"),
        """
        4:47: jobs[0].placement[1]: the fabric has no host 'r0h2'; hint: did you mean 'r0h1'?
        4:53: jobs[0].placement[2]: the fabric has no host 'x'; hint: there are: r0h0, r0h1, r1h0, r1h1
        """,
    ),
    "one GPU twice": (
        job(
            f"name: a, gradients: 1MB, placement: [r0h0, r0h0], {REST}",
            f"name: b, gradients: 1MB, placement: [r0h0], {REST}",
        ),
        """
        4:47: jobs[0].placement[1]: 'r0h0' is listed 2 times, but has one GPU; hint: list another host
        5:41: jobs[1].placement[0]: no GPU of 'r0h0' is left: 'a' has it; hint: list another host, or set share_gpus: true
        """,
    ),
    "workers against placement": (
        job(
            f"name: a, gradients: 1MB, placement: [r0h0, r0h1], workers: 3, {REST}",
            f"name: b, gradients: 1MB, placement: [], {REST}",
            f"name: c, gradients: 1MB, placement: scatter, workers: 1, {REST}",
        ),
        """
        4:63: jobs[0].workers: is 3, but placement lists 2 hosts; hint: list one host a worker, or leave workers out
        5:40: jobs[1].placement: lists no hosts; hint: list the host of each worker, or write spread
        6:40: jobs[2].placement: must be spread or packed or random or local or a list of hosts, not 'scatter'; hint: there are: spread, packed, random, local
        """,
    ),
    "traffic": (
        f"{GOOD}background: [{{from: r0h9, to: r0h1, rate: 1Mbit}}, {{from: r0h1, to: r0h1, rate: 1Mbit}}]\ncapture: [leaf0-spin0, leaf0>spine9]",
        """
        5:21: background[0].from: the fabric has no host 'r0h9'; hint: did you mean 'r0h1'?
        5:68: background[1].to: is the host that sends; hint: name another host
        6:11: capture[0]: the fabric has no link 'leaf0-spin0'; hint: did you mean 'leaf0-spine0'?
        6:24: capture[1]: the fabric has no link 'leaf0>spine9'; hint: did you mean 'leaf0>spine0'?
        """,
    ),
    "events": (
        f"{GOOD}events:\n- {{at: 10, link: leaf2-spine0, action: cut}}\n- {{at: 1s, link: leaf0-spine0, action: rate}}\n- {{at: 1s, link: leaf0-spine0, action: up, rate: 1Mbit}}",
        """
        6:8: events[0].at: 10 has no unit; hint: write a time with its unit, as 75ms or 2s
        6:18: events[0].link: the fabric has no link 'leaf2-spine0'; hint: did you mean 'leaf1-spine0'?
        6:40: events[0].action: must be down or up or rate or slow or stop or continue or kill or restart, not 'cut'; hint: there are: down, up, rate, slow, stop, continue, kill, restart
        7:3: events[1].rate: missing; hint: give the link's new rate, as rate: 50Mbit
        8:50: events[2].rate: not for action up; hint: remove it, or write action: rate
        """,
    ),
    "events of ranks": (
        f"{GOOD}- {{name: sweep, program: allreduce, sizes: [1MB], workers: 2, iterations: 9}}\nevents:\n- {{at: 1s, job: b, action: kill}}\n- {{at: 1s, job: a, rank: 2, action: stop}}\n- {{at: 1s, job: a, action: slow}}\n- {{at: 1s, job: a, rank: 0, action: slow, factor: 0.5}}\n- {{at: 1s, job: sweep, action: slow, factor: 3}}\n- {{at: 1s, action: continue}}\n- {{at: 1s, job: a, rank: -1, action: kill, for: 2s}}\n",
        """
        7:17: events[0].job: there is no job 'b'; hint: there are: a, sweep
        8:26: events[1].rank: job 'a' has no rank 2; hint: its ranks are 0 to 1
        9:3: events[2].factor: missing; hint: say how many times as long it computes, as factor: 3
        10:3: events[3]: events[2] slows that rank down at the same time; hint: let one end (for: 10s) before the other begins
        10:51: events[3].factor: must be at least 1, not 0.5
        11:17: events[4].job: job 'sweep' has no compute time that could grow; hint: name a job whose program trains, or stop and continue its ranks
        12:3: events[5].job: missing; hint: say whose ranks, as job: vision
        13:26: events[6].rank: must be at least 0, not -1
        13:49: events[6].for: not for action kill; hint: remove it, or write action: slow
        """,
    ),
    "events of other kinds": (
        f"{GOOD}events:\n- {{at: 1s, link: leaf0-spine0, action: restart}}\n- {{at: 1s, daemon: switch, action: restart}}\n- {{at: 1s, action: down}}\n- {{at: 1s, job: a, action: slow, factor: 2, for: 5s}}\n- {{at: 5s, job: a, rank: 1, action: slow, factor: 2}}\n- {{at: 6s, job: a, rank: 0, action: slow, factor: 2}}\n",
        """
        6:3: events[0].daemon: missing; hint: say which, as daemon: controller
        6:18: events[0].link: not for action restart; hint: remove it, or write action: down or up or rate
        7:20: events[1].daemon: must be controller or switches, not 'switch'; hint: did you mean 'switches'?
        8:3: events[2].link: missing; hint: say which, as link: leaf0-spine0
        10:3: events[4]: events[3] slows that rank down at the same time; hint: let one end (for: 10s) before the other begins
        """,
    ),
    "no jobs": (
        HEAD + "jobs: []",
        """
        3:7: jobs: has 0 entries, but needs at least 1
        """,
    ),
}

CASES = NOT_READABLE | WRONG


def problems_of(text: str | bytes) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text if isinstance(text, bytes) else text.encode(), "demo.yaml")
    assert caught.value.exit_code == 2
    return [problem.text("demo.yaml") for problem in caught.value.problems]


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*case, id=name) for name, case in CASES.items()])
def test_mistakes_are_listed_with_place_and_hint(text: str | bytes, expected: str) -> None:
    lines = textwrap.dedent(expected).strip().splitlines()
    assert problems_of(text) == [f"demo.yaml:{line}" for line in lines]


def test_the_same_mistakes_are_found_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composer, "PARSER", yaml.SafeLoader)
    for text, expected in WRONG.values():
        lines = textwrap.dedent(expected).strip().splitlines()
        assert problems_of(text) == [f"demo.yaml:{line}" for line in lines]


@pytest.mark.parametrize("parser", [composer.PARSER, yaml.SafeLoader])
def test_broken_yaml_names_its_place(parser: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composer, "PARSER", parser)
    (line,) = problems_of("name: demo\nfabric: {kind: [\n")
    assert line.startswith("demo.yaml:3:1: not valid YAML: ")
    (line,) = problems_of("name: demo\n\tseed: 1\n")
    assert line.startswith("demo.yaml:2:")
    assert line.endswith("hint: indent with spaces, not tabs")


def test_an_error_shows_one_problem_in_a_line_and_several_in_a_list() -> None:
    with pytest.raises(ScenarioError) as one:
        parse_scenario(f"{GOOD}seed: -1".encode(), "a.yaml")
    assert str(one.value) == "a.yaml:5:7: seed: must be at least 0, not -1"
    with pytest.raises(ScenarioError) as two:
        parse_scenario(f"{GOOD}seed: -1\nworst_case: 1".encode(), "a.yaml")
    assert str(two.value).splitlines() == [
        "a.yaml has 2 problems:",
        "a.yaml:5:7: seed: must be at least 0, not -1",
        "a.yaml:6:13: worst_case: must be true or false, not 1",
    ]


def test_a_flood_of_problems_is_cut() -> None:
    text = job(*["name: a, gradients: 1MB, workers: 1, iterations: -1"] * 1000)
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text.encode(), "a.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == MAX_SHOWN + 2
    assert lines[-1] == f"... and {len(caught.value.problems) - MAX_SHOWN} more"


def test_escapes_in_keys_and_values_do_not_reach_the_terminal() -> None:
    text = f'{GOOD}"\\e[31mred": 1\n"a\\nb": 2'
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text.encode(), "evil\x1b[2J.yaml")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 4
