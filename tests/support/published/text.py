"""Text models."""

from typing import Any

from published.parts import DEEPSEEK_YARN, LLAMA_31_8B, MLA, QWEN_25_7B

TEXT_MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
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
