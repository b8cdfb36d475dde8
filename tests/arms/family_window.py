"""`FamilyWindow`: a tiny model of some family with a window to serve."""

from dataclasses import dataclass

import torch

from kamera.arms import ArmRequest, Workbench


@dataclass
class FamilyWindow:
    """Prefix, A, B and a tail on a tiny model, and how far apart two right answers may be."""

    model_type: str
    bench: Workbench
    request: ArmRequest
    other: ArmRequest
    """The same with A and B changed places: what is learned from."""
    bound: float
    """On the error of logits, over their norm."""
    truth: torch.Tensor
    blind: torch.Tensor
