"""Ridge regression, layer by layer: what the estimators of a deficit are made of."""

import torch
from jaxtyping import Float
from torch import Tensor


def fit_ridge(
    inputs: Float[Tensor, "L N A"], outputs: Float[Tensor, "L N B"], ridge: float
) -> Float[Tensor, "L A B"]:
    """W of `inputs @ W` with the least squared error and `ridge` · |W|², in units of the mean input energy.

    Solved in float64 on the smaller side; with ridge 0 the solution of least norm.
    """
    x, y = inputs.double(), outputs.double()
    if ridge == 0:
        exact: Tensor = torch.linalg.pinv(x) @ y
        return exact.float()
    num_rows, num_inputs = x.shape[1:]
    energy = x.square().sum((1, 2)) / num_inputs
    weight = (ridge * energy).clamp_min(1e-12)[:, None, None]
    if num_rows < num_inputs:
        gram = x @ x.mT + weight * torch.eye(num_rows, dtype=x.dtype, device=x.device)
        dual: Tensor = x.mT @ torch.linalg.solve(gram, y)
        return dual.float()
    gram = x.mT @ x + weight * torch.eye(num_inputs, dtype=x.dtype, device=x.device)
    primal: Tensor = torch.linalg.solve(gram, x.mT @ y)
    return primal.float()
