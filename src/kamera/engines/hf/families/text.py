"""Text-only models: chunks are text spans, positions count one by one."""

from kamera.engines.hf.family import Family

FAMILIES = (
    Family("llama", "LlamaForCausalLM"),
    Family("qwen2", "Qwen2ForCausalLM"),
    Family("qwen3", "Qwen3ForCausalLM"),
    Family("deepseek_v2", "DeepseekV2ForCausalLM", rope_layout="pairs"),
    Family("deepseek_v3", "DeepseekV3ForCausalLM"),
)
