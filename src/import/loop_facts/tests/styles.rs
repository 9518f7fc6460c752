//! Scripts in the styles of public examples, cut down to what decides.

use super::*;

/// What scripts say of `keys`, each with the style's source.
fn expect(
    files: &'static [(&'static str, &'static str)],
    command: &str,
    variables: &[(&str, &str)],
    expected: &[(&str, Option<&str>)],
) {
    let told = told(files, command, variables);
    for (key, runs) in expected {
        assert_eq!(value(&told, key), *runs, "{key}: {told:?}");
    }
}

/// CUDA sees no device then.
const HIDDEN: &[(&str, &str)] = &[("CUDA_VISIBLE_DEVICES", "")];

/// espnet/espnet, espnet2/tasks/abs_task.py (`optim_classes`) and espnet2/train/trainer.py (`accum_grad`).
const ESPNET: &[(&str, &str)] = &[(
    "train.py",
    r#"
import argparse, torch
optim_classes = dict(adam=torch.optim.Adam, sgd=torch.optim.SGD, adadelta=torch.optim.Adadelta, rmsprop=torch.optim.RMSprop)
def train_one_epoch(model, iterator, optimizers, options):
    accum_grad = options.accum_grad
    for iiter, batch in enumerate(iterator, 1):
        loss = model(batch) / accum_grad
        loss.backward()
        if iiter % accum_grad == 0:
            for optimizer in optimizers:
                optimizer.step()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accum_grad", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=20)
    parser.add_argument("--optim", default="adadelta", choices=list(optim_classes))
    args = parser.parse_args()
    optim_class = optim_classes.get(args.optim)
    optimizers = [optim_class(model.parameters(), lr=0.1)]
    train_one_epoch(model, torch.utils.data.DataLoader(data, batch_size=args.batch_size), optimizers, args)
main()
"#,
)];

#[test]
fn an_optimizer_is_looked_up_by_its_name() {
    let given = "python train.py --optim adam --accum_grad 2 --batch_size 16";
    expect(ESPNET, given, &[], &[(OPTIMIZER, Some("adamw")), (STEPS, Some("2")), (BATCH, Some("16"))]);
    // A class for which no plan has a word goes by its own.
    expect(ESPNET, "python train.py", &[], &[(OPTIMIZER, Some("adadelta")), (STEPS, Some("1"))]);
    expect(ESPNET, "python train.py --optim rmsprop", &[], &[(OPTIMIZER, Some("rmsprop"))]);
    // One that it does not have is none of them.
    expect(ESPNET, "python train.py --optim lamb", &[], &[(OPTIMIZER, None)]);
}

/// facebookresearch/mae, main_pretrain.py, engine_pretrain.py and util/misc.py (`SmoothedValue`): its autocast is CUDA's.
const MAE: &[(&str, &str)] = &[(
    "main_pretrain.py",
    r#"
import argparse, torch
class SmoothedValue(object):
    def __init__(self, window_size=20):
        self.deque = window_size
def get_args_parser():
    parser = argparse.ArgumentParser("MAE pre-training", add_help=False)
    parser.add_argument("--batch_size", default=64, type=int)
    parser.add_argument("--accum_iter", default=1, type=int)
    return parser
def train_one_epoch(model, data_loader, optimizer, args):
    lr = SmoothedValue(window_size=1)
    accum_iter = args.accum_iter
    for data_iter_step, samples in enumerate(data_loader):
        with torch.amp.autocast("cuda", enabled=torch.cuda.is_available()):
            loss = model(samples)
        loss /= accum_iter
        scaler.scale(loss).backward()
        if (data_iter_step + 1) % accum_iter == 0:
            scaler.step(optimizer)
scaler = torch.amp.GradScaler("cuda", enabled=torch.cuda.is_available())
args = get_args_parser().parse_args()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
train_one_epoch(model, torch.utils.data.DataLoader(data, batch_size=args.batch_size), optimizer, args)
"#,
)];

#[test]
fn an_autocast_of_cuda_does_nothing_where_no_gpu_is_seen() {
    let command = "python main_pretrain.py --batch_size 12 --accum_iter 4";
    let both = [(BATCH, Some("12")), (STEPS, Some("4")), (LENGTH, None)];
    expect(MAE, command, HIDDEN, &both);
    expect(MAE, command, HIDDEN, &[(PRECISION, Some("fp32"))]);
    expect(MAE, command, &[], &[(PRECISION, Some("fp16-mixed"))]);
}

/// ultralytics/yolov5, train.py: `nbs`, `accumulate`, `pbar`, and CUDA by the kind of device.
const YOLO: &[(&str, &str)] = &[(
    "train.py",
    r#"
import argparse, torch
from torch.optim import SGD
from tqdm import tqdm
def create_dataloader(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)
def train(opt, device):
    batch_size = opt.batch_size
    amp = device.type != "cpu"
    nbs = 64
    accumulate = max(round(nbs / batch_size), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.937, nesterov=True)
    train_loader = create_dataloader(dataset, batch_size)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    pbar = tqdm(enumerate(train_loader), total=len(train_loader))
    for i, (imgs, targets) in pbar:
        with torch.amp.autocast("cuda", enabled=amp):
            loss = compute_loss(model(imgs), targets)
        scaler.scale(loss).backward()
        if i - last_opt_step >= accumulate:
            scaler.step(optimizer)
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
train(parser.parse_args(), torch.device("cpu"))
"#,
)];

#[test]
fn yolo_accumulates_up_to_its_nominal_batch() {
    let all = [(BATCH, Some("32")), (STEPS, Some("2")), (OPTIMIZER, Some("sgd-momentum")), (PRECISION, Some("fp32"))];
    expect(YOLO, "python train.py --batch-size 32", &[], &all);
}

/// karpathy/llama2.c, train.py and configurator.py.
const LLAMA2: &[(&str, &str)] = &[
    (
        "train.py",
        r#"
import torch
batch_size = 128  # if gradient_accumulation_steps > 1, this is the micro-batch size
n_layers = 6
dim = 288
gradient_accumulation_steps = 4
dtype = "bfloat16"
device = "cuda"
exec(open("configurator.py").read())
tokens_per_iter = gradient_accumulation_steps * batch_size
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
ctx = torch.amp.autocast(device_type=device_type, dtype=ptdtype)
embedding = torch.nn.Embedding(32000, dim)
model = Transformer(dim=dim, n_layers=n_layers)
for micro_step in range(gradient_accumulation_steps):
    with ctx:
        loss = model(X, Y) / gradient_accumulation_steps
    loss.backward()
lossf = loss.item() * gradient_accumulation_steps
"#,
    ),
    ("small.py", "dim = 192\nn_layers = 4\n"),
];

const LAYERS: &str = "model.architecture.num_layers";
const WIDTH: &str = "model.architecture.hidden_size";

#[test]
fn a_configurator_puts_values_over_names() {
    let own = [(LAYERS, Some("6")), (WIDTH, Some("288")), (STEPS, Some("4")), (PRECISION, Some("bf16-mixed"))];
    expect(LLAMA2, "python train.py", &[], &own);
    let given = "python train.py small.py --gradient_accumulation_steps=2 --dtype=float32 --device=cpu";
    let over = [(LAYERS, Some("4")), (WIDTH, Some("192")), (STEPS, Some("2")), (PRECISION, Some("fp32"))];
    expect(LLAMA2, given, HIDDEN, &over);
}

/// victoresque/pytorch-template, train.py, parse_config.py and base/base_trainer.py.
const TEMPLATE: &[(&str, &str)] = &[
    (
        "train.py",
        "import argparse, json, torch\nfrom trainer.trainer import Trainer\ndef main(config):\n    loader = config.init_obj('data_loader', module_data)\n    optimizer = config.init_obj('optimizer', torch.optim, params)\n    Trainer(model, optimizer, config).train()\nif __name__ == '__main__':\n    args = argparse.ArgumentParser()\n    args.add_argument('-c', '--config', default=None, type=str)\n    args = args.parse_args()\n    main(ConfigParser(json.load(open(args.config))))\n",
    ),
    (
        "trainer/trainer.py",
        "from base.base_trainer import BaseTrainer\nclass Trainer(BaseTrainer):\n    def __init__(self, config, data_loader):\n        self.log_step = int(np.sqrt(data_loader.batch_size))\n    def _train_epoch(self, epoch):\n        for data, target in self.data_loader:\n            self.criterion(self.model(data), target).backward()\n            self.optimizer.step()\n",
    ),
    ("trainer/__init__.py", ""),
    ("base/__init__.py", ""),
    ("base/base_trainer.py", "class BaseTrainer:\n    def train(self):\n        self._train_epoch(1)\n"),
    (
        "config.json",
        "{\"optimizer\": {\"type\": \"SGD\", \"args\": {\"lr\": 0.1, \"momentum\": 0.9}}, \"data_loader\": {\"args\": {\"batch_size\": 128}}}",
    ),
];

#[test]
fn a_trainer_on_a_base_of_the_project_is_its_own() {
    let all = [(OPTIMIZER, Some("sgd-momentum")), (BATCH, Some("128")), (STEPS, Some("1")), (PRECISION, Some("fp32"))];
    expect(TEMPLATE, "python train.py -c config.json", &[], &all);
}

/// Lightning-AI/pytorch-lightning, pytorch/cli.py: a script of one call, whose file has the rest.
const CLIENT: &[(&str, &str)] = &[
    (
        "main.py",
        "import torch\nfrom lightning.pytorch.cli import LightningCLI\nclass Data(LightningDataModule):\n    def __init__(self, batch_size: int = 64):\n        self.batch_size = batch_size\n    def train_dataloader(self):\n        return torch.utils.data.DataLoader(data, batch_size=self.batch_size)\nclass Task(LightningModule):\n    def configure_optimizers(self):\n        return torch.optim.AdamW(self.parameters())\nLightningCLI(Task, Data)\n",
    ),
    (
        "config.yaml",
        "trainer:\n  precision: bf16-mixed\n  accumulate_grad_batches: 2\ndata:\n  batch_size: 12\nmodel:\n  lr: 0.1\n",
    ),
];

#[test]
fn the_file_of_lightnings_client_tells_its_trainer() {
    let file = "python main.py fit --config config.yaml";
    let all = [(BATCH, Some("12")), (STEPS, Some("2")), (PRECISION, Some("bf16-mixed")), (OPTIMIZER, Some("adamw"))];
    expect(CLIENT, file, &[], &all);
    let over = "python main.py fit --config config.yaml --trainer.accumulate_grad_batches=4 --data.batch_size=6";
    expect(CLIENT, over, &[], &[(BATCH, Some("6")), (STEPS, Some("4"))]);
    expect(CLIENT, "python main.py validate --config config.yaml", &[], &[(STEPS, None), (PRECISION, None)]);
}

/// pytorch/examples, dcgan/main.py: several backward passes on each batch of one loader.
const DCGAN: &[(&str, &str)] = &[(
    "main.py",
    "import torch\nimport torch.optim as optim\ndataloader = torch.utils.data.DataLoader(dataset, batch_size=16)\noptimizerD = optim.Adam(netD.parameters())\noptimizerG = optim.Adam(netG.parameters())\nfor i, data in enumerate(dataloader, 0):\n    label = torch.full((16,), 1, dtype=data.dtype)\n    errD_real.backward()\n    errD_fake.backward()\n    optimizerD.step()\n    errG.backward()\n    optimizerG.step()\n",
)];

#[test]
fn several_passes_on_a_batch_leave_it_whole() {
    expect(DCGAN, "python main.py", &[], &[(BATCH, Some("16")), (PRECISION, Some("fp32")), (STEPS, None)]);
}

/// mlfoundations/open_clip, src/open_clip_train: main.py, train.py and precision.py.
const CLIP: &[(&str, &str)] = &[(
    "main.py",
    "import argparse, torch\nfrom functools import partial\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=64)\np.add_argument('--precision', default='amp')\np.add_argument('--grad-checkpointing', default=False, action='store_true')\nargs = p.parse_args()\ndef get_autocast(precision):\n    if precision == 'amp_bf16':\n        return partial(torch.amp.autocast, device_type='cuda', dtype=torch.bfloat16)\n    return suppress\nmodel = CLIP()\nif args.grad_checkpointing:\n    model.set_grad_checkpointing()\nautocast = get_autocast(args.precision)\nfor x in torch.utils.data.DataLoader(data, batch_size=args.batch_size):\n    with autocast():\n        loss = model(x)\n    loss.backward()\n    opt.step()\n",
)];

#[test]
fn clip_names_its_precision() {
    let on = "python main.py --precision amp_bf16 --grad-checkpointing --batch-size 6";
    expect(CLIP, on, &[], &[(PRECISION, Some("bf16-mixed")), (CHECKPOINTING, Some("full")), (BATCH, Some("6"))]);
    expect(CLIP, "python main.py --precision fp32", &[], &[(PRECISION, Some("fp32")), (CHECKPOINTING, None)]);
    // Where its model is cast norms stay as they are.
    expect(CLIP, "python main.py --precision bf16", &[], &[(PRECISION, None)]);
}

/// pytorch/examples, imagenet/main.py.
const IMAGENET: &[(&str, &str)] = &[(
    "main.py",
    "import argparse, torch\nimport torchvision.models as models\np = argparse.ArgumentParser()\np.add_argument('-a', '--arch', default='resnet18')\np.add_argument('--classes', default=0, type=int)\nargs = p.parse_args()\nif args.pretrained:\n    model = models.__dict__[args.arch](pretrained=True)\nelse:\n    model = models.__dict__[args.arch]()\nfor x in torch.utils.data.DataLoader(data, batch_size=8):\n    model(x).backward()\n    opt.step()\n",
)];

/// The same with a head of the script's own.
const HEADED: &[(&str, &str)] = &[(
    "main.py",
    "import torch\nfrom torchvision import models\nmodel = models.resnet18(weights=None)\nmodel.fc = torch.nn.Linear(512, 10)\nfor x in torch.utils.data.DataLoader(data, batch_size=8):\n    model(x).backward()\n    opt.step()\n",
)];

#[test]
fn models_of_torchvision_go_by_their_names() {
    const MODEL: &str = "model.preset";
    expect(IMAGENET, "python main.py", &[], &[(MODEL, Some("resnet18"))]);
    expect(IMAGENET, "python main.py -a resnet50", &[], &[(MODEL, Some("resnet50"))]);
    expect(IMAGENET, "python main.py -a own", &[], &[(MODEL, None)]);
    expect(HEADED, "python main.py", &[], &[(MODEL, None)]);
    // torchvision/models/resnet.py: `num_params` of its weights.
    assert_eq!(crate::torchvision_parameters("resnet18"), Some(11_689_512));
    assert_eq!(crate::torchvision_parameters("resnet"), None);
}

/// UKPLab/sentence-transformers, examples/training/nli/training_nli_v2.py.
const SENTENCES: &[(&str, &str)] = &[(
    "train.py",
    "from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments\ntrain_batch_size = 8\nargs = SentenceTransformerTrainingArguments(\n    output_dir='out',\n    per_device_train_batch_size=train_batch_size,\n    gradient_accumulation_steps=2,\n    bf16=True,\n)\ntrainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data)\ntrainer.train()\n",
)];

#[test]
fn arguments_of_sentence_transformers_are_those_of_transformers() {
    expect(
        SENTENCES,
        "python train.py",
        &[],
        &[(BATCH, Some("8")), (STEPS, Some("2")), (PRECISION, Some("bf16-mixed")), (CHECKPOINTING, None)],
    );
}

/// Healthy scripts of which a careless reading says something else than they do; what each must not be told of.
const CARELESS: &[(&str, &str, &[&str])] = &[
    // What a class is handed that nothing was seen to make with a file's settings.
    (
        "inherits.py",
        "import sys, yaml, torch\nclass Brain:\n    def __init__(self, hparams, run_opts=None):\n        self.precision = hparams.get('precision', 'fp32')\n    def fit(self):\n        for x in torch.utils.data.DataLoader(d, batch_size=8):\n            with torch.autocast('cpu', dtype=torch.bfloat16, enabled=self.precision == 'bf16'):\n                loss = model(x)\n            loss.backward()\n            opt.step()\nclass Own(Brain):\n    def compute(self):\n        pass\nOwn(hparams=yaml.safe_load(open(sys.argv[1]))).fit()\n",
        &[PRECISION],
    ),
    // The class is handed on, and on all the same.
    (
        "hands.py",
        "import torch\ncast = torch.autocast if half else suppress\nfor x in torch.utils.data.DataLoader(d, batch_size=8):\n    with cast('cuda'):\n        loss = model(x)\n    loss.backward()\n    opt.step()\n",
        &[PRECISION],
    ),
    // Weights in 16 bits by a keyword.
    (
        "makes.py",
        "import torch\nmodel = LM(dtype=torch.bfloat16)\nfor x in torch.utils.data.DataLoader(d, batch_size=8):\n    model(x).backward()\n    opt.step()\n",
        &[PRECISION],
    ),
    // Fewer passes than the number says, as ranks share them (nanoGPT, train.py).
    (
        "divides.py",
        "import torch\naccum_steps = 40\naccum_steps //= world\nfor k in range(accum_steps):\n    model(x).backward()\nopt.step()\n",
        &[STEPS],
    ),
    // Layers of two stacks, and of a model that is loaded.
    (
        "stacks.py",
        "import torch\nn_layers, d_model = 6, 512\nembedding = torch.nn.Embedding(9, d_model)\nmodel = Net(encoder_layers=n_layers, decoder_layers=n_layers, d_model=d_model)\nfor i in range(9):\n    model(x).backward()\n    opt.step()\n",
        &[LAYERS, WIDTH],
    ),
    // Two ways to train, each with its passes.
    (
        "ways.py",
        "import torch\ndef pretrain():\n    for x in torch.utils.data.DataLoader(data, batch_size=32):\n        model(x).backward()\n        opt.step()\ndef finetune():\n    for i in range(9):\n        model(y).backward()\n        opt.step()\nfinetune() if done else pretrain()\n",
        &[BATCH],
    ),
];

#[test]
fn what_is_not_followed_is_not_told() {
    for (name, text, keys) in CARELESS {
        let said = told(vec![(*name, *text)].leak(), &format!("python {name}"), &[]);
        for key in *keys {
            assert_eq!(said.get(*key), None, "{name}: {said:?}");
        }
    }
}
