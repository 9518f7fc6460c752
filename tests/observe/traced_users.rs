//! What scripts of public repositories do before and in their first step, in the fewest lines that do it.

use crate::traced_scripts::hold;

/// What a script does, whether it is traced, and what is said of it. The model of the preamble has 16 x 64 + 64 and
/// 64 x 16 + 16 parameters.
const SCRIPTS: [(&str, bool, &[&str]); 22] = [
    // A part of each row from where nobody knows, up to so many behind that (VITS, commons.py, `slice_segments`).
    (
        "
begin = (torch.rand(8).to(x.device) * 9).to(torch.long)
part = torch.zeros(8, 8, device='cuda')
for row in range(8):
    at = begin[row]
    until = at + 8
    part[row] = x[row, at:until]
model(torch.cat([part, part], 1)).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // A batch in a dictionary, as collators hand one over.
    (
        "
class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = model
    def forward(self, batch):
        return self.net(batch['x'])
Named()({'x': x}).mean().backward()
",
        true,
        &["Named, 2,128 parameters", "traced with B 8 alone"],
    ),
    // A list of images of sizes of their own, as torchvision's detectors read it.
    (
        "
class Each(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = model
    def forward(self, images):
        return sum(self.net(image).mean() for image in images)
Each()([torch.zeros(3, rows, 16, device='cuda') for rows in (4, 6, 8, 10, 12)]).backward()
",
        true,
        &["Each, 2,128 parameters", "traced with B 5 alone"],
    ),
    // A side is drawn of several (torchvision/models/detection/transform.py, `torch_choice`): chance gives no number beyond its range.
    (
        "
sides = (64, 96, 128)
side = sides[int(torch.empty(1).uniform_(0.0, float(len(sides))).item())]
if side not in sides or not 0 <= torch.rand(1, device='cuda').item() < 1:
    raise SystemExit('none')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Samplers mark places in masks and look them up (torchvision/models/detection/_utils.py, `BalancedPositiveNegativeSampler`).
    (
        "
positive = torch.zeros(10000, dtype=torch.uint8, device='cuda')
negative = torch.zeros_like(positive)
positive[torch.randperm(5000, device='cuda')[:8]] = 1
negative[torch.randperm(5000, device='cuda')[:24] + 5000] = 1
if len(torch.where(positive | negative)[0]) != 32 or len(torch.where(torch.cat([positive, positive]))[0]) != 16:
    raise SystemExit('none')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // tensorboard names its log in bytes (tensorboard/compat/tensorflow_stub/io/gfile.py, `LocalFileSystem`).
    (
        "
import os
os.makedirs('runs')
with open(os.fsencode('runs/events'), 'wb') as log:
    log.write(b'x')
assert os.listdir(b'runs') == [b'events'] and os.path.exists('runs/events')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // matplotlib asks for the fonts there are (matplotlib/font_manager.py, `_get_fontconfig_fonts`).
    (
        "
import subprocess
try:
    subprocess.check_output(['fc-list', '--format=%{file}'])
except FileNotFoundError:
    pass
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Lightning asks how long its data are, in a tensor, where it evaluates.
    (
        "
with torch.inference_mode():
    if torch.tensor(5, device='cuda').sum() == 0 or torch.randn_like(x).sum() == 5:
        raise SystemExit('none')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // A measure moves what it keeps with itself (torchmetrics/metric.py, `_apply`); tied weights stay tied: a matrix of
    // 16 x 16 and two biases of 16.
    (
        "
class Measure(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = torch.zeros(1)
    def _apply(self, fn, *rest):
        super()._apply(fn, *rest)
        self.total = fn(self.total)
        return self
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.measure, self.first, self.second = Measure(), nn.Linear(16, 16), nn.Linear(16, 16)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.second(self.first(x))
net = Net().cuda()
loss = net(x).mean()
net.measure.total += loss.detach()
loss.backward()
",
        true,
        &["Net, 288 parameters"],
    ),
    // Weights of a library's own address, as they are or by a name in them.
    (
        "
weights = torch.hub.load_state_dict_from_url('https://example.org/net-0a1b2c3d.pth')
model.load_state_dict(weights)
model.load_state_dict(weights['model'], strict=False)
model(x).mean().backward()
",
        true,
        &["2,128 parameters", "the weights net-0a1b2c3d.pth are not here: the model is traced as it is built"],
    ),
    // A data set whose form its library knows: 60,000 images of ten digits (torchvision's page of MNIST).
    (
        "
import importlib.util
if importlib.util.find_spec('torchvision'):
    from torchvision import datasets, transforms
    digits = datasets.MNIST('there/is/none', download=True, transform=transforms.ToTensor())
    assert len(digits) == 60000 and sorted({int(label) for label in digits.targets}) == list(range(10))
    assert next(iter(torch.utils.data.DataLoader(digits, batch_size=8)))[0].shape == (8, 1, 28, 28)
    assert len(datasets.CIFAR100('there/is/none', train=False, download=True).class_to_idx) == 100
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Scores of 16 classes choose at most as many, whoever asks.
    (
        "
scores = model(torch.zeros(50, 16, device='cuda'))
for chosen in (scores.argmax(-1), scores.max(1)[1].view(-1), scores.topk(1)[1]):
    assert torch.unique(chosen).numel() == 16
scores.mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // A layer that the loss leaves out: 16 x 8 + 8 of 16 x 4 + 4 more.
    (
        "
net = nn.ModuleDict({'used': nn.Linear(16, 8), 'other': nn.Linear(16, 4)}).cuda()
net['used'](x).mean().backward()
",
        true,
        &["ModuleDict, 204 parameters", "reaches 136 of the 204 parameters of ModuleDict that require gradients"],
    ),
    // A summary's or a print's own pass, of which no loss comes: neither its sizes nor its work are a step's.
    (
        "
print(model(torch.zeros(1000, 16, device='cuda')).shape)
model(x).mean().backward()
",
        true,
        &["traced with B 8 alone", "a pass of Sequential of which no loss comes is left out"],
    ),
    (
        "
y = model(torch.zeros(1000, 16, device='cuda'))
model(x).mean().backward()
",
        false,
        &["Sequential is called with other sizes before its first step", "put it under torch.no_grad()"],
    ),
    // A loss on the host, and what is trained there, meet gradients of the GPU: PyTorch 2.7 adds them on the default stream
    // (torch/csrc/autograd/input_buffer.cpp).
    (
        "
scale = nn.Parameter(torch.tensor(2.0))
((model(x) * scale).cpu().mean() * scale).backward()
",
        true,
        &["Sequential, 2,128 parameters", "the loss trains 1 parameters outside Sequential"],
    ),
    // A mask and what it leaves out are one element of each pair (transformers/models/blt/modeling_blt.py, `process_patch_lengths`).
    (
        "
kept = x[:, :5] > 0.5
places = torch.arange(10, device='cuda').expand(8, 10)
if places[torch.cat([kept, ~kept], dim=1)].reshape(8, 5).shape != (8, 5):
    raise SystemExit('none')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // `_index_put_impl_` refuses values of another type (aten/src/ATen/native/TensorAdvancedIndexing.cpp, `make_index_put_iterator`).
    (
        "
zeros = torch.zeros(8, 16, device='cuda')
zeros[x[:, 0] > 0.5] = model(x).bfloat16()
zeros.mean().backward()
",
        false,
        &["Index put requires the source and destination dtypes match"],
    ),
    // Tables of numbers are opened by a name that was taken before (numpy/lib/_datasource.py, `_FileOpeners`), databases below Python.
    (
        "
import os, sqlite3
import numpy
os.makedirs('runs')
numpy.savetxt('runs/table.txt', numpy.zeros((2, 3)))
if numpy.loadtxt('runs/table.txt').shape != (2, 3):
    raise SystemExit('none')
with sqlite3.connect('runs/steps.db') as steps:
    steps.execute('create table steps (loss)')
if not os.path.isfile('runs/steps.db'):
    raise SystemExit('none')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Rows of other lengths are packed for a recurrent layer: 2 x 4 x 8 x (16 + 8) and four biases of 4 x 8 for each direction.
    (
        "
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
    def forward(self, rows, lengths):
        rows = nn.utils.rnn.pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
        made, lengths = nn.utils.rnn.pad_packed_sequence(self.layer(rows)[0], batch_first=True)
        return made
rows = torch.zeros(4, 12, 16, device='cuda')
made = Tagger().cuda()(rows, torch.tensor([3, 12, 5, 7]))
if made.shape != (4, 12, 16):
    raise SystemExit('none')
made.mean().backward()
",
        true,
        &["Tagger, 1,664 parameters", "traced with B 4 alone"],
    ),
    // A GAN: the first backward pass is of the critic, which judges what the generator, called first, has made. It has 16 x 8 + 8 parameters.
    (
        "
import os
os.chdir('/')
made = model(x)
other(made.detach()).mean().backward()
",
        true,
        &["Linear, 136 parameters", "runs Sequential before Linear in its step", "2,128 further parameters"],
    ),
    // A model that is stored or drawn as a graph is what it was.
    (
        "
assert torch.jit.trace(model, x) is model
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
];

#[test]
fn what_scripts_of_repositories_do_is_traced() {
    hold(&SCRIPTS);
}
