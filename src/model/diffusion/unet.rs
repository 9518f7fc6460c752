//! The walk of diffusers' `UNet2DConditionModel` (models/unets/unet_2d_condition.py and
//! unet_2d_blocks.py): down, across, up. Each module is a layer; the maps of the way down
//! are joined to those of the way up, and their gradients wait for the way back.

use super::parts::{LevelAttention, Site};
use super::{silu, squared_error};
use crate::model::builder::{Builder, Linear};
use crate::model::decoder::product;
use crate::model::element::Group;
use crate::model::families::Unet;
use crate::model::tape::{Flow, Spec, Tape, TensorId, rounded};
use crate::model::walk::{MicroBatch, Pending, Walk};
use crate::model::weight::Part;

/// A map of the way down: the layer that made it (none: what runs before the layers), channels, side.
#[derive(Clone, Copy)]
struct Skip {
    made_by: Option<usize>,
    channels: u64,
    side: u64,
    /// A gradient flows to it.
    reached: bool,
}

/// Layers so far.
struct Route<'a> {
    site: Site<'a>,
    kinds: Vec<(&'static str, Tape)>,
    pending: Vec<Pending>,
    skips: Vec<Skip>,
    channels: u64,
    side: u64,
}

/// The tapes of a UNet.
pub fn walk(net: &Unet, run: &MicroBatch<'_>) -> Walk {
    let site = Site { net, run, reached: run.adapters.is_none() };
    let first = start(&site);
    let mut route = Route {
        site,
        kinds: Vec::with_capacity(128),
        pending: Vec::with_capacity(64),
        skips: Vec::with_capacity(32),
        channels: net.widths.first().copied().unwrap_or(1),
        side: run.image,
    };
    route.keep(None);
    route.down();
    route.middle();
    route.up();
    let last = end(&route.site, route.channels);
    let inputs = inputs(&route.site);
    Walk {
        first,
        order: (0..route.kinds.len()).collect(),
        kinds: route.kinds,
        last,
        shared: 0,
        masks: [0; 2],
        mask_of: Vec::new(),
        buffers: 0,
        inputs,
        pending: route.pending,
        passing: Vec::new(),
        returned: 0,
        returned_unsaved: false,
        tied: false,
    }
}

/// Latents, the noise to be found, the text's hidden states, time steps.
fn inputs(site: &Site<'_>) -> u64 {
    let (net, run) = (site.net, site.run);
    let bytes = run.types.weight.bytes();
    let latents = rounded(site.map(net.channels, run.image).saturating_mul(bytes));
    let noise = rounded(site.map(net.out_channels, run.image).saturating_mul(bytes));
    let text = rounded(product(&[run.batch, run.sequence, net.text_width(), bytes]));
    let ids = rounded(run.batch.saturating_mul(8)).saturating_mul(if net.classes > 0 { 2 } else { 1 });
    latents.saturating_add(noise).saturating_add(text).saturating_add(ids)
}

/// The time's embedding, which every residual block reads, and the first convolution.
fn start(site: &Site<'_>) -> Tape {
    let (net, run) = (site.net, site.run);
    let mut b = site.builder();
    b.group = Group::Embedding;
    let (first, width) = (net.widths.first().copied().unwrap_or(1), net.time_width());
    let table = b.make(run.batch.saturating_mul(first), run.types.weight, false);
    let time = embedded(&mut b, run.batch, table, (first, width));
    if net.classes > 0 {
        let table = b.weight(Part::Embedding, net.classes, width);
        let class = b.make(run.batch.saturating_mul(width), run.types.weight, run.adapters.is_none());
        b.op(&Spec { name: "class", inputs: &[(table, Flow::New)], outputs: &[class], ..Spec::default() });
        b.add("time.add", time, class);
    }
    if net.added_width > 0 {
        let table = b.make(run.batch.saturating_mul(net.added_width), run.types.weight, false);
        let added = embedded(&mut b, run.batch, table, (net.added_width, width));
        b.add("time.add", time, added);
    }
    let latents = b.elsewhere(site.map(net.channels, run.image), run.types.weight, false);
    let out = site.conv(&mut b, "conv_in", latents, (net.channels, first, 9, run.image));
    b.finish(out)
}

/// `TimestepEmbedding`: two linear layers with a `SiLU` between them.
fn embedded(b: &mut Builder<'_>, rows: u64, x: TensorId, (from, to): (u64, u64)) -> TensorId {
    let linear = |from| Linear { name: "time", from, to, bias: true, part: Part::Embedding };
    let x = b.linear(x, rows, linear(from));
    let x = silu(b, "time.act", x);
    b.linear(x, rows, linear(to))
}

/// Norm, activation, the last convolution, the squared error.
fn end(site: &Site<'_>, channels: u64) -> Tape {
    let (net, run) = (site.net, site.run);
    let mut b = site.builder();
    let x = b.input(site.map(channels, run.image), site.compute(), site.reached);
    let normed = site.group_norm(&mut b, "conv_norm_out", x, channels);
    let active = silu(&mut b, "conv_act", normed);
    let out = site.conv(&mut b, "conv_out", active, (channels, net.out_channels, 9, run.image));
    let out = if run.head_only { out } else { squared_error(&mut b, out) };
    b.finish(out)
}

impl Route<'_> {
    fn push(&mut self, name: &'static str, tape: Tape) -> usize {
        self.site.reached = tape.output.is_some_and(|output| tape.get(output).grad);
        self.kinds.push((name, tape));
        self.kinds.len() - 1
    }

    fn keep(&mut self, made_by: Option<usize>) {
        self.skips.push(Skip { made_by, channels: self.channels, side: self.side, reached: self.site.reached });
    }

    fn bytes(&self, channels: u64) -> u64 {
        rounded(self.site.map(channels, self.side).saturating_mul(self.site.compute().bytes()))
    }

    fn resnet(&mut self, to: u64) -> usize {
        let tape = self.site.resnet(self.channels, to, self.side);
        self.channels = to;
        self.push("resnet", tape)
    }

    /// Norm and projection, blocks, projection and addition.
    fn transformer(&mut self, level: usize, only_cross: bool) -> usize {
        let (channels, side) = (self.channels, self.side);
        let reached = self.site.reached;
        let tape = self.site.transformer_start(channels, side);
        let first = self.push("transformer start", tape);
        let net = self.site.net;
        let at = |list: &[u64]| list.get(level).copied().unwrap_or(1);
        for _ in 0..at(&net.transformer_layers) {
            let attends = LevelAttention { heads: at(&net.heads), text_width: at(&net.cross_widths), only_cross };
            let tape = self.site.transformer_block(channels, side, attends);
            self.push("transformer block", tape);
        }
        let tape = self.site.transformer_end(channels, side, reached);
        let last = self.push("transformer end", tape);
        // The gradient of the sum is also that of what came in.
        if reached {
            self.pending.push(Pending { made_by: last, until: first, bytes: self.bytes(channels) });
        }
        last
    }

    fn down(&mut self) {
        let net = self.site.net;
        for (level, width) in net.widths.iter().enumerate() {
            let attends = net.down_attention.get(level).copied().unwrap_or(false);
            for _ in 0..net.layers.get(level).copied().unwrap_or(1) {
                let mut last = self.resnet(*width);
                if attends {
                    last = self.transformer(level, net.only_cross.get(level).copied().unwrap_or(false));
                }
                self.keep(Some(last));
            }
            if level + 1 < net.widths.len() {
                let half = self.side.div_ceil(2);
                let tape = self.site.resize("downsample", self.channels, self.side, half);
                self.side = half;
                let last = self.push("downsample", tape);
                self.keep(Some(last));
            }
        }
    }

    fn middle(&mut self) {
        let net = self.site.net;
        // The first block of the middle is not checkpointed (UNetMidBlock2DCrossAttn.forward).
        let first = self.resnet(self.channels);
        self.kinds[first].1.plain = true;
        if net.middle_attention {
            self.transformer(net.widths.len().saturating_sub(1), net.middle_only_cross);
        }
        self.resnet(self.channels);
    }

    fn up(&mut self) {
        let net = self.site.net;
        for (step, level) in (0..net.widths.len()).rev().enumerate() {
            let attends = net.up_attention.get(step).copied().unwrap_or(false);
            for _ in 0..net.layers.get(level).copied().unwrap_or(1).saturating_add(1) {
                self.joined();
                self.resnet(net.widths[level]);
                if attends {
                    self.transformer(level, net.only_cross.get(level).copied().unwrap_or(false));
                }
            }
            if level > 0 {
                let side = self.skips.last().map_or(self.side, |skip| skip.side);
                let tape = self.site.resize("upsample", self.channels, self.side, side);
                self.side = side;
                self.push("upsample", tape);
            }
        }
    }

    /// Joins the map kept last; the gradient of both waits until the layer behind the one that made it.
    fn joined(&mut self) {
        let Some(skip) = self.skips.pop() else { return };
        let tape = self.site.join(self.channels, (skip.channels, skip.reached), self.side);
        let at = self.push("join", tape);
        let until = skip.made_by.map_or(0, |made_by| made_by + 1);
        let (whole, own) = (self.bytes(self.channels + skip.channels), self.bytes(self.channels));
        // The layer before takes its part of it as the gradient of what it made.
        if skip.reached {
            self.pending.push(Pending { made_by: at, until, bytes: whole.saturating_sub(own) });
            self.pending.push(Pending { made_by: at.saturating_sub(1), until, bytes: own });
        }
        self.channels = self.channels.saturating_add(skip.channels);
    }
}
