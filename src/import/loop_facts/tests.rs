//! Scripts as people write them, and what they say. What is expected stands in the script.

mod settings;
mod styles;

use std::collections::BTreeMap;

use crate::catalog::Catalog;
use crate::files::Unread;
use crate::{Files, ProcessView, loop_facts};

struct Folder(&'static [(&'static str, &'static str)]);

impl Files for Folder {
    fn read(&self, path: &str) -> Result<String, Unread> {
        let found = self.0.iter().find(|(name, _)| *name == path.trim_start_matches("./"));
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| Unread("no such file".to_owned()))
    }

    fn absolute(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// Keys with their values, and who says so, of a command over some files with some variables.
fn told(
    files: &'static [(&'static str, &'static str)],
    command: &str,
    variables: &[(&str, &str)],
) -> BTreeMap<String, String> {
    let folder = Folder(files);
    let mut run = ProcessView::of(command.split(' ').map(str::to_owned).collect(), &folder);
    run.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let shown = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows = loop_facts(&run, &Catalog::embedded().unwrap());
    rows.iter().map(|row| (row.key.to_owned(), format!("{} by {}", shown(&row.value), row.origin))).collect()
}

fn value<'t>(told: &'t BTreeMap<String, String>, key: &str) -> Option<&'t str> {
    told.get(key).and_then(|told| told.split(" by ").next())
}

const BATCH: &str = "training.micro_batch_size";
const STEPS: &str = "training.gradient_accumulation_steps";
const LENGTH: &str = "model.sequence_length";
const OPTIMIZER: &str = "training.optimizer";
const PRECISION: &str = "training.precision";
const CHECKPOINTING: &str = "training.activation_checkpointing";

const ARGPARSE: &[(&str, &str)] = &[(
    "train.py",
    r#"
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("-b", "--bs", type=int, default=8)
p.add_argument("--ctx", type=int, default=128)
p.add_argument("--opt", default="adamw")
args = p.parse_args()
model = LM()
opt = torch.optim.AdamW(model.parameters()) if args.opt == "adamw" else torch.optim.SGD(model.parameters(), lr=0.1)
for it in range(100):
    x = torch.randint(0, 8000, (args.bs, args.ctx + 1))
    loss = model(x[:, :-1], x[:, 1:])
    loss.backward()
    opt.step()
"#,
)];

#[test]
fn arguments_of_the_script_and_what_it_draws() {
    let given = told(ARGPARSE, "python train.py --bs 4 --ctx 256 --opt sgd", &[]);
    let expected =
        [(BATCH, "4"), (LENGTH, "256"), (OPTIMIZER, "sgd"), (STEPS, "1"), (PRECISION, "fp32"), (CHECKPOINTING, "none")];
    for (key, runs) in expected {
        assert_eq!(value(&given, key), Some(runs), "{key}: {given:?}");
    }
    assert!(given[BATCH].contains("--bs") && given[LENGTH].contains("--ctx"), "{given:?}");
    let defaults = told(ARGPARSE, "python train.py", &[]);
    assert_eq!(
        (value(&defaults, BATCH), value(&defaults, LENGTH), value(&defaults, OPTIMIZER)),
        (Some("8"), Some("128"), Some("adamw"))
    );
    // Its short name is the same option's.
    assert_eq!(value(&told(ARGPARSE, "python train.py -b 32", &[]), BATCH), Some("32"));
}

const LOADER: &[(&str, &str)] = &[(
    "train.py",
    r#"
from dataclasses import dataclass
import os, torch
@dataclass
class Config:
    block_size: int = 256
    batch_size: int = int(os.environ.get("BATCH", 4))
cfg = Config()
loader = torch.utils.data.DataLoader(Tokens(data, cfg.block_size), batch_size=cfg.batch_size)
valid = torch.utils.data.DataLoader(valid_data, batch_size=64)
optimizer = torch.optim.AdamW(model.parameters())
for i, (x, y) in enumerate(loader):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x, y) / 4
    loss.backward()
    if (i + 1) % ACCUM == 0:
        optimizer.step()
"#,
)];

#[test]
fn a_loader_and_an_object_of_settings() {
    let given = told(LOADER, "python train.py", &[("BATCH", "16")]);
    assert_eq!(
        (value(&given, BATCH), value(&given, LENGTH), value(&given, PRECISION)),
        (Some("16"), Some("256"), Some("bf16-mixed")),
        "{given:?}"
    );
    // It accumulates, by a number that is not followed.
    assert_eq!(given.get(STEPS), None);
}

const CAST: &[(&str, &str)] = &[(
    "train.py",
    r#"
import os, torch
MICRO, SEQ = 4, int(os.environ.get("SEQ_LEN", 256))
model = LlamaForCausalLM(config)
if os.environ.get("DTYPE") == "bf16":
    model = model.to(torch.bfloat16)
for step in range(100):
    ids = torch.randint(0, 8000, (MICRO, SEQ))
    model(ids).loss.backward()
"#,
)];

#[test]
fn the_environment_decides_what_the_model_is_cast_to() {
    let given = told(CAST, "python train.py", &[("DTYPE", "bf16"), ("SEQ_LEN", "512")]);
    assert_eq!(
        (value(&given, PRECISION), value(&given, BATCH), value(&given, LENGTH)),
        (Some("bf16"), Some("4"), Some("512")),
        "{given:?}"
    );
    // Of a variable that is not seen nobody knows.
    assert_eq!(value(&told(CAST, "python train.py", &[]), PRECISION), None);
}

const FLAGS: &[(&str, &str)] = &[(
    "train.py",
    r#"
import argparse, torch
from torch.utils.checkpoint import checkpoint
p = argparse.ArgumentParser()
p.add_argument("--grad-checkpoint", action="store_true")
p.add_argument("--bf16", action="store_true")
p.add_argument("--accum", type=int, default=1)
a = p.parse_args()
class LM(torch.nn.Module):
    def forward(self, x):
        for l in self.layers:
            x = checkpoint(l, x, use_reentrant=False) if a.grad_checkpoint else l(x)
        return x
model = LM()
if a.bf16:
    model = model.bfloat16()
opt = torch.optim.AdamW(model.parameters())
for k in range(a.accum):
    loss = model(torch.randint(0, 8000, (8, 128))).float().sum()
    loss.backward()
opt.step()
"#,
)];

#[test]
fn switches_decide_branches() {
    let on = told(FLAGS, "python train.py --grad-checkpoint --bf16 --accum 4", &[]);
    assert_eq!(
        (value(&on, CHECKPOINTING), value(&on, PRECISION), value(&on, STEPS)),
        (Some("full"), Some("bf16"), Some("4")),
        "{on:?}"
    );
    let off = told(FLAGS, "python train.py", &[]);
    assert_ne!(value(&off, CHECKPOINTING), Some("full"), "{off:?}");
    assert_eq!((value(&off, PRECISION), value(&off, STEPS)), (Some("fp32"), Some("1")), "{off:?}");
}

const MODULES: &[(&str, &str)] = &[
    (
        "proj/train.py",
        "import torch\nfrom . import config as C\nfor step in range(C.STEPS):\n    ids = torch.randint(0, 9, (C.BATCH_SIZE, C.SEQ_LEN))\n    model(ids).backward()\n",
    ),
    ("proj/config.py", "BATCH_SIZE = 8\nSEQ_LEN = 128\nSTEPS = 3\n"),
];

#[test]
fn a_module_of_its_project_has_the_numbers() {
    let given = told(MODULES, "python -m proj.train", &[]);
    assert_eq!((value(&given, BATCH), value(&given, LENGTH)), (Some("8"), Some("128")), "{given:?}");
}

const DOUBTFUL: &[(&str, &str)] = &[
    // It cuts its batch into micro batches, by a number of its own.
    (
        "cuts.py",
        "import torch\nbatch_size = 64\nloader = DataLoader(data, batch_size=batch_size)\nfor x in loader:\n    for part in x.split(micro):\n        model(part).backward()\n",
    ),
    // What one of several ranks takes is not known.
    (
        "shared.py",
        "import torch\nbatch_size = 64\nfor x in batches(batch_size // world_size):\n    model(x).backward()\n",
    ),
    // Two shapes: one may be an evaluation's.
    (
        "two.py",
        "import torch\nfor i in range(9):\n    x = torch.randint(0, 9, (8, 128))\n    model(x).backward()\n    v = torch.randint(0, 9, (4, 64))\n    model(v)\n",
    ),
    // An optimizer that no plan knows, beside one that it does.
    (
        "muon.py",
        "import torch\nopt = [Muon(hidden), torch.optim.AdamW(rest)]\nfor x in loader:\n    model(x).backward()\n",
    ),
    // Only its inputs are cast.
    ("inputs.py", "import torch\nfor x in loader:\n    model(x.to(torch.bfloat16)).backward()\n"),
    // Two loaders, and the data that they load.
    (
        "loaders.py",
        "import torch\ndata = torch.randint(0, 9, (20000, 128))\none = DataLoader(data, batch_size=4)\ntwo = DataLoader(data, batch_size=8)\nfor x in zip(one, two):\n    model(x).backward()\n",
    ),
    // It trains nothing.
    ("serve.py", "import torch\nbatch_size = 8\nfor x in requests(batch_size):\n    model(x)\n"),
];

const DRAWN: &[(&str, &str)] = &[(
    "train.py",
    r#"
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--per_device_train_batch_size", type=int, default=8)
args = p.parse_args()
data = torch.randint(0, 8000, (20000, 128))
loader = torch.utils.data.DataLoader(data, batch_size=args.per_device_train_batch_size)
for x in loader:
    model(x).backward()
"#,
)];

const HIDDEN: &[(&str, &str)] = &[
    (
        "hidden.py",
        "import torch\nfrom mylib import build_model\nmodel = build_model()\nfor x in DataLoader(data, batch_size=4):\n    model(x).backward()\n    optimizer.step()\n",
    ),
    (
        "own.py",
        "import torch, time\nfrom parts import build_model\nmodel = build_model()\nfor x in DataLoader(data, batch_size=4):\n    model(x).backward()\n    optimizer.step()\n",
    ),
    ("parts.py", "import torch\ndef build_model():\n    return torch.nn.Linear(8, 8)\n"),
];

#[test]
fn what_a_text_does_not_have_a_library_may_do() {
    let hidden = told(HIDDEN, "python hidden.py", &[]);
    assert_eq!(
        (value(&hidden, BATCH), hidden.get(CHECKPOINTING), hidden.get(PRECISION), hidden.get(STEPS)),
        (Some("4"), None, None, None)
    );
    let own = told(HIDDEN, "python own.py", &[]);
    assert_eq!(
        (value(&own, CHECKPOINTING), value(&own, PRECISION), value(&own, STEPS)),
        (Some("none"), Some("fp32"), Some("1")),
        "{own:?}"
    );
}

#[test]
fn a_data_set_that_is_drawn_is_no_batch() {
    let given = told(DRAWN, "python train.py --per_device_train_batch_size 2", &[]);
    assert_eq!((value(&given, BATCH), value(&given, LENGTH)), (Some("2"), Some("128")), "{given:?}");
}

#[test]
fn what_may_be_otherwise_is_not_said() {
    let key = |script: &str, key: &str| told(DOUBTFUL, &format!("python {script}"), &[]).get(key).cloned();
    for script in ["cuts.py", "shared.py", "two.py", "loaders.py"] {
        assert_eq!(key(script, BATCH), None, "{script}");
    }
    assert_eq!(key("two.py", LENGTH), None);
    assert_eq!(key("muon.py", OPTIMIZER), None);
    assert_eq!(key("inputs.py", PRECISION), None);
    assert!(told(DOUBTFUL, "python serve.py", &[]).is_empty());
    assert!(told(DOUBTFUL, "bash -c true", &[]).is_empty());
}

/// Healthy scripts of which a careless reading says something else than they do; what each must not be told of.
const MISREAD: &[(&str, &str, &[&str])] = &[
    // Gradients of several passes are applied, under names of the script's own.
    (
        "every.py",
        "import torch\nevery = 4\nfor i, x in enumerate(DataLoader(data, batch_size=4)):\n    (model(x) / every).backward()\n    if i % every == 0:\n        opt.step()\n",
        &[STEPS],
    ),
    (
        "skips.py",
        "import torch\nfor i, x in enumerate(DataLoader(data, batch_size=4)):\n    model(x).backward()\n    if i % N:\n        continue\n    opt.step()\n",
        &[STEPS],
    ),
    (
        "halves.py",
        "import torch\nfor x in DataLoader(data, batch_size=32):\n    x1, x2 = x.chunk(2)\n    for part in (x1, x2):\n        model(part).backward()\n    opt.step()\n",
        &[STEPS, BATCH],
    ),
    // The only loader is of what nothing is learnt from.
    (
        "holds_out.py",
        "import torch\nval_loader = DataLoader(data, batch_size=32)\nfor i in range(0, 100, 4):\n    model(x[i : i + 4]).backward()\n    opt.step()\n",
        &[BATCH],
    ),
    (
        "checks.py",
        "import torch\ndef validate():\n    for x in DataLoader(data, batch_size=32):\n        model(x)\nfor i in range(0, 100, 4):\n    model(x[i : i + 4]).backward()\n    opt.step()\nvalidate()\n",
        &[BATCH],
    ),
    // Two ways to train, of which one runs.
    (
        "phases.py",
        "import sys, torch\ndef pretrain():\n    for x in DataLoader(data, batch_size=32):\n        model(x).backward(); opt.step()\ndef finetune():\n    for i in range(9):\n        model(y).backward(); opt.step()\nif '--pre' in sys.argv:\n    pretrain()\nelse:\n    finetune()\n",
        &[BATCH],
    ),
    // Types that a checkpoint, accelerate's environment or a call decides.
    (
        "loads.py",
        "import torch\nfrom transformers import AutoModel\nmodel = AutoModel.from_pretrained(path)\nfor x in DataLoader(d, batch_size=4):\n    model(x).backward()\n    opt.step()\n",
        &[PRECISION],
    ),
    (
        "prepares.py",
        "import torch\nfrom accelerate import Accelerator\na = Accelerator()\nfor x in DataLoader(d, batch_size=4):\n    model(x).backward()\n    opt.step()\n",
        &[PRECISION, CHECKPOINTING],
    ),
    (
        "doubles.py",
        "import torch\nmodel.double()\nfor x in DataLoader(d, batch_size=4):\n    model(x).backward()\n    opt.step()\n",
        &[PRECISION],
    ),
    // One process feeds several devices.
    (
        "shares.py",
        "import torch\nmodel = torch.nn.DataParallel(model)\nfor x in DataLoader(d, batch_size=64):\n    model(x).backward()\n    opt.step()\n",
        &[BATCH],
    ),
    // A prompt is no sample, and text that is made no training's length.
    (
        "prompts.py",
        "import torch\nprompt = torch.randint(0, 50, (1, 16))\nmax_length = 256\nfor i in range(9):\n    model(x[i]).backward()\n    opt.step()\nmodel.generate(prompt, max_length=max_length)\n",
        &[BATCH, LENGTH],
    ),
    (
        "clamps.py",
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--max_length', type=int, default=128)\nargs = p.parse_args()\nargs.max_length = min(args.max_length, 64)\nfor i in range(9):\n    model(x[: args.max_length]).backward()\n    opt.step()\n",
        &[LENGTH],
    ),
    // A number that only a line of the log says.
    (
        "prints.py",
        "import torch\ngrad_accum = 8\nprint(grad_accum)\nfor x in DataLoader(d, batch_size=4):\n    model(x).backward()\n    opt.step()\n",
        &[STEPS],
    ),
    (
        "picks.py",
        "import torch\nopts = {'sgd': torch.optim.SGD, 'adamw': torch.optim.AdamW}\nt = torch.optim.AdamW([temperature])\nopt = opts['sgd'](model.parameters())\nfor x in DataLoader(d, batch_size=8 if torch.cuda.is_available() else 2):\n    model(x).backward()\n    opt.step()\n",
        &[BATCH, OPTIMIZER],
    ),
];

#[test]
fn what_a_script_does_otherwise_is_not_told() {
    for (name, text, keys) in MISREAD {
        let said = told(vec![(*name, *text)].leak(), &format!("python {name}"), &[]);
        for key in *keys {
            assert_eq!(said.get(*key), None, "{name}: {said:?}");
        }
    }
    // Who is asked to do something else trains nothing.
    let (name, text, _) = MISREAD[0];
    assert!(told(vec![(name, text)].leak(), &format!("python {name} --eval"), &[]).is_empty());
}
