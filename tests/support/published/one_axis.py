"""Vision models that count one token after the other."""

from typing import Any

from published.parts import GEMMA_LINEAR, KIMI_K2_TEXT, LLAMA_31_8B, QWEN_25_7B

ONE_AXIS_MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Kimi-K2.5": (
        {
            "model_type": "kimi_k25",
            "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
            "text_config": {
                **KIMI_K2_TEXT,
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "format": "pack-quantized",
                },
            },
        },
        {
            "bytes": 61 * (512 + 64) * 2,
            "status": "partly",
            "attention": "mla",
            "axes": "1-D",
            "scheme": "yarn",
            "base": 5e4,
            "experts": 384,
        },
    ),
    "DeepSeek-VL-1.3B": (
        {
            "model_type": "deepseek_vl",
            "text_config": {
                "model_type": "llama",
                "hidden_size": 2048,
                "intermediate_size": 5632,
                "max_position_embeddings": 16384,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "torch_dtype": "bfloat16",
            },
        },
        {"bytes": 24 * 2 * 2048 * 2, "attention": "mha", "axes": "1-D", "base": 1e4},
    ),
    "DeepSeek-VL-7B": (
        {
            "model_type": "deepseek_vl_hybrid",
            "high_res_vision_config": {"model_type": "sam_vision_model"},
            "text_config": {
                "max_position_embeddings": 16384,
                "model_type": "llama",
                "num_hidden_layers": 30,
                "torch_dtype": "float16",
            },
        },
        {
            "bytes": 30 * 2 * 4096 * 2,
            "status": "supported",
            "attention": "mha",
            "axes": "1-D",
            "scheme": "default",
            "base": 1e4,
        },
    ),
    "InternVL3-8B-hf": (
        {
            "model_type": "internvl",
            "text_config": {
                **QWEN_25_7B,
                "model_type": "qwen2",
                "rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"},
                "sliding_window": None,
            },
        },
        {
            "bytes": 28 * 2 * 4 * 128 * 2,
            "status": "partly",
            "attention": "gqa",
            "axes": "1-D",
            "scheme": "dynamic",
            "base": 1e6,
            "max_positions": 32767,
        },
    ),
    "LLaVA-1.5-7B-hf": (
        {
            "model_type": "llava",
            "text_config": {
                "_name_or_path": "lmsys/vicuna-7b-v1.5",
                "architectures": ["LlamaForCausalLM"],
                "max_position_embeddings": 4096,
                "model_type": "llama",
                "rms_norm_eps": 1e-05,
                "torch_dtype": "float16",
                "vocab_size": 32064,
            },
            "torch_dtype": "float16",
        },
        {"bytes": 32 * 2 * 4096 * 2, "attention": "mha", "axes": "1-D", "base": 1e4},
    ),
    "LLaVA-OneVision-7B": (
        {
            "model_type": "llava_onevision",
            "text_config": {**QWEN_25_7B, "model_type": "qwen2", "sliding_window": 131072},
        },
        {"bytes": 28 * 2 * 4 * 128 * 2, "attention": "gqa", "axes": "1-D", "base": 1e6},
    ),
    "SmolVLM2-2.2B": (
        {
            "model_type": "smolvlm",
            "text_config": {
                "model_type": "llama",
                "head_dim": 64,
                "hidden_size": 2048,
                "max_position_embeddings": 8192,
                "num_hidden_layers": 24,
                "rope_theta": 130000,
                "torch_dtype": "bfloat16",
            },
        },
        {"bytes": 24 * 2 * 32 * 64 * 2, "attention": "mha", "axes": "1-D", "base": 130000},
    ),
    "Idefics3-8B-Llama3": (
        {"model_type": "idefics3", "text_config": LLAMA_31_8B},
        {
            "bytes": 32 * 2 * 8 * 128 * 2,
            "attention": "gqa",
            "axes": "1-D",
            "scheme": "llama3",
            "base": 5e5,
        },
    ),
    "Gemma3-4B": (
        {
            "model_type": "gemma3",
            "text_config": {
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "model_type": "gemma3_text",
                "num_hidden_layers": 34,
                "rope_scaling": GEMMA_LINEAR,
                "sliding_window": 1024,
            },
            "torch_dtype": "bfloat16",
        },
        {
            "bytes": 34 * 2 * 4 * 256 * 2,
            "attention": "gqa",
            "axes": "1-D",
            "scheme": "linear",
            "base": 1e6,
            "local_base": 1e4,
            "window": 1024,
        },
    ),
    "Gemma3-27B": (
        {
            "model_type": "gemma3",
            "text_config": {
                "head_dim": 128,
                "hidden_size": 5376,
                "model_type": "gemma3_text",
                "num_attention_heads": 32,
                "num_hidden_layers": 62,
                "num_key_value_heads": 16,
                "rope_scaling": GEMMA_LINEAR,
                "sliding_window": 1024,
            },
            "torch_dtype": "bfloat16",
        },
        {
            "bytes": 62 * 2 * 16 * 128 * 2,
            "attention": "gqa",
            "axes": "1-D",
            "scheme": "linear",
            "base": 1e6,
            "local_base": 1e4,
            "window": 1024,
        },
    ),
}
