"""Networks from elsewhere with random weights, converted to IR: what ``foreign.py`` plans.

Each has the sizes of its inputs in ``shapes.json``, except decoders, whose scenario has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Build: TypeAlias = Callable[[Path], Path]
"""Writes a network into a folder; returns its file."""
DETECTOR_SIZE = 128


def convert(model: Any, inputs: Mapping[str, Any], folder: Path) -> Path:
    """Trace a torch module; its sizes stay dynamic, and ``shapes.json`` binds them."""
    import openvino as ov
    import torch

    with torch.no_grad():
        converted = ov.convert_model(model.eval(), example_input=tuple(inputs.values()))
    ov.save_model(converted, folder / "model.xml", compress_to_fp16=False)
    names = [port.get_node().get_friendly_name() for port in converted.inputs]
    sizes = [list(tensor.shape) for tensor in inputs.values()]
    (folder / "shapes.json").write_text(json.dumps(dict(zip(names, sizes, strict=True))))
    return folder / "model.xml"


def wrap(call: Callable[..., Any], *modules: Any) -> Any:
    """A module that computes ``call`` with these modules."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.ModuleList(modules)

        def forward(self, *inputs: Any) -> Any:
            return call(*self.inner, *inputs)

    return Wrapped()


def image(library: str, name: str, size: int = 96, **options: Any) -> Build:
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


def detector(name: str, size: int = DETECTOR_SIZE, **options: Any) -> Build:
    """A detector of torchvision: one image in, boxes, scores and labels after NMS out."""

    def build(folder: Path) -> Path:
        import torch
        import torchvision

        model = torchvision.models.get_model(name, weights=None, weights_backbone=None, **options)
        wrapped = wrap(lambda inner, x: tuple(inner([x])[0].values()), model)
        return convert(wrapped, {"x": torch.rand(3, size, size)}, folder)

    return build


def segmenter(name: str) -> Build:
    """A segmentation of torchvision that ends in the class of each pixel."""

    def build(folder: Path) -> Path:
        import torch
        import torchvision

        model = torchvision.models.get_model(name, weights=None, weights_backbone=None)
        wrapped = wrap(lambda inner, x: inner(x)["out"].argmax(1), model)
        return convert(wrapped, {"x": torch.rand(1, 3, 96, 96)}, folder)

    return build


def volume(name: str, *shapes: Sequence[int]) -> Build:
    """A network of torchvision with several frames, or several images."""

    def build(folder: Path) -> Path:
        import torch
        import torchvision

        model = torchvision.models.get_model(name, weights=None)
        inputs = {f"x{i}": torch.rand(*shape) for i, shape in enumerate(shapes)}
        return convert(model, inputs, folder)

    return build


def yolo_like(n_classes: int = 20, *, with_nms: bool = True) -> Build:
    """A backbone of timm under one head; then NMS, or the best 100 rows as end-to-end ones do."""

    def build(folder: Path) -> Path:
        import timm
        import torch
        import torchvision

        backbone = timm.create_model("mobilenetv3_small_050", features_only=True)
        head = torch.nn.Conv2d(backbone.feature_info.channels()[-2], 4 + n_classes, 1)

        def detect(backbone: Any, head: Any, x: Any) -> Any:
            rows = head(backbone(x)[-2]).flatten(2).transpose(1, 2)[0]
            corner, size = rows[:, :2].sigmoid() * 128, rows[:, 2:4].exp()
            boxes = torch.cat([corner, corner + size], 1)
            scores, labels = rows[:, 4:].sigmoid().max(1)
            kept = (
                torchvision.ops.batched_nms(boxes, scores, labels, 0.5)
                if with_nms
                else scores.topk(20).indices
            )
            return boxes[kept], scores[kept], labels[kept]

        return convert(wrap(detect, backbone, head), {"x": torch.rand(1, 3, 128, 128)}, folder)

    return build


def recommender(n_tables: int = 8, n_rows: int = 1000, batch: int = 8) -> Build:
    """DLRM: embeddings of categories and a perceptron of numbers, that interact."""

    def build(folder: Path) -> Path:
        import torch

        tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(n_rows, 16) for _ in range(n_tables))
        bottom = torch.nn.Sequential(
            torch.nn.Linear(13, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)
        )
        top = torch.nn.Linear((n_tables + 1) ** 2, 1)

        def rank(tables: Any, bottom: Any, top: Any, numbers: Any, *bags: Any) -> Any:
            vectors = [bottom(numbers), *(t(b) for t, b in zip(tables, bags, strict=True))]
            stack = torch.stack(vectors, 1)
            return top((stack @ stack.transpose(1, 2)).flatten(1)).sigmoid()

        bags = {f"bag{i}": torch.randint(0, n_rows, (batch, 4)) for i in range(n_tables)}
        inputs = {"numbers": torch.rand(batch, 13), **bags}
        return convert(wrap(rank, tables, bottom, top), inputs, folder)

    return build


def voice_activity() -> Build:
    """A detector of speech: a chunk of sound and the state of its LSTM in, a probability out."""

    def build(folder: Path) -> Path:
        import torch

        filters = torch.nn.Conv1d(1, 64, 256, 64)
        cell, head = torch.nn.LSTM(64, 64, batch_first=True), torch.nn.Linear(64, 1)

        def listen(filters: Any, cell: Any, head: Any, chunk: Any, hidden: Any, memory: Any) -> Any:
            out, (h, c) = cell(filters(chunk[:, None]).relu().transpose(1, 2), (hidden, memory))
            return head(out[:, -1]).sigmoid(), h, c

        inputs = {
            "chunk": torch.rand(1, 512),
            "hidden": torch.zeros(1, 1, 64),
            "memory": torch.zeros(1, 1, 64),
        }
        return convert(wrap(listen, filters, cell, head), inputs, folder)

    return build


def traced(
    config: str, head: str, inputs: Mapping[str, Any], outputs: Sequence[str], **options: Any
) -> Build:
    """A network of Transformers as OpenVINO traces it.

    Args:
        config: Class of its configuration.
        head: Class of the network.
        inputs: Sizes by input; whole numbers below 100 where they begin with "ids".
        outputs: Attributes of its output that are kept.
        options: Of the configuration.
    """

    def build(folder: Path) -> Path:
        import torch
        import transformers

        torch.manual_seed(0)
        settings = getattr(transformers, config)(**options)
        settings._attn_implementation = "eager"
        model = getattr(transformers, head)(settings)

        def call(model: Any, *values: Any) -> Any:
            made = model(**dict(zip(inputs, values, strict=True)), return_dict=True)
            return tuple(getattr(made, name) for name in outputs)

        values = {
            name: torch.randint(0, 100, sizes[1:]) if sizes[0] == "ids" else torch.rand(*sizes)
            for name, sizes in inputs.items()
        }
        return convert(wrap(call, model), values, folder)

    return build


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
        name: image("torchvision", name)
        for name in (
            "resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5",
            "densenet121", "efficientnet_b0", "convnext_tiny", "swin_t",
        )
    },
    "ssdlite320_mobilenet": detector("ssdlite320_mobilenet_v3_large", 320),
    **{
        name: detector(name, min_size=DETECTOR_SIZE, max_size=DETECTOR_SIZE)
        for name in (
            "fcos_resnet50_fpn", "retinanet_resnet50_fpn", "maskrcnn_resnet50_fpn",
            "fasterrcnn_mobilenet_v3_large_320_fpn",
        )
    },
    "deeplabv3_mobilenet": segmenter("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet": segmenter("lraspp_mobilenet_v3_large"),
    "r3d_18": volume("r3d_18", (1, 3, 8, 64, 64)),
    "raft_small": volume("raft_small", (1, 3, 128, 128), (1, 3, 128, 128)),
}  # fmt: skip
TIMM: Mapping[str, Build] = {
    "vit_tiny": image("timm", "vit_tiny_patch16_224", img_size=96),
    "mixer_s32": image("timm", "mixer_s32_224", 224),
    "poolformer_s12": image("timm", "poolformer_s12"),
    "levit_128s": image("timm", "levit_128s", 224),
    "mobilevit_xxs": image("timm", "mobilevit_xxs"),
    "ghostnet_050": image("timm", "ghostnet_050"),
    "edgenext_xx_small": image("timm", "edgenext_xx_small"),
    "maxvit_nano": image("timm", "maxvit_rmlp_nano_rw_256", 64, img_size=64),
    "yolo-like with NMS": yolo_like(),
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
TORCH: Mapping[str, Build] = {"dlrm": recommender(), "voice activity": voice_activity()}
NETWORKS: Mapping[str, tuple[str, Build]] = {
    name: (library, build)
    for library, networks in {
        "torchvision": TORCHVISION, "timm": TIMM, "transformers": TRANSFORMERS, "torch": TORCH,
    }.items()
    for name, build in networks.items()
}  # fmt: skip
