"""A scenario file's keys, as pydantic models: the JSON schema comes from here, and so do defaults and descriptions.

These classes judge each value by itself; what depends on several of them is judged in `checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, JsonValue, StrictBool, StrictFloat, StrictInt, StrictStr, Tag
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from harmonics_emu.scenario.fabrics import FabricSection
from harmonics_emu.scenario.fields import (
    Count,
    Name,
    PolicyName,
    PositiveTime,
    Rate,
    Scale,
    Section,
    Share,
    Size,
    Text,
    Time,
    written_kind,
)
from harmonics_emu.scenario.placement import Rule
from workloads.job import LEVELS
from workloads.models import DEFAULT_BUCKET_CAP, Model, custom_model, even_tensors, find_model

MAX_SEED = 10**18
Elements = Annotated[StrictInt, Field(ge=1, le=10**13)]


class ScaleSection(Section):
    """How much smaller the emulated network is than the real one; times stay real."""

    rate: Scale = Fraction(1)
    """Emulated over real rate. Rates in the file are emulated; bytes are real and shrink by this factor."""


class ModelSection(Section):
    """A model that the catalogue does not have."""

    name: Name
    tensors: Annotated[tuple[Elements, ...], Field(min_length=1, max_length=20_000)] | None = None
    """Elements of each parameter tensor, in the order of model.parameters(): buckets are cut as DDP cuts them."""
    parameters: Elements | None = None
    """Instead of tensors: how many in all, as if they were in tensors of 1 MiB."""
    compute: Annotated[dict[Name, PositiveTime], Field(max_length=100)] = {}  # noqa: RUF012
    """Compute time of one iteration by GPU and setting, the default first, as {a100: 120ms}."""
    source: Text = "the scenario's author"
    """Where its figures come from."""

    def build(self) -> Model:
        """The model, once `checks` has passed it."""
        tensors = self.tensors or even_tensors(self.parameters or 1)
        return custom_model(self.name, tensors, self.compute, self.source)


class ComputeSection(Section):
    """What an iteration takes with an infinitely fast network."""

    iteration: PositiveTime | None = None
    """Compute time of one iteration; without it, the catalogue's time of the job's model."""
    overlap: Share = 0.0
    """Fraction of the compute time, counted from its end, during which gradients become ready."""
    jitter: Annotated[StrictFloat, Field(ge=0, le=10)] = 0.0
    """Coefficient of variation of the compute time (log-normal, drawn by seed)."""
    real: StrictBool = False
    """Whether ranks multiply matrices for that long, on the job's device, instead of sleeping (emulator only)."""


class CommandSection(Section):
    """A training script of the user's own."""

    command: Annotated[tuple[Annotated[StrictStr, Field(min_length=1)], ...], Field(min_length=1)]
    """The program and its arguments, run once a rank; needs --allow-commands. `python` is this program's own."""


Placement = Annotated[
    Annotated[Rule, Tag("name")] | Annotated[tuple[StrictStr, ...], Tag("list")],
    Discriminator(lambda value: "list" if written_kind(value) == "list" else "name"),
]
Program = Annotated[
    Annotated[
        Literal["ddp", "fsdp", "pipeline", "tensor", "moe", "ps", "hierarchical", "allreduce"],
        Tag("name"),
    ]
    | Annotated[CommandSection, Tag("mapping")],
    Discriminator(lambda value: "mapping" if written_kind(value) == "mapping" else "name"),
]
Collective = Literal[
    "ring-all-reduce",
    "halving-doubling-all-reduce",
    "tree-all-reduce",
    "hierarchical-all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "broadcast",
    "parameter-server",
    "pipeline",
    "stage-all-reduce",
]
"""The names in workloads.collectives.COLLECTIVES."""


class JobSection(Section):
    """One training job."""

    name: Name
    model: Text | None = None
    """A model of the catalogue (`harmonics-emu models`) or of `models`: its gradients are what the job sends."""
    gradients: Size | None = None
    """Instead of model: bytes of gradients of one iteration (real)."""
    sizes: Annotated[tuple[Size, ...], Field(min_length=1, max_length=1000)] | None = None
    """For program allreduce: the sizes (real) that each iteration all-reduces, one after another."""
    workers: Count | None = None
    """Number of ranks, one GPU each; needed unless placement lists the hosts."""
    placement: Placement = "spread"
    """spread: over all racks evenly; packed: over as few as possible; random: drawn by the file's seed; local: on one
    host, in one rack or in racks near to each other; or the host of each rank."""
    movable: StrictBool = False
    """Whether a policy that chooses placements (cassini) may put the job elsewhere before the run begins."""
    program: Program = "ddp"
    """ddp: gradients in buckets, as DistributedDataParallel; fsdp: fully sharded; pipeline: stages, data parallel
    within each; tensor: all-reduces in layers; moe: all-to-alls in layers; ps: parameter servers; hierarchical: within
    racks, then across; allreduce: a sweep of sizes; or {command: [...]}."""
    collective: Collective = "ring-all-reduce"
    """What ddp's ranks do with each bucket. In a pipeline, it holds activations that a rank hands on."""
    servers: Count | None = None
    """For parameter servers: how many of the first ranks are servers; one where left out. As many as workers: each is
    both."""
    stages: Count | None = None
    """For a pipeline: into how many stages of equally many ranks they are cut; one a rank where left out."""
    activations: Size | None = None
    """For programs tensor and moe: bytes that each rank has in one of their collectives; for pipeline: bytes that each
    rank hands on in an iteration (real)."""
    layers: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    """For programs tensor and moe: layers, each with four collectives; for fsdp: into how many equal layers parameters
    are cut, instead of `bucket`."""
    application: Literal["mlr", "nmf", "lda", "lasso"] | None = None
    """For program ps: what is learnt on `data`, from a model of `gradients` bytes: multinomial logistic regression,
    non-negative matrix factorisation, latent Dirichlet allocation or a lasso. Each rank is server and worker."""
    data: Size | None = None
    """For program ps: bytes of input (real, never scaled) that the ranks hold in equal parts."""
    blocks: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """For program ps: into how many blocks each rank's data is cut, 8 where left out. An iteration computes on one."""
    compute: ComputeSection = ComputeSection()
    gpu: Text | None = None
    """Which of the catalogue's compute times to take, instead of compute.iteration."""
    iterations: Annotated[StrictInt, Field(ge=1, le=10**7)] | None = None
    """Training steps; needed unless the program is a command, which ends when it likes."""
    warmup: Annotated[StrictInt, Field(ge=0)] = 1
    """First iterations that are left out of statistics."""
    start: Time = 0.0
    """When the job is submitted, after time zero; `offsets` comes on top."""
    weight: Annotated[StrictFloat, Field(gt=0, le=10**6)] = 1.0
    """The tenant's weight in the schedulers' objective."""
    priority: Annotated[StrictInt, Field(ge=0, lt=LEVELS)] | None = None
    """Level for policy priority: 0 is served first, 7 last."""
    precision: Literal["fp32", "fp16"] = "fp32"
    """Of the model's gradients."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """What ranks compute on (emulator only). auto: a GPU where there is one and the ranks really compute."""
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    """What they communicate by (emulator only). auto: NCCL where each has a GPU of its own and computes on it."""
    bucket: Size = DEFAULT_BUCKET_CAP
    """DDP's bucket size (real bytes)."""
    timeout: PositiveTime = 60.0
    """How long a rank may wait in a collective before the job has failed. A command ends by itself, or on Ctrl-C."""


class PolicySection(Section):
    """The scheduling policy; keys beside its name are the policy's own options."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    name: PolicyName

    @property
    def options(self) -> dict[str, JsonValue]:
        """The options as written, for the policy to judge."""
        return dict(self.__pydantic_extra__ or {})

    def with_options(self, options: Mapping[str, JsonValue]) -> PolicySection:
        """The same policy with these options, where it has one already in its place."""
        return PolicySection.model_validate({"name": self.name, **self.options, **options})


class BackgroundSection(Section):
    """A steady flow that belongs to no job."""

    src: Annotated[StrictStr, Field(alias="from")]
    """Host that sends."""
    dst: Annotated[StrictStr, Field(alias="to")]
    """Host that receives."""
    rate: Rate
    """The most it sends (emulated)."""


class EventSection(Section):
    """Something that happens during the run: to a link, to ranks of a job, or to a daemon of the emulator."""

    at: Time
    """When, after time zero."""
    action: Literal["down", "up", "rate", "slow", "stop", "continue", "kill", "restart"]
    """down, up, rate: of a link. slow: ranks compute longer. stop, continue, kill: ranks get that signal (emulator
    only). restart: a daemon is killed, and started again (emulator only)."""
    link: StrictStr | None = None
    """A cable (leaf0-spine0), or one direction of it (leaf0>spine0)."""
    rate: Rate | None = None
    """For action rate: the link's new rate (emulated)."""
    job: StrictStr | None = None
    """For slow, stop, continue and kill: whose ranks."""
    rank: Annotated[StrictInt, Field(ge=0)] | None = None
    """Which of the job's ranks, from 0; all where it is left out."""
    factor: Annotated[StrictFloat, Field(ge=1, le=1000)] | None = None
    """For slow: how many times as long they compute."""
    lasts: Annotated[PositiveTime | None, Field(alias="for")] = None
    """For slow: for how long; to the end where it is left out."""
    daemon: Literal["controller", "switches"] | None = None
    """For restart: switches are Open vSwitch's daemon, which runs all of them."""


class ScenarioFile(Section):
    """One experiment: a fabric, the jobs on it, and the policy that schedules them."""

    name: Name
    description: Text | None = None
    """What the scenario shows; the first line is its title in lists."""
    fabric: FabricSection
    scale: ScaleSection = ScaleSection()
    share_gpus: StrictBool = False
    """Whether several jobs may use one GPU."""
    models: tuple[ModelSection, ...] = ()
    """Models that jobs train beside those of the catalogue."""
    jobs: Annotated[tuple[JobSection, ...], Field(min_length=1)]
    queue: Literal["fifo", "srpt"] | None = None
    """Jobs wait for free GPUs, and are placed when they get them (simulator only). fifo: none overtakes another; srpt:
    the one with the least left to do begins first, and those that fit overtake those that don't."""
    policy: PolicySection = PolicySection(name="fair")
    background: tuple[BackgroundSection, ...] = ()
    capture: tuple[StrictStr, ...] = ()
    """Cables or links whose packets are recorded."""
    events: tuple[EventSection, ...] = ()
    offsets: Time = 0.0
    """How far apart jobs come: each up to this later than its `start`, drawn by seed; one of the first is on time."""
    seed: Annotated[StrictInt, Field(ge=0, lt=MAX_SEED)] = 0
    """Draws hashed paths, offsets and compute jitter."""
    worst_case: StrictBool = False
    """Says that jobs are started in step on purpose."""

    def model_of(self, job: JobSection) -> Model | None:
        """What a job trains, None if it names no model. KeyError if there is none of that name."""
        own = (model for model in self.models if model.name == job.model)
        found = next(own, None)
        return found.build() if found is not None else None if job.model is None else find_model(job.model)


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a scenario file."""
    schema = ScenarioFile.model_json_schema(by_alias=True, schema_generator=_FileSchema)
    return {"$schema": _FileSchema.schema_dialect, **schema}


class _FileSchema(GenerateJsonSchema):
    """Keys that may be left out may not be null, and defaults read as a file would write them."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        default = described.pop("default", None)
        if isinstance(schema.get("default"), Section):
            default = schema["default"].model_dump(mode="json", exclude_none=True)
        elif "function" in schema["schema"].get("serialization", {}):
            default = schema["schema"]["serialization"]["function"](schema["default"])
        return described if default is None else {**described, "default": default}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
