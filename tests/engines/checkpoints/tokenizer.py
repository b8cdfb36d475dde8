"""A byte-pair tokenizer of some 300 tokens, with the special tokens of a family."""

from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

PAD, START, END = "<pad>", "<s>", "</s>"
"""Ids 0, 1, 2, as the tiny models' configs have them."""

LINES = [
    "what color is the shape? where is the ball, and when? Frames: 0.5 seconds",
    "user assistant USER: ASSISTANT:",
    "\n\n\n\n",
    "\n\n",
]


def build_tokenizer(
    tokens: tuple[str, ...],
    named: dict[str, str],
    template: str,
    *,
    adds_start: bool = False,
    spaced: bool = False,
) -> Any:
    """Byte-level, or with a mark before every word; see `Checkpoint`'s attributes."""
    backend = Tokenizer(models.BPE())
    if spaced:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        )
        backend.decoder = decoders.Replace("\u2581", " ")
        alphabet = sorted({*map(chr, range(32, 127)), "\n", "\u2581"})
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=alphabet,
        special_tokens=[PAD, START, END],
        show_progress=False,
    )
    backend.train_from_iterator(LINES * 8, trainer)
    backend.add_special_tokens(list(dict.fromkeys(tokens)))
    if adds_start:
        first = backend.token_to_id(START)
        backend.post_processor = processors.TemplateProcessing(
            single=f"{START} $A", special_tokens=[(START, first)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=START if adds_start else None,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=named,
        chat_template=template,
    )
