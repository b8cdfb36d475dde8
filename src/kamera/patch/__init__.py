"""The conditioning patch: deficit, fit, apply, orbit (paper §§2, 3, 5 and App. A)."""

from kamera.patch.apply import apply
from kamera.patch.deficit import Deficits, deficit
from kamera.patch.encode import decode_patch, encode_patch
from kamera.patch.factors import AnyFactors, Factors, Patch, PatchKind
from kamera.patch.fit import fit_gram, fit_svd, form_patch
from kamera.patch.orbit import mean_deficit
from kamera.patch.ragged import RaggedFactors

__all__ = [
    "AnyFactors",
    "Deficits",
    "Factors",
    "Patch",
    "PatchKind",
    "RaggedFactors",
    "apply",
    "decode_patch",
    "deficit",
    "encode_patch",
    "fit_gram",
    "fit_svd",
    "form_patch",
    "mean_deficit",
]
