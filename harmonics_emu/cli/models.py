"""`harmonics-emu models`: the catalogue of models that jobs can train."""

from __future__ import annotations

import click

from harmonics_emu.cli.output import print_json, print_table


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON, with their sources.")
def command(as_json: bool) -> None:
    """List the models of the catalogue: parameters, gradient bytes (fp32), and compute time by GPU."""
    from workloads.models import find_model, model_names

    models = [find_model(name) for name in model_names()]
    if as_json:
        rows = [
            {
                "name": model.name,
                "parameters": model.parameters,
                "gradient_bytes": {precision: sum(model.bucket_bytes(precision)) for precision in ("fp32", "fp16")},
                "compute_s": dict(model.compute_s),
                "default_compute": model.default_compute,
                "source": model.source,
            }
            for model in models
        ]
        print_json({"models": rows})
    else:
        print_table(
            ("model", "parameters", "gradients", "compute time of one iteration"),
            (
                (
                    model.name,
                    f"{model.parameters:,}",
                    f"{sum(model.bucket_bytes('fp32')) / 1e6:,.1f} MB",
                    ", ".join(f"{gpu}: {1000 * seconds:.0f}\u00a0ms" for gpu, seconds in model.compute_s.items()),
                )
                for model in models
            ),
        )
