"""The conditioning patch: deficit, fit, apply, orbit (paper §§2, 3, 5 and App. A)."""

from kamera.patch.apply import apply
from kamera.patch.deficit import Deficits, deficit
from kamera.patch.factors import Factors, Patch, PatchKind
from kamera.patch.fit import fit_gram, fit_svd, form_patch
from kamera.patch.orbit import mean_deficit

__all__ = [
    "Deficits",
    "Factors",
    "Patch",
    "PatchKind",
    "apply",
    "deficit",
    "fit_gram",
    "fit_svd",
    "form_patch",
    "mean_deficit",
]
