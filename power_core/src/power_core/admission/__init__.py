"""Admission of drafts: a manifest beside the draft says which bytes were checked, and for which target.

- ``manifest``       what a manifest holds; ``fields`` what its values may be; ``manifest_file`` reads and writes it
- ``admit``          check a draft with its target, measure both, write the manifest
- ``verify``         the rules that a session repeats when it opens
- ``discovery``      the admitted draft beside a target

docs/admission.md says what this protects from and what not.
"""

from __future__ import annotations

from power_core.admission.admit import AdmitResult, admit_draft
from power_core.admission.discovery import find_admission
from power_core.admission.manifest import SCHEMA, SUFFIX, Manifest, Provenance, manifest_path
from power_core.admission.manifest_file import read_manifest
from power_core.admission.verify import Admission, admission_of

__all__ = [
    "SCHEMA",
    "SUFFIX",
    "Admission",
    "AdmitResult",
    "Manifest",
    "Provenance",
    "admission_of",
    "admit_draft",
    "find_admission",
    "manifest_path",
    "read_manifest",
]
