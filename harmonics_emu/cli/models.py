"""`harmonics-emu models`: the catalogue of models that jobs can train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harmonics_emu.cli.output import print_json, print_table

if TYPE_CHECKING:
    from workloads.models import Model


@click.command("models")
@click.argument("scenario", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON, with buckets, estimates and sources.")
def command(scenario: str | None, as_json: bool) -> None:
    """List the models of the catalogue: parameters, gradient bytes by precision, DDP's buckets, compute times.

    A time with ~ is estimated from the model's arithmetic, not measured; a scenario takes it only where it names it, as
    `gpu: a100-batch32-estimate`. With SCENARIO, the models of its own come first.
    """
    from harmonics_emu.cli.options import load
    from workloads.models import find_model, model_names

    own = [] if scenario is None else [section.build() for section in load(scenario).file.models]
    models = own + [find_model(name) for name in model_names()]
    if as_json:
        print_json({"models": [_row(model) for model in models]})
        return
    columns = ("model", "para-\nmeters", "fp32", "fp16", "buck-\nets", "com-\npute", "on")
    print_table(columns, map(_cells, models))
    click.echo("fp32, fp16: bytes of gradients. buckets: of fp32, as DDP cuts them. compute: of")
    click.echo("one iteration; ~: estimated, not measured. --json: all settings and sources.")


def _row(model: Model) -> dict[str, Any]:
    from workloads.models import ELEMENT_BYTES

    return {
        "name": model.name,
        "parameters": model.parameters,
        "gradient_bytes": {precision: model.gradient_bytes(precision) for precision in ELEMENT_BYTES},
        "bucket_bytes": {precision: list(model.bucket_bytes(precision)) for precision in ELEMENT_BYTES},
        "compute_s": dict(model.compute_s),
        "measured": list(model.measured),
        "default_compute": model.default_compute,
        "sample": model.sample,
        "forward_macs": model.macs,
        "source": model.source,
    }


def _cells(model: Model) -> tuple[object, ...]:
    """The default compute time, or an estimate for an A100 where there is one."""
    setting = model.default_compute or next((name for name in model.compute_s if name.startswith("a100")), None)
    estimated = "" if setting == model.default_compute else "~"
    return (
        model.name,
        _short(model.parameters, " "),
        _short(model.gradient_bytes("fp32"), "B"),
        _short(model.gradient_bytes("fp16"), "B"),
        len(model.bucket_bytes("fp32")),
        None if setting is None else estimated + _time(model.compute_s[setting]),
        None if setting is None else setting.removesuffix("-estimate"),
    )


def _short(count: int, unit: str) -> str:
    """Three digits and a decimal prefix, as 138 M or 1.34 GB."""
    prefix = "G" if count >= 999.5e6 else "M"
    value = count / (1e9 if prefix == "G" else 1e6)
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}\u00a0{prefix}{unit}".rstrip(" ")


def _time(seconds: float) -> str:
    return f"{seconds:.1f}\u00a0s" if seconds >= 0.9995 else f"{1000 * seconds:.0f}\u00a0ms"
