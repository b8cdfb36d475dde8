"""Backbone: a loaded model of a family, as a function from tokens, positions and KV to KV and logits."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from kamera.channels import ATTENTION, MLA, Channel, ChunkKV
from kamera.engines.contract import Context
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs
from kamera.engines.hf.trained import num_trained_positions
from kamera.errors import ConfigError
from kamera.rope import Rope, read_rope_spec
from kamera.shapes import Positions

logger = logging.getLogger("kamera.engines")


class Backbone:
    """The model without its tokenizer and processor. Every family goes through the same two steps:
    embeddings of tokens and media are merged, then the model's own forward runs over them.
    """

    def __init__(self, model: Any, family: Family) -> None:
        self.model, self.family = model.eval(), family
        self.config = model.config
        self.text_config = model.config.get_text_config()
        self.decoder = model.get_decoder()
        self.rope: Rope = read_rope_spec(
            self.decoder.rotary_emb, self.text_config, layout=family.rope_layout
        )
        self.num_trained = num_trained_positions(self.text_config)
        self.is_latent = bool(getattr(self.text_config, "kv_lora_rank", None))
        self.channels: tuple[Channel, ...] = MLA if self.is_latent else ATTENTION
        ids = [modality.token_id(self.config) for modality in family.modalities]
        self._is_warned = False
        self._placeholders = torch.tensor(ids, dtype=torch.int64, device=model.device)

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return torch.device(self.model.device)

    @torch.inference_mode()
    def see(self, kind: str, inputs: Inputs) -> Tensor:
        """Run the tower over one media item: [placeholders, hidden · (1 + deepstack levels)].

        Raises:
            ConfigError: the family has no such modality.
        """
        modality = self.family.modality(kind)
        if modality is None:
            raise ConfigError(
                f"No {kind} in {self.family.model_type}: expected one of "
                f"{[m.kind for m in self.family.modalities]}"
            )
        placed = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        return modality.embed(self.model, placed).clone()

    @torch.inference_mode()
    def prefill(
        self,
        token_ids: list[int],
        positions: Positions,
        media: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[ChunkKV, Tensor]:
        """One forward over new tokens behind the placed KV `context`.

        Args:
            token_ids: T ids, placeholders included.
            positions: [T, P], absolute.
            media: embeddings of the placeholders in order, as `see` gives them.
            context: KV at its positions, or None.

        Returns:
            The new tokens' KV as cached, and the last token's logits [vocab], float32.

        Raises:
            ConfigError: embeddings that aren't one for each placeholder.
        """
        wanted = int(self.is_media(token_ids).sum())
        if wanted != (0 if media is None else len(media)):
            raise ConfigError(
                f"{0 if media is None else len(media)} media embeddings for {wanted} placeholder "
                "tokens: expected one for each"
            )
        cache = kv_cache.write(context, self.channels)
        logits = self.forward(token_ids, positions, cache, media)
        past = 0 if context is None else context.num_tokens
        return kv_cache.read(cache, past, self.channels), logits

    @torch.inference_mode()
    def forward(
        self,
        token_ids: list[int],
        positions: Positions,
        cache: Any,
        media: Tensor | None = None,
        *,
        mask: Any = None,
    ) -> Tensor:
        """The same over a live cache, which grows by the new tokens. Last logits, float32.

        Without `media` every id is a token like any other: a model may generate a placeholder. A `mask`
        says what each new token sees of the whole cache; without one they see all that is before them.

        Raises:
            UnsupportedRopeError: a position at which the model would turn all keys of this forward by other
                frequencies than the stored ones.
        """
        end = int(positions.max()) + 1
        self.rope.check_reach(end)
        self._check_trained(end)
        num_past = int(cache.get_seq_length())
        ids = torch.tensor([token_ids], device=self.device)
        is_media = (
            torch.isin(ids, self._placeholders)
            if media is not None
            else torch.zeros_like(ids).bool()
        )
        embeddings, levels = self._merge(ids, is_media, media)
        arguments = {
            "inputs_embeds": embeddings,
            "position_ids": self._position_ids(positions),
            "cache": cache,
            "use_cache": True,
            **self.family.forward_arguments(is_media, num_past),
        }
        if mask is not None:
            arguments["attention_mask"] = mask
        if levels:
            out = self.decoder(
                **arguments, visual_pos_masks=is_media, deepstack_visual_embeds=levels
            )
            logits = self.model.lm_head(out.last_hidden_state[:, -1])
        else:
            logits = self.model(**arguments, logits_to_keep=1).logits[:, -1]
        last: Tensor = logits[0].float()
        return last

    def _check_trained(self, end: int) -> None:
        """Say once that a forward runs where the model wasn't trained: rotation goes on, answers may not."""
        if self._is_warned or self.num_trained is None or end <= self.num_trained:
            return
        self._is_warned = True
        logger.warning(
            "A window reaches position %s: %s was trained on positions below %s (max_position_embeddings, "
            "with the factor of its RoPE scaling). Its answers may be poor there, with Kamera as without; "
            "expected a smaller window, or a checkpoint whose config scales RoPE",
            f"{end - 1:,}",
            self.family.model_type,
            f"{self.num_trained:,}",
        )

    def is_media(self, token_ids: Sequence[int]) -> Bool[Tensor, " T"]:
        """Which tokens stand for media."""
        ids = torch.tensor(token_ids, dtype=torch.int64, device=self.device)
        return torch.isin(ids, self._placeholders)

    def _merge(
        self, ids: Tensor, is_media: Tensor, media: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Token embeddings [1, T, hidden] with the media's in place, and the deepstack levels."""
        embed = self.model.get_input_embeddings()
        # Some placeholders lie past the table.
        embeddings: Tensor = embed(ids.masked_fill(is_media, 0))
        if media is None:
            return embeddings, []
        hidden = embeddings.shape[-1]
        levels = [
            media[:, i : i + hidden].to(self.device, embeddings.dtype)
            for i in range(0, media.shape[-1], hidden)
        ]
        return embeddings.masked_scatter(is_media[..., None], levels[0]), levels[1:]

    def _position_ids(self, positions: Positions) -> Tensor:
        """[P, 1, T] for M-RoPE, [1, T] for one axis."""
        by_axis = positions.T[:, None].to(self.device)
        return by_axis if self.rope.num_axes > 1 else by_axis[0]
