"""The recipe of the zoo: text, tokenizer, target, drafters, export and checks, one module per step."""
