"""Declares two operators of torchvision's CUDA build, whose library a CPU machine can't load.

For one test's subprocess alone; never a part of the product.
"""

import torch

_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
