"""Nano checkpoints: complete Hugging Face checkpoints of real architectures, trained here to bind."""
