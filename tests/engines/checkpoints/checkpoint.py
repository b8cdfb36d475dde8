"""`Checkpoint`: a tiny model of the conformance suite, and what stands around it in its folder."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpoints.templates import im_turns
from checkpoints.tokenizer import build_tokenizer
from kamera.lab.conformance.build import build_model
from kamera.lab.conformance.case import Case
from kamera.lab.conformance.vocabulary import Vocabulary

Files = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint to be. Its numbers are the case's; here are its words and its processor's settings.

    Attributes:
        case: the model.
        tokens: special tokens besides padding, start and end, in the order of their ids.
        named: those that the family's processor looks up on the tokenizer, by their names there.
        template: the chat template.
        files: settings files by name.
        adds_start: the tokenizer puts a start token before a text.
        spaced: words begin with a mark of their own, which each run of text gets in front, as the
            first Llamas' do.
        past_table: the last token's id, a placeholder's, lies past the embedding table.
        processor: the family's own processor's class, and `settings` what it is made with besides.
    """

    case: Case
    tokens: tuple[str, ...] = ("<|im_start|>", "<|im_end|>")
    named: dict[str, str] = field(default_factory=dict)
    template: str = im_turns("\\n")
    files: Files = field(default_factory=dict)
    adds_start: bool = False
    spaced: bool = False
    past_table: bool = False
    processor: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    def tokenizer(self) -> Any:
        """A tokenizer with its special tokens and its template."""
        return build_tokenizer(
            self.tokens,
            self.named,
            self.template,
            adds_start=self.adds_start,
            spaced=self.spaced,
        )

    def model(self, tokenizer: Any, seed: int = 1) -> Any:
        """Random weights under which no layer is close to linear."""
        ids = tokenizer.get_vocab()
        size = ids[self.tokens[-1]] if self.past_table else len(tokenizer) + 3
        return build_model(self.case, Vocabulary(size, ids.__getitem__), seed=seed)

    def save(self, folder: Path, seed: int = 1) -> Path:
        """Write the whole checkpoint."""
        tokenizer = self.tokenizer()
        self.model(tokenizer, seed).save_pretrained(folder)
        self.save_surroundings(folder, tokenizer)
        return folder

    def save_surroundings(self, folder: Path, tokenizer: Any) -> None:
        """All but the model."""
        tokenizer.save_pretrained(folder)
        for name, content in self.files.items():
            (folder / name).write_text(json.dumps(content))
