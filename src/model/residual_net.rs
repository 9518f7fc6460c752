//! The walk of residual convolutional networks, as torchvision (models/resnet.py) and
//! transformers (models/resnet/modeling_resnet.py) run them. Each block is a layer.

use super::builder::{Builder, Linear, Stash};
use super::convolution::{Conv, conv};
use super::decoder::{cross_entropy, product};
use super::element::{Element, Group};
use super::families::ResidualNet;
use super::tape::{Flow, Spec, Tape, TensorId, rounded};
use super::walk::{MicroBatch, Walk};
use super::weight::Part;
use super::work::Work;

/// A network and one micro-batch.
struct Site<'a> {
    net: &'a ResidualNet,
    run: &'a MicroBatch<'a>,
}

/// A block of a stage.
#[derive(Clone, Copy)]
struct Block {
    from: u64,
    to: u64,
    /// Pixels a side of its input and of its output.
    side: u64,
    out_side: u64,
}

/// Channels of a batch norm: each keeps two running statistics and a counter as buffers.
fn norm_buffers(channels: u64) -> u64 {
    rounded(channels.saturating_mul(4)).saturating_mul(2).saturating_add(rounded(8))
}

/// The tapes of a network.
pub fn walk(net: &ResidualNet, run: &MicroBatch<'_>) -> Walk {
    let site = Site { net, run };
    let mut side = run.image.div_ceil(4);
    let (mut kinds, mut order) = (Vec::with_capacity(2 * net.depths.len()), Vec::new());
    let mut buffers = norm_buffers(net.embedding);
    let mut from = net.embedding;
    for (stage, (depth, to)) in net.depths.iter().zip(&net.widths).enumerate() {
        let halved = stage > 0 || net.halves_first;
        let out_side = if halved { side.div_ceil(2) } else { side };
        let first = Block { from, to: *to, side, out_side };
        let other = Block { from: *to, to: *to, side: out_side, out_side };
        kinds.push(("first block of a stage", site.block(first, stage > 0)));
        kinds.push(("block", site.block(other, true)));
        order.push(2 * stage);
        order.extend((1..*depth).map(|_| 2 * stage + 1));
        buffers = buffers.saturating_add(site.buffers(first));
        buffers = buffers.saturating_add(site.buffers(other).saturating_mul(depth.saturating_sub(1)));
        (from, side) = (*to, out_side);
    }
    Walk {
        first: site.stem(),
        kinds,
        order,
        last: site.head(from, side),
        shared: 0,
        masks: [0; 2],
        mask_of: Vec::new(),
        buffers,
        inputs: site.inputs(),
        pending: Vec::new(),
        passing: Vec::new(),
        returned: 0,
        returned_unsaved: false,
        tied: false,
    }
}

impl Site<'_> {
    fn positions(&self, side: u64) -> u64 {
        product(&[self.run.batch, side, side])
    }

    /// Images in the weights' type, and a class each.
    fn inputs(&self) -> u64 {
        let pixels = product(&[self.positions(self.run.image), self.net.channels, self.run.types.weight.bytes()]);
        rounded(pixels).saturating_add(rounded(self.run.batch.saturating_mul(8)))
    }

    fn builder(&self) -> Builder<'_> {
        Builder::new(self.run.types, self.run.adapters)
    }

    /// A wide convolution, norm, ReLU and the largest of each window of nine.
    fn stem(&self) -> Tape {
        let (net, run) = (self.net, self.run);
        let mut b = self.builder();
        let pixels = product(&[self.positions(run.image), net.channels]);
        let image = b.elsewhere(pixels, run.types.weight, false);
        let half = self.positions(run.image.div_ceil(2));
        let to = net.embedding;
        let wide = Conv { name: "stem.conv", from: net.channels, to, kernel: 49, bias: false, positions: half };
        let x = conv(&mut b, image, wide);
        let x = batch_norm(&mut b, "stem.norm", x, net.embedding);
        let x = self.relu(&mut b, "stem.act", x);
        let quarter = product(&[self.positions(run.image.div_ceil(4)), net.embedding]);
        let element = b.element(x);
        let out = b.make(quarter, element, true);
        let places = b.make(quarter, Element::I64, false);
        let saved = [x, places];
        b.op(&Spec {
            name: "stem.pool",
            inputs: &[(x, Flow::New)],
            outputs: &[out, places],
            saved: &saved,
            elementwise: true,
            ..Spec::default()
        });
        b.finish(out)
    }

    /// Convolutions of a block: name, channels in and out, window, pixels a side of the output, activation behind.
    fn convolutions(&self, block: Block) -> Vec<(Conv, &'static str, Option<&'static str>)> {
        let Block { from, to, side, out_side } = block;
        let at = |name, from, to, kernel, side| Conv {
            name,
            from,
            to,
            kernel,
            bias: false,
            positions: self.positions(side),
        };
        if !self.net.bottleneck {
            return vec![
                (at("conv1", from, to, 9, out_side), "norm1", Some("act1")),
                (at("conv2", to, to, 9, out_side), "norm2", None),
            ];
        }
        let inner = (to / 4).max(1);
        // torchvision halves in the second convolution; so does transformers unless downsample_in_bottleneck.
        let first_side = if self.net.halves_in_first { out_side } else { side };
        vec![
            (at("conv1", from, inner, 1, first_side), "norm1", Some("act1")),
            (at("conv2", inner, inner, 9, out_side), "norm2", Some("act2")),
            (at("conv3", inner, to, 1, out_side), "norm3", None),
        ]
    }

    fn has_shortcut(block: Block) -> bool {
        block.from != block.to || block.side != block.out_side
    }

    fn buffers(&self, block: Block) -> u64 {
        let own: u64 = self.convolutions(block).iter().map(|(conv, _, _)| norm_buffers(conv.to)).sum();
        own.saturating_add(if Self::has_shortcut(block) { norm_buffers(block.to) } else { 0 })
    }

    /// Convolutions with norms, what came in (through a convolution where the size changes) added in place, ReLU.
    /// `behind` another block, whose ReLU holds what comes in.
    fn block(&self, block: Block, behind: bool) -> Tape {
        let mut b = self.builder();
        let compute = self.run.compute();
        let x = b.input(product(&[self.positions(block.side), block.from]), compute, true);
        let mut out = x;
        for (one, norm, act) in self.convolutions(block) {
            out = conv(&mut b, out, one);
            out = batch_norm(&mut b, norm, out, one.to);
            if let Some(act) = act {
                out = self.relu(&mut b, act, out);
            }
        }
        let identity = if Self::has_shortcut(block) {
            let (from, to) = (block.from, block.to);
            let positions = self.positions(block.out_side);
            let one = Conv { name: "shortcut.conv", from, to, kernel: 1, bias: false, positions };
            let narrow = conv(&mut b, x, one);
            batch_norm(&mut b, "shortcut.norm", narrow, to)
        } else {
            x
        };
        let sum = b.add_in_place("add", out, identity);
        let out = self.relu(&mut b, "act", sum);
        let mut tape = b.finish(out);
        tape.borrows = behind;
        tape.plain = true;
        tape
    }

    /// torchvision's ReLU overwrites its input, transformers' does not; both keep the output.
    fn relu(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId) -> TensorId {
        b.group = Group::Convolution;
        if self.run.modules.inplace_relu.is { b.relu_in_place(name, x) } else { b.pointwise(name, x, Stash::Output) }
    }

    /// The mean over all pixels, and classes where it has some.
    fn head(&self, channels: u64, side: u64) -> Tape {
        let run = self.run;
        let mut b = self.builder();
        let compute = run.compute();
        let x = b.input(product(&[self.positions(side), channels]), compute, true);
        b.group = Group::Logits;
        let pooled = b.unary("head.pool", (x, Flow::New), (product(&[run.batch, channels]), compute), Stash::Nothing);
        let out = match self.net.labels {
            Some(to) => {
                let classes = Linear { name: "head", from: channels, to, bias: true, part: Part::Mlp };
                let logits = b.linear(pooled, run.batch, classes);
                if run.head_only { logits } else { cross_entropy(&mut b, logits) }
            }
            None => pooled,
        };
        let mut tape = b.finish(out);
        tape.borrows = true;
        tape
    }
}

/// `batch_norm`: saves its input, and mean and reciprocal deviation of each channel in fp32; its output has the
/// input's type whatever its weights' is.
fn batch_norm(b: &mut Builder<'_>, name: &'static str, x: TensorId, channels: u64) -> TensorId {
    b.group = Group::Convolution;
    let weight = b.weights(Part::Norm, channels, 1, 2, 2);
    let (numel, element) = (b.numel(x), b.element(x));
    let out = b.make(numel, element, true);
    let [mean, deviation] = [0, 1].map(|_| b.make(channels, Element::F32, false));
    let saved = [x, mean, deviation];
    b.op(&Spec {
        name,
        inputs: &[(x, Flow::New), (weight, Flow::New)],
        outputs: &[out, mean, deviation],
        saved: &saved,
        work: Work::Normalized,
        ..Spec::default()
    });
    out
}
