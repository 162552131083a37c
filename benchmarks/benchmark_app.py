"""Our single-device latency against OpenVINO's own benchmark_app, in interleaved runs."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import openvino as ov

from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.timing_protocol import TimingProtocol

FLAGS = "-d CPU -hint none -nstreams 1 -nthreads 1 -infer_precision f32 -api sync"


def run_benchmark_app(path: Path, runs: int) -> float:
    """Run benchmark_app; returns the median latency that it reports, in ms."""
    command = [str(Path(sys.executable).parent / "benchmark_app"), "-m", str(path), *FLAGS.split()]
    done = subprocess.run(
        [*command, "-niter", str(runs)], capture_output=True, text=True, check=True
    )
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    assert found, done.stdout
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="resnet,inception,bert", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds")
    parser.add_argument("--runs", type=int, default=40, help="inferences a round and side")
    options = parser.parse_args()
    for model in options.models.split(","):
        protocol = TimingProtocol(repeats=options.runs)
        backend = build_measured_backend(model, "cpu-testbed", protocol=protocol, isolate=False)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{model}.xml"
            ov.save_model(backend.model, path, compress_to_fp16=False)
            ours, theirs = [], []
            for _ in range(options.rounds):
                theirs.append(run_benchmark_app(path, options.runs))
                backend.__dict__.pop("reference_ms", None)
                ours.append(backend.reference_ms)
        ratios = np.array(ours) / np.array(theirs)
        print(
            f"{model:<10} ours {np.median(ours):7.2f} ms, "
            f"benchmark_app {np.median(theirs):7.2f} ms, "
            f"ratio {np.median(ratios):.3f} ({ratios.min():.3f} to {ratios.max():.3f})"
        )


if __name__ == "__main__":
    main()
