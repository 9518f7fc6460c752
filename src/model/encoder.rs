//! The walk of an encoder of text or of image patches: the blocks of a stack between
//! embeddings and heads of its own.

mod modern;

use super::architecture::{DenseHead, Encoder, Ends, Family, ImageHead, TextHead};
use super::builder::{Builder, Linear, Stash};
use super::convolution::{Conv, conv};
use super::decoder::DecoderContext;
use super::decoder::{cross_entropy, is_aligned, product};
use super::element::{Element, Group};
use super::tape::{Flow, Home, Spec, Tape, TensorId, Unit, rounded};
use super::walk::{AttentionChoice, Kernel, LossRule, MicroBatch, Pending, Walk};
use super::weight::Part;
use super::work::{MatMul, Work};
use crate::plan::keywords::Position;

/// The tapes of an encoder.
pub fn walk(encoder: &Encoder, family: Family, run: &MicroBatch<'_>) -> Walk {
    let ctx = DecoderContext { d: &encoder.stack, family, run, causal: false };
    let stream = ctx.stream_element();
    let (kinds, order) = ctx.layers(stream);
    match encoder.ends {
        Ends::Text { .. } if family == Family::ModernBert => modern::walk(&ctx, encoder, kinds, order),
        Ends::Text { types, pooler, head } => {
            // A padding mask is made once, in the stream's type: fused kernels keep it, or, under autocast, a copy each.
            let mask = product(&[run.batch, run.sequence, run.sequence, stream.bytes()]);
            let written = run.attention == AttentionChoice::Eager || ctx.class_rules().written_scores;
            let mask = if run.padded && !written { rounded(mask) } else { 0 };
            let as_it_is = stream == run.compute() && is_aligned(run.sequence);
            let kept = as_it_is && ctx.kernel(&ctx.core(false)) == Kernel::Efficient;
            let positions = rounded(encoder.stack.max_positions.unwrap_or(0).saturating_mul(8));
            let pending = [ctx.distance_gradient(), shared_gradients(&kinds, encoder.stack.layers)].concat();
            Walk {
                first: text_embedding(&ctx, types, head),
                kinds,
                order,
                last: text_head(&ctx, stream, pooler, head),
                shared: if kept { mask } else { ctx.kept_table() },
                masks: [if kept { 0 } else { mask.saturating_add(ctx.pair_tables()) }; 2],
                passing: ctx.held_for_layers(),
                pending,
                mask_of: vec![0; usize::try_from(encoder.stack.layers).unwrap_or(0)],
                // Position ids, and segment ids.
                buffers: if run.modules.position_tables.is {
                    positions.saturating_mul(if types > 0 { 2 } else { 1 })
                } else {
                    0
                },
                inputs: ctx.token_inputs(if matches!(head, TextHead::Classes(..)) { run.batch } else { run.tokens() }),
                returned: ctx.returned(),
                returned_unsaved: ctx.returns_unsaved(),
                tied: encoder.stack.tie_embeddings,
            }
        }
        Ends::Image { image, patch, channels, head } => {
            let pixels = product(&[run.sequence.saturating_sub(1), patch, patch, channels]);
            let images = product(&[run.batch, pixels, stream.bytes()]);
            Walk {
                first: patch_embedding(&ctx, (image, patch, channels), matches!(head, ImageHead::Pixels(_))),
                kinds,
                order,
                last: image_head(&ctx, stream, head),
                shared: 0,
                buffers: 0,
                inputs: rounded(images).saturating_add(rounded(run.batch.saturating_mul(8))),
                tied: false,
                ..Walk::default()
            }
        }
    }
}

/// Gradients of weights that all layers share: a sum for each, to which each layer adds (ALBERT).
fn shared_gradients(kinds: &[(&'static str, Tape)], layers: u64) -> Vec<Pending> {
    let borrowed = |tape: &Tape| {
        let mut parts: Vec<TensorId> = Vec::new();
        for op in &tape.ops {
            let read = tape.ids(op.inputs).iter().zip(tape.flows(op.inputs));
            parts.extend(read.filter(|(_, flow)| **flow != Flow::Stop).map(|(id, _)| *id));
        }
        parts.sort_by_key(|id| id.0);
        parts.dedup();
        let tensors = parts.into_iter().map(|id| tape.get(id)).filter(|tensor| tensor.home == Home::Elsewhere);
        tensors.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.allocated()))
    };
    let shared = kinds.iter().filter(|(_, tape)| tape.weights.is_empty());
    let bytes = shared.fold(0, |sum: u64, (_, tape)| sum.saturating_add(borrowed(tape)));
    let made_by = usize::try_from(layers.saturating_sub(1)).unwrap_or(0);
    if bytes == 0 { Vec::new() } else { vec![Pending { made_by, until: 0, bytes }] }
}

/// Tokens, segments and positions added, then a norm and dropout.
fn text_embedding(ctx: &DecoderContext<'_>, types: u64, head: TextHead) -> Tape {
    let d = ctx.d;
    let mut b = ctx.builder();
    b.group = Group::Embedding;
    let width = d.embedding_dim;
    let tokens = ctx.run.tokens().saturating_mul(width);
    let words = b.weight(Part::Embedding, ctx.vocab_rows(), width);
    if d.tie_embeddings && matches!(head, TextHead::MaskedLm | TextHead::CausalLm | TextHead::Pretraining) {
        b.waits_for_head();
    }
    let x = ctx.lookup(&mut b, "embedding", words, tokens);
    let x = if types > 0 {
        let segments = b.weight(Part::Embedding, types, width);
        let segment = ctx.lookup(&mut b, "embedding.segment", segments, tokens);
        b.add("embedding.add", x, segment)
    } else {
        x
    };
    let x = if d.position == Position::Learned {
        let table = b.weight(Part::Embedding, d.max_positions.unwrap_or(ctx.run.sequence), width);
        let position = ctx.lookup(&mut b, "embedding.position", table, ctx.run.sequence.saturating_mul(width));
        b.add("embedding.add", x, position)
    } else {
        x
    };
    let x = if d.embedding_norm { ctx.norm(&mut b, x, "embedding.norm", width) } else { x };
    b.group = Group::Embedding;
    let x = if ctx.family == Family::Deberta { shown(ctx, &mut b, x) } else { x };
    let x = b.dropout("embedding.dropout", x, ctx.run.dropout_or(d.embedding_dropout));
    ctx.distance_table(&mut b);
    if !ctx.projects_embedding() {
        return b.finish(x);
    }
    let project = Linear { name: "embedding.project", from: width, to: d.hidden, bias: true, part: Part::Embedding };
    let x = b.linear(x, ctx.run.tokens(), project);
    b.finish(x)
}

/// Nothing where a batch is padded: the product with its mask, which is made where none is given
/// (`DebertaV2Embeddings.forward`).
fn shown(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId) -> TensorId {
    let mask = b.make(ctx.run.tokens(), b.element(x), false);
    b.op(&Spec { name: "embedding.mask", outputs: &[mask], elementwise: true, ..Spec::default() });
    b.mul("embedding.mask", x, mask)
}

/// Pooler and heads over hidden states, and the loss.
fn text_head(ctx: &DecoderContext<'_>, stream: Element, pooler: bool, head: TextHead) -> Tape {
    let d = ctx.d;
    let run = ctx.run;
    let mut b = ctx.builder();
    let x = b.input(run.stream_tokens().saturating_mul(d.hidden), stream, ctx.reaches_blocks());
    let x = if d.final_norm { ctx.norm(&mut b, x, "final_norm", d.hidden) } else { x };
    b.group = Group::Logits;
    let linear = |name, to, part| Linear { name, from: d.hidden, to, bias: true, part };
    let pooled = if pooler {
        // A view: the matrix saves the whole hidden state.
        let [first] = b.split("pooler.first_token", x, [run.batch.saturating_mul(d.hidden)]);
        let out = b.linear(first, run.batch, linear("pooler", d.hidden, Part::Mlp));
        b.pointwise("pooler.tanh", out, Stash::Output)
    } else {
        x
    };
    let loss = match head {
        TextHead::No => pooled,
        // `BertForMaskedLM` hands its logits to the cross-entropy as they are, `BertLMHeadModel` to a causal model's loss.
        // `ModernBertForMaskedLM` calls the loss that makes them fp32.
        TextHead::MaskedLm if ctx.family == Family::ModernBert => language_model(ctx, &mut b, x, run.loss),
        TextHead::MaskedLm => language_model(ctx, &mut b, x, ctx.as_is(run.loss)),
        TextHead::CausalLm => language_model(ctx, &mut b, x, run.loss),
        TextHead::Pretraining => {
            let masked = language_model(ctx, &mut b, x, ctx.as_is(run.loss));
            let logits = b.linear(pooled, run.batch, linear("head.binary", 2, Part::Head));
            if run.head_only {
                masked
            } else {
                let binary = cross_entropy(&mut b, logits);
                b.add("loss.add", masked, binary)
            }
        }
        TextHead::TokenClasses(classes, drops) => {
            let x =
                if ctx.family == Family::ModernBert { modern::normed_dense(ctx, &mut b, x, run.tokens()) } else { x };
            let rate = if ctx.family == Family::Albert { 0.1 } else { d.hidden_dropout };
            let dropout = if drops { run.dropout_or(rate) } else { 0.0 };
            let x = b.dropout("head.dropout", x, dropout);
            let logits = b.linear(x, run.tokens(), linear("head", classes, Part::Head));
            labelled(run, &mut b, logits, cross_entropy)
        }
        TextHead::Replaced => {
            let out = b.linear(x, run.tokens(), linear("head.dense", d.hidden, Part::Head));
            let active = ctx.act(&mut b, out, "head.act");
            let logits = b.linear(active, run.tokens(), linear("head.binary", 1, Part::Head));
            labelled(run, &mut b, logits, binary_cross_entropy)
        }
        TextHead::Classes(classes, dense) => {
            let logits = text_classes(ctx, &mut b, (x, pooled), classes, dense);
            labelled(run, &mut b, logits, cross_entropy)
        }
    };
    b.finish(loss)
}

/// Scores of classes of a whole text, of what stands behind the layers and of what a pooler makes of it.
fn text_classes(
    ctx: &DecoderContext<'_>,
    b: &mut Builder<'_>,
    (x, pooled): (TensorId, TensorId),
    classes: u64,
    dense: DenseHead,
) -> TensorId {
    let (d, run) = (ctx.d, ctx.run);
    let linear = |name, to, part| Linear { name, from: d.hidden, to, bias: true, part };
    if matches!(dense, DenseHead::Normed | DenseHead::MeanNormed) {
        let first = if dense == DenseHead::Normed {
            let [first] = b.split("head.first_token", x, [run.batch.saturating_mul(d.hidden)]);
            first
        } else {
            modern::mean_of_tokens(ctx, b, x)
        };
        let normed = modern::normed_dense(ctx, b, first, run.batch);
        return b.linear(normed, run.batch, linear("head", classes, Part::Head));
    }
    let first = if dense == DenseHead::Pooler {
        pooled
    } else {
        let [first] = b.split("head.first_token", x, [run.batch.saturating_mul(d.hidden)]);
        let dropped = matches!(dense, DenseHead::Tanh | DenseHead::Gelu);
        let before = if dropped { run.dropout_or(d.hidden_dropout) } else { 0.0 };
        let first = b.dropout("head.dropout", first, before);
        let out = b.linear(first, run.batch, linear("head.dense", d.hidden, Part::Head));
        let keeps = match dense {
            DenseHead::Gelu | DenseHead::Summary => Stash::Input,
            _ => Stash::Output,
        };
        b.pointwise("head.act", out, keeps)
    };
    // `seq_classif_dropout` is a rate of its own.
    let behind = if dense == DenseHead::Relu { run.dropout_or(0.2) } else { run.dropout_or(d.hidden_dropout) };
    let first = b.dropout("head.dropout", first, behind);
    b.linear(first, run.batch, linear("head", classes, Part::Head))
}

/// The loss over `logits` where there are labels: nobody gives any to a model that answers.
fn labelled(
    run: &MicroBatch<'_>,
    b: &mut Builder<'_>,
    logits: TensorId,
    loss: impl FnOnce(&mut Builder<'_>, TensorId) -> TensorId,
) -> TensorId {
    if run.head_only { logits } else { loss(b, logits) }
}

/// Whether each of many holds: the logits and the labels as floats are kept (`BCEWithLogitsLoss`; autocast takes it in fp32).
fn binary_cross_entropy(b: &mut Builder<'_>, logits: TensorId) -> TensorId {
    let logits = b.upper("loss", logits);
    let labels = b.make(b.numel(logits), Element::F32, false);
    b.op(&Spec { name: "loss", outputs: &[labels], elementwise: true, ..Spec::default() });
    let (grad, element) = (b.needs_grad(logits), b.element(logits));
    let loss = b.make(1, element, grad);
    let saved = [logits, labels];
    b.op(&Spec {
        name: "loss",
        inputs: &[(logits, Flow::New), (labels, Flow::Stop)],
        outputs: &[loss],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        ..Spec::default()
    });
    loss
}

/// Dense, activation, norm, and the tied matrix with a bias of its own.
fn language_model(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId, loss: LossRule) -> TensorId {
    let d = ctx.d;
    let tokens = ctx.run.tokens();
    let width = d.embedding_dim;
    let bias = ctx.family != Family::ModernBert;
    let dense = Linear { name: "head.dense", from: d.hidden, to: width, bias, part: Part::Head };
    let out = b.linear(x, tokens, dense);
    // `RobertaLMHead` and `ElectraGeneratorPredictions` have GELU, whatever the configuration says.
    let active = if matches!(ctx.family, Family::Roberta | Family::Electra | Family::ModernBert) {
        b.pointwise("head.act", out, Stash::Input)
    } else {
        ctx.act(b, out, "head.act")
    };
    let normed = ctx.norm(b, active, "head.norm", width);
    b.group = Group::Logits;
    let rows = ctx.vocab_rows();
    let matrix = b.output_matrix(rows, width, d.tie_embeddings);
    let bias = b.weight(Part::Head, rows, 1);
    let logits = b.matrix("head", normed, matrix, Some(bias), (tokens, width, rows));
    labelled(ctx.run, b, logits, |b, logits| ctx.loss(b, logits, tokens, loss))
}

/// Patches through a convolution, a class token before them, positions added; where some are masked, a token in their
/// place.
fn patch_embedding(ctx: &DecoderContext<'_>, (image, patch, channels): (u64, u64, u64), masked: bool) -> Tape {
    let d = ctx.d;
    let (run, stream) = (ctx.run, ctx.stream_element());
    let mut b = ctx.builder();
    b.group = Group::Embedding;
    let out = projected(ctx, &mut b, patch, channels);
    let out = if masked {
        let token = b.weight(Part::Embedding, 1, d.hidden);
        b.window((1, d.hidden));
        let token = b.copy_of("embedding.mask_token", token, b.numel(out));
        b.add("embedding.masked", out, token)
    } else {
        out
    };
    let token = b.weight(Part::Embedding, 1, d.hidden);
    b.window((1, d.hidden));
    let tokens = run.tokens().saturating_mul(d.hidden);
    let grad = b.needs_grad(out) || b.needs_grad(token);
    let whole = b.make(tokens, stream, grad);
    b.op(&Spec {
        name: "embedding.class_token",
        inputs: &[(out, Flow::New), (token, Flow::New)],
        outputs: &[whole],
        elementwise: true,
        ..Spec::default()
    });
    // One row a patch of the configured image size, and one for the class token.
    let side = image / patch.max(1);
    let positions = side.saturating_mul(side).saturating_add(1);
    let table = b.weight(Part::Embedding, positions, d.hidden);
    b.window((positions, d.hidden));
    let x = b.add("embedding.add", whole, table);
    let x = b.dropout("embedding.dropout", x, run.dropout_or(d.embedding_dropout));
    b.finish(x)
}

/// The convolution that makes a row of each patch.
fn projected(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, patch: u64, channels: u64) -> TensorId {
    let (d, run) = (ctx.d, ctx.run);
    let inner = product(&[patch, patch, channels]);
    let kernel = b.weight(Part::Embedding, d.hidden, inner);
    b.window((patch, patch));
    let bias = b.weight(Part::Embedding, d.hidden, 1);
    let patches = run.batch.saturating_mul(run.sequence.saturating_sub(1));
    let pixels = b.make(0, ctx.stream_element(), false);
    // The image is held as an input; under autocast a copy in the compute type is saved as well.
    let copied =
        if run.types.autocast.is_some() { b.make(patches.saturating_mul(inner), run.compute(), false) } else { pixels };
    let kernel = b.lower("patch_embedding", kernel);
    let bias = b.lower("patch_embedding", bias);
    let element = b.element(kernel);
    let grad = b.needs_grad(kernel);
    let out = b.make(patches.saturating_mul(d.hidden), element, grad);
    let flops = 2.0 * patches as f64 * inner as f64 * d.hidden as f64;
    let saved = [copied, kernel];
    b.op(&Spec { name: "patch_embedding", outputs: &[copied], launches: 1, ..Spec::default() });
    b.op(&Spec {
        name: "patch_embedding",
        unit: Unit::Matrix(element),
        work: Work::Product(MatMul { batch: 1, rows: patches, inner, columns: d.hidden, layer: false }),
        inputs: &[(copied, Flow::Stop), (kernel, Flow::New), (bias, Flow::New)],
        outputs: &[out],
        // A convolution saves its weight even where its input needs no gradient.
        saved: if grad { &saved } else { &[] },
        flops: (flops, if grad { flops } else { 0.0 }),
        ..Spec::default()
    });
    out
}

/// Pixels of each patch by a convolution, and how far they are off (`ViTForMaskedImageModeling.forward`).
fn pixels(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId, columns: u64) -> TensorId {
    let patches = ctx.run.batch.saturating_mul(ctx.run.sequence.saturating_sub(1));
    let map = b.copy_of("head.map", x, patches.saturating_mul(ctx.d.hidden));
    let name = "head.decoder";
    let out = conv(b, map, Conv { name, from: ctx.d.hidden, to: columns, kernel: 1, bias: true, positions: patches });
    b.group = Group::Logits;
    let shuffled = b.copy("head.shuffle", out);
    let shuffled = b.upper("loss.l1", shuffled);
    let each = b.pointwise("loss.l1", shuffled, Stash::Input);
    b.unary("loss.mean", (each, Flow::New), (1, Element::F32), Stash::Nothing)
}

/// Final norm, the class token, and what is made of it.
fn image_head(ctx: &DecoderContext<'_>, stream: Element, head: ImageHead) -> Tape {
    let d = ctx.d;
    let run = ctx.run;
    let mut b = ctx.builder();
    let x = b.input(run.tokens().saturating_mul(d.hidden), stream, ctx.reaches_blocks());
    let x = ctx.norm(&mut b, x, "final_norm", d.hidden);
    b.group = Group::Logits;
    // A view of the first token: the matrix saves the whole hidden state.
    let [first] = b.split("head.class_token", x, [run.batch.saturating_mul(d.hidden)]);
    let linear = |name, to, part| Linear { name, from: d.hidden, to, bias: true, part };
    let out = match head {
        ImageHead::Classes(classes) => {
            let logits = b.linear(first, run.batch, linear("head", classes, Part::Head));
            labelled(run, &mut b, logits, cross_entropy)
        }
        ImageHead::Pixels(columns) => pixels(ctx, &mut b, x, columns),
        ImageHead::Pooler(width) => {
            let out = b.linear(first, run.batch, linear("pooler", width, Part::Mlp));
            b.pointwise("pooler.tanh", out, Stash::Output)
        }
    };
    b.finish(out)
}
