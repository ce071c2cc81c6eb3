"""What the schema can't judge, because it depends on several values: names that must exist, room, contradictions.

A section value that the schema refused is None here; it has its problem already, and is passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from harmonics_emu.scenario.event_checks import check_events
from harmonics_emu.scenario.placement import NoRoom, Placer, placement_draw
from harmonics_emu.scenario.problems import MAX_SHOWN, Complaint, Location, did_you_mean, shown
from harmonics_emu.scenario.schema import CommandSection, JobSection, ModelSection, ScenarioFile
from topologies.fabric import Fabric
from workloads.collectives import PARAMETER_SERVER, PIPELINE, RING_ALL_REDUCE, STAGE_ALL_REDUCE, rank_transfers
from workloads.devices import CPU, NCCL, NCCL_COLLECTIVES
from workloads.job import Job
from workloads.models import find_model, model_names
from workloads.parallelism import BETWEEN_COMPUTE, COLLECTIVE_OF, FSDP, PIPELINED, PS

MAX_RANKS = 200_000
MAX_BUCKETS = 20_000
ACTIVATIONS_SENT = BETWEEN_COMPUTE | {PIPELINED}
GRADIENTS_SENT = COLLECTIVE_OF.keys() - ACTIVATIONS_SENT
NOT_OVERLAPPED = ACTIVATIONS_SENT | {FSDP}


@dataclass(frozen=True)
class Checked:
    """What the checks found, and what they worked out on the way: the fabric and the hosts of each job's ranks."""

    complaints: tuple[Complaint, ...]
    fabric: Fabric | None
    hosts: tuple[tuple[str, ...], ...]


def check(sections: ScenarioFile) -> Checked:
    """Check a file's sections against each other."""
    complaints: list[Complaint] = []
    fabric = _build_fabric(sections, complaints)
    complaints.extend(_check_names(sections))
    if sections.worst_case and sections.offsets:
        what = "given, but worst_case says that jobs start in step"
        complaints.append(Complaint(("offsets",), what, "remove one of the two"))
    complaints.extend(_check_models(sections))
    complaints.extend(_check_queue(sections))
    models = {model.name: model for model in sections.models or () if model is not None and model.name is not None}
    for index, job in enumerate(sections.jobs or ()):
        if job is not None:
            complaints.extend(_check_job(("jobs", index), job, models))
    hosts: tuple[tuple[str, ...], ...] = ()
    if fabric is not None:
        names = _Names(fabric)
        hosts = _place_jobs(sections, names, complaints)
        complaints.extend(_check_collectives(sections, fabric, hosts))
        complaints.extend(_check_traffic(sections, names))
        ranks = [len(own) for own in hosts]
        complaints.extend(check_events(sections.events or (), sections.jobs or (), ranks, names.check_link))
    return Checked(tuple(complaints), fabric, hosts)


def _build_fabric(sections: ScenarioFile, complaints: list[Complaint]) -> Fabric | None:
    if sections.fabric is None:
        return None
    found = [Complaint(("fabric", key), what, hint) for key, what, hint in sections.fabric.complaints()]
    complaints.extend(found)
    if found:
        return None
    try:
        return sections.fabric.build()
    except ValueError as error:
        complaints.append(Complaint(("fabric",), str(error)))
        return None


def _check_names(sections: ScenarioFile) -> Iterator[Complaint]:
    first: dict[str, int] = {}
    for index, job in enumerate(sections.jobs or ()):
        if job is not None and job.name is not None and first.setdefault(job.name, index) != index:
            what = f"{shown(job.name)} is the name of jobs[{first[job.name]}] already"
            yield Complaint(("jobs", index, "name"), what, "give each job a name of its own")


def _check_models(sections: ScenarioFile) -> Iterator[Complaint]:
    """Models of the scenario's own have names of their own, and one account of their size."""
    seen = set(model_names())
    for index, model in enumerate(sections.models or ()):
        if model is None:
            continue
        at = ("models", index)
        if model.name is not None and model.name in seen:
            yield Complaint((*at, "name"), f"there is a model {shown(model.name)} already", "give it another name")
        seen.add(model.name)
        sizes = model.model_fields_set & {"tensors", "parameters"}
        if len(sizes) == 2:
            yield Complaint((*at, "parameters"), "given together with tensors", "keep one of them")
        elif not sizes:
            yield Complaint((*at, "parameters"), "missing", "say how many, as parameters: 25000000, or list tensors")


def _check_queue(sections: ScenarioFile) -> Iterator[Complaint]:
    if sections.queue is None:
        return
    if sections.share_gpus:
        yield Complaint(("queue",), "given, but with share_gpus no job waits for GPUs", "remove one of the two")
    for index, job in enumerate(sections.jobs or ()):
        if job is not None and job.movable:
            what = "given, but jobs that queue are placed when they begin"
            yield Complaint(("jobs", index, "movable"), what, "remove it, or queue")


def _check_job(at: Location, job: JobSection, models: Mapping[str, ModelSection]) -> Iterator[Complaint]:
    yield from _check_payload(at, job)
    yield from _check_compute(at, job, models)
    yield from _check_collective(at, job)
    yield from _check_application(at, job)
    yield from _check_backend(at, job)
    if "workers" not in job.model_fields_set and isinstance(job.placement, str):
        yield Complaint((*at, "workers"), "missing", "say how many, as workers: 4, or list the hosts in placement")
    if job.program == "allreduce" and (job.workers == 1 or (job.workers is None and len(job.placement or "  ") == 1)):
        yield Complaint((*at, "workers"), "an all-reduce needs at least 2 workers")
    if "iterations" not in job.model_fields_set and not isinstance(job.program, CommandSection):
        yield Complaint((*at, "iterations"), "missing", "say how many, as iterations: 60")
    if job.warmup is not None and job.iterations is not None and job.warmup >= job.iterations:
        what = f"is {job.warmup}, which leaves none of {job.iterations} iterations to measure"
        yield Complaint((*at, "warmup"), what, "give more iterations than warmup")


def _check_payload(at: Location, job: JobSection) -> Iterator[Complaint]:
    """What the job sends must be said once, and fit its program."""
    given = [key for key in ("model", "gradients", "sizes") if key in job.model_fields_set]
    if len(given) > 1:
        yield Complaint((*at, given[1]), f"given together with {given[0]}", "keep one of them")
    elif job.program == "allreduce" and given != ["sizes"]:
        what = "not for program allreduce, which takes sizes" if given else "missing"
        yield Complaint((*at, *(given or ["sizes"])), what, "say what to all-reduce, as sizes: [64kB, 1MB]")
    elif job.program in COLLECTIVE_OF and given == ["sizes"]:
        instead = "activations" if job.program in BETWEEN_COMPUTE else "model or gradients"
        yield Complaint((*at, "sizes"), "only for program allreduce", f"give {instead} instead")
    elif job.program in GRADIENTS_SENT and not given:
        yield Complaint((*at, "model"), "missing", "say what the job sends, as model: vgg16 or gradients: 100MB")
    elif job.program in BETWEEN_COMPUTE and given == ["gradients"]:
        yield Complaint((*at, "gradients"), f"not for program {job.program}, which sends activations", "remove it")
    yield from _check_activations(at, job)
    if job.gradients is not None and job.bucket is not None and job.gradients > job.bucket * MAX_BUCKETS:
        what = f"makes {-(-job.gradients // job.bucket)} buckets of the gradients; at most {MAX_BUCKETS} are possible"
        yield Complaint((*at, "bucket"), what, "use larger buckets")


def _check_activations(at: Location, job: JobSection) -> Iterator[Complaint]:
    """Some programs need activations and layers, and others have none."""
    if not isinstance(job.program, str):
        return
    for key, needed, allowed, example in (
        ("activations", ACTIVATIONS_SENT, ACTIVATIONS_SENT, "4MB"),
        ("layers", BETWEEN_COMPUTE, BETWEEN_COMPUTE | {FSDP}, "12"),
    ):
        if key in job.model_fields_set and job.program not in allowed:
            yield Complaint((*at, key), f"only for programs {', '.join(sorted(allowed))}", "remove it")
        elif key not in job.model_fields_set and job.program in needed:
            yield Complaint((*at, key), f"missing for program {job.program}", f"give it, as {key}: {example}")
    if job.compute is not None and job.compute.overlap and job.program in NOT_OVERLAPPED:
        what = f"not for program {job.program}, which has its collectives in places of their own"
        yield Complaint((*at, "compute", "overlap"), what, "remove it")


def _check_compute(at: Location, job: JobSection, models: Mapping[str, ModelSection]) -> Iterator[Complaint]:
    """The model must exist, and the compute time must be said once, or stand in the catalogue."""
    if job.compute is None or (job.model is None and "model" in job.model_fields_set):
        return
    try:
        times, default = _compute_times(job, models)
    except KeyError:
        hint = did_you_mean(str(job.model), (*models, *model_names()))
        yield Complaint((*at, "model"), f"the catalogue has no model {shown(job.model)}", hint)
        return
    if times is None:
        return  # its model has a complaint
    written = "iteration" in job.compute.model_fields_set
    if "gpu" in job.model_fields_set and written:
        yield Complaint((*at, "gpu"), "given together with compute.iteration", "remove one of the two")
    elif job.gpu is not None and job.gpu not in times:
        what = f"the catalogue has no compute time of {job.model or 'a job without model'} on {shown(job.gpu)}"
        yield Complaint((*at, "gpu"), what, did_you_mean(job.gpu, times) if times else "give compute.iteration instead")
    elif job.program in COLLECTIVE_OF and not written and job.gpu is None and default is None:
        what = f"has no iteration time, and the catalogue has {'only estimates' if times else 'none'}"
        instead = f", or take an estimate, as gpu: {next(iter(times))}" if times else ""
        yield Complaint((*at, "compute"), what, "give it, as compute: {iteration: 75ms}" + instead)


def _compute_times(
    job: JobSection, models: Mapping[str, ModelSection]
) -> tuple[Mapping[str, float] | None, str | None]:
    """The compute times of a job's model, and which is the default. KeyError if there is no such model."""
    if job.model is None:
        return {}, None
    if job.model not in models:
        model = find_model(job.model)
        return model.compute_s, model.default_compute
    times = models[job.model].compute
    return times, next(iter(times or ()), None)


def _check_collective(at: Location, job: JobSection) -> Iterator[Complaint]:
    """Only ddp has a choice of collectives, and only some of them have servers or stages."""
    if job.collective not in (None, RING_ALL_REDUCE) and job.program not in (None, "ddp"):
        yield Complaint((*at, "collective"), "only for program ddp", "remove it")
    collective = _collective(job)
    for key, given, having in (
        ("servers", job.servers, (PARAMETER_SERVER,)),
        ("stages", job.stages, (PIPELINE, STAGE_ALL_REDUCE)),
    ):
        if given is not None and collective is not None and collective not in having:
            what = f"only for collective {' or '.join(having)}"
            yield Complaint((*at, key), what, "remove it, or change the collective")


def _check_application(at: Location, job: JobSection) -> Iterator[Complaint]:
    """What parameter-server jobs learn, and on what."""
    for key in ("application", "data", "blocks"):
        if key in job.model_fields_set and job.program not in (None, PS):
            yield Complaint((*at, key), "only for program ps", "remove it")
    if job.program != PS or job.application is None:
        return
    if "model" in job.model_fields_set:
        yield Complaint((*at, "model"), "given together with application", "give gradients, the bytes of its model")
    if "data" not in job.model_fields_set:
        yield Complaint((*at, "data"), "missing for an application", "say how much input it has, as data: 64MB")
    if job.servers is not None and job.workers is not None and job.servers != job.workers:
        what = "given, but each rank of an application is both server and worker"
        yield Complaint((*at, "servers"), what, "remove it")


def _check_backend(at: Location, job: JobSection) -> Iterator[Complaint]:
    """NCCL is for GPUs, and for collectives that it has; whether there are GPUs only the machine of the run tells."""
    if isinstance(job.program, CommandSection) and job.backend not in (None, "auto"):
        yield Complaint((*at, "backend"), "not for a command, which chooses its own", "remove it")
    elif job.backend == NCCL:
        collective = RING_ALL_REDUCE if job.program == "allreduce" else _collective(job)
        if job.device == CPU:
            yield Complaint((*at, "backend"), "given, but NCCL moves data between GPUs and device is cpu", "use gloo")
        elif collective is not None and collective not in NCCL_COLLECTIVES:
            yield Complaint((*at, "backend"), f"given, but NCCL has no {collective}", "use gloo")


def _collective(job: JobSection) -> str | None:
    """What the job's program joins its ranks by; None where the schema refused it."""
    return COLLECTIVE_OF.get(str(job.program)) or job.collective


def _check_collectives(
    sections: ScenarioFile, fabric: Fabric, hosts: tuple[tuple[str, ...], ...]
) -> Iterator[Complaint]:
    """A job's collective must be able to join its ranks where they are placed. A ring always is."""
    for index, (job, placed) in enumerate(zip(sections.jobs or (), hosts, strict=False)):
        collective = None if job is None else _collective(job)
        if job is None or not placed or collective in (None, RING_ALL_REDUCE):
            continue
        if isinstance(job.placement, tuple) and len(placed) < len(job.placement):
            continue  # hosts that are unknown have their complaints
        ranks = Job(
            name=str(job.name),
            index=index,
            program="ddp",
            hosts=placed,
            iterations=1,
            collective=collective,
            servers=len(placed) if job.application else job.servers or 1,
            stages=job.stages,
        )
        try:
            rank_transfers(ranks, fabric.rack_of)
        except ValueError as error:
            key = "collective" if "collective" in job.model_fields_set else "program"
            yield Complaint(("jobs", index, key), str(error), f"change the ranks or the {key}")


def _place_jobs(sections: ScenarioFile, names: _Names, complaints: list[Complaint]) -> tuple[tuple[str, ...], ...]:
    """The hosts of each job's ranks, listed ones first so that the others leave them free.

    Where jobs queue, those that each would have if it came alone.
    """
    jobs = [(index, job) for index, job in enumerate(sections.jobs or ()) if job is not None]
    ranks = sum(job.workers or 0 for _, job in jobs)
    if ranks > MAX_RANKS:
        complaints.append(Complaint(("jobs",), f"have {ranks} ranks in all; at most {MAX_RANKS} are possible"))
        return ()
    share, queued = sections.share_gpus is not False, sections.queue is not None
    placer = Placer(names.fabric, share=share)
    listed = _Listed(names, share=share or queued)
    hosts: list[tuple[str, ...]] = [()] * len(sections.jobs or ())
    for index, job in jobs:
        if isinstance(job.placement, tuple):
            complaints.extend(listed.check(("jobs", index), job))
            hosts[index] = tuple(host for host in job.placement if host in names.fabric.host_index)
            if not queued:
                placer.reserve(hosts[index])
    for index, job in jobs:
        if isinstance(job.placement, str) and job.workers is not None:
            try:
                hosts[index] = placer.place(job.placement, job.workers, placement_draw(sections.seed, job.name))
                if queued:
                    placer.release(hosts[index])
            except NoRoom as error:
                what = f"asks for {_gpus(job.workers)}, but {_free(error.free, names.fabric)}"
                hint = "ask for fewer, or add hosts"
                if not (share or queued):
                    hint = "ask for fewer, add hosts, set share_gpus: true, or let jobs wait with queue: fifo"
                complaints.append(Complaint(("jobs", index, "workers"), what, hint))
    return tuple(hosts)


def _free(free: int, fabric: Fabric) -> str:
    gpus = len(fabric.hosts) * fabric.gpus_per_host
    return f"the fabric has {gpus}" + ("" if free == gpus else f", {free or 'none'} of them free")


def _gpus(count: int) -> str:
    return "one GPU" if count == 1 else f"{count} GPUs"


class _Names:
    """Looks up the fabric's hosts and links. Hints cost time, so only the first mistakes get one."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._hints = MAX_SHOWN

    def check_host(self, at: Location, host: str | None) -> Iterator[Complaint]:
        if host is not None and host not in self.fabric.host_index:
            yield Complaint(at, f"the fabric has no host {shown(host)}", self._hint(host, self.fabric.host_index))

    def check_link(self, at: Location, link: str | None) -> Iterator[Complaint]:
        if link is not None and link not in self.fabric.cables and link not in self.fabric.links:
            known = self.fabric.links if ">" in link else self.fabric.cables
            yield Complaint(at, f"the fabric has no link {shown(link)}", self._hint(link, known))

    def _hint(self, name: str, known: Collection[str]) -> str | None:
        self._hints -= 1
        return did_you_mean(name, known) if self._hints >= 0 else None


class _Listed:
    """Checks jobs whose hosts are listed, and remembers which GPUs they take."""

    def __init__(self, names: _Names, *, share: bool) -> None:
        self._names = names
        self._share = share
        self._holders: dict[str, list[str]] = {}

    def check(self, at: Location, job: JobSection) -> Iterator[Complaint]:
        gpus = self._names.fabric.gpus_per_host
        own: Counter[str] = Counter()
        if job.workers is not None and job.workers != len(job.placement):
            what = f"is {job.workers}, but placement lists {len(job.placement)} hosts"
            yield Complaint((*at, "workers"), what, "list one host a worker, or leave workers out")
        elif not job.placement:
            yield Complaint((*at, "placement"), "lists no hosts", "list the host of each worker, or write spread")
        for position, host in enumerate(job.placement):
            place = (*at, "placement", position)
            yield from self._names.check_host(place, host)
            own[host] += 1
            holders = self._holders.setdefault(host, [])
            if own[host] > gpus:
                what = f"{shown(host)} is listed {own[host]} times, but has {_gpus(gpus)}"
                yield Complaint(place, what, "list another host")
            elif not self._share and len(holders) >= gpus:
                what = f"no GPU of {shown(host)} is left: {shown(holders[0])} has it"
                yield Complaint(place, what, "list another host, or set share_gpus: true")
            holders.append(str(job.name))


def _check_traffic(sections: ScenarioFile, names: _Names) -> Iterator[Complaint]:
    """Background flows and captures must name what the fabric has."""
    for index, flow in enumerate(sections.background or ()):
        if flow is not None:
            at: Location = ("background", index)
            yield from names.check_host((*at, "from"), flow.src)
            yield from names.check_host((*at, "to"), flow.dst)
            if flow.src is not None and flow.src == flow.dst:
                yield Complaint((*at, "to"), "is the host that sends", "name another host")
    for index, link in enumerate(sections.capture or ()):
        yield from names.check_link(("capture", index), link)
