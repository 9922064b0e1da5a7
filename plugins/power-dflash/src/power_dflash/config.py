"""Names and defaults of the strategy, which has no options of its own."""

STRATEGY = "dflash"
DISTRIBUTION = "power-dflash"
SUMMARY = "Drafts a block at once with an external DFlash draft."
DEFAULT_DRAFT_MAX_TOKENS = 4
