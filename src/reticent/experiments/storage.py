# SPDX-License-Identifier: Apache-2.0
"""The directory of a run: ``config.yaml``, ``results.parquet``, ``metadata.json``, ``regret.png``, ``report.html``.

Without Polars the results are ``results.csv``, without Matplotlib there is no picture and the report says so.

Every file is written under another name first and then renamed, so that none is ever half there.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

import reticent
from reticent.errors import InvalidInput, MissingExtra
from reticent.experiments.config import RunConfig
from reticent.experiments.result import FRAME_SCHEMA, RunResult

CONFIG, RESULTS, METADATA, PICTURE, REPORT = (
    "config.yaml",
    "results.parquet",
    "metadata.json",
    "regret.png",
    "report.html",
)
RESULTS_WITHOUT_POLARS = "results.csv"


def prepare(directory: Path, config: RunConfig) -> Path:
    """Make the directory and write the configuration, so that a place that cannot be written to is found out first.

    Raises:
      InvalidInput: it cannot.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with replacing(directory / CONFIG) as path:
            path.write_text(config_text(config), encoding="utf-8")
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise InvalidInput(
            "out", f"{directory} ({reason})", "a directory that can be written to", "choose another"
        ) from None
    return directory


def config_text(config: RunConfig) -> str:
    """The resolved configuration as YAML."""
    content = {"reticent": reticent.__version__, **config.to_dict()}
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100))


def metadata_of(result: RunResult) -> dict[str, object]:
    """The circumstances of a run with its seeds and whether it was finished."""
    return {
        **result.metadata,
        "seeds": list(result.config.seeds),
        "interrupted": result.interrupted,
        "agents": {row["agent"]: {"episodes": row["episodes"], "seconds": row["seconds"]} for row in result.summary()},
    }


def results_file() -> str:
    """The name of the results' file: what is installed decides its format."""
    return RESULTS if importlib.util.find_spec("polars") is not None else RESULTS_WITHOUT_POLARS


def write_results(result: RunResult, directory: Path) -> None:
    """Write the curves alone; called after every agent."""
    with replacing(directory / results_file()) as path:
        if path.suffix == ".csv":
            _write_csv(result, path)
        else:
            result.to_frame().write_parquet(path)


def _write_csv(result: RunResult, path: Path) -> None:
    """The same rows as :meth:`RunResult.to_frame`, by the standard library."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(FRAME_SCHEMA)
        for label, curves in result.curves.items():
            for seed, values, regrets in zip(curves.seeds, curves.value, curves.regret, strict=True):
                rows = zip(curves.episodes.tolist(), values.tolist(), regrets.tolist(), strict=True)
                writer.writerows((label, int(seed), *row) for row in rows)


def picture_problem(result: RunResult, target: Path) -> str | None:
    """Draw the run's picture to ``target``; if it cannot be drawn, why, in a sentence: a picture never costs a run."""
    from reticent.reports.run_page import theory

    try:
        with replacing(target) as path:
            result.plot(path, theory(result)[0] if result.config.theory else ())
    except MissingExtra as missing:
        return f"There is no picture: {missing}."
    except Exception as problem:  # whatever the drawing library stumbles over, the numbers are written all the same
        target.unlink(missing_ok=True)
        return f"The picture could not be drawn ({type(problem).__name__}: {problem}); all numbers are in the results."
    return None


def write_run(result: RunResult, directory: Path) -> Path:
    """Write all five files of a run; without the picture, and with the reason in the report, if it cannot be drawn."""
    from reticent.reports.run_page import report_html

    prepare(directory, result.config)
    write_results(result, directory)
    with replacing(directory / METADATA) as path:
        path.write_text(json.dumps(metadata_of(result), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    picture = directory / PICTURE
    problem = picture_problem(result, picture)
    drawn = picture.read_bytes() if problem is None else b""
    with replacing(directory / REPORT) as path:
        folded = {
            "Configuration": config_text(result.config),
            "Circumstances": json.dumps(metadata_of(result), indent=2, ensure_ascii=False),
        }
        path.write_text(report_html(result, drawn, folded, problem), encoding="utf-8")
    return directory


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to that becomes ``target`` when all went well, with the same ending."""
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
