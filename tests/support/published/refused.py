"""Models that aren't served, with the reason that is told."""

from typing import Any

from published.parts import DEEPSEEK_YARN, LLAMA3, MLA, QWEN35_LAYERS, QWEN_25_7B

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Kimi-VL-A3B": (
        {
            "model_type": "kimi_vl",
            "auto_map": {"AutoConfig": "configuration_kimi_vl.KimiVLConfig"},
            "text_config": {
                **MLA,
                "model_type": "deepseek_v3",
                "hidden_size": 2048,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "num_key_value_heads": 16,
                "n_routed_experts": 64,
                "rope_scaling": None,
                "rope_theta": 800000.0,
            },
        },
        {"kind": "remote code", "says": "kimi_k25", "bytes": 27 * 576 * 2, "blocked": 0},
    ),
    "DeepSeek-VL-7B, original": (
        {
            "model_type": "multi_modality",
            "language_config": {
                "max_position_embeddings": 16384,
                "model_type": "llama",
                "num_hidden_layers": 30,
                "torch_dtype": "float16",
                "vocab_size": 102400,
            },
        },
        {"kind": "remote code", "says": "deepseek_vl", "bytes": 30 * 2 * 4096 * 2, "blocked": 0},
    ),
    "InternVL3-8B, original": (
        {
            "model_type": "internvl_chat",
            "llm_config": {**QWEN_25_7B, "model_type": "qwen2"},
            "torch_dtype": "bfloat16",
        },
        {"kind": "remote code", "says": "-hf", "bytes": 28 * 2 * 4 * 128 * 2, "blocked": 0},
    ),
    "Qwen3.5-27B": (
        {
            "model_type": "qwen3_5",
            "text_config": {
                "model_type": "qwen3_5_text",
                "dtype": "bfloat16",
                "full_attention_interval": 4,
                "head_dim": 256,
                "hidden_size": 5120,
                "layer_types": QWEN35_LAYERS * 16,
                "num_attention_heads": 24,
                "num_hidden_layers": 64,
                "num_key_value_heads": 4,
                "rope_parameters": {
                    "mrope_interleaved": True,
                    "mrope_section": [11, 11, 10],
                    "partial_rotary_factor": 0.25,
                    "rope_theta": 10000000,
                    "rope_type": "default",
                },
            },
        },
        {
            "kind": "cannot",
            "says": "linear_attention",
            "bytes": 16 * 2 * 4 * 256 * 2,
            "blocked": 48,
        },
    ),
    "MiniCPM-V-4.6": (
        {
            "model_type": "minicpmv4_6",
            "text_config": {
                "model_type": "qwen3_5_text",
                "dtype": "bfloat16",
                "full_attention_interval": 4,
                "head_dim": 256,
                "hidden_size": 1024,
                "num_attention_heads": 8,
                "num_hidden_layers": 24,
                "num_key_value_heads": 2,
                "rope_parameters": {
                    "partial_rotary_factor": 0.25,
                    "rope_theta": 10000000,
                    "rope_type": "default",
                },
            },
        },
        {"kind": "cannot", "says": "linear_attention", "bytes": 6 * 2 * 2 * 256 * 2, "blocked": 18},
    ),
    "Gemma3n-E4B": (
        {
            "model_type": "gemma3n",
            "text_config": {
                "model_type": "gemma3n_text",
                "head_dim": 256,
                "hidden_size": 2048,
                "num_attention_heads": 8,
                "num_hidden_layers": 35,
                "num_key_value_heads": 2,
                "num_kv_shared_layers": 15,
                "rope_local_base_freq": 10000.0,
                "rope_scaling": None,
                "rope_theta": 1000000.0,
                "sliding_window": 512,
                "torch_dtype": "bfloat16",
            },
        },
        {"kind": "not yet", "says": "earlier layer", "bytes": 20 * 2 * 2 * 256 * 2, "blocked": 15},
    ),
    "Gemma4-E4B": (
        {
            "model_type": "gemma4",
            "dtype": "bfloat16",
            "text_config": {
                "model_type": "gemma4_text",
                "global_head_dim": 512,
                "head_dim": 256,
                "hidden_size": 2560,
                "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 7,
                "num_attention_heads": 8,
                "num_hidden_layers": 42,
                "num_key_value_heads": 2,
                "num_kv_shared_layers": 18,
                "sliding_window": 512,
            },
        },
        {"kind": "not yet", "says": "earlier layer", "bytes": None, "blocked": 18},
    ),
    "Phi-4-multimodal, original": (
        {
            "model_type": "phi4mm",
            "hidden_size": 3072,
            "max_position_embeddings": 131072,
            "num_attention_heads": 24,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 0.75,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0] * 48,
                "long_factor": [2.0] * 48,
            },
            "sliding_window": 262144,
            "torch_dtype": "bfloat16",
        },
        {
            "kind": "remote code",
            "says": "phi4_multimodal",
            "bytes": 32 * 2 * 8 * 128 * 2,
            "blocked": 0,
        },
    ),
    "Phi-4-multimodal": (
        {
            "model_type": "phi4_multimodal",
            "hidden_size": 3072,
            "num_attention_heads": 24,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 0.75,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0] * 48,
                "long_factor": [2.0] * 48,
            },
            "torch_dtype": "bfloat16",
        },
        {"kind": "not yet", "says": "4,096", "bytes": 32 * 2 * 8 * 128 * 2, "blocked": 0},
    ),
    "DeepSeek-V3.2": (
        {
            **MLA,
            "model_type": "deepseek_v32",
            "index_topk": 2048,
            "n_routed_experts": 256,
            "num_attention_heads": 128,
            "num_hidden_layers": 61,
            "num_key_value_heads": 128,
            "rope_scaling": DEEPSEEK_YARN,
            "rope_theta": 10000,
        },
        {"kind": "not yet", "says": "indexer", "bytes": 61 * 576 * 2, "blocked": 61},
    ),
    "Llama-3.2-11B-Vision": (
        {
            "model_type": "mllama",
            "text_config": {
                "model_type": "mllama_text_model",
                "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
                "hidden_size": 4096,
                "num_attention_heads": 32,
                "num_hidden_layers": 40,
                "num_key_value_heads": 8,
                "rope_scaling": LLAMA3,
                "rope_theta": 500000.0,
                "torch_dtype": "bfloat16",
            },
        },
        {
            "kind": "cannot",
            "says": "beside the sequence",
            "bytes": 32 * 2 * 8 * 128 * 2,
            "blocked": 8,
        },
    ),
}
"""Name -> config, and why it isn't served."""
