"""Model types that aren't served: those that can't be, those that nobody has tested, those with code of
their own. Where the reason lies in the layers, it is read from the config and not repeated here."""

from collections.abc import Mapping
from typing import Any

from kamera.support.families import Family
from kamera.support.verdict import Kind

UNTESTED = "no test holds that its KV is exact"
SERVE_WITHOUT = "Serve it without Kamera."
ADD = "Serve it without Kamera, or add the family: docs/support.md says how."


def _row(
    name: str,
    text: str = "",
    *,
    why: str = UNTESTED,
    todo: str = ADD,
    kind: Kind = "not yet",
    example: str = "",
    sample: Mapping[str, Any] | None = None,
) -> Family:
    return Family(name, text, kind=kind, why=why, todo=todo, example=example, sample=sample or {})


def _remote(name: str, instead: str, *, native: str = "", example: str = "") -> Family:
    layout = "its published layout has no native class in Transformers: it runs code that comes with the "
    why = layout + "checkpoint, and Kamera runs none"
    return _row(name, native, why=why, todo=instead, kind="remote code", example=example)


_LFM2 = {"num_hidden_layers": 16, "full_attn_idxs": [2, 5, 8, 10, 12, 14]}
_GEMMA4_E4B = {"num_hidden_layers": 42, "num_key_value_heads": 2, "num_kv_shared_layers": 18}
_MINIMAX = {
    "num_hidden_layers": 4,
    "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1, 1]},
}
_LINEAR = "a hybrid of linear and full attention"

REFUSED: dict[str, Family] = {
    # Decided by their layers, as the config has them.
    "qwen3_5": _row("Qwen3.5", "qwen3_5_text", example="Qwen/Qwen3.5-9B"),
    "qwen3_5_text": _row("Qwen3.5, text", "qwen3_5_text"),
    "qwen3_5_moe": _row("Qwen3.5-MoE", "qwen3_5_moe_text", example="Qwen/Qwen3.5-35B-A3B"),
    "qwen3_5_moe_text": _row("Qwen3.5-MoE, text", "qwen3_5_moe_text"),
    "qwen3_next": _row("Qwen3-Next", "qwen3_next", example="Qwen/Qwen3-Next-80B-A3B-Instruct"),
    "minicpmv4_6": _row("MiniCPM-V 4.6", "qwen3_5_text", example="openbmb/MiniCPM-V-4.6"),
    "minicpmv4_7": _row("MiniCPM-V 4.7", "qwen3_5_text"),
    "minicpm_ocr": _row("MiniCPM-OCR", "qwen3_5_text"),
    "kimi_linear": _row(
        "Kimi-Linear", "kimi_linear", example="moonshotai/Kimi-Linear-48B-A3B-Instruct"
    ),
    "lfm2": _row("LFM2", "lfm2", sample=_LFM2),
    "lfm2_vl": _row(
        "LFM2-VL", "lfm2", example="LiquidAI/LFM2-VL-1.6B", sample={"text_config": _LFM2}
    ),
    "gemma3n": _row("Gemma 3n", "gemma3n_text", example="google/gemma-3n-E4B-it"),
    "gemma3n_text": _row("Gemma 3n, text", "gemma3n_text"),
    "gemma4": _row(
        "Gemma 4",
        "gemma4_text",
        example="google/gemma-4-E4B-it",
        sample={"text_config": _GEMMA4_E4B},
    ),
    "gemma4_text": _row("Gemma 4, text", "gemma4_text", sample=_GEMMA4_E4B),
    "glm_moe_dsa": _row("GLM-5", "glm_moe_dsa", example="zai-org/GLM-5"),
    "deepseek_v32": _row("DeepSeek-V3.2", "deepseek_v32", example="deepseek-ai/DeepSeek-V3.2"),
    "minimax_m3_vl": _row(
        "MiniMax-M3",
        "minimax_m3_vl_text",
        example="MiniMaxAI/MiniMax-M3",
        sample={"text_config": _MINIMAX},
    ),
    "llama4": _row("Llama 4", "llama4_text", example="meta-llama/Llama-4-Scout-17B-16E-Instruct"),
    "mllama": _row(
        "Llama 3.2 Vision", "mllama_text_model", example="meta-llama/Llama-3.2-11B-Vision"
    ),
    # Not served for another reason.
    "deepseek_v4": _row(
        "DeepSeek-V4",
        kind="cannot",
        why="compressed attention pools the KV of several tokens into one entry: a chunk has no KV of its "
        "own to relocate",
        todo=SERVE_WITHOUT,
    ),
    "qwen4_exp": _row(
        "Qwen4-Exp",
        kind="cannot",
        why=f"{_LINEAR} with an indexer: linear layers keep a running state, not KV",
        todo=SERVE_WITHOUT,
    ),
    "phi4_multimodal": _row(
        "Phi-4-multimodal",
        "phi4_multimodal",
        why="published with longrope, whose frequencies change at original_max_position_embeddings (4,096): "
        "keys on the two sides don't differ by a rotation. Below it no test holds that its KV is exact",
        example="microsoft/Phi-4-multimodal-instruct",
    ),
    "phi3": _row(
        "Phi-3",
        "phi3",
        why="no test holds that its KV is exact; with longrope, positions below the switch alone could be",
        example="microsoft/Phi-3.5-mini-instruct",
    ),
    "florence2": _row(
        "Florence-2",
        kind="cannot",
        why="an encoder and a decoder: the image's states are read by cross-attention, and positions are "
        "learned, not rotated",
        todo=SERVE_WITHOUT,
    ),
    "blip-2": _row(
        "BLIP-2",
        kind="cannot",
        why="its OPT language model adds learned positions to the input: keys of two positions don't differ "
        "by a rotation",
        todo=SERVE_WITHOUT,
    ),
    "instructblip": _row(
        "InstructBLIP",
        kind="cannot",
        why="its OPT language model adds learned positions to the input: keys of two positions don't differ "
        "by a rotation",
        todo=SERVE_WITHOUT,
    ),
    # Nobody has tested them.
    "glm46v": _row(
        "GLM-4.6V", "glm4v_text", sample={"text_config": {"partial_rotary_factor": 0.5}}
    ),
    "llava_next": _row("LLaVA-NeXT", "llama", example="llava-hf/llava-v1.6-mistral-7b-hf"),
    "llava_next_video": _row("LLaVA-NeXT-Video", "llama"),
    "idefics2": _row("Idefics2", "mistral", example="HuggingFaceM4/idefics2-8b"),
    "mistral3": _row(
        "Mistral 3", "mistral", example="mistralai/Mistral-Small-3.1-24B-Instruct-2503"
    ),
    "mistral": _row("Mistral", "mistral", example="mistralai/Mistral-7B-v0.1"),
    "qwen2_moe": _row("Qwen2-MoE", "qwen2_moe"),
    "qwen3_moe": _row("Qwen3-MoE", "qwen3_moe", example="Qwen/Qwen3-30B-A3B"),
    "qwen2_audio": _row("Qwen2-Audio", "qwen2", example="Qwen/Qwen2-Audio-7B-Instruct"),
    "gemma": _row("Gemma", "gemma"),
    "gemma2": _row("Gemma 2", "gemma2", example="google/gemma-2-9b"),
    "paligemma": _row(
        "PaliGemma",
        "gemma",
        why="no test holds that its KV is exact; image and prompt attend to each other in both directions, "
        "so only a whole prefix is a chunk",
    ),
    "ovis2": _row("Ovis2", "qwen2"),
    "video_llama_3": _row("VideoLLaMA3", "qwen2"),
    "fast_vlm": _row("FastVLM", "qwen2"),
    "got_ocr2": _row("GOT-OCR2", "qwen2"),
    "perception_lm": _row("PerceptionLM", "llama"),
    "janus": _row("Janus", "llama"),
    "vipllava": _row("ViP-LLaVA", "llama"),
    "video_llava": _row("Video-LLaVA", "llama"),
    "chameleon": _row("Chameleon"),
    "emu3": _row("Emu3"),
    "aria": _row("Aria"),
    "aya_vision": _row("Aya Vision"),
    "cohere2_vision": _row("Command A Vision"),
    "molmo2": _row("Molmo2"),
    "ernie4_5_vl_moe": _row("ERNIE-4.5-VL"),
    "hunyuan_vl": _row("HunyuanVL"),
    "glm_ocr": _row("GLM-OCR"),
    "gpt_oss": _row("gpt-oss"),
    # Code of their own.
    "kimi_vl": _remote(
        "Kimi-VL",
        "Use Kimi-K2.5 (kimi_k25), the native class of this line, whose language model is of the same "
        "kind (DeepSeek-V3 with MLA).",
        native="deepseek_v3",
        example="moonshotai/Kimi-VL-A3B-Instruct",
    ),
    "kimi_k2": _remote(
        "Kimi-K2",
        "Its layers are DeepSeek-V3's: with model_type deepseek_v3 in config.json (and no auto_map) "
        "Transformers reads it natively.",
        native="deepseek_v3",
        example="moonshotai/Kimi-K2-Instruct",
    ),
    "internvl_chat": _remote(
        "InternVL, original layout",
        "Use the converted checkpoint of the same name with -hf (OpenGVLab/InternVL3-8B-hf, model type "
        "internvl).",
        native="qwen2",
        example="OpenGVLab/InternVL3-8B",
    ),
    "multi_modality": _remote(
        "DeepSeek-VL and Janus, original layout",
        "Use a converted checkpoint of deepseek-community: model type deepseek_vl (1.3b) or "
        "deepseek_vl_hybrid (7b).",
        native="llama",
        example="deepseek-ai/deepseek-vl-7b-chat",
    ),
    "deepseek_vl_v2": _remote(
        "DeepSeek-VL2",
        "No native class reads it. Use DeepSeek-VL (deepseek_vl), or Kimi-K2.5 for an MLA vision model.",
        example="deepseek-ai/deepseek-vl2-small",
    ),
    "phi3_v": _remote(
        "Phi-3.5-vision",
        "No native class reads it. Use another vision model.",
        native="phi3",
        example="microsoft/Phi-3.5-vision-instruct",
    ),
    "phi4mm": _remote(
        "Phi-4-multimodal, original layout",
        "The native layout is phi4_multimodal, which isn't served either.",
        native="phi4_multimodal",
        example="microsoft/Phi-4-multimodal-instruct",
    ),
    "minicpmv": _remote(
        "MiniCPM-V up to 4.5",
        "No native class reads it (the native minicpmv4_6 has linear layers). Use another vision model.",
        example="openbmb/MiniCPM-V-2_6",
    ),
    "minicpmo": _remote(
        "MiniCPM-o", "No native class reads it. Use Qwen2.5-Omni.", example="openbmb/MiniCPM-o-2_6"
    ),
    "llava_llama": _remote(
        "LLaVA, original layout", "Use the converted checkpoint of llava-hf (model type llava)."
    ),
    "llava_qwen": _remote(
        "LLaVA-OneVision, original layout",
        "Use the converted checkpoint of llava-hf (model type llava_onevision).",
    ),
}
"""Model type -> why it isn't served."""
