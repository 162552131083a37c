"""The networks that ``foreign.py`` plans, with random weights, converted to IR.

Each has the sizes of its inputs in ``shapes.json``, except decoders, whose scenario states them.
Libraries other than torch are imported when a network is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import openvino as ov
import torch

Build = Callable[[Path], Path]
"""Writes a network into a folder and returns its file."""


def convert(make: Callable[[], tuple[Any, Sequence[Any]]]) -> Build:
    """Trace a torch module with its inputs, whose dynamic sizes are in ``shapes.json``."""

    def build(folder: Path) -> Path:
        torch.manual_seed(0)
        model, inputs = make()
        with torch.no_grad():
            converted = ov.convert_model(model.eval(), example_input=tuple(inputs))
        ov.save_model(converted, folder / "model.xml", compress_to_fp16=False)
        names = [port.get_node().get_friendly_name() for port in converted.inputs]
        sizes = [list(tensor.shape) for tensor in inputs]
        (folder / "shapes.json").write_text(json.dumps(dict(zip(names, sizes, strict=True))))
        return folder / "model.xml"

    return build


class Wrapped(torch.nn.Module):
    """A module that calls a function of modules and inputs."""

    def __init__(self, call: Callable[..., Any], *modules: torch.nn.Module) -> None:
        super().__init__()
        self.call, self.inner = call, torch.nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return self.call(*self.inner, *inputs)


def vision(
    name: str, *shapes: Sequence[int], call: Callable[..., Any] | None = None, **options: Any
) -> Build:
    """A network of torchvision with inputs of some sizes; ``call`` chooses its outputs."""

    def make() -> tuple[Any, Sequence[Any]]:
        model = import_module("torchvision").models.get_model(name, weights=None, **options)
        return Wrapped(call, model) if call else model, [torch.rand(*shape) for shape in shapes]

    return convert(make)


def detect(model: Any, image: Any) -> Any:
    """Boxes, scores and labels after NMS."""
    return tuple(model([image])[0].values())


def segment(model: Any, images: Any) -> Any:
    """The class of each pixel."""
    return model(images)["out"].argmax(1)


def timm(name: str, size: int = 96, **options: Any) -> Build:
    """A classifier of timm."""

    def make() -> tuple[Any, Sequence[Any]]:
        model = import_module("timm").create_model(name, pretrained=False, **options)
        return model, [torch.rand(1, 3, size, size)]

    return convert(make)


def yolo_like(with_nms: bool, n_classes: int = 20) -> Build:
    """A backbone of timm with one head, and NMS or the best 20 rows as in end-to-end detectors."""

    def find(backbone: Any, head: Any, images: Any) -> Any:
        rows = head(backbone(images)[-2]).flatten(2).transpose(1, 2)[0]
        corner, size = rows[:, :2].sigmoid() * 128, rows[:, 2:4].exp()
        boxes = torch.cat([corner, corner + size], 1)
        scores, labels = rows[:, 4:].sigmoid().max(1)
        kept = (
            import_module("torchvision").ops.batched_nms(boxes, scores, labels, 0.5)
            if with_nms
            else scores.topk(20).indices
        )
        return boxes[kept], scores[kept], labels[kept]

    def make() -> tuple[Any, Sequence[Any]]:
        backbone = import_module("timm").create_model("mobilenetv3_small_050", features_only=True)
        head = torch.nn.Conv2d(backbone.feature_info.channels()[-2], 4 + n_classes, 1)
        return Wrapped(find, backbone, head), [torch.rand(1, 3, 128, 128)]

    return convert(make)


def make_recommender(n_tables: int = 8, batch: int = 8) -> tuple[Any, Sequence[Any]]:
    """DLRM: embeddings of categories that interact with a perceptron of numbers."""
    tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(1000, 16) for _ in range(n_tables))
    bottom = torch.nn.Sequential(torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    top = torch.nn.Linear((n_tables + 1) ** 2, 1)

    def rank(tables: Any, bottom: Any, top: Any, numbers: Any, *bags: Any) -> Any:
        vectors = [bottom(numbers), *(t(b) for t, b in zip(tables, bags, strict=True))]
        stack = torch.stack(vectors, 1)
        return top((stack @ stack.transpose(1, 2)).flatten(1)).sigmoid()

    bags = [torch.randint(0, 1000, (batch, 4)) for _ in range(n_tables)]
    return Wrapped(rank, tables, bottom, top), [torch.rand(batch, 13), *bags]


def make_voice_activity() -> tuple[Any, Sequence[Any]]:
    """A detector of speech: a chunk of sound and the state of its LSTM in, a probability out."""
    filters, head = torch.nn.Conv1d(1, 64, 256, 64), torch.nn.Linear(64, 1)

    def listen(filters: Any, cell: Any, head: Any, chunk: Any, hidden: Any, memory: Any) -> Any:
        out, (h, c) = cell(filters(chunk[:, None]).relu().transpose(1, 2), (hidden, memory))
        return head(out[:, -1]).sigmoid(), h, c

    state = torch.zeros(1, 1, 64), torch.zeros(1, 1, 64)
    cell = torch.nn.LSTM(64, 64, batch_first=True)
    return Wrapped(listen, filters, cell, head), [torch.rand(1, 512), *state]


def traced(
    config: str, head: str, inputs: Mapping[str, Any], outputs: Sequence[str], **options: Any
) -> Build:
    """A network of Transformers, of the classes ``config`` and ``head``, as OpenVINO traces it.

    Inputs have sizes, after ``"ids"`` of whole numbers below 100. ``outputs`` are the attributes of
    the network's output that are kept.
    """

    def call(model: Any, *values: Any) -> Any:
        made = model(**dict(zip(inputs, values, strict=True)), return_dict=True)
        return tuple(getattr(made, name) for name in outputs)

    def make() -> tuple[Any, Sequence[Any]]:
        library = import_module("transformers")
        settings = getattr(library, config)(**options)
        settings._attn_implementation = "eager"
        values = [
            torch.randint(0, 100, sizes[1:]) if sizes[0] == "ids" else torch.rand(*sizes)
            for sizes in inputs.values()
        ]
        return Wrapped(call, getattr(library, head)(settings)), values

    return convert(make)


def exported(
    config: str,
    head: str,
    task: str = "text-generation-with-past",
    file: str = "openvino_model.xml",
    shapes: Mapping[str, Sequence[int]] | None = None,
    **options: Any,
) -> Build:
    """A network of Transformers, exported as by `optimum-cli export openvino --task TASK`."""

    def build(folder: Path) -> Path:
        library = import_module("transformers")
        torch.manual_seed(0)
        made = getattr(library, head)(getattr(library, config)(**options))
        made.save_pretrained(folder / "torch")
        import_module("optimum.exporters.openvino").main_export(folder / "torch", folder, task=task)
        if shapes:
            (folder / "shapes.json").write_text(json.dumps(shapes))
        return folder / file

    return build


IDS = ("ids", 1, 16)
TOKENS = {"input_ids": [1, 16], "attention_mask": [1, 16]}
IMAGE = {"pixel_values": (1, 3, 64, 64)}
HEADS = {"num_attention_heads": 4}
LAYERS = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4} | HEADS
WORDS = LAYERS | {"vocab_size": 2048}
GROUPED = WORDS | {"num_key_value_heads": 2}
VISION = LAYERS | {"image_size": 64, "patch_size": 8}
SOUND = LAYERS | {"conv_dim": (32,) * 7, "vocab_size": 32, "num_feat_extract_layers": 7}
BOXES = ("logits", "pred_boxes")


def t5(file: str, shapes: Mapping[str, Sequence[int]]) -> Build:
    """A part of a small T5."""
    return exported(
        "T5Config", "T5ForConditionalGeneration", "text2text-generation-with-past", file, shapes,
        d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=2048,
    )  # fmt: skip


def whisper(file: str, shapes: Mapping[str, Sequence[int]]) -> Build:
    """A part of a small Whisper: half a minute of sound, 1,500 positions of the encoder."""
    return exported(
        "WhisperConfig", "WhisperForConditionalGeneration",
        "automatic-speech-recognition-with-past", file, shapes,
        d_model=128, encoder_layers=2, decoder_layers=2, vocab_size=2048,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, num_mel_bins=80, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip


TORCHVISION: Mapping[str, Build] = {
    **{
        name: vision(name, (1, 3, 96, 96))
        for name in (
            "resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5",
            "densenet121", "efficientnet_b0", "convnext_tiny", "swin_t",
        )
    },
    "ssdlite320_mobilenet": vision("ssdlite320_mobilenet_v3_large", (3, 320, 320), call=detect,
                                   weights_backbone=None),
    **{
        name: vision(name, (3, 128, 128), call=detect, weights_backbone=None, min_size=128,
                     max_size=128)
        for name in (
            "fcos_resnet50_fpn", "retinanet_resnet50_fpn", "maskrcnn_resnet50_fpn",
            "fasterrcnn_mobilenet_v3_large_320_fpn",
        )
    },
    **{
        f"{name}_mobilenet": vision(f"{name}_mobilenet_v3_large", (1, 3, 96, 96), call=segment,
                                    weights_backbone=None)
        for name in ("deeplabv3", "lraspp")
    },
    "r3d_18": vision("r3d_18", (1, 3, 8, 64, 64)),
    "raft_small": vision("raft_small", (1, 3, 128, 128), (1, 3, 128, 128)),
}  # fmt: skip
TIMM: Mapping[str, Build] = {
    "vit_tiny": timm("vit_tiny_patch16_224", img_size=96),
    "mixer_s32": timm("mixer_s32_224", 224),
    "poolformer_s12": timm("poolformer_s12"),
    "levit_128s": timm("levit_128s", 224),
    "mobilevit_xxs": timm("mobilevit_xxs"),
    "ghostnet_050": timm("ghostnet_050"),
    "edgenext_xx_small": timm("edgenext_xx_small"),
    "maxvit_nano": timm("maxvit_rmlp_nano_rw_256", 64, img_size=64),
    "yolo-like with NMS": yolo_like(with_nms=True),
    "yolo-like end to end": yolo_like(with_nms=False),
}
TRANSFORMERS: Mapping[str, Build] = {
    "bert": exported("BertConfig", "BertModel", "feature-extraction",
                     shapes=TOKENS | {"token_type_ids": [1, 16]}, **WORDS),
    "deberta": traced("DebertaV2Config", "DebertaV2ForTokenClassification",
                      {"input_ids": IDS}, ["logits"], **WORDS),
    "t5 encoder": t5("openvino_encoder_model.xml", TOKENS),
    "t5 decoder": t5("openvino_decoder_model.xml", {"encoder_hidden_states": [1, 16, 128],
                                                    "encoder_attention_mask": [1, 16]}),
    "whisper encoder": whisper("openvino_encoder_model.xml", {"input_features": [1, 80, 3000]}),
    "whisper decoder": whisper("openvino_decoder_model.xml",
                               {"encoder_hidden_states": [1, 1500, 128]}),
    "wav2vec2": traced("Wav2Vec2Config", "Wav2Vec2ForCTC", {"input_values": (1, 8000)},
                       ["logits"], **SOUND),
    "hubert": traced("HubertConfig", "HubertForCTC", {"input_values": (1, 8000)}, ["logits"],
                     **SOUND),
    "vits": traced("VitsConfig", "VitsModel", {"input_ids": IDS}, ["waveform"], vocab_size=100,
                   hidden_size=64, num_hidden_layers=2, num_attention_heads=2, ffn_dim=128,
                   flow_size=64, spectrogram_bins=65, prior_encoder_num_flows=2,
                   upsample_initial_channel=64),
    "detr": traced("DetrConfig", "DetrForObjectDetection", IMAGE, BOXES, d_model=64,
                   encoder_layers=2, decoder_layers=2, encoder_ffn_dim=128, decoder_ffn_dim=128,
                   encoder_attention_heads=4, decoder_attention_heads=4, num_queries=20,
                   use_timm_backbone=True, use_pretrained_backbone=False, backbone="resnet18"),
    "rt-detr": traced("RTDetrConfig", "RTDetrForObjectDetection",
                      {"pixel_values": (1, 3, 128, 128)}, BOXES, num_queries=20,
                      decoder_layers=2, d_model=64, encoder_hidden_dim=64,
                      decoder_in_channels=[64, 64, 64]),
    "yolos": traced("YolosConfig", "YolosForObjectDetection", IMAGE, BOXES,
                    num_detection_tokens=20, **VISION | {"image_size": [64, 64]}),
    "segformer": traced("SegformerConfig", "SegformerForSemanticSegmentation", IMAGE, ["logits"]),
    "mask2former": traced("Mask2FormerConfig", "Mask2FormerForUniversalSegmentation", IMAGE,
                          ["class_queries_logits", "masks_queries_logits"], num_queries=10,
                          decoder_layers=2, encoder_layers=2, hidden_dim=64, feature_size=64,
                          mask_feature_size=64, encoder_feedforward_dim=128,
                          dim_feedforward=128),
    "dpt": traced("DPTConfig", "DPTForDepthEstimation", IMAGE, ["predicted_depth"],
                  backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[32, 32, 64, 64],
                  fusion_hidden_size=32, **VISION),
    "clip": traced("CLIPConfig", "CLIPModel", {"input_ids": IDS, **IMAGE}, ["logits_per_image"],
                   text_config=WORDS | {"eos_token_id": 2}, vision_config=VISION,
                   projection_dim=64),
    "gpt2": exported("GPT2Config", "GPT2LMHeadModel", n_layer=4, n_embd=256, n_head=4,
                     vocab_size=4096),
    "llama": exported("LlamaConfig", "LlamaForCausalLM", **GROUPED),
    "qwen3": exported("Qwen3Config", "Qwen3ForCausalLM", head_dim=32, **GROUPED),
    "phi3": exported("Phi3Config", "Phi3ForCausalLM", pad_token_id=0, **GROUPED),
    "gemma": exported("GemmaConfig", "GemmaForCausalLM", head_dim=32, **GROUPED),
    "mixtral": exported("MixtralConfig", "MixtralForCausalLM", num_local_experts=4, **GROUPED),
    "qwen2-moe": exported("Qwen2MoeConfig", "Qwen2MoeForCausalLM", num_experts=4,
                          num_experts_per_tok=2, moe_intermediate_size=64,
                          shared_expert_intermediate_size=64, **GROUPED),
    "mamba": exported("MambaConfig", "MambaForCausalLM", hidden_size=128, state_size=8,
                      num_hidden_layers=4, vocab_size=2048),
}  # fmt: skip
TORCH: Mapping[str, Build] = {
    "dlrm": convert(make_recommender),
    "voice activity": convert(make_voice_activity),
}
NETWORKS: Mapping[str, tuple[str, Build]] = {
    name: (library, build)
    for library, networks in {
        "torchvision": TORCHVISION, "timm": TIMM, "transformers": TRANSFORMERS, "torch": TORCH,
    }.items()
    for name, build in networks.items()
}  # fmt: skip
