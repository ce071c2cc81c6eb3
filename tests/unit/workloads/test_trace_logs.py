"""Readers of job logs, workloads, topologies and benchmarks: what they read, and what they pass over."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.traces.formats import FORMATS, detect
from workloads.traces.lingjun import read_lingjun
from workloads.traces.logged_job import LoggedJob
from workloads.traces.mccs import read_mccs
from workloads.traces.muri import read_muri
from workloads.traces.nccl_tests import read_nccl_tests
from workloads.traces.philly import read_philly
from workloads.traces.slurm_log import read_slurm_log
from workloads.traces.source import MAX_LINE_BYTES, Skipped, TraceError, lines

MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority
0,8,0,10956,gpt2,4,5095000,91000,437,0.6,419,49,0
1,8,1534000,1463,vgg16,16,281000,28000,214,82,75,66,1
"""
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u,vc,8,32,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60
"""
ACME = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
a,u,1,16.0,32,Other,FAILED,2023-03-01 00:00:00+08:00,2023-03-01 00:00:10+08:00,2023-03-01 00:00:40+08:00,30,10,480
"""
PHILLY = [
    {
        "status": "Pass",
        "vc": "v",
        "jobid": "application_1",
        "user": "u",
        "submitted_time": "2017-10-09 07:00:00",
        "attempts": [
            {
                "start_time": "2017-10-09 07:02:00",
                "end_time": "2017-10-09 07:03:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu5"]}],
            },
            {"start_time": "2017-10-09 07:04:00", "end_time": "2017-10-09 07:12:00", "detail": []},
        ],
    }
]
MCCS = """\
communicator_id = 'bad'
cuda_devices = [0, 1, 0, 1]
[[traces]]
size = 1000
type = "all_reduce"
compute_interval = 6000
[[traces]]
size = 500
type = "all_reduce"
compute_interval = 4000
"""
LINGJUN = "ip,DSW,PSW,ASW\naa,G6,P8,S1\nbb,G6,P8,S1\ncc,G6,P8,S2\ndd,G6,P9,S1\n"
NCCL = """\
#  Rank  0 Group  0 Pid    855 on a device  0 [0xa4] NVIDIA A100
#  Rank  1 Group  0 Pid    856 on a device  1 [0xa9] NVIDIA A100
#  Rank  2 Group  0 Pid    855 on b device  0 [0xa4] NVIDIA A100
#  Rank  3 Group  0 Pid    856 on b device  1 [0xa9] NVIDIA A100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1000000        250000     float     sum      -1    150.0    6.67   10.00      0    150.0    6.67   10.00      0
    10000000       2500000     float     sum      -1   1050.0    9.52   14.29      0   1050.0    9.52   14.29      0
   100000000      25000000     float     sum      -1  10050.0    9.95   14.93      0  10050.0    9.95   14.93      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 13.07
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_job_of_muri(tmp_path: Path) -> None:
    skipped = Skipped()
    jobs = list(read_muri(written(tmp_path, MURI), skipped))
    assert jobs[1] == LoggedJob("1", 8, 1534.0, 281.0, "vgg16", 1463, pytest.approx(0.214), pytest.approx(0.066))
    assert (len(jobs), skipped.total) == (2, 0)


def test_jobs_of_helios_and_acme(tmp_path: Path) -> None:
    (helios,) = read_slurm_log(written(tmp_path, HELIOS), Skipped())
    assert (helios.id, helios.gpus, helios.duration_s) == ("1", 8, 3600.0)
    assert helios.submit_s == 1585699200.0
    (acme,) = read_slurm_log(written(tmp_path, ACME), Skipped())
    assert (acme.id, acme.gpus, acme.duration_s, acme.submit_s) == ("a", 16, 30.0, 1677600000.0)


def test_a_job_of_philly_has_the_gpus_of_its_first_attempt_and_the_time_of_all(tmp_path: Path) -> None:
    (job,) = read_philly(written(tmp_path, json.dumps(PHILLY)), Skipped())
    assert (job.id, job.gpus, job.duration_s) == ("application_1", 3, 600.0)


def test_a_workload_of_mccs(tmp_path: Path) -> None:
    job = read_mccs(written(tmp_path, MCCS))
    assert (job.ranks, job.bytes, job.compute_s) == (4, 1500, pytest.approx(0.01))


def test_racks_of_lingjun_are_pairs_of_switches(tmp_path: Path) -> None:
    topology = read_lingjun(written(tmp_path, LINGJUN), Skipped())
    assert topology.hosts == {"P8-S1": 2, "P8-S2": 1, "P9-S1": 1}
    assert topology.aggregation["P9-S1"] == "P9"
    assert topology.core == {"P8": "G6", "P9": "G6"}


def test_latency_and_bandwidth_of_nccl_tests(tmp_path: Path) -> None:
    fit = read_nccl_tests(written(tmp_path, NCCL), Skipped())
    assert fit.ranks == 4
    assert fit.latency_s == pytest.approx(50e-6, rel=1e-6)
    assert fit.algorithm_Bps == pytest.approx(1e10, rel=1e-6)
    assert fit.bus_Bps == pytest.approx(1.5e10, rel=1e-6)
    assert fit.worst_error < 1e-6


@given(latency=st.floats(0, 1e-3), rate=st.floats(1e8, 1e12), count=st.integers(2, 20))
def test_the_fit_finds_what_made_the_times(
    tmp_path_factory: pytest.TempPathFactory, latency: float, rate: float, count: int
) -> None:
    rows = [
        f"{size} {size // 4} float sum -1 {1e6 * (latency + size / rate):.9f} 1.0 1.5 0 1 1 1 0"
        for size in (1024 << step for step in range(count))
    ]
    fit = read_nccl_tests(written(tmp_path_factory.mktemp("nccl"), "\n".join(rows)), Skipped())
    assert fit.algorithm_Bps == pytest.approx(rate, rel=1e-3)
    assert fit.latency_s == pytest.approx(latency, rel=1e-3, abs=1e-8)


BAD_ROWS = {
    "2,8,0,0,gpt2,4,5,91000,437,0.6,419,49,0": "no GPUs, iterations or iteration time",
    "2,8,NaN,1,gpt2,4,5,91000,437,0.6,419,49,0": "submit_time is not finite",
    "2,8,-1,1,gpt2,4,5,91000,437,0.6,419,49,0": "submit_time is negative",
    "2,8,1e300,1,gpt2,4,5,91000,437,0.6,419,49,0": "submit_time is too large",
    "2,8.5,0,1,gpt2,4,5,91000,437,0.6,419,49,0": "num_gpu is no count",
    "2,99999999999999999999,0,1,gpt2,4,5,91000,437,0.6,419,49,0": "num_gpu is no count",
    "2,x,0,1,gpt2,4,5,91000,437,0.6,419,49,0": "num_gpu is no number",
    "0,8,0,1,gpt2,4,5,91000,437,0.6,419,49,0": "job_id used before",
    "2,8,0,1,gpt2,4,5,91000,437,0.6,419,500,0": "network stage longer than the iteration",
    "2,8,0,1,gpt2": "not 13 columns",
    ",8,0,1,gpt2,4,5,91000,437,0.6,419,49,0": "job_id is missing",
}


@pytest.mark.parametrize(("row", "why"), BAD_ROWS.items())
def test_a_bad_row_is_counted_and_the_others_are_read(tmp_path: Path, row: str, why: str) -> None:
    skipped = Skipped()
    jobs = list(read_muri(written(tmp_path, MURI + row + "\n3" + MURI.splitlines()[1][1:] + "\n"), skipped))
    assert [job.id for job in jobs] == ["0", "1", "3"]
    assert (dict(skipped.counts), skipped.first) == ({why: 1}, {why: 4})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("2020-04-01 01:01:00", "2020-03-01 01:01:00"), "end before start"),
        (("2020-04-01 00:01:00", "2020-03-01 00:01:00"), "start before submission"),
        (("2020-04-01 00:01:00", "None"), "never ran"),
        (("2020-04-01 00:01:00", "yesterday"), "start_time is no date and time"),
        (("2020-04-01 00:00:00", ""), "no submit_time"),
        ((",8,32", ",0,32"), "no GPU job"),
        ((",8,32", ",-8,32"), "gpu_num is negative"),
    ],
)
def test_rows_of_helios_that_no_job_can_be_made_of(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    skipped = Skipped()
    assert list(read_slurm_log(written(tmp_path, HELIOS.replace(*change)), skipped)) == []
    assert dict(skipped.counts) == {why: 1}


@pytest.mark.parametrize(
    "item",
    [
        1,
        {},
        {"jobid": 5},
        PHILLY[0] | {"attempts": 3},
        PHILLY[0] | {"attempts": []},
        PHILLY[0] | {"attempts": [{}]},
        PHILLY[0] | {"submitted_time": "2027-01-01 00:00:00"},
        PHILLY[0] | {"attempts": [{**PHILLY[0]["attempts"][0], "detail": [{"gpus": 3}]}]},  # type: ignore[index]
    ],
)
def test_jobs_of_philly_that_make_no_sense_are_counted(tmp_path: Path, item: object) -> None:
    skipped = Skipped()
    jobs = list(read_philly(written(tmp_path, json.dumps([item, *PHILLY, *PHILLY])), skipped))
    assert [job.id for job in jobs] == ["application_1"]
    assert skipped.total == 2
    assert skipped.counts["jobid used before"] == 1


def read_jobs(reader: Callable[[Path, Skipped], Iterator[LoggedJob]], path: Path) -> list[LoggedJob]:
    return list(reader(path, Skipped()))


@pytest.mark.parametrize("reader", [read_muri, read_slurm_log])
def test_a_missing_column_is_an_error_that_names_it(
    tmp_path: Path, reader: Callable[[Path, Skipped], Iterator[LoggedJob]]
) -> None:
    with pytest.raises(TraceError, match="row 1 has no column"):
        read_jobs(reader, written(tmp_path, "job_id,other\n1,2\n"))


def test_gzipped_files_are_read_and_cut_off_ones_say_where(tmp_path: Path) -> None:
    packed = gzip.compress((MURI + "9,8,0,1,gpt2,4,5,9,437,0.6,419,49,0\n" * 5000).encode())
    assert len(read_jobs(read_muri, written(tmp_path, packed))) == 3
    with pytest.raises(TraceError, match=r"line \d+: its gzip data is damaged or ends too early"):
        read_jobs(read_muri, written(tmp_path, packed[:-30]))
    with pytest.raises(TraceError, match="gzip data"):
        detect(written(tmp_path, packed[:12]))


def test_a_quote_that_is_never_closed_does_not_swallow_memory(tmp_path: Path) -> None:
    skipped = Skipped()
    text = MURI + '5,"' + "x" * 200_000 + "\n" + "6,8,0,1,gpt2,4,5,91000,437,0.6,419,49,0\n"
    assert len(list(read_muri(written(tmp_path, text), skipped))) >= 2
    assert skipped.total >= 1


def test_endless_lines_are_skipped_in_bounded_pieces(tmp_path: Path) -> None:
    skipped = Skipped()
    path = written(tmp_path, b"a\n" + b"x" * (3 * MAX_LINE_BYTES) + b"\nb\xff\n")
    assert list(lines(path, skipped)) == ["a", "", "b\ufffd"]
    assert skipped.first == {f"longer than {MAX_LINE_BYTES:,} bytes": 2}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "cuda_devices"),
        ("cuda_devices = [0]", r"no \[\[traces\]\]"),
        (MCCS.replace("1000", "-1"), r"traces\[0\]: size must be a whole number from 1"),
        (MCCS.replace("4000", "nan"), r"traces\[1\]: compute_interval"),
        (MCCS.replace("all_reduce", "magic", 1), r"traces\[0\]: type must be all_reduce or all_gather, not 'magic'"),
        (MCCS.replace("all_reduce", "all_gather", 1), "mixes kinds"),
        ("a = " + "[" * 5000, "not TOML"),
        ("a = 1\na = 2", "not TOML"),
    ],
)
def test_workloads_of_mccs_that_cannot_be(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        read_mccs(written(tmp_path, text))


def test_a_topology_that_contradicts_itself(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="P8 hangs on G6 and on G7"):
        read_lingjun(written(tmp_path, LINGJUN + "ee,G7,P8,S1\n"), Skipped())
    skipped = Skipped()
    assert read_lingjun(written(tmp_path, LINGJUN + "aa,G6,P8,S1\nff,G6,P 8,S1\n"), skipped).hosts["P8-S1"] == 2
    assert dict(skipped.counts) == {"ip used before": 1, "PSW is no label": 1}


@pytest.mark.parametrize(
    "text",
    ["no table", "8 2 float sum -1 1.0 1 1 0", "8 2 float sum -1 9.0 1 1 0\n16 4 float sum -1 1.0 1 1 0"],
)
def test_benchmarks_without_a_bandwidth(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match=r"two sizes|do not take longer"):
        read_nccl_tests(written(tmp_path, text), Skipped())


def test_a_benchmark_of_one_rank(tmp_path: Path) -> None:
    text = "\n".join(NCCL.splitlines()[:1] + NCCL.splitlines()[4:])
    with pytest.raises(TraceError, match="single rank"):
        read_nccl_tests(written(tmp_path, text), Skipped())


def test_formats_are_seen_from_what_files_hold(tmp_path: Path) -> None:
    et = b"\x07\x0a\x050.0.4"
    texts = (MURI, HELIOS, json.dumps(PHILLY), MCCS, LINGJUN, '{"traceEvents": []}', et, '{"nodes": []}', NCCL)
    assert tuple(detect(written(tmp_path, text)) for text in texts) == FORMATS
    assert detect(written(tmp_path, gzip.compress(ACME.encode()))) == "helios"
    for text, what in (("", "is empty"), ("hello", "none of the known"), ("job_id,num_gpu\n", "no column 'submit")):
        with pytest.raises(TraceError, match=what):
            detect(written(tmp_path, text))


@given(st.binary(max_size=400))
def test_nothing_that_a_file_holds_is_more_than_a_trace_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes
) -> None:
    folder = tmp_path_factory.mktemp("noise")
    for start in (b"", MURI.encode(), HELIOS.encode(), b"[", MCCS.encode(), NCCL.encode()):
        path = written(folder, start + noise)
        for reader in (read_muri, read_slurm_log, read_philly, read_mccs, read_lingjun, read_nccl_tests, detect):
            with suppress(TraceError):
                found = reader(path) if reader in (read_mccs, detect) else reader(path, Skipped())  # type: ignore
                list(found) if isinstance(found, Iterator) else None
