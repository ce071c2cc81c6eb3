"""A scenario that is known to be right, and the fabric, jobs, background and events that it stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import yaml

from harmonics_emu.errors import UsageError
from harmonics_emu.scenario.composer import resolve_scalar
from harmonics_emu.scenario.placement import Placer, placement_draw, placement_seed
from harmonics_emu.scenario.policy_choice import parse_policy
from harmonics_emu.scenario.problems import did_you_mean
from harmonics_emu.scenario.schema import MAX_SEED, CommandSection, JobSection, PolicySection, ScenarioFile
from harmonics_emu.scenario.waiting import Request, WaitingRoom
from harmonics_emu.schedulers.registry import find_policy
from topologies.fabric import Fabric
from workloads.job import Background, Job, LinkEvent, RankEvent, RestartEvent
from workloads.models import Model
from workloads.parallelism import BETWEEN_COMPUTE, COLLECTIVE_OF, FSDP, PIPELINED, layer_buckets

ELEMENT_BYTES = 4
"""What the ranks send is fp32, so scaled buckets are whole numbers of these."""
SHORT_ITERATIONS = 3
ALL_LINKS = "all"
"""In place of the names of links to capture."""


@dataclass(frozen=True)
class Scenario:
    """One experiment. Made by `load_scenario`: `file` is checked, and names everything that its author left out.

    Two scenarios are equal if their resolved files are.
    """

    file: ScenarioFile

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def description(self) -> str:
        return self.file.description or ""

    @property
    def title(self) -> str:
        """The description's first line, or the name where there is none."""
        return next(iter(self.description.strip().splitlines()), self.name)

    @property
    def scale(self) -> Fraction:
        """Emulated over real rate; also emulated over real bytes."""
        return self.file.scale.rate

    @property
    def seed(self) -> int:
        return self.file.seed

    @property
    def worst_case(self) -> bool:
        """Whether jobs start in step on purpose."""
        return self.file.worst_case

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self.file.policy.name

    @property
    def policy_options(self) -> Mapping[str, Any]:
        """The policy's options as written, for the policy to judge."""
        return self.file.policy.options

    @property
    def capture(self) -> tuple[str, ...]:
        """Names of the cables and links whose packets are recorded."""
        return self.file.capture

    def fabric(self) -> Fabric:
        return self._fabric

    @cached_property
    def _fabric(self) -> Fabric:
        return self.file.fabric.build()

    def jobs(self) -> tuple[Job, ...]:
        """The jobs with emulated bytes and their offsets drawn, in the order of the file.

        Jobs that queue have the hosts that they would get if they came alone.
        """
        return self._jobs

    @cached_property
    def _jobs(self) -> tuple[Job, ...]:
        return tuple(
            _job(index, section, self.file.model_of(section), hosts, self.scale, start_s)
            for index, (section, hosts, start_s) in enumerate(
                zip(self.file.jobs, self._hosts(), _starts(self.file), strict=True)
            )
        )

    def _hosts(self) -> Iterator[tuple[str, ...]]:
        """Of each job's ranks. Only those of jobs that queue are not listed in a resolved file."""
        placer = Placer(self.fabric()) if self.queue is not None else None
        for job in self.file.jobs:
            if placer is None or isinstance(job.placement, tuple):
                yield tuple(job.placement)
            else:
                hosts = placer.place(job.placement, job.workers or 1, placement_draw(self.seed, job.name))
                placer.release(hosts)
                yield hosts

    @property
    def queue(self) -> str | None:
        """In which order jobs wait for GPUs; None where all have their own from the beginning."""
        return self.file.queue

    def waiting_room(self, length_s: Sequence[float]) -> WaitingRoom | None:
        """An empty one for this scenario's jobs, by their positions; None where none wait. length_s: of each job."""
        if self.file.queue is None:
            return None
        requests = [
            Request(len(job.hosts), section.placement, seconds, placement_seed(self.seed, job.name))
            for job, section, seconds in zip(self.jobs(), self.file.jobs, length_s, strict=True)
        ]
        return WaitingRoom(self.fabric(), self.file.queue, requests)

    @property
    def movable(self) -> tuple[str, ...]:
        """Names of the jobs that a policy may put elsewhere before the run begins."""
        return tuple(job.name for job in self.file.jobs if job.movable)

    def background(self) -> tuple[Background, ...]:
        return tuple(Background(flow.src, flow.dst, flow.rate) for flow in self.file.background)

    def events(self) -> tuple[LinkEvent, ...]:
        """Link events in the order of their times."""
        events = (
            LinkEvent(event.at, event.link, event.action, event.rate)
            for event in self.file.events
            if event.link is not None
        )
        return tuple(sorted(events, key=lambda event: event.at_s))

    def rank_events(self) -> tuple[RankEvent, ...]:
        """What befalls ranks, in the order of times. Ranks that are slow for some time are so from one to another."""
        events: list[RankEvent] = []
        ranks = {job.name: tuple(range(job.ranks)) for job in self.jobs()}
        for event in self.file.events:
            if event.job is None:
                continue
            whose = ranks[event.job] if event.rank is None else (event.rank,)
            events.append(RankEvent(event.at, event.job, event.action, whose, event.factor or 1.0))
            if event.lasts is not None:
                events.append(RankEvent(event.at + event.lasts, event.job, event.action, whose))
        return tuple(sorted(events, key=lambda event: event.at_s))

    def restarts(self) -> tuple[RestartEvent, ...]:
        """Restarts of daemons in the order of their times."""
        events = (RestartEvent(event.at, event.daemon) for event in self.file.events if event.daemon is not None)
        return tuple(sorted(events, key=lambda event: event.at_s))

    def with_policy(self, policy: str) -> Scenario:
        """The same under another policy, given as `crux` or as `crux:levels=4`, with just the options that are stated.

        Where it has that policy already, its options stay beside those. UsageError if there is no such policy.
        """
        choice = parse_policy(policy)
        if choice.name == self.policy:
            return self._with(policy=self.file.policy.with_options(choice.options)) if choice.options else self
        find_policy(choice.name)
        return self._with(policy=PolicySection(name=choice.name).with_options(choice.options))

    def with_placement(self, hosts: Mapping[str, tuple[str, ...]]) -> Scenario:
        """The same with these jobs on these hosts, one for each rank, and no job that may be moved any more."""
        jobs = (
            job.model_copy(update={"placement": hosts.get(job.name, job.placement), "movable": False})
            for job in self.file.jobs
        )
        return self._with(jobs=tuple(jobs))

    def with_captures(self, names: Iterable[str]) -> Scenario:
        """The same, recording these cables or links and no others; ALL_LINKS stands for every cable.

        UsageError for a name that the fabric does not have.
        """
        fabric, wanted = self.fabric(), list(names)
        for name in wanted:
            if name not in fabric.cables and name not in fabric.links and name != ALL_LINKS:
                hint = did_you_mean(name, fabric.links if ">" in name else fabric.cables)
                raise UsageError(f"the fabric has no link {name!r} to capture; {hint}")
        return self._with(capture=tuple(fabric.cables) if ALL_LINKS in wanted else tuple(dict.fromkeys(wanted)))

    def with_seed(self, seed: int) -> Scenario:
        """The same with another seed. UsageError unless it is one that a file could hold."""
        if not 0 <= seed < MAX_SEED:
            raise UsageError(f"a seed is a number from 0 to {MAX_SEED - 1}, not {seed}")
        return self._with(seed=seed)

    def short(self) -> Scenario:
        """The same with at most three iterations a job after warm-up, for tests."""
        return self._with(jobs=tuple(_shortened(job, job.warmup + SHORT_ITERATIONS) for job in self.file.jobs))

    def alone(self, job: str, iterations: int | None = None) -> Scenario:
        """One job by itself from time zero, on the same GPUs: what 'isolated' means. No background, no events.

        iterations: at most so many; None for all of them. KeyError if there is no such job.
        """
        for section in self.file.jobs:
            if section.name == job:
                only = _shortened(section, iterations).model_copy(update={"start": 0.0})
                return self._with(jobs=(only,), background=(), events=(), capture=(), offsets=0.0)
        raise KeyError(job)

    def resolved_yaml(self) -> str:
        """The scenario file with everything that was left to defaults, placement rules and the catalogue spelled out.

        It loads to an equal scenario.
        """
        data = self.file.model_dump(mode="json", by_alias=True, exclude_none=True)
        data["fabric"] = {"kind": self.file.fabric.kind, **data["fabric"]}
        return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)

    def _with(self, **update: Any) -> Scenario:
        return replace(self, file=self.file.model_copy(update=update))


def resolve(sections: ScenarioFile, hosts: tuple[tuple[str, ...], ...]) -> ScenarioFile:
    """Checked sections with rules replaced by what they come to: hosts of ranks, compute times, uplink rates."""
    queued = sections.queue is not None
    jobs = tuple(
        _resolve_job(job, sections.model_of(job), placed, job.placement if queued else placed)
        for job, placed in zip(sections.jobs, hosts, strict=True)
    )
    return sections.model_copy(update={"jobs": jobs, "fabric": sections.fabric.resolved()})


def _resolve_job(
    job: JobSection, model: Model | None, hosts: tuple[str, ...], placement: str | tuple[str, ...]
) -> JobSection:
    compute = job.compute
    if compute.iteration is None and model is not None:
        gpu = job.gpu or model.default_compute
        if gpu is not None:
            compute = compute.model_copy(update={"iteration": model.compute_s[gpu]})
    return job.model_copy(update={"workers": len(hosts), "placement": placement, "compute": compute, "gpu": None})


def _shortened(job: JobSection, iterations: int | None) -> JobSection:
    if job.iterations is None or iterations is None:
        return job
    iterations = min(job.iterations, iterations)
    return job.model_copy(update={"iterations": iterations, "warmup": min(job.warmup, iterations - 1)})


def _starts(file: ScenarioFile) -> list[float]:
    """Submission of each job: its `start` and an offset drawn from the seed and its name.

    The jobs with the earliest `start` are moved together so that one of them comes just then: runs begin with a job.
    """
    offsets = [file.offsets * _drawn(file.seed, job.name) for job in file.jobs]
    first = min(job.start for job in file.jobs)
    least = min(offset for job, offset in zip(file.jobs, offsets, strict=True) if job.start == first)
    return [
        job.start + (offset - least if job.start == first else offset)
        for job, offset in zip(file.jobs, offsets, strict=True)
    ]


def _drawn(seed: int, job: str) -> float:
    """A number from 0 to below 1."""
    digest = hashlib.blake2b(f"offset\0{seed}\0{job}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _job(
    index: int, section: JobSection, model: Model | None, hosts: tuple[str, ...], scale: Fraction, start_s: float
) -> Job:
    command = section.program.command if isinstance(section.program, CommandSection) else ()
    program = "command" if isinstance(section.program, CommandSection) else section.program
    buckets = tuple(_scaled(size, scale) for size in _real_buckets(section, model))
    return Job(
        name=section.name,
        index=index,
        program=program,
        hosts=hosts,
        iterations=section.iterations or 1,
        compute_s=section.compute.iteration or 0.0,
        overlap=1.0 if program == FSDP else section.compute.overlap,
        compute_cv=section.compute.jitter,
        bucket_bytes=buckets,
        collective=COLLECTIVE_OF.get(program) or section.collective,
        model=section.model,
        warmup=section.warmup,
        start_s=start_s,
        weight=section.weight,
        level=section.priority,
        command=command,
        timeout_s=section.timeout,
        servers=len(hosts) if section.application else section.servers or 1,
        stages=section.stages,
        in_stages=buckets[1] / sum(buckets) if program == PIPELINED and len(buckets) > 1 else 0.0,
        between_compute=program in BETWEEN_COMPUTE,
        device=section.device,
        backend=section.backend,
        real_compute=section.compute.real,
        application=section.application,
        data_bytes=section.data or 0,
        blocks=section.blocks or Job.blocks,
    )


def _real_buckets(section: JobSection, model: Model | None) -> tuple[int, ...]:
    """Real bytes of each collective of an iteration, in the order in which they become ready."""
    if section.program in BETWEEN_COMPUTE:
        return layer_buckets(str(section.program), (section.activations or 0,) * (section.layers or 1))
    if section.sizes is not None:
        return section.sizes
    gradients = _gradient_buckets(section, model)
    if section.program == PIPELINED:
        stages = section.stages or section.workers or 1
        of_a_stage = sum(gradients) // stages if stages < (section.workers or 1) else 0
        return (section.activations or 0, of_a_stage) if of_a_stage else (section.activations or 0,)
    if section.program == FSDP:
        layers = section.layers
        return layer_buckets(FSDP, (-(-sum(gradients) // layers),) * layers if layers else gradients)
    return gradients


def _gradient_buckets(section: JobSection, model: Model | None) -> tuple[int, ...]:
    if model is not None:
        return model.bucket_bytes(section.precision, section.bucket)
    whole, rest = divmod(section.gradients or 0, section.bucket)
    return (section.bucket,) * whole + ((rest,) if rest else ())


def _scaled(size: int, scale: Fraction) -> int:
    return max(round(size * scale / ELEMENT_BYTES), 1) * ELEMENT_BYTES


class _Dumper(yaml.SafeDumper):
    """Writes text that a scenario file would read as a number in quotes, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if resolve_scalar(text) == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
