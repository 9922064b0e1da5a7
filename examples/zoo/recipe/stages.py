"""The steps of the recipe in order; each leaves files in a work folder and is skipped where they are there already."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
import torch
from tokenizers import Tokenizer

from recipe.blocks import Kind
from recipe.bpe import END_OF_TEXT, Vocabulary, read_vocabulary, train_tokenizer
from recipe.checks import differing_lines, logit_difference
from recipe.config import KINDS, CheckPlan, Recipe
from recipe.continuations import read_continuations, write_continuations
from recipe.corpus import read_split
from recipe.draft_checks import block_agreement, head_agreement
from recipe.drafter_training import DraftingData, train_drafter, train_head
from recipe.drafters import BlockDrafter
from recipe.gguf_export import MatrixType, export_drafter, export_target
from recipe.library_runs import DEFAULT, SAME_FUNCTION, LibrarySettings
from recipe.mtp import MtpHead
from recipe.ngram_baseline import ngram_loss
from recipe.target import Target
from recipe.target_training import Tokens, train_target

Model = TypeVar("Model", bound=torch.nn.Module)

SPLITS = ("training", "validation", "heldout")
TEXTS = ("validation", "training")


@attrs.frozen(kw_only=True)
class Workshop:
    """A recipe and the folder in which it is carried out."""

    recipe: Recipe
    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / name

    def tokens(self, split: str) -> Tokens:
        return np.load(self.path(f"{split}.npy"))

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self.path("tokenizer.json")))

    def vocabulary(self) -> Vocabulary:
        return read_vocabulary(self.path("tokenizer.json"))

    def target(self) -> Target:
        """Return the trained target, without gradients."""
        return self._trained(Target(self.recipe.target), "target").requires_grad_(False)

    def head(self) -> MtpHead:
        return self._trained(MtpHead(self.recipe.target), "mtp")

    def new_drafter(self, kind: Kind, target: Target) -> BlockDrafter:
        mask = self.vocabulary().mask
        return BlockDrafter(self.recipe.draft_shape(kind), target.embeddings.weight, target.head.weight, mask)

    def drafter(self, kind: Kind, target: Target) -> BlockDrafter:
        return self._trained(self.new_drafter(kind, target), kind)

    def taps(self) -> tuple[int, ...]:
        """Return the layers of the target whose inputs the drafters read."""
        return self.recipe.draft_shape("dflash").target_layers

    def drafting_data(self) -> DraftingData:
        """Return the texts that ``write_texts`` left."""
        validation, training = (
            read_continuations(self.path(f"texts-{split}"), self.recipe.continuations, self.recipe.target.hidden)
            for split in TEXTS
        )
        return DraftingData(training=training, validation=validation, batch=self.recipe.batch, seed=self.recipe.seed)

    def _trained(self, model: Model, name: str) -> Model:
        state = torch.load(self.path(f"{name}.pt"), weights_only=True)
        model.load_state_dict(state["model"])
        return model


def prepare_text(shop: Workshop) -> None:
    """Train the tokenizer and encode every split; files end with the end token."""
    if shop.path("heldout.npy").exists():
        return
    text = shop.recipe.text
    files = {split: read_split(split, text.most_files) for split in SPLITS}
    tokenizer = train_tokenizer((file.text for file in files["training"]), text.vocabulary_tokens)
    tokenizer.save(str(shop.path("tokenizer.json")))
    end = tokenizer.token_to_id(END_OF_TEXT)
    for split in SPLITS:
        encoded = tokenizer.encode_batch([file.text for file in files[split]])
        ids = [np.array([*part.ids, end], dtype=np.uint16) for part in encoded]
        np.save(shop.path(f"{split}.npy"), np.concatenate(ids))
        print(f"{split}: {len(ids)} files, {sum(map(len, ids))} tokens", flush=True)


def train_the_target(shop: Workshop) -> None:
    """Train the target on the training split."""
    recipe = shop.recipe
    train_target(
        recipe.target,
        recipe.plans["target"],
        shop.path("target.pt"),
        training=shop.tokens("training"),
        validation=shop.tokens("validation"),
        rows=recipe.rows,
        batch=recipe.batch,
        seed=recipe.seed,
    )
    baseline = ngram_loss(shop.tokens("training"), shop.tokens("validation"), recipe.text.vocabulary_tokens)
    shop.path("baseline.json").write_text(json.dumps({"ngram_loss": baseline}))


def write_texts(shop: Workshop) -> None:
    """Let the target continue prompts of the training and of the validation split."""
    target, plan = shop.target(), shop.recipe.continuations
    for split, texts in zip(TEXTS, (plan.validation_texts, plan.texts), strict=True):
        folder, seed = shop.path(f"texts-{split}"), shop.recipe.seed
        write_continuations(target, shop.tokens(split), folder, plan, texts=texts, taps=shop.taps(), seed=seed)


def train_the_head(shop: Workshop) -> None:
    """Train the prediction head on the target's texts."""
    recipe = shop.recipe
    torch.manual_seed(recipe.seed)
    train_head(MtpHead(recipe.target), shop.target(), recipe.plans["mtp"], shop.path("mtp.pt"), shop.drafting_data())


def train_the_drafter(shop: Workshop, kind: Kind) -> None:
    """Train a block drafter on the target's texts; DSpark and DFlash2 start from the backbone of DFlash."""
    recipe, target = shop.recipe, shop.target()
    torch.manual_seed(recipe.seed)
    drafter = shop.new_drafter(kind, target)
    if kind != "dflash":
        drafter.backbone.load_state_dict(shop.drafter("dflash", target).backbone.state_dict(), strict=False)
    train_drafter(drafter, recipe.plans[kind], shop.path(f"{kind}.pt"), shop.drafting_data())


def export_all(shop: Workshop, folder: Path, matrices: MatrixType) -> None:
    """Write the four files, laid out as in the package: ``target/target.gguf`` and ``drafts/<kind>.gguf``."""
    target, vocabulary = shop.target(), shop.vocabulary()
    for part in ("target", "drafts"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    export_target(folder / "target" / "target.gguf", target, shop.head(), vocabulary, matrices)
    for kind in KINDS:
        export_drafter(folder / "drafts" / f"{kind}.gguf", shop.drafter(kind, target), vocabulary, matrices)


def check_all(shop: Workshop) -> None:
    """Compare F32 exports with the trained models and write ``checks.json``; raise where they disagree.

    They have to agree where the library computes the same function; what its default settings differ by is recorded.
    """
    check, folder = shop.recipe.check, shop.path("f32")
    export_all(shop, folder, "F32")
    lines = [line for file in read_split("heldout") for line in file.text.splitlines(keepends=True)][: check.lines]
    found: dict[str, Any] = {
        "lines": len(lines),
        "lines_that_differ": len(differing_lines(folder / "target" / "target.gguf", shop.tokenizer(), lines)),
        "same_function": compare(shop, folder, SAME_FUNCTION),
        "default": compare(shop, folder, DEFAULT),
    }
    shop.path("checks.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1), flush=True)
    wrong = disagreements(found, check)
    if wrong:
        raise SystemExit("the library disagrees with the trained models: " + "; ".join(wrong))


def compare(shop: Workshop, folder: Path, settings: LibrarySettings) -> dict[str, Any]:
    """Compare logits and drafts of the files in a folder with the trained models, on held-out text."""
    check, target, path = shop.recipe.check, shop.target(), folder / "target" / "target.gguf"
    held = shop.tokens("heldout").astype(int).tolist()
    half = check.draft_contexts // 2
    texts = [held[at : at + 2 * half] for at in (0, 4 * half)]
    head = head_agreement(settings, path, target, shop.head(), held[: half + check.draft_contexts], half)
    found = {"logits": logit_difference(settings, path, target, held[: check.logit_tokens]), "mtp": attrs.asdict(head)}
    for kind in KINDS:
        drafter, draft = shop.drafter(kind, target), folder / "drafts" / f"{kind}.gguf"
        found[kind] = attrs.asdict(block_agreement(settings, path, draft, drafter, texts, half))
    return found


def disagreements(found: Mapping[str, Any], check: CheckPlan) -> list[str]:
    """Return what differs by more than the plan allows, in words."""
    wrong = []
    if found["lines_that_differ"]:
        wrong.append(f"{found['lines_that_differ']} lines are tokenized differently")
    compared = found["same_function"]
    if compared["logits"]["largest"] > check.most_difference:
        wrong.append(f"a logit differs by {compared['logits']['largest']:.1e}")
    for name in ("mtp", *KINDS):
        if compared[name]["largest_difference"] > check.most_difference:
            wrong.append(f"{name}: a score differs by {compared[name]['largest_difference']:.1e}")
        if compared[name]["faults"]:
            wrong.append(f"{name}: drafts differ at the positions {compared[name]['faults']}")
    return wrong


STAGES: dict[str, Callable[[Workshop], None]] = {
    "text": prepare_text,
    "target": train_the_target,
    "texts": write_texts,
    "mtp": train_the_head,
    "dflash": partial(train_the_drafter, kind="dflash"),
    "dspark": partial(train_the_drafter, kind="dspark"),
    "dflash2": partial(train_the_drafter, kind="dflash2"),
    "export": lambda shop: export_all(shop, shop.path("models"), "F16"),
    "check": check_all,
}
