"""The conditioning patch: deficit, fit, apply, orbit (paper §§2, 3, 5 and App. A)."""

from kamera.patch.apply import apply
from kamera.patch.deficit import Deficits, deficit
from kamera.patch.encode import decode_patch, encode_patch
from kamera.patch.factors import AnyFactors, Factors, Patch, PatchKind
from kamera.patch.fit import fit_gram, fit_svd, form_patch
from kamera.patch.orbit import RunningMean, mean_deficit
from kamera.patch.profile import KNEE, PatchProfile, profile_of
from kamera.patch.quantise import quantised
from kamera.patch.ragged import RaggedFactors
from kamera.patch.random_fit import fit_fast, fit_random
from kamera.patch.ranks import spread_ranks

__all__ = [
    "KNEE",
    "AnyFactors",
    "Deficits",
    "Factors",
    "Patch",
    "PatchKind",
    "PatchProfile",
    "RaggedFactors",
    "RunningMean",
    "apply",
    "decode_patch",
    "deficit",
    "encode_patch",
    "fit_fast",
    "fit_gram",
    "fit_random",
    "fit_svd",
    "form_patch",
    "mean_deficit",
    "profile_of",
    "quantised",
    "spread_ranks",
]
