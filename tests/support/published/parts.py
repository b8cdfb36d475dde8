"""Language models and scalings that several published configs hold."""

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
