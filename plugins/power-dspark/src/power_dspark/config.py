"""Names and defaults of the strategy, which has no options of its own."""

STRATEGY = "dspark"
DISTRIBUTION = "power-dspark"
DEFAULT_DRAFT_MAX_TOKENS = 4
