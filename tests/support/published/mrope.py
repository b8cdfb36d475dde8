"""Models with image and video positions on three axes."""

from typing import Any

from published.parts import MROPE, QWEN3_VL_8B_TEXT, QWEN_25_7B, QWEN_OMNI_MOE_TEXT

MROPE_MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Qwen2.5-VL-7B": (
        {**QWEN_25_7B, "model_type": "qwen2_5_vl", "rope_scaling": MROPE, "sliding_window": 32768},
        {"bytes": 28 * 2 * 4 * 128 * 2, "attention": "gqa", "axes": "sectioned", "base": 1e6},
    ),
    "Qwen2-VL-2B": (
        {
            "model_type": "qwen2_vl",
            "hidden_size": 1536,
            "num_attention_heads": 12,
            "num_hidden_layers": 28,
            "num_key_value_heads": 2,
            "max_window_layers": 28,
            "rope_scaling": MROPE,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "use_sliding_window": False,
            "torch_dtype": "bfloat16",
        },
        {"bytes": 28 * 2 * 2 * 128 * 2, "attention": "gqa", "axes": "sectioned", "base": 1e6},
    ),
    "Qwen3-VL-8B": (
        {
            "model_type": "qwen3_vl",
            "text_config": QWEN3_VL_8B_TEXT,
            "vision_config": {"deepstack_visual_indexes": [8, 16, 24]},
        },
        {
            "bytes": 36 * 2 * 8 * 128 * 2,
            "attention": "gqa",
            "axes": "interleaved",
            "base": 5e6,
            "deepstack": 3,
        },
    ),
    "Qwen3-VL-30B-A3B": (
        {
            "model_type": "qwen3_vl_moe",
            "text_config": {
                **QWEN3_VL_8B_TEXT,
                "model_type": "qwen3_vl_moe_text",
                "hidden_size": 2048,
                "num_hidden_layers": 48,
                "num_key_value_heads": 4,
                "num_experts": 128,
            },
            "vision_config": {"deepstack_visual_indexes": [8, 16, 24]},
        },
        {
            "bytes": 48 * 2 * 4 * 128 * 2,
            "attention": "gqa",
            "axes": "interleaved",
            "base": 5e6,
            "deepstack": 3,
            "experts": 128,
        },
    ),
    "Qwen2.5-Omni-7B": (
        {
            "model_type": "qwen2_5_omni",
            "thinker_config": {
                "model_type": "qwen2_5_omni_thinker",
                "text_config": {
                    **QWEN_25_7B,
                    "model_type": "qwen2_5_omni_text",
                    "rope_scaling": {**MROPE, "rope_type": "default", "type": "default"},
                    "sliding_window": 32768,
                },
                "torch_dtype": "bfloat16",
            },
            "talker_config": {"model_type": "qwen2_5_omni_talker", "num_hidden_layers": 24},
        },
        {"bytes": 28 * 2 * 4 * 128 * 2, "attention": "gqa", "axes": "sectioned", "base": 1e6},
    ),
    "Qwen3-Omni-30B-A3B": (
        {
            "model_type": "qwen3_omni_moe",
            "thinker_config": {
                "model_type": "qwen3_omni_moe_thinker",
                "dtype": "bfloat16",
                "text_config": QWEN_OMNI_MOE_TEXT,
                "vision_config": {"deepstack_visual_indexes": [8, 16, 24]},
            },
            "talker_config": {"model_type": "qwen3_omni_moe_talker"},
        },
        {
            "bytes": 48 * 2 * 4 * 128 * 2,
            "attention": "gqa",
            "axes": "interleaved",
            "base": 1e6,
            "deepstack": 3,
            "experts": 128,
        },
    ),
    "PaddleOCR-VL": (
        {
            "model_type": "paddleocr_vl",
            "auto_map": {"AutoConfig": "configuration_paddleocr_vl.PaddleOCRVLConfig"},
            "head_dim": 128,
            "hidden_size": 1024,
            "max_position_embeddings": 131072,
            "num_attention_heads": 16,
            "num_hidden_layers": 18,
            "num_key_value_heads": 2,
            "rope_scaling": {**MROPE, "rope_type": "default", "type": "default"},
            "rope_theta": 500000,
            "sliding_window": None,
            "torch_dtype": "bfloat16",
        },
        {"bytes": 18 * 2 * 2 * 128 * 2, "attention": "gqa", "axes": "sectioned", "base": 5e5},
    ),
    "GLM-4.1V-9B": (
        {
            "model_type": "glm4v",
            "text_config": {
                "model_type": "glm4v_text",
                "attention_bias": True,
                "hidden_size": 4096,
                "max_position_embeddings": 65536,
                "num_attention_heads": 32,
                "num_hidden_layers": 40,
                "num_key_value_heads": 2,
                "partial_rotary_factor": 0.5,
                "rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]},
                "rope_theta": 10000.0,
                "torch_dtype": "bfloat16",
            },
        },
        {
            "bytes": 40 * 2 * 2 * 128 * 2,
            "attention": "gqa",
            "axes": "sectioned",
            "base": 1e4,
            "rotary": 64,
        },
    ),
    "GLM-4.5V": (
        {
            "model_type": "glm4v_moe",
            "text_config": {
                "model_type": "glm4v_moe_text",
                "head_dim": 128,
                "hidden_size": 4096,
                "max_position_embeddings": 65536,
                "n_routed_experts": 128,
                "num_attention_heads": 96,
                "num_hidden_layers": 46,
                "num_key_value_heads": 8,
                "partial_rotary_factor": 0.5,
                "rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]},
                "rope_theta": 10000.0,
                "torch_dtype": "bfloat16",
            },
        },
        {
            "bytes": 46 * 2 * 8 * 128 * 2,
            "attention": "gqa",
            "axes": "sectioned",
            "base": 1e4,
            "rotary": 64,
            "experts": 128,
        },
    ),
}
