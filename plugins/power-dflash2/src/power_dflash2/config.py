"""Names and defaults of the strategy, which has no options of its own."""

STRATEGY = "dflash2"
DISTRIBUTION = "power-dflash2"
SUMMARY = "Drafts a block at once with an external DFlash2 draft and walks its lattice of candidates."
DEFAULT_DRAFT_MAX_TOKENS = 4
