//! Settings that a script takes from absl, from OmegaConf and from the words of its command.

use super::*;

const ABSL: &[(&str, &str)] = &[(
    "train.py",
    r#"
from absl import app, flags
import torch
FLAGS = flags.FLAGS
flags.DEFINE_integer("train_batch_size", 4, "")
flags.DEFINE_integer("max_seq_length", 64, "")
flags.DEFINE_bool("use_bfloat16", False, "")
def main(_):
    model = LM()
    if FLAGS.use_bfloat16:
        model = model.bfloat16()
    opt = torch.optim.Adam(model.parameters())
    for step in range(100):
        ids = torch.randint(0, 5000, (FLAGS.train_batch_size, FLAGS.max_seq_length))
        model(ids).backward()
        opt.step()
if __name__ == "__main__":
    app.run(main)
"#,
)];

#[test]
fn flags_of_absl_decide_as_arguments_do() {
    let defaults = told(ABSL, "python train.py", &[]);
    assert_eq!(
        (value(&defaults, BATCH), value(&defaults, LENGTH), value(&defaults, PRECISION)),
        (Some("4"), Some("64"), Some("fp32")),
        "{defaults:?}"
    );
    let given = told(ABSL, "python train.py --train_batch_size=16 --use_bfloat16", &[]);
    assert_eq!((value(&given, BATCH), value(&given, PRECISION)), (Some("16"), Some("bf16")), "{given:?}");
}

const OMEGA: &[(&str, &str)] = &[
    (
        "train.py",
        r#"
import torch
from omegaconf import OmegaConf
cfg = OmegaConf.merge(OmegaConf.load("base.yaml"), OmegaConf.from_cli())
model = LM()
opt = torch.optim.AdamW(model.parameters())
for step in range(cfg.trainer.max_steps):
    ids = torch.randint(0, 5000, (cfg.data.batch_size, cfg.data.max_len))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cfg.trainer.precision == "bf16"):
        loss = model(ids)
    loss.backward()
    opt.step()
"#,
    ),
    ("base.yaml", "data:\n  batch_size: 8\n  max_len: 128\ntrainer:\n  max_steps: 100\n  precision: fp32\n"),
];

#[test]
fn words_of_a_command_go_over_the_file_that_they_are_merged_with() {
    let file = told(OMEGA, "python train.py", &[]);
    assert_eq!((value(&file, BATCH), value(&file, LENGTH)), (Some("8"), Some("128")), "{file:?}");
    assert_eq!(value(&file, PRECISION), Some("fp32"));
    let given = told(OMEGA, "python train.py data.batch_size=4 trainer.precision=bf16", &[]);
    assert_eq!(
        (value(&given, BATCH), value(&given, LENGTH), value(&given, PRECISION)),
        (Some("4"), Some("128"), Some("bf16-mixed")),
        "{given:?}"
    );
}

const WORDS: &[(&str, &str)] = &[
    (
        "train.py",
        r#"
import sys, torch, yaml
CFG = yaml.safe_load(open(sys.argv[1]))
class Run:
    def __init__(self, batch, accumulation=1):
        self.batch, self.accumulation = batch, accumulation
        self.model = LM().to(torch.bfloat16)
        self.opt = torch.optim.AdamW(self.model.parameters())
    def on_step(self, i):
        x = torch.randint(0, 5000, (self.batch, CFG["seq_len"]))
        loss = self.model(x) / self.accumulation
        loss.backward()
        if i % self.accumulation == 0:
            self.opt.step()
schedule(Run(CFG["batch"], accumulation=2))
"#,
    ),
    ("small.yaml", "batch: 4\nseq_len: 192\n"),
];

#[test]
fn a_file_that_the_command_names_and_an_object_that_the_script_makes() {
    let given = told(WORDS, "python train.py small.yaml", &[]);
    assert_eq!(
        (value(&given, BATCH), value(&given, LENGTH), value(&given, STEPS)),
        (Some("4"), Some("192"), Some("2")),
        "{given:?}"
    );
    assert_eq!(value(&given, PRECISION), Some("bf16"));
}

#[test]
fn what_the_script_cuts_itself_is_no_sample() {
    const CUTS: &[(&str, &str)] = &[(
        "lm.py",
        "import torch\ndata = torch.randint(0, 10000, (35 * 3000, 20))\nfor i in range(0, 9000, 35):\n    x = data[i : i + 35]\n    model(x).backward()\n    opt.step()\n",
    )];
    let given = told(CUTS, "python lm.py", &[]);
    assert_eq!((given.get(BATCH), given.get(LENGTH)), (None, None), "{given:?}");
}

const SWITCH: &[(&str, &str)] = &[(
    "vit.py",
    r#"
import click, timm, torch
@click.command()
@click.option("--ckpt", is_flag=True)
def main(ckpt):
    model = timm.create_model("vit_tiny_patch16_224")
    model.set_grad_checkpointing(ckpt)
    opt = torch.optim.AdamW(model.parameters())
    for step in range(100):
        model(torch.randn(4, 3, 224, 224)).sum().backward()
        opt.step()
main()
"#,
)];

#[test]
fn a_models_own_switch_for_checkpointing_is_none_of_a_file_of_weights() {
    let on = told(SWITCH, "python vit.py --ckpt", &[]);
    assert_eq!(value(&on, CHECKPOINTING), Some("full"), "{on:?}");
    let off = told(SWITCH, "python vit.py", &[]);
    assert_ne!(value(&off, CHECKPOINTING), Some("full"), "{off:?}");
}

/// minGPT's `projects/chargpt` cuts a text of 100 000 characters; torch_geometric's `Data` takes ends of edges; the U-Net of
/// milesial/Pytorch-UNet has a method that nobody calls until memory is exhausted.
#[test]
fn texts_edges_and_masks_are_no_samples_of_tokens() {
    const TEXT: &str = "import torch\nclass Chars(Dataset):\n    def __init__(self, data):\n        self.data = data\n    def __getitem__(self, i):\n        return self.data[i : i + BLOCK]\ntext = torch.randint(0, 65, (100000,))\nfor x in DataLoader(Chars(text), batch_size=8):\n    model(x).backward()\n    opt.step()\n";
    let given = told(vec![("lm.py", TEXT)].leak(), "python lm.py", &[]);
    assert_eq!((value(&given, BATCH), given.get(LENGTH)), (Some("8"), None), "{given:?}");
    // One that each item draws is a sample, whatever a comment says.
    let drawn = TEXT.replace("return self.data[i : i + BLOCK]", "return torch.randint(0, 65, (96,))");
    let drawn = drawn.replace("text = torch.randint(0, 65, (100000,))", "# text = torch.randint(0, 65, (100000,))");
    let given = told(vec![("lm.py", &*drawn.leak())].leak(), "python lm.py", &[]);
    assert_eq!(value(&given, LENGTH), Some("96"), "{given:?}");
    const EDGES: &str = "import torch\ndata = Data(x=torch.rand(2708, 1433), edge_index=torch.randint(0, 2708, (2, 10556)))\nfor epoch in range(200):\n    model(data.x, data.edge_index).backward()\n    opt.step()\n";
    let given = told(vec![("gcn.py", EDGES)].leak(), "python gcn.py", &[]);
    assert_eq!((given.get(BATCH), given.get(LENGTH)), (None, None), "{given:?}");
    let ids = EDGES.replace("edge_index=", "input_ids=");
    let given = told(vec![("ids.py", &*ids.leak())].leak(), "python ids.py", &[]);
    assert_eq!((value(&given, BATCH), value(&given, LENGTH)), (Some("2"), Some("10556")), "{given:?}");
}

#[test]
fn a_function_for_recomputation_that_takes_no_inputs_recomputes_nothing() {
    const UNET: &str = "import torch\nclass UNet(nn.Module):\n    def use_checkpointing(self):\n        self.inc = torch.utils.checkpoint(self.inc)\nfor x in loader:\n    model(x).backward()\n    opt.step()\n";
    let given = told(vec![("unet.py", UNET)].leak(), "python unet.py", &[]);
    assert_ne!(value(&given, CHECKPOINTING), Some("full"), "{given:?}");
    let run = UNET.replace("torch.utils.checkpoint(self.inc)", "torch.utils.checkpoint.checkpoint(self.inc, x)");
    let given = told(vec![("unet.py", &*run.leak())].leak(), "python unet.py", &[]);
    assert_eq!(value(&given, CHECKPOINTING), Some("full"), "{given:?}");
}

/// pytorch-image-models, train.py.
const TIMM: &[(&str, &str)] = &[(
    "train.py",
    r#"
import argparse
import torch
from timm import create_model
from timm.optim import create_optimizer_v2, optimizer_kwargs
parser = argparse.ArgumentParser()
parser.add_argument('--model', default='resnet50')
parser.add_argument('--opt', default='sgd', type=str)
parser.add_argument('--momentum', type=float, default=0.9)
parser.add_argument('-b', '--batch-size', type=int, default=16)
args = parser.parse_args()
model = create_model(args.model)
optimizer = create_optimizer_v2(model, **optimizer_kwargs(cfg=args))
loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size)
for x, y in loader:
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
"#,
)];

#[test]
fn timms_factory_takes_its_optimizer_from_the_arguments() {
    for (words, optimizer) in [
        ("", Some("sgd-momentum by train.py: args.opt")),
        (" --opt adamw", Some("adamw by train.py: args.opt")),
        (" --momentum 0", None),
        (" --opt lamb", None),
    ] {
        let told = told(TIMM, &format!("python train.py{words}"), &[]);
        assert_eq!(told.get(OPTIMIZER).map(String::as_str), optimizer, "{words}");
    }
}
