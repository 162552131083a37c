"""Plans of networks from elsewhere, random weights, small configurations.

    python benchmarks/foreign.py --out foreign [NAME ...]

needs torchvision, timm, transformers and optimum-intel, and downloads nothing. Every network is
converted and planned in a process of its own. Rows are kept in foreign/rows.jsonl; those that are
there are not made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from common import Row, combine, make_parser, run_apart, run_missing
from summaries import Tables

DEVICES = "cpu-testbed"
SCENARIO = "chat-16-8"


def image(library: str, name: str, size: int = 96, **options: Any) -> Callable[[Path], Path]:
    """A classifier of torchvision or timm."""

    def build(folder: Path) -> Path:
        import torch

        if library == "timm":
            import timm

            model = timm.create_model(name, pretrained=False, **options)
        else:
            import torchvision

            model = torchvision.models.get_model(name, weights=None, **options)
        return convert(model, {"x": torch.rand(1, 3, size, size)}, folder)

    return build


def exported(
    config: str,
    head: str,
    task: str = "text-generation-with-past",
    file: str = "openvino_model.xml",
    shapes: dict[str, list[int]] | None = None,
    **options: Any,
) -> Callable[[Path], Path]:
    """A network of transformers, exported as by `optimum-cli export openvino --task TASK`."""

    def build(folder: Path) -> Path:
        import torch
        import transformers
        from optimum.exporters.openvino import main_export

        torch.manual_seed(0)
        made = getattr(transformers, head)(getattr(transformers, config)(**options))
        made.save_pretrained(folder / "torch")
        main_export(folder / "torch", folder, task=task)
        if shapes:
            (folder / "shapes.json").write_text(json.dumps(shapes))
        return folder / file

    return build


def convert(model: Any, inputs: Row, folder: Path) -> Path:
    """Trace a torch module; its sizes stay dynamic, and ``shapes.json`` binds them."""
    import openvino as ov

    converted = ov.convert_model(model.eval(), example_input=tuple(inputs.values()))
    ov.save_model(converted, folder / "model.xml", compress_to_fp16=False)
    names = [port.get_node().get_friendly_name() for port in converted.inputs]
    sizes = [list(tensor.shape) for tensor in inputs.values()]
    (folder / "shapes.json").write_text(json.dumps(dict(zip(names, sizes, strict=True))))
    return folder / "model.xml"


TOKENS = {"input_ids": [1, 16], "attention_mask": [1, 16]}
WIDTH = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "vocab_size": 2048}
HEADS = {"num_attention_heads": 4}
GROUPED = WIDTH | HEADS | {"num_key_value_heads": 2}
T5 = {"d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4, "vocab_size": 2048}
WHISPER = {"d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 2048,
           "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 256,
           "decoder_ffn_dim": 256, "num_mel_bins": 80, "max_source_positions": 100,
           "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
           "decoder_start_token_id": 1, "suppress_tokens": None,
           "begin_suppress_tokens": None}  # fmt: skip
MODELS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    **{
        name: ("torchvision", image("torchvision", name))
        for name in (
            "resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5",
            "densenet121", "efficientnet_b0", "convnext_tiny", "swin_t",
        )
    },
    "vit_tiny": ("timm", image("timm", "vit_tiny_patch16_224", img_size=96)),
    "mixer_s32": ("timm", image("timm", "mixer_s32_224", 224)),
    "poolformer_s12": ("timm", image("timm", "poolformer_s12")),
    "levit_128s": ("timm", image("timm", "levit_128s", 224)),
    "mobilevit_xxs": ("timm", image("timm", "mobilevit_xxs")),
    "bert": ("transformers", exported("BertConfig", "BertModel", "feature-extraction",
                                      shapes=TOKENS | {"token_type_ids": [1, 16]},
                                      **WIDTH, **HEADS)),
    "t5": ("transformers", exported("T5Config", "T5ForConditionalGeneration",
                                    "text2text-generation-with-past",
                                    "openvino_encoder_model.xml", TOKENS, **T5)),
    "whisper": ("transformers", exported("WhisperConfig", "WhisperForConditionalGeneration",
                                         "automatic-speech-recognition-with-past",
                                         "openvino_encoder_model.xml",
                                         {"input_features": [1, 80, 200]}, **WHISPER)),
    "gpt2": ("transformers", exported("GPT2Config", "GPT2LMHeadModel", n_layer=4, n_embd=256,
                                     n_head=4, vocab_size=4096)),
    "llama": ("transformers", exported("LlamaConfig", "LlamaForCausalLM", **GROUPED)),
    "qwen3": ("transformers", exported("Qwen3Config", "Qwen3ForCausalLM", head_dim=32, **GROUPED)),
    "mixtral": ("transformers", exported("MixtralConfig", "MixtralForCausalLM",
                                        num_local_experts=4, **GROUPED)),
    "mamba": ("transformers", exported("MambaConfig", "MambaForCausalLM", hidden_size=128,
                                      state_size=8, num_hidden_layers=4, vocab_size=2048)),
    "gemma": ("transformers", exported("GemmaConfig", "GemmaForCausalLM", head_dim=32, **GROUPED)),
}  # fmt: skip


def make_row(name: str, folder: Path) -> Row:
    """Convert and plan one network; what it refuses is a result too."""
    from placement_gym.base.errors import PlacementGymError
    from placement_gym.deployment.plan import plan

    row = describe(name)
    started = perf_counter()
    # Exporters of other libraries raise whatever they like; that is no fault of the plan.
    try:
        path = MODELS[name][1](folder)
    except Exception as error:
        return row | {"error": f"its exporter fails: {first_line(error)}"}
    row["convert_s"] = perf_counter() - started
    # Networks have dynamic sizes: `shapes.json` binds those of most, a decoder has a scenario.
    shapes_file = folder / "shapes.json"
    inputs = {"scenario": SCENARIO}
    if shapes_file.exists():
        inputs = {"shapes": json.loads(shapes_file.read_text())}
    started = perf_counter()
    try:
        document = plan(path, DEVICES, out=folder, refresh=True, export=folder / "export", **inputs)
    except PlacementGymError as error:
        return row | {"error": str(error)}
    plan_s = perf_counter() - started
    best = next(one for one in document["rows"] if one["label"] == document["plan"])
    return row | {
        "budget": sum(one["measured_ms"] is not None for one in document["rows"]),
        "placement": json.loads(Path(document["file"]).read_text())["units"],
        "cpu_s": sum(os.times()[:4]),  # its children's, too
        "plan_s": plan_s,
        "halves": measure_halves(path, **inputs),
        "notes": document["notes"],
        "plan": document["plan"],
        "verdict": document["verdict"],
        "ms": best["measured_ms"],
        "failed": {one["label"]: one["error"] for one in document["rows"] if one["error"]},
        "fastest_split": max(
            (one["speedup"] for one in document["rows"] if not one["alone"] and one["speedup"]),
            default=None,
        ),
    }


def measure_halves(path: Path, **inputs: Any) -> Row:
    """Measure the split in two halves of the units, though the plan may have no use for one."""
    import gymnasium as gym
    import numpy as np

    from placement_gym.envs.placement_env import placement_env

    env = gym.make("placement_gym:DevicePlacement-v0", model=path, devices=DEVICES, **inputs)
    backend = placement_env(env).backend
    n_units = backend.problem.n_units
    measurement = backend.evaluate(2 * np.arange(n_units) // n_units)
    env.close()
    return measurement.to_json()


def describe(name: str) -> Row:
    """What every row has, also one of a network that could not be planned."""
    return {
        "name": name,
        "library": MODELS[name][0],
        "agent": "plan",
        "kwargs": {},
        "env": "DevicePlacement-v0",
        "env_kwargs": {"model": name, "devices": DEVICES},
        "seed": 0,
        "budget": 0,
        "curve": [],
        "cpu_s": 0.0,
        "error": "",
    }


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def plan_apart(out: Path, name: str) -> Row:
    """``make_row`` in a process of its own."""
    (out / name).mkdir(exist_ok=True)
    try:
        row: Row = run_apart(make_row, name, out / name)
    except BrokenExecutor as error:
        row = describe(name) | {"error": f"crashed: {first_line(error)}"}
    print(f"{name}: {row['error'] or row['verdict']}", flush=True)
    return row


def list_plans(rows: Sequence[Row]) -> list[Row]:
    """The networks that were planned."""
    return [
        {
            "network": row["name"],
            "of": row["library"],
            "units": len(row["placement"]),
            "plan": row["plan"],
            "placements compiled": row["budget"] + len(row["failed"]),
            "failed": len(row["failed"]),
            "in halves": row["halves"]["error"] or f"{row['halves']['n_submodels']} submodels",
            "plan, s": f"{row['plan_s']:.0f}",
        }
        for row in rows
        if not row["error"]
    ]


def list_refusals(rows: Sequence[Row]) -> list[Row]:
    """The networks that were not."""
    return [{"network": row["name"], "why": row["error"]} for row in rows if row["error"]]


TABLES: Tables = {"plans": list_plans, "refusals": list_refusals}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("foreign"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["HF_HUB_OFFLINE"] = "1"
    jobs = combine(name=options.names)
    run_missing(options.out / "rows.jsonl", jobs, partial(plan_apart, options.out))


if __name__ == "__main__":
    main()
