"""Names and defaults of the strategy, which has no options of its own."""

STRATEGY = "dflash2"
DISTRIBUTION = "power-dflash2"
DEFAULT_DRAFT_MAX_TOKENS = 4
