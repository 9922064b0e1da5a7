"""Names and defaults of the strategy, which has no options of its own."""

STRATEGY = "dflash"
DISTRIBUTION = "power-dflash"
DEFAULT_DRAFT_MAX_TOKENS = 4
