"""Names and defaults of the strategy, which has no options of its own."""

STRATEGY = "dspark"
DISTRIBUTION = "power-dspark"
SUMMARY = "Drafts a block at once with an external DSpark draft, each token after the last."
DEFAULT_DRAFT_MAX_TOKENS = 4
