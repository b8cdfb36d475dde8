"""Configs as published on the Hub: the keys that decide, in the layout and spelling of their time.

Vision towers, token ids and the like are left out. Most are older than Transformers 5: `rope_theta` and
`rope_scaling` beside the sizes, `torch_dtype`, keys that the config class then filled in.
"""

from typing import Any

QWEN_25_7B = {
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "rope_theta": 1000000.0,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
}
MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}
KIMI_YARN = {
    "type": "yarn",
    "factor": 64.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
}
INTERLEAVED = {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}
LLAMA3 = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
LLAMA_31_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_scaling": LLAMA3,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
}
MLA = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}
KIMI_K2_TEXT = {
    **MLA,
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "num_attention_heads": 64,
    "num_hidden_layers": 61,
    "num_key_value_heads": 64,
    "n_routed_experts": 384,
    "max_position_embeddings": 262144,
    "rope_scaling": KIMI_YARN,
    "rope_theta": 50000.0,
}
DEEPSEEK_YARN = {
    "type": "yarn",
    "factor": 40,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
}
QWEN3_VL_8B_TEXT = {
    "model_type": "qwen3_vl_text",
    "dtype": "bfloat16",
    "head_dim": 128,
    "hidden_size": 4096,
    "max_position_embeddings": 262144,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "rope_scaling": INTERLEAVED,
    "rope_theta": 5000000,
}
QWEN_OMNI_MOE_TEXT = {
    "model_type": "qwen3_omni_moe_text",
    "head_dim": 128,
    "hidden_size": 2048,
    "max_position_embeddings": 65536,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "rope_scaling": {**INTERLEAVED, "interleaved": True, "type": "default"},
    "rope_theta": 1000000,
    "sliding_window": None,
    "use_sliding_window": False,
}
GEMMA_LINEAR = {"factor": 8.0, "rope_type": "linear"}
QWEN35_LAYERS = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]

SERVED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
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
    "Llama-3.1-8B": (
        LLAMA_31_8B,
        {
            "bytes": 32 * 2 * 8 * 128 * 2,
            "attention": "gqa",
            "axes": "1-D",
            "scheme": "llama3",
            "base": 5e5,
        },
    ),
    "Qwen2.5-7B": (
        {**QWEN_25_7B, "model_type": "qwen2", "sliding_window": 131072},
        {"bytes": 28 * 2 * 4 * 128 * 2, "attention": "gqa", "axes": "1-D", "base": 1e6},
    ),
    "Qwen3-8B": (
        {
            "model_type": "qwen3",
            "head_dim": 128,
            "hidden_size": 4096,
            "max_position_embeddings": 40960,
            "max_window_layers": 36,
            "num_attention_heads": 32,
            "num_hidden_layers": 36,
            "num_key_value_heads": 8,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window": None,
            "use_sliding_window": False,
            "torch_dtype": "bfloat16",
        },
        {"bytes": 36 * 2 * 8 * 128 * 2, "attention": "gqa", "axes": "1-D", "base": 1e6},
    ),
    "DeepSeek-V2-Lite": (
        {
            **MLA,
            "model_type": "deepseek_v2",
            "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"},
            "hidden_size": 2048,
            "num_attention_heads": 16,
            "num_hidden_layers": 27,
            "num_key_value_heads": 16,
            "n_routed_experts": 64,
            "q_lora_rank": None,
            "max_position_embeddings": 163840,
            "rope_scaling": {**DEEPSEEK_YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
            "rope_theta": 10000,
        },
        {
            "bytes": 27 * (512 + 64) * 2,
            "attention": "mla",
            "axes": "1-D",
            "scheme": "yarn",
            "base": 1e4,
            "experts": 64,
        },
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
    "DeepSeek-V3": (
        {
            **MLA,
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "num_attention_heads": 128,
            "num_hidden_layers": 61,
            "num_key_value_heads": 128,
            "n_routed_experts": 256,
            "max_position_embeddings": 163840,
            "rope_scaling": DEEPSEEK_YARN,
            "rope_theta": 10000,
            "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"},
        },
        {
            "bytes": 61 * (512 + 64) * 2,
            "status": "partly",
            "attention": "mla",
            "axes": "1-D",
            "scheme": "yarn",
            "base": 1e4,
            "experts": 256,
        },
    ),
}
"""Name -> config, and what is known of the model."""

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
