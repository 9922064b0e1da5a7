"""What a file has to hold, and which target it belongs to. Looks at headers alone and loads nothing."""

from __future__ import annotations

from power_core.artifacts import CheckList, GgufHeader, ValidationReport, ValueType
from power_core.errors import ArtifactContractError
from power_rowlookup.table import ARCHITECTURE, DIRECTIONS, FOLLOWING, Layout, most_drafts, read_layout


class RowLookupValidator:
    """Implements ``power_core.artifacts.DraftValidator``."""

    kind = ARCHITECTURE
    describe = "a row lookup: a code for hidden rows of one target layer, and tokens that followed each code"

    def matches(self, header: GgufHeader) -> bool:
        """The architecture decides, never the name of the file."""
        return header.architecture == ARCHITECTURE

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check keys, shapes and storage."""
        checks = CheckList(self.kind)
        try:
            layout, drafts = read_layout(header), most_drafts(header)
        except ArtifactContractError as error:
            checks.add_error((error.check_id or "keys").rpartition(".")[2], error, header.path)
            return checks.report(self.kind, header.path)
        _check_tensor(checks, header, DIRECTIONS, (layout.hidden, layout.bits), "F32")
        _check_tensor(checks, header, FOLLOWING, (drafts, 2**layout.bits), "I32")
        return checks.report(self.kind, header.path)

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        """Check that the target has the layer, and rows of that width."""
        checks = CheckList(self.kind)
        try:
            layout = read_layout(draft)
            hidden = target.require(target.arch_key("embedding_length"), ValueType.UINT32)
            layers = target.require(target.arch_key("block_count"), ValueType.UINT32) - target.nextn_layers
        except ArtifactContractError as error:
            checks.add_error("keys", error, draft.path)
            return checks.report(self.kind, draft.path)
        _check_pair(checks, layout, hidden, layers)
        return checks.report(self.kind, draft.path)


def _check_tensor(checks: CheckList, header: GgufHeader, name: str, shape: tuple[int, ...], stored: str) -> None:
    tensor = header.tensors.get(name)
    found = None if tensor is None else (tensor.shape, tensor.type_name)
    message = f"{name!r} is {found}, expected {(shape, stored)}"
    checks.add("tensor", found == (shape, stored), message, expected=(shape, stored), actual=found)


def _check_pair(checks: CheckList, layout: Layout, hidden: int, layers: int) -> None:
    checks.add(
        "hidden",
        layout.hidden == hidden,
        f"the file is for hidden rows of width {layout.hidden}, the target's are {hidden} wide",
        expected=hidden,
        actual=layout.hidden,
    )
    checks.add(
        "layer",
        layout.layer < layers,
        f"the file reads layer {layout.layer}, the target has layers 0 to {layers - 1}",
        expected=f"below {layers}",
        actual=layout.layer,
    )
