"""Byte-level BPE tokenizers with a family's special tokens, trained on the tasks' own text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kamera.lab.tasks import ANSWERS

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
"""The Qwen family's."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""Turns as the Qwen family writes them, without a default system turn."""

SENTENCES = (
    "what color is the shape?",
    "what shape is in the image?",
    "which digit goes with the shape?",
    "where is the ball?",
    "which digit is beside the star?",
    "describe the screenshot.",
    "what changed between the frames?",
    "The user looks at a screenshot of a web page and asks the agent what to do next.",
    "A frame, a page, an image and a text are chunks of the window.",
    "system",
    "user",
    "assistant",
    "none",
)


def train_backend(words: Sequence[str] = ()) -> Any:
    """A byte-level BPE of 480 tokens in which each answer, and each of `words`, is one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=480,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    answers = (word for answer in ANSWERS for word in (answer, f" {answer}"))
    backend.train_from_iterator([*SENTENCES, *answers, *words] * 8, trainer)
    return backend


def save_tokenizer(tokenizer: Any, folder: Path) -> Any:
    """Save into `folder`, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    return tokenizer


def build_tokenizer(folder: Path) -> Any:
    """Train, save into `folder`, and return the Qwen family's fast tokenizer (about 500 tokens)."""
    from transformers import Qwen2TokenizerFast

    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=train_backend(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        additional_special_tokens=list(SPECIAL_TOKENS),
        chat_template=CHAT_TEMPLATE,
        model_max_length=32768,
    )
    return save_tokenizer(tokenizer, folder)


def build_plain_tokenizer(
    folder: Path,
    *,
    special: Sequence[str],
    words: Sequence[str],
    chat_template: str,
    bos: str,
    eos: str,
    unk: str,
    pad: str,
) -> Any:
    """The same for a family whose tokenizer has no class of its own: no token is added to a text."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=train_backend(words),
        bos_token=bos,
        eos_token=eos,
        unk_token=unk,
        pad_token=pad,
        additional_special_tokens=list(special),
        chat_template=chat_template,
        model_max_length=32768,
    )
    return save_tokenizer(tokenizer, folder)
