//! What a block was allocated for, by its frames, the innermost first.
//!
//! The rules name functions and files of PyTorch and of the common frameworks. Where the stack has
//! several of them the innermost layer of the training loop counts: an optimizer's step, then a
//! collective, then the backward pass, then a module's forward pass, then a module's making.

use crate::reading::BlockPurpose;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The file's path.
    pub file: String,
    /// The function.
    pub name: String,
    /// The line.
    pub line: u64,
}

impl Frame {
    fn is_in(&self, part: &str) -> bool {
        self.file.contains(part)
    }

    fn is(&self, names: &[&str]) -> bool {
        // Qualified names since Python 3.11 (`Block.forward`), C++ names with their arguments.
        let last = self.name.rsplit(['.', ':']).next().unwrap_or_default();
        names.contains(&last)
    }

    /// Whether it belongs to PyTorch or to Python's own library.
    fn is_library(&self) -> bool {
        ["/torch/", "torch/nn/", "torch/autograd/", "torch/_", "<frozen", "<string>", "??"]
            .iter()
            .any(|part| self.is_in(part))
            || self.file.is_empty()
            || self.is_native()
    }

    /// Whether it is compiled code.
    fn is_native(&self) -> bool {
        self.name.contains("::") || [".cpp", ".cu", ".h", ".so"].iter().any(|end| self.file.ends_with(end))
    }
}

/// What one frame says of the block, small enough to be kept for each frame of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameFacts(u16);

/// The bits of [`FrameFacts`]; the part of a model stands above them.
const SEEN: u16 = 1;
const OPTIMIZER: u16 = 1 << 1;
const OPTIM_FOLDER: u16 = 1 << 2;
const MAKES_STATES: u16 = 1 << 3;
const COLLECTIVE: u16 = 1 << 4;
const BACKWARD: u16 = 1 << 5;
const FORWARD: u16 = 1 << 6;
const MAKING: u16 = 1 << 7;
const NATIVE: u16 = 1 << 8;
const AUTOGRAD: u16 = 1 << 9;
const LIBRARY: u16 = 1 << 10;
const PART_SHIFT: u32 = 11;

impl FrameFacts {
    /// What a frame says.
    pub fn of(frame: &Frame) -> Self {
        let states = ["_init_group", "initialize_state", "init_state", "_init_state", "state_init"];
        let bits = [
            (SEEN, true),
            (OPTIMIZER, is_optimizer(frame)),
            (OPTIM_FOLDER, frame.is_in("torch/optim/")),
            (MAKES_STATES, frame.is(&states)),
            (COLLECTIVE, is_collective(frame)),
            (BACKWARD, is_backward(frame)),
            (FORWARD, frame.is(&["_call_impl", "forward"])),
            (MAKING, is_making(frame)),
            (NATIVE, frame.is_native()),
            (AUTOGRAD, frame.name.contains("autograd")),
            (LIBRARY, frame.is_library()),
        ];
        let bits = bits.iter().filter(|(_, holds)| *holds).fold(0, |sum, (bit, _)| sum | bit);
        Self(bits | part(frame).map_or(0, |part| (part as u16 + 1) << PART_SHIFT))
    }

    /// Whether it was looked at: not the default.
    pub const fn is_known(self) -> bool {
        self.0 & SEEN != 0
    }

    const fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    fn part(self) -> Option<&'static str> {
        let number = usize::from(self.0 >> PART_SHIFT).checked_sub(1)?;
        PARTS.get(number).map(|(_, part)| *part)
    }
}

/// What for, and the named term where the frames tell.
pub fn purpose(frames: &[FrameFacts]) -> (BlockPurpose, Option<&'static str>) {
    if frames.is_empty() {
        return (BlockPurpose::Unrecorded, None);
    }
    let any = |bit: u16| frames.iter().any(|frame| frame.has(bit));
    if any(OPTIMIZER) {
        // States are made once, in the first step; all else an optimizer allocates it lets go of.
        let states = any(MAKES_STATES) || !any(OPTIM_FOLDER);
        return (if states { BlockPurpose::OptimizerStates } else { BlockPurpose::Temporaries }, None);
    }
    if any(COLLECTIVE) {
        return (BlockPurpose::CommunicationBuffers, None);
    }
    if any(BACKWARD) {
        return (BlockPurpose::Gradients, None);
    }
    if any(FORWARD) {
        // The innermost frame that says anything wins.
        return (BlockPurpose::Activations, frames.iter().find_map(|frame| frame.part()));
    }
    if any(MAKING) {
        return (BlockPurpose::Parameters, None);
    }
    if frames.iter().all(|frame| frame.has(NATIVE)) {
        // The backward pass runs on threads of its own, where no Python is.
        return (if any(AUTOGRAD) { BlockPurpose::Gradients } else { BlockPurpose::Unrecorded }, None);
    }
    (BlockPurpose::Other, None)
}

/// Which frame names the place: the innermost outside of PyTorch, in the user's or the model's code.
pub fn named(frames: &[FrameFacts]) -> usize {
    frames.iter().position(|frame| !frame.has(LIBRARY)).unwrap_or(0)
}

fn is_optimizer(frame: &Frame) -> bool {
    let files = [
        "torch/optim/",
        "apex/optimizers/",
        "transformer_engine/pytorch/optimizers/",
        "bitsandbytes/optim/",
        "megatron/core/optimizer/",
        "deepspeed/ops/adam/",
        "deepspeed/runtime/bf16_optimizer",
        "deepspeed/runtime/fp16/",
        "torchao/optim/",
    ];
    files.iter().any(|part| frame.is_in(part)) && !frame.is(&["zero_grad"])
}

fn is_collective(frame: &Frame) -> bool {
    let files = [
        "torch/distributed/fsdp/",
        "torch/distributed/_composable/fsdp/",
        "torch/distributed/distributed_c10d",
        "torch/distributed/_functional_collectives",
        "torch/nn/parallel/distributed",
        "megatron/core/distributed/",
        "deepspeed/runtime/zero/",
        "deepspeed/comm/",
    ];
    // The wrapper's own forward pass is around everything that the model allocates.
    files.iter().any(|part| frame.is_in(part)) && !frame.is(&["forward", "_run_ddp_forward", "fsdp_hook_wrapper"])
}

fn is_backward(frame: &Frame) -> bool {
    frame.is(&["_engine_run_backward", "run_backward", "backward"])
        || frame.name.contains("torch::autograd::Engine")
        || frame.name.contains("AccumulateGrad")
}

fn is_making(frame: &Frame) -> bool {
    frame.is(&[
        "__init__",
        "_apply",
        "convert",
        "reset_parameters",
        "from_pretrained",
        "load_state_dict",
        "_load_from_state_dict",
        "set_module_tensor_to_device",
        "_load_parameter_into_model",
        "to_empty",
        "init_weights",
    ]) && (frame.is_in("torch/nn/")
        || frame.is_in("transformers/")
        || frame.is_in("accelerate/")
        || frame.is(&["__init__"]))
}

/// Named terms of a prediction, by words in the functions and files of a forward pass.
const PARTS: [(&[&str], &str); 8] = [
    (&["cross_entropy", "nll_loss", "log_softmax", "lm_head", "loss_function", "compute_loss"], "logits and loss"),
    (&["layer_norm", "rms_norm", "rmsnorm", "layernorm", "batch_norm", "normalization"], "norms"),
    (&["expert", "moe"], "experts"),
    (&["attention", "attn", "softmax"], "attention"),
    (&["mlp", "feed_forward", "feedforward", "ffn"], "feed-forward"),
    (&["embedding"], "embedding"),
    (&["conv2d", "conv1d", "conv3d", "_conv_forward"], "convolutions"),
    (&["lora"], "adapters"),
];

/// The number of the frame's term in [`PARTS`].
fn part(frame: &Frame) -> Option<usize> {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    let text = format!("{} {file}", frame.name).to_ascii_lowercase();
    PARTS.iter().position(|(words, _)| words.iter().any(|word| text.contains(word)))
}

/// The place that a frame names; none: no frames.
pub fn place(frame: Option<&Frame>) -> String {
    match frame {
        Some(frame) if frame.file.is_empty() || frame.is_native() => frame.name.clone(),
        Some(frame) => {
            let file = frame.file.rsplit('/').next().unwrap_or_default();
            format!("{file}:{} {}", frame.line, frame.name)
        }
        None => "no frames".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames, what they are for, and the named term.
    type Case<'a> = (&'a [(&'a str, &'a str)], BlockPurpose, Option<&'a str>);

    fn frames(stack: &[(&str, &str)]) -> Vec<Frame> {
        stack.iter().map(|(file, name)| Frame { file: (*file).to_owned(), name: (*name).to_owned(), line: 7 }).collect()
    }

    fn facts(stack: &[Frame]) -> Vec<FrameFacts> {
        stack.iter().map(FrameFacts::of).collect()
    }

    #[test]
    fn a_block_belongs_to_the_part_of_the_step_that_made_it() {
        let lib = "/usr/lib/python3/site-packages";
        let stack = |inner: &[(&str, &str)]| {
            let whole: Vec<(String, &str)> = inner
                .iter()
                .map(|(file, name)| {
                    (if file.starts_with('/') { (*file).to_owned() } else { format!("{lib}/{file}") }, *name)
                })
                .collect();
            frames(&whole.iter().map(|(file, name)| (file.as_str(), *name)).collect::<Vec<_>>())
        };
        let cases: [Case<'_>; 9] = [
            (
                &[
                    ("torch/nn/modules/linear.py", "__init__"),
                    ("/home/me/model.py", "__init__"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Parameters,
                None,
            ),
            (
                &[
                    ("torch/nn/modules/module.py", "convert"),
                    ("torch/nn/modules/module.py", "_apply"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Parameters,
                None,
            ),
            (
                &[
                    ("torch/nn/modules/linear.py", "forward"),
                    ("torch/nn/modules/module.py", "_call_impl"),
                    ("/home/me/model.py", "MLP.forward"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Activations,
                Some("feed-forward"),
            ),
            (
                &[
                    ("torch/nn/functional.py", "cross_entropy"),
                    ("/home/me/model.py", "forward"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Activations,
                Some("logits and loss"),
            ),
            (
                &[
                    ("torch/autograd/graph.py", "_engine_run_backward"),
                    ("torch/_tensor.py", "backward"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Gradients,
                None,
            ),
            (
                &[
                    ("torch/optim/adamw.py", "_init_group"),
                    ("torch/optim/adamw.py", "step"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::OptimizerStates,
                None,
            ),
            (
                &[
                    ("torch/optim/adam.py", "_multi_tensor_adam"),
                    ("torch/optim/adamw.py", "step"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Temporaries,
                None,
            ),
            (
                &[
                    ("torch/distributed/fsdp/_flat_param.py", "_alloc_padded_unsharded_flat_param"),
                    ("torch/nn/modules/module.py", "_call_impl"),
                ],
                BlockPurpose::CommunicationBuffers,
                None,
            ),
            (&[("/home/me/data.py", "collate"), ("/home/me/train.py", "<module>")], BlockPurpose::Other, None),
        ];
        for (inner, wanted, term) in cases {
            assert_eq!(purpose(&facts(&stack(inner))), (wanted, term), "{inner:?}");
        }
        assert_eq!(purpose(&[]), (BlockPurpose::Unrecorded, None));
        let native =
            frames(&[("", "c10::cuda::CUDACachingAllocator::malloc"), ("??", "torch::autograd::Engine::thread_main")]);
        assert_eq!(purpose(&facts(&native)), (BlockPurpose::Gradients, None));
    }

    #[test]
    fn the_place_is_in_the_users_code() {
        let stack = frames(&[("/a/torch/nn/functional.py", "linear"), ("/home/me/model.py", "MLP.forward")]);
        assert_eq!(place(stack.get(named(&facts(&stack)))), "model.py:7 MLP.forward");
    }
}
