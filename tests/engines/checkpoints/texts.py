"""The text models: a tokenizer and turns are all that they need."""

from checkpoints.checkpoint import Checkpoint
from kamera.lab.conformance.models import case_of

TEXTS = {
    "llama": Checkpoint(case_of("llama"), adds_start=True),
    "qwen2": Checkpoint(case_of("qwen2")),
    "qwen2-sliding": Checkpoint(case_of("qwen2", "sliding")),
    "qwen3": Checkpoint(case_of("qwen3")),
    "deepseek_v2": Checkpoint(case_of("deepseek_v2")),
    "deepseek_v3": Checkpoint(case_of("deepseek_v3")),
    "gemma3_text": Checkpoint(case_of("gemma3_text"), adds_start=True),
}
