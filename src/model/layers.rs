//! Models that are a list of layers, one behind the other, as `torch.nn.Sequential` runs them: a linear layer alone,
//! a multilayer perceptron. Each layer is a layer of the walk.

use super::architecture::{Architecture, Family, ModelShape};
use super::builder::{Builder, Linear, Stash};
use super::decoder::{layer_norm, product};
use super::element::{Element, Group};
use super::tape::{Flow, Spec, Tape, rounded};
use super::walk::{MicroBatch, Walk};
use super::weight::Part;
use crate::plan::keys;
use crate::plan::keywords::Activation;
use crate::plan::{ArchitecturePart, Fault};

const KEY: &str = "model.layers";

/// The widest layer that a plan may name.
const WIDEST: u64 = 1 << 20;

/// The most layers that a plan may list.
const MOST: usize = 1000;

/// What a layer of the list may be, for the error that a wrong one gets.
const KNOWN: &str = "linear:INxOUT (linear:INxOUT:nobias), relu, gelu, silu, tanh, sigmoid, layernorm, dropout:P";

/// Layers one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerList {
    /// The layers in order.
    pub layers: Vec<ListedLayer>,
    /// Columns of what comes in.
    pub input: u64,
    /// They stand inside of a larger model: what comes in needs a gradient.
    pub input_gradient: bool,
}

/// One layer of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ListedLayer {
    /// `torch.nn.Linear`.
    Linear {
        /// Columns of its input.
        from: u64,
        /// Columns of its output.
        to: u64,
        /// Whether it has a bias.
        bias: bool,
    },
    /// A function of each element: its name, and what autograd saves for it.
    Pointwise(&'static str, Saved),
    /// `torch.nn.LayerNorm` over the columns.
    LayerNorm,
    /// `torch.nn.Dropout` with that probability.
    Dropout(f64),
}

/// What a function of each element saves for its backward pass (PyTorch `tools/autograd/derivatives.yaml`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// Its input.
    Input,
    /// Its output.
    Output,
}

impl LayerList {
    /// Reads a list: `linear:784x512`, `relu`, `linear:512x10`.
    ///
    /// # Errors
    /// Where a word is no layer, a size is none, no layer is linear, or two layers do not fit together.
    ///
    /// ```
    /// # use memwall_core as memwall;
    /// use memwall::model::LayerList;
    /// let words = ["linear:784x512", "relu", "linear:512x10:nobias"].map(str::to_owned);
    /// let list = LayerList::read(&words).unwrap();
    /// assert_eq!(list.layers.len(), 3);
    /// assert_eq!(list.input, 784);
    /// let words = ["linear:784x512", "linear:256x10"].map(str::to_owned);
    /// let fault = LayerList::read(&words).unwrap_err();
    /// assert!(fault.to_string().contains("takes 256 columns, the layer before it gives 512"));
    /// ```
    pub fn read(words: &[String]) -> Result<Self, Fault> {
        if words.len() > MOST {
            return Err(Fault::of(KEY, format!("has {} layers, {MOST} at most", words.len())));
        }
        let mut layers = Vec::with_capacity(words.len());
        let mut columns = None;
        for (at, word) in words.iter().enumerate() {
            let layer = ListedLayer::read(word)?;
            if let ListedLayer::Linear { from, to, .. } = layer {
                if let Some(before) = columns.filter(|before| *before != from) {
                    let place = at + 1;
                    let why =
                        format!("layer {place}, {word}, takes {from} columns, the layer before it gives {before}");
                    return Err(Fault::of(KEY, why));
                }
                columns = Some(to);
            }
            layers.push(layer);
        }
        let first = layers.iter().find_map(|layer| match layer {
            ListedLayer::Linear { from, .. } => Some(*from),
            _ => None,
        });
        let Some(input) = first else {
            return Err(Fault::of(
                KEY,
                "needs a linear layer, such as linear:4096x4096: it says how wide the input is",
            ));
        };
        Ok(Self { layers, input, input_gradient: false })
    }

    /// As many blocks of two linear layers and an activation function as a plan's sizes say, and what was assumed.
    ///
    /// # Errors
    /// Where the width or the number of blocks is absent.
    pub fn of_fields(part: &ArchitecturePart) -> Result<(Self, Vec<String>), Fault> {
        let need = |key: &str, value: Option<u64>| {
            value.ok_or_else(|| Fault::of(format!("model.architecture.{key}"), "is needed for an mlp"))
        };
        let hidden = need("hidden_size", part.hidden_size)?;
        let blocks = need("num_layers", part.num_layers)?;
        let mut said = Vec::new();
        let mut assume = |key: &str, value: &str| said.push(format!("model.architecture.{key}: {value}"));
        let inner = part.intermediate_size.unwrap_or_else(|| {
            let inner = hidden.saturating_mul(4);
            assume("intermediate_size", &inner.to_string());
            inner
        });
        let activation = part.activation.unwrap_or_else(|| {
            assume("activation", Activation::Gelu.name());
            Activation::Gelu
        });
        let function = match activation {
            Activation::Gelu => ListedLayer::Pointwise("gelu", Saved::Input),
            Activation::Relu => ListedLayer::Pointwise("relu", Saved::Output),
            other => {
                return Err(Fault::of(keys::architecture::activation, format!("{other}: an mlp has gelu or relu")));
            }
        };
        let bias = part.linear_bias.unwrap_or(true);
        let linear = |from, to| ListedLayer::Linear { from, to, bias };
        let block = [linear(hidden, inner), function, linear(inner, hidden)];
        let layers = (0..blocks).flat_map(|_| block).collect();
        Ok((Self { layers, input: hidden, input_gradient: false }, said))
    }

    /// Columns of the widest tensor.
    #[must_use]
    pub fn widest(&self) -> u64 {
        let out = self.layers.iter().filter_map(|layer| match layer {
            ListedLayer::Linear { to, .. } => Some(*to),
            _ => None,
        });
        out.fold(self.input, u64::max)
    }

    /// Its name on screens and in reports.
    #[must_use]
    pub fn name(&self) -> String {
        match self.layers.as_slice() {
            [ListedLayer::Linear { from, to, .. }] => format!("linear {from} x {to}"),
            layers => format!("{} layers, {} to {} wide", layers.len(), self.input, self.widest()),
        }
    }
}

impl From<LayerList> for Architecture {
    fn from(list: LayerList) -> Self {
        Self { name: list.name(), family: Family::Layers, shape: ModelShape::Layers(list) }
    }
}

impl ListedLayer {
    fn read(word: &str) -> Result<Self, Fault> {
        let mut parts = word.trim().split(':');
        let name = parts.next().unwrap_or_default();
        let (argument, more, extra) = (parts.next(), parts.next(), parts.next());
        let fault = |why: &str| Fault::of(KEY, format!("`{word}`{why}"));
        let wrong = || fault(&format!(" is no layer; known are {KNOWN}"));
        match (name, argument, more, extra) {
            ("linear", Some(size), None | Some("nobias"), None) => {
                let (from, to) = size.split_once('x').ok_or_else(wrong)?;
                let width = |text: &str| {
                    let width = text.trim().parse::<u64>().ok().filter(|width| (1..=WIDEST).contains(width));
                    width.ok_or_else(|| fault(&format!(": {text} is no width from 1 to {WIDEST}")))
                };
                Ok(Self::Linear { from: width(from)?, to: width(to)?, bias: more.is_none() })
            }
            ("relu", None, None, None) => Ok(Self::Pointwise("relu", Saved::Output)),
            ("tanh", None, None, None) => Ok(Self::Pointwise("tanh", Saved::Output)),
            ("sigmoid", None, None, None) => Ok(Self::Pointwise("sigmoid", Saved::Output)),
            ("gelu", None, None, None) => Ok(Self::Pointwise("gelu", Saved::Input)),
            ("silu", None, None, None) => Ok(Self::Pointwise("silu", Saved::Input)),
            ("layernorm", None, None, None) => Ok(Self::LayerNorm),
            ("dropout", Some(share), None, None) => {
                let share = share.parse::<f64>().ok().filter(|share| (0.0..1.0).contains(share));
                share.map(Self::Dropout).ok_or_else(|| fault(": must be a share from 0 up to 1"))
            }
            _ => Err(wrong()),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::Pointwise(name, _) => name,
            Self::LayerNorm => "layernorm",
            Self::Dropout(_) => "dropout",
        }
    }
}

/// What makes the tape of a layer: layers alike share one.
#[derive(Clone, Copy, PartialEq)]
struct Site {
    layer: ListedLayer,
    columns: u64,
    element: Element,
    /// What comes in needs a gradient.
    grad: bool,
    /// What comes in is held by the training loop, or by a layer that saves its output.
    held: bool,
}

/// The tapes of a list: the loss is left out, the gradient of the output is there when the backward pass begins.
pub fn walk(list: &LayerList, run: &MicroBatch<'_>) -> Walk {
    let rows = run.tokens();
    let element = run.types.weight;
    let first = if list.input_gradient { input(product(&[rows, list.input]), run) } else { Tape::default() };
    let (mut columns, mut element, mut grad) = (list.input, element, list.input_gradient);
    let mut held = !grad;
    let (mut sites, mut kinds, mut order) = (Vec::new(), Vec::<(&'static str, Tape)>::new(), Vec::new());
    for layer in &list.layers {
        let site = Site { layer: *layer, columns, element, grad, held };
        let kind = sites.iter().position(|known| *known == site).unwrap_or_else(|| {
            sites.push(site);
            kinds.push((layer.name(), site.tape(rows, run)));
            kinds.len() - 1
        });
        order.push(kind);
        if let ListedLayer::Linear { to, .. } = layer {
            columns = *to;
        }
        if let Some(out) = kinds[kind].1.output.map(|id| *kinds[kind].1.get(id)) {
            (element, grad) = (out.element, out.grad);
        }
        held = grad && matches!(layer, ListedLayer::Pointwise(_, Saved::Output));
    }
    let last = output((product(&[rows, columns]), element, grad), held, run);
    let bytes = product(&[rows, list.input, run.types.weight.bytes()]);
    // What comes in from a larger model is that model's hidden state, not the batch.
    Walk { first, kinds, order, last, inputs: if list.input_gradient { 0 } else { rounded(bytes) }, ..Walk::default() }
}

impl Site {
    fn tape(self, rows: u64, run: &MicroBatch<'_>) -> Tape {
        let mut b = Builder::new(run.types, run.adapters);
        let x = b.input(product(&[rows, self.columns]), self.element, self.grad);
        b.tape.tensors.iter_mut().for_each(|tensor| tensor.group = Group::Mlp);
        b.group = Group::Mlp;
        let out = match self.layer {
            ListedLayer::Linear { from, to, bias } => {
                b.linear(x, rows, Linear { name: "linear", from, to, bias, part: Part::Mlp })
            }
            ListedLayer::Pointwise(name, Saved::Input) => b.pointwise(name, x, Stash::Input),
            ListedLayer::Pointwise(name, Saved::Output) => b.pointwise(name, x, Stash::Output),
            ListedLayer::LayerNorm => layer_norm(&mut b, x, "layernorm", self.columns, true),
            ListedLayer::Dropout(share) => b.dropout("dropout", x, run.dropout_or(share)),
        };
        let mut tape = b.finish(out);
        tape.plain = true;
        tape.borrows = self.held;
        tape
    }
}

/// What comes in from the model that the layers stand in.
fn input(numel: u64, run: &MicroBatch<'_>) -> Tape {
    let mut b = Builder::new(run.types, run.adapters);
    let made = b.make(numel, run.types.weight, true);
    b.op(&Spec { name: "input", outputs: &[made], launches: 0, ..Spec::default() });
    b.finish(made)
}

/// What takes the output and gives back a gradient of its size: a loss that saves nothing and costs no time.
fn output((numel, element, grad): (u64, Element, bool), held: bool, run: &MicroBatch<'_>) -> Tape {
    let mut b = Builder::new(run.types, run.adapters);
    let x = b.input(numel, element, grad);
    b.tape.tensors.iter_mut().for_each(|tensor| tensor.group = Group::Mlp);
    if run.head_only {
        return b.finish(x);
    }
    let scalar = b.make(1, element, grad);
    b.op(&Spec { name: "output", inputs: &[(x, Flow::New)], outputs: &[scalar], launches: 0, ..Spec::default() });
    let mut tape = b.finish(scalar);
    tape.borrows = held;
    tape
}
